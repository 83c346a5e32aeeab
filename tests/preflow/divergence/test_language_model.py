"""A language model learns from votes which responses divide people, where it is known which do."""

from functools import cache

import numpy as np
import polars as pl
import pytest
import torch
from torch.nn.functional import softplus

from preflow.divergence.distribution import NotFitted
from preflow.divergence.evaluation import NAMES
from preflow.divergence.language_model import fit_on_policy, tuned_model, tuned_reward, votes_loss
from preflow.divergence.mean_variance import difference, kl_loss, log_bins
from preflow.divergence.models import MODELS, VotedPairs
from preflow.divergence.schemas import OUTCOMES, PredictedDivergence
from preflow.ingest.canonical import digest
from preflow.lm.reference import weights_key
from preflow.lm.reward_head import PairRewards, load_reward_model, response_rewards
from preflow.policies.policy import Policy
from preflow.policies.readable import encode_rows
from preflow.policies.recipe import Recipe
from preflow.policies.study import Study
from preflow.world.policy import new_policy
from preflow.world.tokenizer import world_tokenizer

RECIPE = Recipe(
    loss="dpo",
    beta=0.1,
    label_smoothing=0.0,
    target_margin=0.0,
    learning_rate=2e-3,
    schedule="constant",
    warmup_share=0.0,
    epochs=5.0,
    batch_size=32,
    micro_batch_size=32,
    lora_rank=None,
    bf16=False,
    max_prompt_tokens=24,
    max_response_tokens=8,
    max_batch_tokens=4096,
)
SIZES = {"train": 300, "validation": 100, "test": 300}
SETTINGS = {"rho": 0.0, "sigma_floor": 0.05}
HOW = SETTINGS | {"lambda_grid": [0.0, 1.0, 4.0], "bootstrap": 2000, "seed": 0}
GOOD, DIVISIVE = "correct", "style"
FOR = {"a": "a_clear", "b": "b_clear", "tie": "tie"}


def planted(seed=0, *, shuffled=False):
    """`voted_table` and prompts: people like GOOD alike, and are two to two wherever a response holds DIVISIVE."""
    rng, rows = np.random.default_rng(seed), []
    for number, split in enumerate(np.repeat(list(SIZES), list(SIZES.values()))):
        good, marked = (rng.random(2) < 0.5).tolist(), (rng.random(2) < 0.25).tolist()
        a, b = (" ".join([*rng.choice([*"bcdfgh"], 3), *[GOOD] * good[k], *[DIVISIVE] * marked[k]]) for k in range(2))
        favoured = "a" if good[0] > good[1] else "b" if good[1] > good[0] else "tie"
        said = {"a_clear": 2, "b_clear": 2} if any(marked) else {FOR[favoured]: 4}
        votes = {name: said.get(name, 0) for name in OUTCOMES}
        name = f"{number:032x}"
        rows.append(
            {"pair_id": name, "split": str(split), "prompt_group": digest(name), "diverging": any(marked)}
            | {"response_a": a, "response_b": b}
            | votes
        )
    table = pl.DataFrame(rows)
    if shuffled:
        kept, moved = ["pair_id", "split", "prompt_group", "response_a", "response_b"], ["diverging", *OUTCOMES]
        order = np.random.default_rng(seed).permutation(len(table))
        table = pl.concat([table.select(kept), table.select(moved)[order.tolist()]], how="horizontal")
    prompts = [[{"role": "user", "content": f"copy : {'abcdefgh'[n % 8]}"}] for n in range(len(table))]
    return table, pl.DataFrame({"pair_id": table["pair_id"], "prompt": prompts})


@cache
def start():
    torch.set_num_threads(1)
    return Policy(new_policy("tiny", world_tokenizer(), seed=0).eval(), world_tokenizer())


def study_in(folder, **changed):
    return Study(start(), Recipe(**vars(RECIPE) | changed), folder)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    return fit_on_policy(*planted(), study_in(tmp_path_factory.mktemp("study")), **HOW)


def encoded(table, prompts, study):
    pairs = table.select("pair_id", chosen="response_a", rejected="response_b").join(prompts, on="pair_id")
    return list(encode_rows(pairs, study.policy.tokenizer, study.recipe).rows.values())


def test_planted_divergence_is_found_where_a_gap_does_not_see_it(fitted):
    found = fitted.evaluation
    assert (found["not_fitted"], found["comparisons"]) == (None, SIZES["test"])
    assert found["auroc"][NAMES[0]] > 0.9
    assert found["auroc"][NAMES[1]] < 0.65, "two responses that divide people have as small a gap as two that tie"
    assert found["auroc_difference"]["low"] > 0
    assert found["accuracy"][NAMES[0]]["low"] > 0.9
    predicted = PredictedDivergence.validate(fitted.predicted)
    assert predicted["pair_id"].to_list() == planted()[0]["pair_id"].to_list()


def test_votes_dealt_to_other_comparisons_tell_nothing(tmp_path):
    found = fit_on_policy(*planted(shuffled=True), study_in(tmp_path), **HOW).evaluation
    assert abs(found["auroc"][NAMES[0]] - 0.5) < 0.1, "three standard errors of an AUROC of 140 against 160"
    assert found["accuracy"][NAMES[0]]["low"] < 0.5 < found["accuracy"][NAMES[0]]["high"]


def test_the_saved_model_loads_again_and_says_the_same(fitted, tmp_path):
    fitted.model.save_pretrained(tmp_path)
    loaded, (table, prompts), study = load_reward_model(tmp_path), planted(), study_in(tmp_path)
    assert loaded.model.config.preflow_reward == {"name": NAMES[0]} | SETTINGS
    assert loaded.tokenizer.chat_template == study.policy.tokenizer.chat_template
    sides = [side for pair in encoded(table[:20], prompts, study) for side in pair]
    outputs = torch.from_numpy(response_rewards(loaded.model, sides, max_batch_tokens=200))
    mu, sigma = tuned_reward(NAMES[0], **SETTINGS).moments(outputs)
    said = fitted.predicted[:20]
    for values, column in ((mu[::2], "mu_a"), (mu[1::2], "mu_b"), (sigma[::2], "sigma_a"), (sigma[1::2], "sigma_b")):
        np.testing.assert_allclose(values, said[column], atol=1e-4)


def test_the_same_seed_gives_the_same_bytes_and_another_one_others(tmp_path):
    table, prompts = planted()
    short = study_in(tmp_path, epochs=0.5)
    sides = encoded(table, prompts, short)
    keys = [
        weights_key(tuned_model(NAMES[0], table, sides, short, settings=SETTINGS, seed=seed).model)
        for seed in (0, 0, 1)
    ]
    assert keys[0] == keys[1] != keys[2]
    assert weights_key(start().model) == short.weights, "the start policy is left as it was"
    assert list(short.checkpoints.iterdir()) == []


def test_the_loss_on_outputs_is_that_of_the_equations():
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(2, 6, 2, generator=generator).unbind()
    counts = torch.randint(1, 4, (6, len(OUTCOMES)), generator=generator).float()
    (mu_a, raw_a), (mu_b, raw_b) = a.T, b.T
    sigma = (0.05 + softplus(raw_a), 0.05 + softplus(raw_b))
    by_hand = kl_loss(log_bins(*difference((mu_a, mu_b), sigma, rho=0.3)), counts)
    torch.testing.assert_close(
        votes_loss(PairRewards(a, b, votes=counts), name=NAMES[0], rho=0.3, sigma_floor=0.05), by_hand
    )
    gap, share = a[:, 0] - b[:, 0], VotedPairs(a, b, counts).share_a
    by_hand = -share * torch.sigmoid(gap).log() - (1 - share) * torch.sigmoid(-gap).log()
    found = votes_loss(PairRewards(a[:, :1], b[:, :1], votes=counts), name=NAMES[1], rho=0.3, sigma_floor=0.05)
    torch.testing.assert_close(found, by_hand)
    with pytest.raises(ValueError, match="trained on votes, but the examples have none"):
        votes_loss(PairRewards(a, b), name=NAMES[0], **SETTINGS)


def test_each_reward_reads_its_own_outputs():
    outputs = torch.arange(12.0).reshape(4, 3)
    assert torch.equal(tuned_reward(NAMES[0], **SETTINGS).moments(outputs)[0], outputs[:, 0])
    assert torch.equal(tuned_reward(NAMES[1], **SETTINGS).moments(outputs)[0], outputs[:, 2])
    assert [MODELS[name][0].outputs for name in NAMES] == [2, 1]


def test_what_the_policy_cannot_read_is_counted(tmp_path):
    table, prompts = planted()
    odd = pl.col("pair_id").is_in(table["pair_id"][::10].implode())
    other = table.with_columns(response_a=pl.when(odd).then(pl.lit("zebra")).otherwise("response_a"))
    found = fit_on_policy(other, prompts, study_in(tmp_path, epochs=0.2), **HOW)
    assert found.evaluation["unreadable"] == 70
    assert set(found.predicted["pair_id"]) == set(table["pair_id"]) - set(table["pair_id"][::10])
    foreign = prompts.with_columns(prompt=pl.lit([{"role": "user", "content": "zebra"}]))
    nothing = fit_on_policy(table, foreign, study_in(tmp_path), **HOW)
    assert isinstance(nothing.model, NotFitted)
    assert nothing.evaluation["not_fitted"].endswith("the policy can read 0 of 700")
