"""Tables of the baseline reward model; apart from its code, so that knowing them needs no torch."""

import dataframely as dy

from preflow.schemas import hash_column, pair_id_column, split_column


class ResponseEmbeddings(dy.Schema):
    """One row per distinct response text of the pairs: its sentence embedding."""

    text_id = hash_column("Hash of the text.", primary_key=True)
    embedding = dy.List(dy.Float32(), min_length=1, description="Unit-length sentence embedding.")


class RewardPredictions(dy.Schema):
    """One row per preference pair: what the baseline reward model thinks of it."""

    pair_id = pair_id_column()
    split = split_column()
    reward_chosen = dy.Float64(description="Reward of chosen.")
    reward_rejected = dy.Float64(description="Reward of rejected.")
    probability = dy.Float64(min=0, max=1, description="P(chosen better), out of fold on train, held out elsewhere.")
    suspicion = dy.Float64(min=0, description="Negative log-likelihood of the recorded label: high = suspected flip.")
