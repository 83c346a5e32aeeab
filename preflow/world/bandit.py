"""A contextual bandit: the smallest world in which a policy can be asked for a score.

Contexts stand for prompts, actions for responses, and every reward is known. Pairs come as `PreferencePairs`, and a
policy sees of a prompt what a language model would: the context it names and, where its words ask for one, the goal.
The reference policy is uniform. 1,000 pairs are enough for DPO to come near the best reward.
"""

from dataclasses import dataclass
from math import log

import numpy as np
import polars as pl
import torch
from torch import Tensor, nn

from preflow.fit import fit, mlp, shuffled_batches
from preflow.objectives import PairLogprobs, dpo
from preflow.treatments.goals import GoalText
from preflow.world.rows import preference_frame, preference_row

LEAST, GREATEST = 1, 10
FEATURES = 4  # of a context
SPREAD = 1.6  # standard deviation of the rewards within a context: the best of 40 then earns about 9
NO_GOAL = float("nan")

ATTRIBUTE = "Overall score"
IN_SYSTEM_TURN = GoalText(
    instruction="Answer so that you earn, on a scale from {scale}, {goals}.",
    scale="1 (worst) to 10 (best)",
    attributes=(ATTRIBUTE,),
    place="system",
)


@dataclass(frozen=True)
class Bandit:
    """Contexts with their features, [contexts, FEATURES], and the reward of each action, [contexts, actions]."""

    features: Tensor
    rewards: Tensor


@dataclass(frozen=True)
class Choices:
    """Pairs as a policy sees them, [n] each: context, goal (NaN where none is asked for), chosen, rejected."""

    context: Tensor
    goal: Tensor
    chosen: Tensor
    rejected: Tensor


class Policy(nn.Module):
    """log pi(action | context, goal): a multilayer perceptron on the context's features and the goal."""

    def __init__(self, actions: int, *, width: int, seed: int) -> None:
        super().__init__()
        self.net = mlp(FEATURES + 2, width, width, actions, seed=seed)

    def forward(self, features: Tensor, goal: Tensor) -> Tensor:
        """Log-probabilities, [n, actions], for features [n, FEATURES] and goals [n], NaN for none."""
        asked = ~goal.isnan()
        middle, reach = (LEAST + GREATEST) / 2, (GREATEST - LEAST) / 2
        scaled = torch.where(asked, (goal - middle) / reach, 0.0)
        return self.net(torch.cat([features, scaled[:, None], asked[:, None].float()], dim=1)).log_softmax(-1)


def draw_bandit(*, contexts: int, actions: int, seed: int) -> Bandit:
    """Whole rewards from LEAST to GREATEST, about normal within a context, from a random two-layer network."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(contexts, FEATURES))
    hidden = np.tanh(1.5 * features @ rng.normal(size=(FEATURES, FEATURES)) / np.sqrt(FEATURES))
    values = hidden @ rng.normal(size=(FEATURES, actions))
    values = (values - values.mean(1, keepdims=True)) / values.std(1, keepdims=True)
    rewards = np.clip(np.round((LEAST + GREATEST) / 2 + SPREAD * values), LEAST, GREATEST)
    return Bandit(torch.tensor(features, dtype=torch.float32), torch.tensor(rewards, dtype=torch.float32))


def draw_pairs(bandit: Bandit, n: int, *, seed: int) -> pl.DataFrame:
    """`n` distinct pairs of random actions with different rewards, the better one chosen, as `PreferencePairs`.

    Raises
    ------
    ValueError
        The bandit has too few such pairs.
    """
    rng = np.random.default_rng(seed)
    contexts, actions = bandit.rewards.shape
    drawn = np.stack([rng.integers(contexts, size=4 * n), *rng.integers(actions, size=(2, 4 * n))], axis=1)
    rewards = bandit.rewards.numpy()
    apart = drawn[rewards[drawn[:, 0], drawn[:, 1]] != rewards[drawn[:, 0], drawn[:, 2]]]
    distinct = list(dict.fromkeys(map(tuple, apart.tolist())))[:n]
    if len(distinct) < n:
        raise ValueError(
            f"only {len(distinct)} of {n} distinct pairs were found; draw fewer, or make the bandit larger"
        )
    return preference_frame([_row(rewards, *one) for one in distinct])


def _row(rewards: np.ndarray, context: int, a: int, b: int) -> dict:
    scores = {"a": float(rewards[context, a]), "b": float(rewards[context, b])}
    better = max(scores, key=lambda side: scores[side])
    texts = (f"Context {context}.", f"Action {a}.", f"Action {b}.")
    return preference_row(*texts, chosen_is=better, scores=scores, source="bandit")


def read_pairs(pairs: pl.DataFrame) -> Choices:
    """What a policy sees of pairs (columns prompt, chosen, rejected): context and goal are read from the words."""
    said = pl.Series(
        "said", ["\n".join(message["content"] for message in prompt) for prompt in pairs["prompt"].to_list()]
    )
    goal = said.str.extract(rf"{ATTRIBUTE}: (\d+(?:\.\d+)?)").cast(pl.Float32).fill_null(NO_GOAL)
    number = r"(\d+)\.$"
    columns = [
        said.str.extract(r"Context (\d+)\."),
        pairs["chosen"].str.extract(number),
        pairs["rejected"].str.extract(number),
    ]
    context, chosen, rejected = (column.cast(pl.Int64).to_torch() for column in columns)
    return Choices(context, goal.to_torch(), chosen, rejected)


def train_dpo(
    policy: Policy,
    bandit: Bandit,
    pairs: pl.DataFrame,
    *,
    beta: float,
    label_smoothing: float,
    lr: float,
    epochs: int,
    batch_size: int,
    seed: int,
) -> Policy:
    """The policy after DPO from the uniform reference on `pairs`, goals and all."""
    seen = read_pairs(pairs)

    def losses(rows: Tensor) -> Tensor:
        logps = policy(bandit.features[seen.context[rows]], seen.goal[rows])
        chosen, rejected = (logps.gather(1, side[rows, None])[:, 0] for side in (seen.chosen, seen.rejected))
        reference, one = torch.full_like(chosen, -log(logps.shape[1])), torch.ones_like(chosen)
        return dpo(
            PairLogprobs(chosen, one, rejected, one, reference, reference), beta=beta, label_smoothing=label_smoothing
        )

    fit(policy, losses, shuffled_batches(len(pairs), batch_size=batch_size, epochs=epochs, seed=seed), lr=lr)
    return policy


@torch.no_grad()
def mean_rewards(policy: Policy, bandit: Bandit, goal: float) -> np.ndarray:
    """Expected reward of each context, [contexts], when the policy is asked for `goal` (NO_GOAL: for none)."""
    logps = policy(bandit.features, torch.full((len(bandit.features),), goal))
    return (logps.exp() * bandit.rewards).sum(1).numpy()


@torch.no_grad()
def pair_logps(policy: Policy, bandit: Bandit, pairs: pl.DataFrame, goals: Tensor) -> pl.DataFrame:
    """Log-probabilities of both responses when asked for `goals`, [n], and under the uniform reference, by pair_id."""
    seen = read_pairs(pairs)
    logps = policy(bandit.features[seen.context], goals)
    sides = {"chosen": seen.chosen, "rejected": seen.rejected}
    taken = {
        f"logp_{side}": logps.gather(1, actions[:, None])[:, 0].double().numpy() for side, actions in sides.items()
    }
    uniform = {f"ref_logp_{side}": -log(logps.shape[1]) for side in sides}
    return (
        pairs.select("pair_id")
        .with_columns(**{k: pl.Series(v) for k, v in taken.items()})
        .with_columns(**{k: pl.lit(v) for k, v in uniform.items()})
    )
