"""Names of rewards and the table of their scores; apart from their code, so that knowing them needs no torch."""

from typing import Literal

import dataframely as dy

from preflow.schemas import pair_id_column

RewardName = Literal["baseline", "discriminative", "generative"]
"""Every reward by the name that params give it; `preflow.reward_models.registry` opens them."""


class RewardScores(dy.Schema):
    """One row per comparison and reward: what the reward gives both responses."""

    pair_id = pair_id_column()
    reward = dy.String(primary_key=True, regex="^[a-z_]+$", description="Name of the reward.")
    reward_a = dy.Float64(description="Reward of response_a; only differences within a comparison mean anything.")
    reward_b = dy.Float64(description="Reward of response_b.")
    probability_a = dy.Float64(min=0, max=1, description="P(response_a better) = sigmoid(reward_a - reward_b).")
    probability_a_first = dy.Float64(
        nullable=True, min=0, max=1, description="P(a better) with a shown first; null for a reward that sees one."
    )
    probability_a_second = dy.Float64(
        nullable=True, min=0, max=1, description="P(a better) with a shown second; null for a reward that sees one."
    )
    disagreement = dy.Float64(
        nullable=True, min=0, max=0.5, description="Standard deviation of P(a better) over rewards; null with one."
    )
