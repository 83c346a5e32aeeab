import gzip
import itertools
import json
import math
import re
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

import preflow.ingest.intake
from preflow.ingest.intake import ingest
from preflow.schemas import Comparisons, Quarantine, Votes
from preflow.sources import FeedbackError
from preflow.sources.hub import HubDataset


def take(path, scratch, *, margin=0.5, max_field_chars=100_000):
    return ingest(
        Path(path), formats={}, hub=[], max_field_chars=max_field_chars, min_score_margin=margin, scratch=scratch
    )


def write(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def adds_up(found):
    """The row and vote equations, from the tables and not from the counts that say so."""
    counts = found.counts
    comparisons, votes, quarantine = (table.collect() for table in (found.comparisons, found.votes, found.quarantine))
    Comparisons.validate(comparisons)
    Votes.validate(votes)
    Quarantine.validate(quarantine)
    assert counts["rows_in"] == comparisons.height + counts["rows_quarantined"] + counts["rows_merged"]
    assert quarantine.height == counts["rows_quarantined"] + counts["votes_quarantined"]
    lost = counts["votes_quarantined"] + counts["votes_merged"] + counts["votes_of_quarantined_rows"]
    assert counts["votes_in"] == votes.height + lost
    assert set(votes["pair_id"]) <= set(comparisons["pair_id"])
    assert dict(Counter(quarantine["reason"])) == counts["quarantined"]
    for name in ("rows_in", "rows_kept", "votes_in"):
        assert counts[name] == sum(source[name] for source in counts["sources"])
    return comparisons, votes, quarantine


def test_ukp_arguments(shared_data, tmp_path):
    found = take(shared_data / "ukpconvarg1", tmp_path / "s")
    comparisons, votes, quarantine = adds_up(found)
    with gzip.open(shared_data / "ukpconvarg1" / "DERIVED_pairs.jsonl.gz", "rt", encoding="utf-8") as lines:
        raw = [json.loads(line) for line in lines]
    assert (found.counts["rows_in"], found.counts["votes_in"]) == (8_158, 40_699)
    differing = [row for row in raw if row["arg1"] != row["arg2"]]
    assert quarantine["reason"].to_list() == ["identical_responses"] * (len(raw) - len(differing))
    assert comparisons.height == len({(row["title"], row["stance"], row["arg1"], row["arg2"]) for row in differing})
    assert votes.height == sum(len(row["votes"]) for row in differing)
    names = {"a1": "a", "a2": "b", "equal": "tie"}
    expected = Counter(names[vote["value"]] for row in differing for vote in row["votes"])
    assert dict(Counter(votes["choice"])) == expected
    first = votes.row(0, named=True)
    assert (first["annotator"], first["choice"], first["seconds"]) == ("318750b808c6", "b", 393.0)
    assert first["time"].isoformat() == "2016-01-31T16:59:52+00:00"
    assert comparisons["prompt_group"].n_unique() == 16
    assert found.counts["files_skipped"] == ["SOURCE.txt"]


def test_gsm8k_solutions(shared_data, tmp_path):
    found = take(shared_data / "gsm8k_solutions", tmp_path / "s")
    comparisons, votes, _ = adds_up(found)
    assert found.counts["rows_kept"] + found.counts["rows_merged"] == 2_429
    assert found.counts["records_in"] == 1_319
    assert found.counts["quarantined"] == {"no_contrast": 588}
    assert comparisons["gold"].unique().to_list() == ["a"]
    assert votes.is_empty()


def test_pandalm(shared_data, tmp_path):
    found = take(shared_data / "pandalm", tmp_path / "s")
    _, votes, quarantine = adds_up(found)
    raw = json.loads((shared_data / "pandalm" / "testset-v1.json").read_bytes())
    text = [row for row in raw if isinstance(row["response1"], str) and isinstance(row["response2"], str)]
    full = [row for row in text if row["response1"] and row["response2"]]
    assert found.counts["rows_in"] == len(raw) == 999
    assert found.counts["quarantined"]["wrong_type"] == len(raw) - len(text) == 6  # a response that is `true`
    assert found.counts["quarantined"]["empty_response"] == len(text) - len(full)
    people = votes.filter(annotator_kind="person")
    assert people.height == 3 * len(full)
    assert people["choice"].value_counts().sort("choice").rows() == sorted(
        Counter(["tie", "a", "b"][row[f"annotator{n}"]] for row in full for n in (1, 2, 3)).items()
    )
    assert set(votes.filter(annotator_kind="model")["annotator"]) == {"gpt-3.5-turbo", "pandalm-7b"}
    assert quarantine.filter(reason="unknown_choice")["detail"].str.contains("garbage").all()


def test_llmbar_with_its_judges(shared_data, tmp_path):
    found = take(shared_data / "llmbar", tmp_path / "s")
    comparisons, votes, _ = adds_up(found)
    assert found.counts["rows_in"] == 419 + 466 + 315  # LLMBar, Processed and the case studies without votes
    assert found.counts["quarantined"] == {"identical_responses": 1, "unknown_choice": 273, "whitespace_response": 1}
    table = pl.read_csv(shared_data / "llmbar" / "DERIVED_evaluator_votes.csv.gz", infer_schema=False)
    assert found.counts["votes_in"] == table.height
    judged = votes.join(comparisons.select("pair_id", "gold"), on="pair_id")
    # `winner` names an output of the data set: the judges are as often right in either order, and lean to the first.
    right = judged.group_by("shown_first").agg(right=(pl.col("choice") == pl.col("gold")).mean()).sort("shown_first")
    assert right["right"].to_list() == pytest.approx([0.592, 0.597], abs=0.01)
    raw = table.filter(pl.col("winner").is_not_null()).select(pl.col("winner") == pl.col("gold")).to_series().mean()
    assert judged.select((pl.col("choice") == pl.col("gold")).mean()).item() == pytest.approx(raw, abs=1e-3)
    leaning = (
        judged.filter(annotator="Falcon/CoT")
        .select((pl.col("choice") == pl.col("shown_first").cast(pl.String)).mean())
        .item()
    )
    assert leaning > 0.9


def test_prometheus(shared_data, tmp_path):
    found = take(shared_data / "prometheus", tmp_path / "s")
    comparisons, votes, _ = adds_up(found)
    pairs, alone = 0, 0
    for name in ("vicuna_eval", "mt_bench_eval"):
        rows = json.loads(gzip.decompress((shared_data / "prometheus" / f"{name}.json.gz").read_bytes()))
        groups: dict[str, list[float]] = {}
        for row in rows:
            prompt = re.search("###The instruction to evaluate:\n(.*?)\n\n###Response", row["instruction"], re.S)[1]
            groups.setdefault(prompt, []).append(sum(row["gpt4_score"]) / 3)
        alone += sum(len(scores) == 1 for scores in groups.values())
        margins = [abs(x - y) for scores in groups.values() for x, y in itertools.combinations(scores, 2)]
        pairs += sum(margin >= 0.5 for margin in margins)
    assert comparisons.filter(pl.col("source") != "DERIVED_hhh_helpful_honest").height == pairs == 188
    assert found.counts["quarantined"]["no_partner"] == alone == 316
    assert votes.height == comparisons.filter(source="DERIVED_hhh_helpful_honest").height == 120
    assert not comparisons["response_a"].str.contains("###").any()
    assert comparisons["prompt"].list.first().struct.field("content").str.contains("###").sum() == 0
    assert not (comparisons["score_a"] - comparisons["score_b"]).abs().lt(0.5).any()


def test_vicuna_blog(shared_data, tmp_path):
    folder = shared_data / "vicuna_blog"
    found = take(folder, tmp_path / "s")
    comparisons, votes, quarantine = adds_up(found)
    reviews = [
        json.loads(line)
        for path in sorted(folder.glob("review__*"))
        for line in gzip.decompress(path.read_bytes()).splitlines()
    ]
    assert found.counts["rows_in"] == len(reviews) == 1_040
    assert quarantine["reason"].to_list() == ["empty_response"] * 4  # one model gave no answer to one question
    signs = Counter(
        (None, "a", "b", "tie")[1 if x > y else 2 if y > x else 3] for x, y in (row["score"] for row in reviews)
    )
    kept = Counter(votes["choice"]) + Counter({"b": 4})  # the four that reviewed no answer scored it 0
    assert kept == signs
    assert math.isclose(comparisons["score_a"].sum(), sum(row["score"][0] for row in reviews))
    assert votes["reason"].is_not_null().all()


def test_the_same_bytes_again(shared_data, tmp_path):
    for name in ("x", "y"):
        found = take(shared_data / "pandalm", tmp_path / name)
        for table in ("comparisons", "votes", "quarantine"):
            getattr(found, table).sink_parquet(tmp_path / f"{name}-{table}")
    for table in ("comparisons", "votes", "quarantine"):
        assert (tmp_path / f"x-{table}").read_bytes() == (tmp_path / f"y-{table}").read_bytes()


def test_ids_depend_on_the_texts_alone(tmp_path):
    row = {"prompt": "p", "chosen": "c", "rejected": "r"}
    lines = write(tmp_path / "one.jsonl", [row])
    (tmp_path / "two.csv").write_text("rejected,prompt,chosen\nr,p,c\n")
    pl.DataFrame([row]).write_parquet(tmp_path / "three.parquet")
    ids = set()
    for path in (lines, tmp_path / "two.csv", tmp_path / "three.parquet"):
        comparisons, _, _ = adds_up(take(path, tmp_path / f"s{path.stem}"))
        ids.add(comparisons["pair_id"].item())
    assert len(ids) == 1


def test_prompts_and_responses_cannot_be_shifted_into_each_other(tmp_path):
    rows = [{"prompt": p, "chosen": c, "rejected": "r"} for p, c in (("ab", "c"), ("a", "bc"), ('a","b', "c"))]
    comparisons, _, _ = adds_up(take(write(tmp_path / "a.jsonl", rows), tmp_path / "s"))
    assert comparisons["pair_id"].n_unique() == 3


def test_equal_rows_merge_and_other_votes_pool(tmp_path):
    def row(votes, **more):
        return {"prompt": "p", "response_a": "x", "response_b": "y", "votes": votes} | more

    ann, bob = {"annotator": "ann", "choice": "a"}, {"annotator": "bob", "choice": "b"}
    rows = [row([ann]), row([ann]), row([bob]), row([ann, ann]), row([], gold="a"), row([]) | {"response_a": "z"}]
    found = take(write(tmp_path / "a.jsonl", rows), tmp_path / "s")
    comparisons, votes, _ = adds_up(found)
    assert (found.counts["rows_kept"], found.counts["rows_merged"]) == (2, 4)
    assert votes.select("annotator", "choice").rows() == [("ann", "a"), ("bob", "b"), ("ann", "a")]
    assert comparisons["flags"].to_list() == [["duplicate_with_other_facts"], []]
    assert found.counts["flags"] == {"duplicate_with_other_facts": 1, "own_vote_contradiction": 0}


def test_prompt_groups_ignore_case_width_and_space(tmp_path):
    prompts = ["What  is\nit?", "what is it?", " WHAT IS IT?", "\uff57hat is it?", "what is that?"]
    rows = [{"prompt": prompt, "chosen": str(n), "rejected": "r"} for n, prompt in enumerate(prompts)]
    comparisons, _, _ = adds_up(take(write(tmp_path / "a.jsonl", rows), tmp_path / "s"))
    groups = comparisons["prompt_group"].to_list()
    assert len(set(groups[:4])) == 1
    assert groups[4] != groups[0]


def test_rows_without_a_prompt_are_not_one_group(tmp_path):
    rows = [{"chosen": c, "rejected": r} for c, r in (("x", "y"), ("Y", "x"), ("x", "z"))]
    comparisons, _, _ = adds_up(take(write(tmp_path / "a.jsonl", rows), tmp_path / "s"))
    groups = comparisons["prompt_group"].to_list()
    assert groups[0] == groups[1] != groups[2]


def test_flags_of_doubt(tmp_path):
    rows = [{"chosen": "Yes.  ", "rejected": "yes."}, {"chosen": "yes", "rejected": "no"}]
    comparisons, _, _ = adds_up(take(write(tmp_path / "a.jsonl", rows), tmp_path / "s"))
    assert comparisons["flags"].to_list() == [["identical_normalised"], []]
    assert comparisons["response_a"][0] == "Yes.  "


def test_several_formats_in_a_folder_and_refusals_counted_by_place(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    write(folder / "a.jsonl", [{"chosen": "c", "rejected": "r"}, ["no", "object"], {"chosen": "c"}])
    scores = [{"prompt": "p", "response": letter, "score": 1} for letter in "xyz"]
    (folder / "b.json").write_text(json.dumps(scores))
    (folder / "c.jsonl.gz").write_bytes(gzip.compress(b'{"chosen": "c", "rejected": "s"}\n')[:-9])
    (folder / "d.jsonl").write_bytes(b"")
    _, _, quarantine = adds_up(take(folder, tmp_path / "s"))
    assert quarantine.select("source_file", "source_line", "part", "reason").rows() == [
        ("a.jsonl", 2, 0, "not_a_record"),
        ("a.jsonl", 3, 0, "missing_field"),
        ("b.json", 1, 0, "no_contrast"),
        ("b.json", 1, 1, "no_contrast"),
        ("b.json", 2, 0, "no_contrast"),
        ("c.jsonl.gz", 0, 0, "unreadable_file"),
    ]
    assert quarantine["raw"][0] == '["no", "object"]'


def test_nothing_but_unreadable_files_is_an_error(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b"\n\n")
    with pytest.raises(FeedbackError, match=r"no row of feedback in a\.jsonl"):
        take(tmp_path / "a.jsonl", tmp_path / "s")


def test_chunks_do_not_show_in_the_result(tmp_path, monkeypatch):
    rows = [{"prompt": str(n % 7), "chosen": f"c{n % 23}", "rejected": f"r{n % 5}"} for n in range(300)]
    rows += [{"prompt": "p", "chosen": "", "rejected": "r"}] * 3
    path = write(tmp_path / "a.jsonl", rows)
    whole = adds_up(take(path, tmp_path / "s1"))
    monkeypatch.setattr(preflow.ingest.intake, "CHUNK_ROWS", 7)
    parts = adds_up(take(path, tmp_path / "s2"))
    assert len(list((tmp_path / "s2" / "comparisons").iterdir())) > 10
    for one, other in zip(whole, parts, strict=True):
        assert one.equals(other)


def test_the_raw_of_a_refused_row_is_cut_at_the_cap(tmp_path):
    path = write(tmp_path / "a.jsonl", [{"chosen": "x" * 101, "rejected": "r"}, {"chosen": "x", "rejected": "r"}])
    _, _, quarantine = adds_up(take(path, tmp_path / "s", max_field_chars=100))
    assert quarantine["reason"].to_list() == ["field_too_long"]
    assert len(quarantine["raw"].item()) == 100


def test_a_folder_without_data_needs_a_hub_dataset(tmp_path):
    """An empty folder beside a Hub dataset is fine; offline, the Hub's name and what to set are said."""
    (tmp_path / "inputs").mkdir()
    with pytest.raises(FeedbackError, match=r"no file under .* and feedback\.hub names no dataset"):
        take(tmp_path / "inputs", tmp_path / "scratch")
    hub = [HubDataset("owner/name", "main", "train")]
    with pytest.raises(FeedbackError, match=r"hf://owner/name@main/train cannot be loaded.*HF_HUB_OFFLINE"):
        ingest(
            tmp_path / "inputs", formats={}, hub=hub, max_field_chars=9, min_score_margin=0, scratch=tmp_path / "hub"
        )
