import numpy as np
import polars as pl
import pytest
import torch

from preflow.comparison.judges import endpoint_verdicts, judged_responses
from preflow.comparison.schemas import EndpointVerdicts, JudgedResponses
from preflow.policies.schemas import PolicyResponses
from preflow.reward.baseline import BradleyTerryReward, reward_inputs
from preflow.reward.encoder import embed_texts, load_encoder
from preflow.reward.features import FEATURES
from preflow.reward_models.embedding import EmbeddingScorer
from preflow.store import ArrayStore
from preflow.world.tasks import gold_reward
from tests.preflow.comparison.tables import group
from tests.preflow.endpoint.server import endpoint, judging

ENCODER = "package:all-MiniLM-L6-v2"
TASKS = ("copy : a b", "reverse : c d", "add : 1 2 + 2 3", "sort : f e")
ANSWERS = ("a b", "c", "", "e f", "3 5", "i'm sorry")
WIDTH = 384 + len(FEATURES)


def row(treatment, prompt, response, *, goal=None, seed=0, sample=0, split="test", task=None):
    return {
        "treatment": treatment, "seed": seed, "split": split, "prompt_group": group(prompt),
        "prompt": [{"role": "user", "content": task or TASKS[prompt % len(TASKS)]}], "goal": goal, "sample": sample,
        "response": response,
    }  # fmt: skip


def said(*rows):
    return PolicyResponses.validate(pl.DataFrame(rows, schema=PolicyResponses.create_empty().schema), cast=True)


@pytest.fixture(scope="module")
def reward_model(tmp_path_factory):
    """A saved reward model; any weights do, so they are random."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    arrays = rng.normal(size=WIDTH), rng.normal(size=WIDTH), rng.uniform(0.5, 2, WIDTH)
    model = BradleyTerryReward(*arrays, l2=0.1, encoder=ENCODER, encoder_sha256="0" * 64)
    folder = tmp_path_factory.mktemp("reward") / "model"
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def judge(reward_model, tmp_path_factory):
    store = tmp_path_factory.mktemp("store")

    def judge(responses):
        return judged_responses(responses, EmbeddingScorer.load(reward_model, store=store, batch_size=4, max_tokens=32))

    return judge


@pytest.fixture(scope="module")
def judged(judge):
    """Two policies, six answers each; one prompt of them is no task of the world."""
    rows = [row(name, i, answer) for name in ("untreated", "easiest_share") for i, answer in enumerate(ANSWERS)]
    other = [row("untreated", 9, "Four, I think.", task="What is 2 + 2?")]
    return judge(said(*rows, *other))


def test_gold_is_the_reward_of_the_task_and_null_where_there_is_none(judged):
    JudgedResponses.validate(judged)
    expected = [
        gold_reward(prompt[-1]["content"], response) if prompt[-1]["content"] in TASKS else None
        for prompt, response in judged.select("prompt", "response").iter_rows()
    ]
    assert judged["gold"].to_list() == expected
    assert expected.count(None) == 1
    assert len(set(expected)) > 3


def test_a_reward_is_that_of_the_saved_model_on_the_same_text(judged, reward_model, tmp_path):
    model = BradleyTerryReward.from_pretrained(reward_model)
    encoder = load_encoder(ENCODER)
    by_hand = {}
    for text in judged["response"].unique():
        embedded = embed_texts([text or " "], encoder, batch_size=4, max_tokens=32, store=ArrayStore(tmp_path))
        by_hand[text] = float(model(torch.from_numpy(reward_inputs([text or " "], embedded)))[0])
    assert len(set(by_hand.values())) == len(by_hand) == len(ANSWERS) + 1
    found = judged.select("response", "reward").rows()
    assert all(reward == pytest.approx(by_hand[text], rel=1e-9) for text, reward in found)


def test_an_empty_response_is_judged_like_any_other(judged):
    empty = judged.filter(response="")
    assert len(empty) == 2
    assert (empty["gold"].to_list(), empty["words"].to_list()) == ([0.0, 0.0], [0, 0])
    assert empty["reward"].is_finite().all()


def test_words_are_counted(judged):
    assert dict(judged.select("response", "words").rows()) == {
        answer: len(answer.split()) for answer in (*ANSWERS, "Four, I think.")
    }


def test_rows_keep_their_order_and_their_columns(judge, judged):
    responses = judged.select(PolicyResponses.column_names())
    shuffled = responses.sample(fraction=1, shuffle=True, seed=1)
    again = judge(shuffled)
    assert again.select(PolicyResponses.column_names()).equals(shuffled)
    on = ["treatment", "prompt_group"]
    assert again.sort(on).equals(judged.sort(on))


def test_no_response_is_no_judgement(judge, tmp_path):
    empty = judge(PolicyResponses.create_empty())
    assert empty.equals(JudgedResponses.create_empty())
    unasked = endpoint("http://127.0.0.1:9/v1")
    assert endpoint_verdicts(empty, endpoint=unasked, answers=tmp_path / "a").equals(EndpointVerdicts.create_empty())


# A language model as judge -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def asked(judge):
    """`untreated`, a treatment without goals and one with; what each response says tells where it belongs."""
    rows = []
    for seed in (0, 1):
        for prompt in range(3):
            for sample in (0, 1):
                at = {"seed": seed, "sample": sample}
                rows.append(row("untreated", prompt, f"base {seed} {prompt} {sample}", **at))
                rows.append(row("untreated", prompt, "as a control", goal=9.0, **at))
                rows.append(row("easiest_share", prompt, f"easy {seed} {prompt} {sample}", **at))
                for split in ("validation", "test"):
                    # On validation the right answer is given at goal 7 alone, so that this goal is picked.
                    right = {"copy : a b": "a b", "reverse : c d": "d c", "add : 1 2 + 2 3": "3 5"}[TASKS[prompt]]
                    for goal in (2.0, 7.0):
                        answer = f"goal {goal} {seed} {prompt} {sample}"
                        text = answer if split == "test" else right if goal == 7.0 else "x"
                        moved = prompt + 10 * (split == "validation")
                        rows.append(
                            row("reward_augmented", moved, text, goal=goal, split=split, task=TASKS[prompt], **at)
                        )
    return judge(said(*rows))


def test_each_response_is_compared_with_the_baselines_to_the_same_prompt_seed_and_sample(asked, tmp_path):
    compared = []

    def prefer_treatment(a, b):
        compared.append((a, b))
        return "A" if not a.startswith("base") else "B"

    with judging(prefer_treatment) as (url, _):
        found = endpoint_verdicts(asked, endpoint=endpoint(url), answers=tmp_path / "answers.sqlite")
    EndpointVerdicts.validate(found)
    expected = {
        (f"{said} {seed} {prompt} 0", f"base {seed} {prompt} 0")
        for said in ("easy", "goal 7.0")
        for seed in (0, 1)
        for prompt in range(3)
    }
    assert set(compared) == expected | {(b, a) for a, b in expected}, "both orders, first samples, the picked goal"
    assert len(found) == len(expected) == 12
    assert set(found.select("treatment", "baseline", "sample", "win").rows()) == {
        (name, "untreated", 0, 1.0) for name in ("easiest_share", "reward_augmented")
    }
    assert found.select("treatment", "seed", "prompt_group").rows() == sorted(
        (name, seed, group(prompt))
        for name in ("easiest_share", "reward_augmented")
        for seed in (0, 1)
        for prompt in range(3)
    )


def test_a_rerun_asks_nothing_and_a_shuffled_table_gives_the_same_bytes(asked, tmp_path):
    answers = tmp_path / "answers.sqlite"
    with judging(lambda a, b: "A" if a < b else "B") as (url, requests):
        first = endpoint_verdicts(asked, endpoint=endpoint(url), answers=answers)
        n = len(requests)
        shuffled = asked.sample(fraction=1, shuffle=True, seed=0)
        again = endpoint_verdicts(shuffled, endpoint=endpoint(url), answers=answers)
        assert len(requests) == n == 24
    assert again.serialize() == first.serialize()
    assert set(first["win"]) == {0.0}, "base comes first in the alphabet"


def test_without_an_endpoint_there_are_no_verdicts(asked, tmp_path):
    found = endpoint_verdicts(asked, endpoint=None, answers=tmp_path / "answers.sqlite")
    assert found.equals(EndpointVerdicts.create_empty())
    assert not (tmp_path / "answers.sqlite").exists()
