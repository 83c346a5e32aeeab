import json
import re
import shutil

import numpy as np
import polars as pl
import pytest

from preflow.audit.schemas import AnnotatorQuality, Contradictions, DuplicateClusters, VoteSummary
from preflow.comparison.summary import not_measured, summarise_comparison
from preflow.evaluation import evaluate
from preflow.reasons.schemas import DivergenceReasons, ReasonRemainders
from preflow.report import render_report
from preflow.report.sections import LONGEST_RAW, SUSPECTS
from preflow.reward.schemas import RewardPredictions
from preflow.schemas import PreferencePairs, Quarantine
from preflow.treatments.schemas import DifficultyScores
from preflow.treatments.selection import select_easiest
from preflow.triage.overview import overview
from preflow.triage.table import triage
from tests.preflow.comparison.tables import logprobs, no_verdicts, world
from tests.preflow.report import test_concepts, test_distil, test_rewards
from tests.preflow.triage.test_table import NAMES, SETTINGS, one_pair_a_rule

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
HOSTILE = "</pre></details><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
PROMPTS = (
    "Explain in two sentences why the sky looks blue at noon and red at sunset.",
    "Write a short reply that declines a meeting on Friday and offers Monday instead.",
    "What is 17 * 23? Answer with the number only.",
    "Name three capitals on the Danube, in alphabetical order, separated by commas.",
)
ANSWERS = (
    "Air scatters short wavelengths most, so blue reaches us from all over the sky. At sunset the light crosses so "
    "much more air that most of the blue is gone and the reds are left.",
    "I cannot make Friday. Would Monday suit you?",
    "391",
    "Belgrade, Budapest, Vienna",
)
N = 240
# The first cells of tables that are wider than their place, so that a reader has to scroll sideways.
CUT_OFF = """return [...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth)
    .map(e => e.innerText.slice(0, 40))"""


def ids(prefix, count=N):
    return [f"{prefix}{i:031x}" for i in range(count)]


def make_pairs(rng):
    turns = rng.integers(1, 5, N)
    return PreferencePairs.validate(
        pl.DataFrame(
            {
                "pair_id": ids("a"),
                "prompt": [[{"role": "user", "content": f"{PROMPTS[i % 4]} (case {i // 4})"}] for i in range(N)],
                "chosen": [ANSWERS[i % 4] + "." * int(turns[i]) for i in range(N)],
                "rejected": [f"I think that it depends. {i}" * int(turns[i] % 3 + 1) for i in range(N)],
                "chosen_is": ["a" if i % 2 else "b" for i in range(N)],
                "label_source": ["majority"] * N,
                "n_votes": [3 + i % 3 for i in range(N)],
                "vote_share": [1.0 if i % 3 else 2 / 3 for i in range(N)],
                "agreement": [1.0 if i % 3 else 0.42 for i in range(N)],
                "score_chosen": rng.normal(6.5, 1.2, N).round(1),
                "score_rejected": rng.normal(5.0, 1.5, N).round(1),
                "prompt_group": ids("b"),
                "split": ["train"] * 192 + ["validation"] * 24 + ["test"] * 24,
                "source": ["assistant_votes" if i % 5 else "judge_scores" for i in range(N)],
                "flags": [[] for _ in range(N)],
            }
        ).with_columns(margin=pl.col("score_chosen") - pl.col("score_rejected")),
        cast=True,
    )


def make_votes(pairs):
    split = pl.int_range(N) % 3 == 0
    frame = pairs.select("pair_id", n_votes=pl.lit(3)).with_columns(
        n_a=pl.when(split).then(2).otherwise(3), n_b=pl.when(split).then(1).otherwise(0), n_tie=pl.lit(0),
        share_a=pl.when(split).then(2 / 3).otherwise(1.0), entropy=pl.when(split).then(0.58).otherwise(0.0),
        majority=pl.lit("a"), worker_label=pl.lit("a"), worker_share_a=pl.lit(0.93),
    )  # fmt: skip
    return VoteSummary.validate(frame, cast=True)


def make_annotators(rng):
    agreement = rng.uniform(0.6, 0.95, 9).round(3)
    names = ["careful", "hasty", "likes_long", "first_shown", "w-0412", "w-0977", "w-1310", "judge-7b", HOSTILE]
    frame = pl.DataFrame({"annotator": names, "agreement": agreement}).with_columns(
        annotator_kind=pl.when(pl.col("annotator") == "judge-7b").then(pl.lit("model")).otherwise(pl.lit("person")),
        n_votes=pl.int_range(300, 300 - 9 * 20, -20, dtype=pl.Int64), n_compared=pl.lit(100),
        agreement_low=pl.col("agreement") - 0.06, agreement_high=pl.col("agreement") + 0.04,
        worker_accuracy=pl.col("agreement"), gold_accuracy=pl.lit(None, pl.Float64),
        share_a=pl.lit(0.48), share_tie=pl.lit(0.04), share_first=pl.lit(0.55),
    )  # fmt: skip
    return AnnotatorQuality.validate(frame, cast=True)


def make_predictions(pairs, rng):
    probability = rng.beta(4, 2, N)
    frame = pairs.select("pair_id", "split").with_columns(
        reward_chosen=pl.lit(0.4), reward_rejected=pl.lit(-0.1),
        probability=pl.Series(probability), suspicion=pl.Series(-np.log(probability)),
    )  # fmt: skip
    return RewardPredictions.validate(frame, cast=True)


def make_quarantine():
    frame = pl.DataFrame(
        {
            "source": "assistant_votes",
            "source_file": "votes.jsonl",
            "source_line": [12, 40, 41, 77, 90],
            "part": 0,
            "reason": ["identical_responses", "identical_responses", "empty_response", "missing_field", "wrong_type"],
            "detail": [
                "both are 'Yes.'",
                "both are 'No.'",
                "response_b is empty",
                "no field 'chosen'",
                "rejected is 3",
            ],
            "raw": [f'{{"prompt": "{HOSTILE}"}}', "{}", '{"rejected": "   "}', None, '{"rejected": 3}'],
        }
    )
    return Quarantine.validate(frame, cast=True)


def make_clusters(pairs):
    frame = pairs.select("pair_id", exact_cluster="prompt_group", near_cluster="pair_id").with_columns(
        n_exact=pl.lit(1), n_near=pl.lit(1)
    )
    twins = pl.int_range(N) < 2
    first = pl.col("exact_cluster", "near_cluster").first()
    frame = frame.with_columns(pl.when(twins).then(first).otherwise(pl.col("exact_cluster", "near_cluster")))
    return DuplicateClusters.validate(
        frame.with_columns(pl.when(twins).then(2).otherwise(1).alias(n) for n in ("n_exact", "n_near")), cast=True
    )


def make_contradictions(pairs):
    one, two = pairs["pair_id"][0], pairs["pair_id"][1]
    rows = {"pair_id": [one], "other_pair_id": [two], "kind": ["mirrored"], "detail": ["a by 3 to 0; b by 2 to 1"]}
    return Contradictions.validate(pl.DataFrame(rows), cast=True)


def make_study(pairs):
    """What the stages of the treatments give, on these pairs."""
    scores = DifficultyScores.cast(
        pairs.select("pair_id").with_row_index("i").select(
            "pair_id", scored_by=pl.lit("f" * 32), difficulty=pl.col("i") / N, spread=pl.lit(0.1),
            flip_suspicion=pl.lit(0.2), learned_at=pl.lit(1),
        )
    )  # fmt: skip
    effects = {"untreated": 0.0, "reward_augmented": 0.9, "random_share": -0.5}
    judged, drift = world(effects, prompts=20), logprobs({"untreated": -12, "reward_augmented": -3})
    points = [{"share": share, "accuracy": 0.7, "low": 0.6, "high": 0.8} for share in (0.5, 1.0)]
    return {
        "ranking": {"pairs": len(pairs), "seed_agreement": 0.8},
        "selection": {"share": 0.5, "curve": points},
        "selected": select_easiest(pairs, scores, share=0.5, curriculum=False),
        "difficulty_scores": scores,
        "comparison": summarise_comparison(judged, no_verdicts(), drift, good_score=7.0, rounds=2000, seed=0),
        "trained_on": {"untreated": len(pairs), "reward_augmented": 2 * len(pairs)},
        **make_disagreement(),
    }


def make_disagreement():
    """What the stages of divergence and triage give where nobody differs."""
    classes = {"preference": 200, "tie": 30, "diverging": 10, "residual": 0, "too_few_votes": 0, "substantial": 4}
    return {
        "divergence_counts": {"all": classes, "careful": classes, "n_groups": 2, "careless": 1},
        "reasons": DivergenceReasons.create_empty(),
        "remainders": ReasonRemainders.create_empty(),
        "divergence_evaluation": {"not_fitted": "of the test split 3 comparisons have votes"},
        "audits": {},
        "triage": make_triage(),
        "concept_intake": test_concepts.COUNTS,
        "concept_report": test_concepts.report(),
        "hacking": test_distil.report(),
        "reward_benchmark": test_rewards.benchmark(),
        "rewarded_attributes": test_rewards.audit(),
        "concept_flip_rates": test_concepts.rates(),
    }


def make_triage():
    rows, decided, evidence = one_pair_a_rule()
    hostile = rows.with_columns(prompt=[{"role": "user", "content": HOSTILE}])
    return overview(triage(rows, decided, evidence, **SETTINGS).lazy(), hostile, examples=5, queued=5)


def nothing_to_sort_out():
    rows, decided, evidence = (part.head(0) if isinstance(part, pl.LazyFrame) else part for part in one_pair_a_rule())
    return overview(triage(rows, decided, evidence, **SETTINGS).lazy(), rows, examples=5, queued=5)


def make_inputs():
    rng = np.random.default_rng(7)
    pairs = make_pairs(rng)
    suspect = pl.col("pair_id") == pairs["pair_id"][5]
    pairs = pairs.with_columns(chosen=pl.when(suspect).then(pl.lit(HOSTILE)).otherwise("chosen"))
    predictions = make_predictions(pairs, rng).with_columns(suspicion=pl.when(suspect).then(9.0).otherwise("suspicion"))
    numbers = {"rows_in": 260, "rows_kept": 240, "rows_quarantined": 5, "rows_merged": 15}
    source = {"source": "assistant_votes", "format": "trl_conversational", **numbers}
    return {
        "counts": {
            **numbers, "votes_in": 735, "votes_kept": 720, "votes_quarantined": 0, "votes_merged": 0,
            "votes_of_quarantined_rows": 15, "comparisons": N, "votes": 3 * N, "sources": [source],
            "flags": {"duplicate_with_other_facts": 2, "own_vote_contradiction": 0},
        },
        "votes_summary": make_votes(pairs),
        "annotators": make_annotators(rng),
        "agreement": {
            "alpha": 0.61, "unanimous_share": 2 / 3, "n_annotators": 9, "n_votes": 3 * N, "n_pairs": N,
            "tie_share": 0.04, "share_a": 0.48, "share_first": 0.57, "undecided_share": 0.02,
            "worker_differs_share": 0.031,
            "against_gold": {
                "n_gold": 240, "worker_accuracy": 0.91, "majority_accuracy": 0.883, "n_worker_better": 8,
                "n_majority_better": 1, "p_value": 0.0391,
            },
        },
        "contradictions": make_contradictions(pairs),
        "clusters": make_clusters(pairs),
        "outcomes": {"pair": N, "tie": 0, "undecided": 0},
        "leakage": {"prompt_groups": 0, "exact_clusters": 0, "near_clusters": 0, "responses": 4},
        "pairs": pairs,
        "quarantine": make_quarantine(),
        "predictions": predictions,
        "evaluation": evaluate(predictions, pairs, bootstrap=2000, bins=10, seed=0),
        **make_study(pairs),
        "table_links": {"pairs": "../data/pairs/preference_pairs.parquet", "refused": "../data/quarantine.parquet"},
    }  # fmt: skip


@pytest.fixture
def inputs():
    return make_inputs()


@pytest.fixture(scope="module")
def page():
    return render_report(**make_inputs())


def empty(inputs):
    """The inputs of a run that found nothing: every frame without rows, every optional figure absent."""
    frames = {name: value.clear() for name, value in inputs.items() if isinstance(value, pl.DataFrame)}
    counts = {name: 0 for name, count in inputs["counts"].items() if isinstance(count, int)}
    return {
        **frames,
        "counts": {**counts, "sources": [], "flags": {}},
        "agreement": {"against_gold": {"n_gold": 0}},
        "outcomes": {},
        "leakage": {},
        "evaluation": {},
        "ranking": {"pairs": 0},
        "selection": {"share": None, "curve": []},
        "comparison": not_measured("the start policy can read too few of 0 pairs (there is none)"),
        "trained_on": {},
        "divergence_counts": {"all": dict.fromkeys(("preference", "tie", "diverging", "residual"), 0)},
        "divergence_evaluation": {"not_fitted": "there is no vote"},
        "audits": {},
        "triage": nothing_to_sort_out(),
        "concept_intake": test_concepts.COUNTS,
        "concept_report": test_concepts.report(),
        "hacking": test_distil.report(),
        "reward_benchmark": test_rewards.benchmark(),
        "rewarded_attributes": test_rewards.audit().clear(),
        "table_links": {},
    }


def suspects_of(page):
    return page.split('<section id="suspicious">')[1].split("</section>")[0]


def test_page_shows_the_figures_it_was_given(inputs, page):
    assert "260 rows in = 240 kept + 5 refused + 15 merged. None is lost." in page
    accuracy = inputs["evaluation"]["test"]["model"]["accuracy"]
    assert f"{accuracy['estimate']:.3f} [{accuracy['low']:.3f}, {accuracy['high']:.3f}]" in page
    assert "p &lt; 0.001" in page
    assert "p = 0.039): the worker model is better." in page
    assert suspects_of(page).count("<details>") == SUSPECTS


def test_most_suspicious_pair_comes_first(inputs, page):
    first = suspects_of(page).split("<details>")[1]
    assert inputs["pairs"]["pair_id"][5][:8] in first
    assert "surprise 9.00" in first


def test_refused_row_is_shown_up_to_a_limit(inputs):
    raw = json.dumps({"prompt": "x" * (2 * LONGEST_RAW)})
    inputs["quarantine"] = inputs["quarantine"].with_columns(raw=pl.lit(raw))
    page = render_report(**inputs)
    assert f"votes.jsonl:12, its first {LONGEST_RAW:,} characters" in page
    assert "x" * (LONGEST_RAW - 12) in page
    assert "x" * LONGEST_RAW not in page


def test_same_input_same_bytes(inputs, page):
    assert render_report(**inputs) == page


def test_hostile_text_stays_text(page):
    assert "document.title" in page
    assert "<script" not in page
    assert "<img" not in page
    assert page.count("</details>") == page.count("<details>")


def test_page_asks_nothing_of_the_network(inputs, page):
    assert "default-src 'none'" in page
    links = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert len(links) > len(inputs["table_links"])
    assert not [link for link in links if not link.startswith(("#", "../data/", "data:,"))]
    assert "url(" not in page
    assert 'id="clip' not in page  # would collide between inline drawings


def test_leak_and_lost_rows_are_said_aloud(inputs):
    inputs["counts"]["rows_in"] = 262
    inputs["leakage"]["prompt_groups"] = 3
    page = render_report(**inputs)
    assert "This does not add up: 2 are unaccounted for." in page
    assert "Splits leak" in page


def test_empty_run_says_so_in_each_section(inputs):
    page = render_report(**empty(inputs))
    for said in ("No source.", "Nothing was refused.", "No votes", "No comparisons.", "No preference pairs.",
                 "there is no pair", "No pair was scored.", "no pair was ranked", "too few of 0 pairs"):  # fmt: skip
        assert said in page


def test_data_without_contradictions_says_so(inputs):
    page = render_report(**{**inputs, "contradictions": inputs["contradictions"].clear()})
    assert "No contradiction was found." in page


def test_single_votes_say_nothing_of_agreement(inputs):
    inputs["votes_summary"] = inputs["votes_summary"].with_columns(n_votes=1, n_a=1, n_b=0, entropy=0.0)
    inputs["agreement"] |= {"alpha": None, "unanimous_share": None}
    page = render_report(**inputs)
    assert "Agreement cannot be measured" in page
    assert "Vote entropy" not in page


def test_top_of_the_page_names_every_section_with_its_finding(page):
    contents = page.split("<nav")[1].split("</nav>")[0]
    titles = re.findall(r"<h2>(.*?)</h2>", page)
    findings = re.findall(r'<p class="finding">(.*?)</p>', page)
    assert len(titles) == len(findings) == 17
    for title, finding in zip(titles, findings, strict=True):
        assert f"<b>{title}</b>{finding}</a>" in contents


@pytest.mark.parametrize("path", ["https://example.org/a.parquet", "/data/a.parquet", "javascript:alert(1)"])
def test_link_that_leaves_the_folder_is_refused(inputs, path):
    with pytest.raises(ValueError, match="relative to the page"):
        render_report(**{**inputs, "table_links": {"pairs": path}})


@pytest.fixture
def browser(tmp_path):
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("chromium or chromedriver absent (Debian: apt install chromium chromium-driver)")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=DRIVER))
    yield driver
    driver.quit()


def open_at(browser, path, width, height=900):
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get(path.as_uri())


def requested(browser, path):
    """What the page made the browser ask for, itself included; data: addresses stay in the page."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
    urls = {request["request"]["url"] for request in sent if request["documentURL"] == path.as_uri()}
    return {url for url in urls if not url.startswith("data:")}


def test_browser_renders_it_cleanly_at_every_width(page, browser, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(page, encoding="utf-8")
    for width in (390, 768, 1280):
        open_at(browser, path, width)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        assert browser.execute_script(CUT_OFF) == []
    assert browser.title.startswith("Feedback report")
    assert browser.execute_script("return document.querySelectorAll('main script, main img').length") == 0
    text = browser.execute_script("return document.querySelector('.passage.chosen pre').textContent")
    assert text == HOSTILE
    assert browser.execute_script("return document.querySelectorAll('figure svg').length") >= 7
    assert browser.get_log("browser") == []
    assert requested(browser, path) == {path.as_uri()}


def test_triage_is_filtered_without_a_script(page, browser, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(page, encoding="utf-8")
    open_at(browser, path, 1280)
    shown = """return [...document.querySelectorAll('#pairs-by-rule tbody tr')].filter(row => row.checkVisibility())
        .map(row => row.cells[1].innerText.replaceAll(' ', '_'))"""
    assert sorted(browser.execute_script(shown)) == sorted(NAMES)
    choice = "//div[@id='pairs-by-rule']//fieldset[legend='{}']/label[starts-with(normalize-space(), '{}')]/input"
    browser.find_element("xpath", choice.format("recommendation", "relabel")).click()
    assert sorted(browser.execute_script(shown)) == ["careless_outvoted", "likely_flip"]
    browser.find_element("xpath", choice.format("rule", "likely flip")).click()
    assert browser.execute_script(shown) == ["likely_flip"]
    browser.find_element("xpath", choice.format("recommendation", "all")).click()
    browser.find_element("xpath", choice.format("rule", "all")).click()
    assert len(browser.execute_script(shown)) == len(NAMES)


def test_print_opens_the_folded_texts(page, browser, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(page, encoding="utf-8")
    open_at(browser, path, 1280)
    visible = "return document.querySelector('.passages').checkVisibility()"
    assert not browser.execute_script(visible)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert browser.execute_script(visible)
