"""Train, validation and test parts that never divide a prompt group or a near-duplicate cluster."""

import dataframely as dy

from preflow.schemas import hash_column, pair_id_column, split_column


class Splits(dy.Schema):
    """One row per comparison: its split. Prompt groups and near-duplicate clusters are never divided."""

    pair_id = pair_id_column()
    split_group = hash_column("Connected component of prompt groups and near-duplicate clusters.")
    split = split_column()
