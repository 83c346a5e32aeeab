"""The baseline reward model: a Bradley-Terry head on embeddings and simple features."""

import dataframely as dy

from preflow.schemas import pair_id_column, split_column


class RewardPredictions(dy.Schema):
    """One row per preference pair: what the baseline reward model thinks of it."""

    pair_id = pair_id_column()
    split = split_column()
    reward_chosen = dy.Float64(description="Reward of chosen.")
    reward_rejected = dy.Float64(description="Reward of rejected.")
    probability = dy.Float64(min=0, max=1, description="P(chosen better), out of fold on train, held out elsewhere.")
    suspicion = dy.Float64(min=0, description="Negative log-likelihood of the recorded label: high = suspected flip.")
