"""What goal-conditioned doubling does to a policy, where every reward is known. Full forms: `make claims`."""

from functools import cache

import numpy as np
import polars as pl
import pytest
import torch
from scipy.stats import spearmanr, ttest_rel

from preflow.treatments.reward_augmented import augment
from preflow.treatments.schemas import training_rows
from preflow.treatments.scores import implicit_rewards, rescaled, source_scores
from preflow.treatments.validation import best_on_validation
from preflow.world.bandit import (
    ATTRIBUTE,
    IN_SYSTEM_TURN,
    NO_GOAL,
    Policy,
    draw_bandit,
    draw_pairs,
    mean_rewards,
    pair_logps,
    train_dpo,
)

SEEDS = range(10, 18)  # the settings below were chosen on seeds 0 to 2
PAIRS, CONTEXTS, ACTIONS, BETA = 1000, 400, 40, 0.1
GOALS = [float(goal) for goal in range(1, 11)]
SHORT, LONG = 20, 60  # epochs


@cache
def world(seed):
    bandit = draw_bandit(contexts=CONTEXTS, actions=ACTIONS, seed=seed)
    pairs = draw_pairs(bandit, PAIRS, seed=seed)
    return bandit, pairs, relabelled(pairs)


def relabelled(pairs, scores=None):
    scores = source_scores(pairs, attribute=ATTRIBUTE) if scores is None else scores
    return training_rows(augment(pairs, scores, text=IN_SYSTEM_TURN, ties="drop"))


def half(pairs):
    return pairs.sample(fraction=0.5, seed=0).sort("pair_id")


def unswapped(treated):
    """The official bug: the second half asks for the worse score and still prefers the better response."""
    second, names = pl.col("reason") == "goal_of_rejected", {"chosen": "rejected", "rejected": "chosen"}
    return treated.with_columns(pl.when(second).then(pl.col(b)).otherwise(pl.col(a)).alias(a) for a, b in names.items())


@cache
def policy(kind, seed, epochs=SHORT):
    bandit, pairs, treated = world(seed)
    data = {
        "dpo": lambda: pairs,
        "augmented": lambda: treated,
        "unswapped": lambda: unswapped(treated),
        "half": lambda: relabelled(half(pairs)),
    }[kind]()
    how = {"beta": BETA, "label_smoothing": 0.0, "lr": 3e-3, "batch_size": 200}
    return train_dpo(Policy(ACTIONS, width=64, seed=seed), bandit, data, epochs=epochs, seed=seed, **how)


def control(kind, seed):
    """Spearman correlation of goal and mean reward, and the rise from goal 1 to goal 10."""
    rewards = [mean_rewards(policy(kind, seed), world(seed)[0], goal).mean() for goal in GOALS]
    return spearmanr(GOALS, rewards).statistic, rewards[-1] - rewards[0]


def controls(kind, seeds):
    return np.array([control(kind, seed) for seed in seeds]).T


def chosen_on_validation(kind, seed, epochs=SHORT):
    """The goal that earns most on the first half of the contexts, and what it earns on the others."""
    rewards = {goal: mean_rewards(policy(kind, seed, epochs), world(seed)[0], goal) for goal in (NO_GOAL, *GOALS)}
    if kind == "dpo":
        return NO_GOAL, rewards[NO_GOAL]
    goal = best_on_validation({goal: rewards[goal][: CONTEXTS // 2] for goal in GOALS})
    return goal, rewards[goal]


def unlearned(kind, seed, goals):
    """Mean change of log-probability, from the uniform reference, of rejected responses with reward 7 or more."""
    bandit, pairs, _ = world(seed)
    good = pairs.filter(pl.col("score_rejected") >= 7)
    goals = good["score_rejected"].to_torch().float() if goals == "own" else torch.full((len(good),), goals)
    logps = pair_logps(policy(kind, seed), bandit, good, goals)
    return (logps["logp_rejected"] - logps["ref_logp_rejected"]).mean()


@pytest.mark.claim("rad-5")
@pytest.mark.full
def test_reward_follows_the_goal(record_claim):
    rho, rise = controls("augmented", SEEDS)
    _, plain = controls("dpo", SEEDS)
    figure = (
        f"Spearman {rho.mean():.2f} (least {rho.min():.2f}), range {rise.mean():.1f} (least {rise.min():.1f}); "
        f"DPO moves by at most {np.abs(plain).max():.2f}"
    )
    holds = rho.mean() >= 0.9 and rise.mean() >= 3 and np.abs(plain).max() <= 0.3
    record_claim(figure, holds=bool(holds), seeds=len(SEEDS))
    assert holds


@pytest.mark.claim("rad-6")
@pytest.mark.full
def test_an_unswapped_half_loses_the_control(record_claim):
    rho, rise = controls("unswapped", SEEDS)
    holds = rho.mean() <= 0.3 and rise.mean() <= 0.3
    figure = (
        f"Spearman {rho.mean():.2f} (per seed {rho.min():.2f} to {rho.max():.2f}), "
        f"range {rise.mean():.2f} (at most {rise.max():.2f})"
    )
    record_claim(figure, holds=bool(holds), seeds=len(SEEDS))
    assert rise.max() <= 0.3
    assert rise.max() < controls("augmented", SEEDS)[1].min()


@pytest.mark.claim("rad-7")
@pytest.mark.full
def test_good_rejected_responses_are_unlearned_less(record_claim):
    dpo = np.array([unlearned("dpo", seed, NO_GOAL) for seed in SEEDS])
    plain, own = (np.array([unlearned("augmented", seed, goals) for seed in SEEDS]) for goals in (NO_GOAL, "own"))
    asked = np.array([unlearned("augmented", seed, chosen_on_validation("augmented", seed)[0]) for seed in SEEDS])
    p = max(ttest_rel(lost, dpo / 2, alternative="greater").pvalue for lost in (plain, own))
    holds = max(plain.mean() / dpo.mean(), own.mean() / dpo.mean()) <= 0.5 and p < 0.05
    figure = (
        f"log-probability lost, DPO {dpo.mean():.1f}; augmented {plain.mean():.1f} without a goal and {own.mean():.1f} "
        f"when asked for the response's own score (p = {p:.0e}); asked for the goal "
        f"that earns most {asked.mean():.1f}, {asked.mean() / dpo.mean():.2f} of DPO's"
    )
    record_claim(figure, holds=bool(holds), seeds=len(SEEDS))
    assert holds


@pytest.mark.claim("rad-8")
@pytest.mark.full
def test_reward_at_the_goal_picked_on_validation(record_claim):
    """Each method with the training length that is best for it on the validation contexts."""
    validation, test = slice(None, CONTEXTS // 2), slice(CONTEXTS // 2, None)
    earned, goals = {}, set()
    for kind in ("dpo", "augmented"):
        earned[kind] = []
        for seed in SEEDS:
            runs = [chosen_on_validation(kind, seed, epochs) for epochs in (SHORT, LONG)]
            goal, rewards = max(runs, key=lambda run: run[1][validation].mean())
            earned[kind].append(rewards[test].mean())
            goals |= {goal} if kind == "augmented" else set()
    dpo, augmented = (np.array(earned[kind]) for kind in ("dpo", "augmented"))
    best = np.array([world(seed)[0].rewards[test].max(1).values.mean() for seed in SEEDS])
    start = np.array([world(seed)[0].rewards[test].mean() for seed in SEEDS])
    ratio, way = augmented.mean() / dpo.mean(), ((augmented - start) / (best - start)).mean()
    holds = ratio >= 0.95 and way >= 0.5
    figure = (
        f"{augmented.mean():.2f} at goals {min(goals):g} to {max(goals):g}, DPO {dpo.mean():.2f}, best "
        f"{best.mean():.2f}: ratio {ratio:.3f}, {way:.2f} of the way from the reference"
    )
    record_claim(figure, holds=bool(holds), seeds=len(SEEDS))
    assert way >= 0.5
    assert ratio >= 0.85
    assert augmented.mean() < dpo.mean()  # goal-conditioned doubling does not beat DPO on reward here


@pytest.mark.claim("rad-9")
@pytest.mark.full
def test_half_the_data_still_gives_control(record_claim):
    rho, rise = controls("half", SEEDS)
    holds = rho.mean() >= 0.8
    record_claim(f"Spearman {rho.mean():.2f}, range {rise.mean():.1f}", holds=bool(holds), seeds=len(SEEDS))
    assert holds


@pytest.mark.claim("rad-10")
@pytest.mark.parametrize("smoothing", [0.1, 0.3])
def test_smoothed_margin_of_one_pair(record_claim, smoothing):
    bandit = draw_bandit(contexts=2, actions=4, seed=0)
    pair = draw_pairs(bandit, 1, seed=0)
    how = {"beta": BETA, "lr": 1e-2, "epochs": 800, "batch_size": 1, "seed": 0}
    fitted = train_dpo(Policy(4, width=8, seed=0), bandit, pair, label_smoothing=smoothing, **how)
    logps = pair_logps(fitted, bandit, pair, torch.tensor([NO_GOAL]))
    probability = 1 / (1 + np.exp(-BETA * (logps["logp_chosen"] - logps["logp_rejected"]).item()))
    assert probability == pytest.approx(1 - smoothing, abs=0.02)
    record_claim(f"e = {smoothing}: {probability:.3f}")


@pytest.mark.claim("rad-12")
@pytest.mark.full
def test_implicit_rewards_order_goals_as_true_rewards_do(record_claim):
    trained, fresh = np.array([implicit_agreement(seed) for seed in SEEDS]).T
    holds = min(trained.mean(), fresh.mean()) >= 0.9
    figure = f"{trained.mean():.3f} of the pairs it trained on, {fresh.mean():.3f} of others (least {fresh.min():.3f})"
    record_claim(figure, holds=bool(holds), seeds=len(SEEDS))
    assert trained.mean() >= 0.9
    assert fresh.mean() >= 0.8


def implicit_agreement(seed):
    """Share of pairs whose two goals come in the true order, on the pairs trained on and on others."""
    bandit, pairs, _ = world(seed)
    others = draw_pairs(bandit, 2000, seed=1000 + seed).join(pairs, on="pair_id", how="anti")
    return [_agreement(policy("dpo", seed), bandit, part) for part in (pairs, others)]


def _agreement(trained, bandit, pairs):
    logps = pair_logps(trained, bandit, pairs, torch.full((len(pairs),), NO_GOAL))
    scores = rescaled(implicit_rewards(logps, beta=BETA, attribute=ATTRIBUTE), low=1, high=10, decimals=3)
    rows = relabelled(pairs, scores).filter(pl.col("reason") == "goal_of_chosen")
    assert len(rows) > 0.95 * len(pairs)
    asked = rows["goal"].list.first().struct.field("value")
    other = rows.join(scores, left_on="source_pair_id", right_on="pair_id", maintain_order="left")[
        "score_rejected_right"
    ]
    return ((asked > other) == (rows["score_chosen"] > rows["score_rejected"])).mean()


def test_reduced_control_and_its_negative_control():
    rho, rise = control("augmented", 0)
    assert rho >= 0.9
    assert rise >= 3
    assert abs(control("dpo", 0)[1]) <= 0.3
    assert control("unswapped", 0)[1] <= 0.3


def test_reduced_unlearning():
    assert unlearned("augmented", 0, "own") > unlearned("dpo", 0, NO_GOAL) / 2


def test_same_seed_same_policy():
    first = mean_rewards(policy("augmented", 0), world(0)[0], 10.0)
    policy.cache_clear()
    assert np.array_equal(first, mean_rewards(policy("augmented", 0), world(0)[0], 10.0))
