"""The mean-variance reward and its Bradley-Terry baseline on a language model, each tuned with its head by the trainer.

Zhang et al. (ICML 2025) tune a language model with a head for mean and variance. Here the backbone is a policy, and the
training is that of policies (`preflow.policies.recipe`), its loss apart. Once tuned, what the heads say of a response
is its vector of inputs, so the losses, the choice of lambda and the evaluation are those of rewards on inputs.
"""

import shutil
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl
import torch
from torch import Tensor

from preflow.divergence.distribution import Fitted, evaluated, not_fitted
from preflow.divergence.evaluation import NAMES, why_not
from preflow.divergence.histograms import counts
from preflow.divergence.models import MODELS, VotedPairs
from preflow.divergence.rewards import BradleyTerry, MeanVariance, Reward
from preflow.divergence.voted import voted_with
from preflow.lm.chat import Encoded
from preflow.lm.reward_head import REWARD, PairRewards, RewardModel, response_rewards, reward_model
from preflow.lm.trainer import Example
from preflow.policies.readable import encode_rows
from preflow.policies.study import Study
from preflow.policies.training import train_by
from preflow.store import content_key

Sides = list[tuple[Encoded, Encoded]]


class TunedMeanVariance(MeanVariance):
    """The first two inputs are what its tuned head says."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Inputs as they are, [n, 2 or more] -> [n, 2]."""
        return inputs[:, : self.outputs]


class TunedBradleyTerry(BradleyTerry):
    """The last input is what its tuned head says."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Inputs as they are, [n, 1 or more] -> [n, 1]."""
        return inputs[:, -self.outputs :]


def tuned_reward(name: str, *, rho: float, sigma_floor: float) -> Reward:
    """How the outputs of the tuned model `name`, one of NAMES, are read."""
    if name == NAMES[0]:
        return TunedMeanVariance(2, widths=(), seed=0, inputs={}, rho=rho, sigma_floor=sigma_floor)
    return TunedBradleyTerry(1, widths=(), seed=0, inputs={})


def votes_loss(pairs: PairRewards, *, name: str, rho: float, sigma_floor: float) -> Tensor:
    """The loss of the reward `name` (see `preflow.divergence.models.MODELS`) on outputs and votes, [B].

    Raises
    ------
    ValueError
        The pairs have no votes.
    """
    if pairs.votes is None:
        raise ValueError(f"{name} is trained on votes, but the examples have none")
    reward = tuned_reward(name, rho=rho, sigma_floor=sigma_floor)
    return MODELS[name][1](reward, VotedPairs(pairs.chosen, pairs.rejected, pairs.votes))


def fit_on_policy(
    table: pl.DataFrame,
    prompts: pl.DataFrame,
    study: Study,
    *,
    rho: float,
    sigma_floor: float,
    lambda_grid: list[float],
    bootstrap: int,
    seed: int,
) -> Fitted:
    """As `preflow.divergence.distribution.fit_distribution`, with copies of the study's policy tuned by its recipe.

    Comparisons that the policy cannot read (see `preflow.policies.readable`) are left out and counted as `unreadable`
    in the evaluation.

    Parameters
    ----------
    table
        See `preflow.divergence.voted.voted_table`.
    prompts
        pair_id and prompt (chat messages) of these comparisons.
    """
    rows, sides = _readable(table, prompts, study)
    nothing = torch.empty(len(rows), 0)
    if reason := why_not(voted_with(rows, nothing, nothing)):
        return not_fitted(f"{reason}; the policy can read {len(rows)} of {len(table)}")
    settings: dict[str, Any] = {"rho": rho, "sigma_floor": sigma_floor}
    kept, baseline = (partial(tuned_model, name, rows, sides, study, settings=settings, seed=seed) for name in NAMES)
    model = kept()
    said = [_outputs(model, sides, study), _outputs(baseline(), sides, study)]
    a, b = (torch.cat(each, dim=1) for each in zip(*said, strict=True))
    rewards = {name: tuned_reward(name, **settings) for name in NAMES}
    voted = voted_with(rows, a, b)
    found = evaluated(rewards, model, voted, lambda_grid=lambda_grid, bootstrap=bootstrap, seed=seed)
    return replace(found, evaluation=found.evaluation | {"unreadable": len(table) - len(rows)})


def tuned_model(
    name: str, rows: pl.DataFrame, sides: Sides, study: Study, *, settings: dict[str, Any], seed: int
) -> RewardModel:
    """The model of one reward, tuned on the train rows; a stopped tuning goes on from its last checkpoint."""
    votes = counts(rows).tolist()
    train = [row for row, split in enumerate(rows["split"]) if split == "train"]
    examples = [Example(*sides[row], votes=tuple(votes[row])) for row in train]
    outputs = MODELS[name][0].outputs
    folder = study.checkpoints / content_key("votes", study.name, name, seed, repr(settings), *map(repr, examples))
    trained = train_by(
        study.recipe,
        reward_model(study.policy.model, outputs=outputs, seed=seed, about={"name": name} | settings),
        examples,
        partial(votes_loss, name=name, **settings),
        order="shuffled",
        seed=seed,
        forward=REWARD,
        folder=folder,
    )
    shutil.rmtree(folder, ignore_errors=True)
    return RewardModel(trained.model.eval(), study.policy.tokenizer)


def _outputs(tuned: RewardModel, sides: Sides, study: Study) -> tuple[Tensor, Tensor]:
    """What the head says of the first and of the second responses, float32 [n, outputs] each."""
    flat = [side for pair in sides for side in pair]
    said = torch.from_numpy(response_rewards(tuned.model, flat, max_batch_tokens=study.recipe.max_batch_tokens))
    return said[::2], said[1::2]


def _readable(table: pl.DataFrame, prompts: pl.DataFrame, study: Study) -> tuple[pl.DataFrame, Sides]:
    """The rows that the policy can read, and both of their responses as token ids."""
    rows = table.join(prompts.select("pair_id", "prompt"), on="pair_id", how="left", maintain_order="left")
    pairs = rows.select("prompt", chosen="response_a", rejected="response_b")
    encoded = encode_rows(pairs, study.policy.tokenizer, study.recipe).rows
    unknown = study.policy.tokenizer.unk_token_id
    known = [row for row, sides in encoded.items() if not any(unknown in side.ids for side in sides)]
    return table[known], [encoded[row] for row in known]
