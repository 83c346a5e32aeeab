import gzip
import json
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from preflow.ingest.intake import ingest
from preflow.world.annotators import Annotator, choice_probabilities, utility
from preflow.world.feedback import FILE, JUDGE, PANEL, mirrored, pair_up, world_feedback
from preflow.world.tasks import FAMILIES, LEVELS, distinct_tasks, gold_reward
from preflow.world.writers import Answer, Habits, corrupted_answers, write

HONEST = Annotator("ann_honest", noise=1e-6, tie_below=0.0)
SETTINGS = {"annotators": PANEL, "votes_per_pair": (3, 4, 5), "judge": JUDGE, "seed": 5}


@pytest.fixture(scope="module")
def pairs():
    """Pairs of corrupted and of written answers, as real pairs some right and some refusals."""
    rng = np.random.default_rng(0)
    tasks = distinct_tasks(500, rng, families=list(FAMILIES), levels=LEVELS, exclude=frozenset())
    answers = [a for _ in range(2) for a in corrupted_answers(tasks, errors=[1, 2, 3], style=0.2, rng=rng)]
    answers += [
        Answer(task.prompt, write(task, Habits(error=0.5, cut=0.2, refusal=0.3, style=0.2), rng), "written")
        for task in tasks
    ]
    return pair_up(answers, pairs_per_prompt=2, rng=rng)


@pytest.fixture(scope="module")
def feedback(pairs):
    return world_feedback(pairs, flip_rate=0.2, **SETTINGS)


def choices(rows):
    return [[vote["choice"] for vote in row["votes"]] for row in rows]


def test_pairs_are_distinct_and_in_random_orientation():
    texts = ["x", "y", "", "x", "z"]
    answers = [Answer(prompt, text, f"w{i}") for prompt in ("p", "q") for i, text in enumerate(texts)]
    pairs = pair_up(answers, pairs_per_prompt=9, rng=np.random.default_rng(0))
    assert [a.prompt for a, _ in pairs] == ["p"] * 3 + ["q"] * 3
    assert {frozenset((a.text, b.text)) for a, b in pairs[:3]} == {frozenset(two) for two in ("xy", "xz", "yz")}
    assert {answer.writer for pair in pairs for answer in pair} == {"w0", "w1", "w4"}  # of equal answers the first
    assert len(pair_up(answers, pairs_per_prompt=1, rng=np.random.default_rng(0))) == 2
    many = [Answer(str(i), text, "w") for i in range(400) for text in "xy"]
    first = Counter(a.text for a, _ in pair_up(many, pairs_per_prompt=1, rng=np.random.default_rng(1)))
    assert first["x"] / 400 == pytest.approx(0.5, abs=0.08)


def test_truth_follows_from_the_texts(pairs, feedback):
    assert len(feedback.truth) == len(feedback.rows) == len(pairs) > 900
    for row, truth in zip(feedback.rows, feedback.truth.iter_rows(named=True), strict=True):
        prompt = row["prompt"][0]["content"]
        a, b = gold_reward(prompt, row["response_a"]), gold_reward(prompt, row["response_b"])
        assert (truth["reward_a"], truth["reward_b"]) == (a, b)
        assert truth["gold"] == ("tie" if a == b else "a" if a > b else "b")


def test_the_feedback_says_nothing_of_the_truth(feedback):
    known = {"prompt", "response_a", "response_b", "model_a", "model_b", "score_a", "score_b", "votes"}
    assert {key for row in feedback.rows for key in row} == known
    votes = [vote for row in feedback.rows for vote in row["votes"]]
    said = {"annotator", "annotator_kind", "choice", "strength", "shown_first", "time", "seconds"}
    assert {key for vote in votes for key in vote} == said


def test_flips_are_as_many_as_asked_for_and_turn_round_all_votes(pairs, feedback):
    clean = world_feedback(pairs, flip_rate=0.0, **SETTINGS)
    decided = (feedback.truth["gold"] != "tie").sum()
    assert feedback.truth["flipped"].sum() == round(0.2 * decided)
    assert not feedback.truth.filter(pl.col("gold") == "tie")["flipped"].any()
    assert not clean.truth["flipped"].any()
    for before, after, flipped in zip(clean.rows, feedback.rows, feedback.truth["flipped"], strict=True):
        assert after["votes"] == ([mirrored(vote) for vote in before["votes"]] if flipped else before["votes"])
        assert after | {"votes": []} == before | {"votes": []}
    fewer = world_feedback(pairs, flip_rate=0.1, **SETTINGS).truth["flipped"]
    assert (feedback.truth["flipped"] | ~fewer).all()


def test_honest_votes_name_the_gold_except_where_flipped(pairs):
    honest = world_feedback(pairs, flip_rate=0.3, annotators=[HONEST], votes_per_pair=[1], judge=None, seed=1)
    truth = honest.truth.with_columns(said=pl.Series([said for (said,) in choices(honest.rows)]))
    decided = truth.filter(pl.col("gold") != "tie")
    assert len(decided) > 500
    assert ((decided["said"] != decided["gold"].cast(pl.String)) == decided["flipped"]).all()
    assert "score_a" not in honest.rows[0]


def test_annotators_are_as_accurate_as_their_model_says(pairs):
    plain = world_feedback(pairs, flip_rate=0.0, **SETTINGS)
    judged = {annotator.name: [] for annotator in PANEL}
    for row, truth in zip(plain.rows, plain.truth.iter_rows(named=True), strict=True):
        texts = {key: row[key] for key in ("response_a", "response_b")}
        facts = {"score_a": truth["reward_a"], "score_b": truth["reward_b"], "gold": truth["gold"]}
        for vote in row["votes"]:
            if vote["seconds"] > 8:  # careless votes are fast ones
                judged[vote["annotator"]].append(texts | facts | vote)
    for annotator in PANEL:
        votes = pl.DataFrame(judged[annotator.name]).filter(pl.col("gold") != "tie")
        assert len(votes) > 200
        by_model = choice_probabilities(annotator, utility(annotator, votes))
        expected = by_model[np.arange(len(votes)), np.where(votes["gold"].to_numpy() == "a", 0, 1)].mean()
        assert (votes["choice"] == votes["gold"]).mean() == pytest.approx(expected, abs=0.05), annotator.name


def test_a_response_has_one_score_and_scores_follow_the_rewards(feedback):
    found, pairs = {}, []
    for row, truth in zip(feedback.rows, feedback.truth.iter_rows(named=True), strict=True):
        for side in "ab":
            key = (row["prompt"][0]["content"], row[f"response_{side}"])
            assert found.setdefault(key, row[f"score_{side}"]) == row[f"score_{side}"]
            pairs.append((row[f"score_{side}"], truth[f"reward_{side}"]))
    scores, rewards = np.array(pairs).T
    assert set(scores) == set(range(11))
    assert np.corrcoef(scores, rewards)[0, 1] > 0.9
    assert 0.3 < (scores - rewards).mean() < 2  # the judge likes length, as told


def test_the_file_goes_through_ingestion_whole_and_the_truth_has_its_keys(feedback, tmp_path):
    feedback.save_to_disk(tmp_path / "world_feedback")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    ingested = ingest(
        tmp_path / "world_feedback", formats={}, hub=[], max_field_chars=1000, min_score_margin=0.5, scratch=scratch
    )
    assert ingested.counts["rows_kept"] == ingested.counts["rows_in"] == len(feedback.rows)
    assert ingested.counts["votes_kept"] == sum(len(row["votes"]) for row in feedback.rows)
    comparisons = ingested.comparisons.collect()
    assert comparisons["pair_id"].to_list() == feedback.truth["pair_id"].to_list()
    assert comparisons["gold"].is_null().all()
    assert comparisons["extra"].is_null().all()


def test_same_seed_same_bytes(pairs, feedback, tmp_path):
    again = world_feedback(pairs, flip_rate=0.2, **SETTINGS)
    texts = []
    for name, made in (("one", feedback), ("two", again)):
        made.save_to_disk(tmp_path / name)
        texts.append(gzip.decompress(Path(tmp_path / name / FILE).read_bytes()))
    assert texts[0] == texts[1]
    assert feedback.truth.equals(again.truth)
    assert choices(feedback.rows) != choices(world_feedback(pairs, flip_rate=0.2, **SETTINGS | {"seed": 6}).rows)
    assert all(json.loads(line) for line in texts[0].decode().splitlines())


def test_impossible_settings_are_refused(pairs):
    with pytest.raises(ValueError, match="flip_rate"):
        world_feedback(pairs, flip_rate=1.5, **SETTINGS)
    with pytest.raises(ValueError, match="votes_per_pair"):
        world_feedback(pairs, flip_rate=0.0, **SETTINGS | {"votes_per_pair": (7,)})
