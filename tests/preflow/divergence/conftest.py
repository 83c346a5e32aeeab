"""Comparisons of a world of tastes, as the distributional rewards take them."""

import numpy as np
import polars as pl
import torch

from preflow.divergence.models import VotedPairs
from preflow.divergence.voted import Voted
from preflow.ingest.canonical import digest
from preflow.world.taste import TasteWorld, draw_taste

SIZES = {"train": 600, "validation": 250, "test": 400}


def drawn_taste(*, style=2.0, seed=0):
    return draw_taste(sum(SIZES.values()), annotators=40, votes=4, style=style, world=seed, seed=seed)


def voted_pairs(drawn: TasteWorld) -> VotedPairs:
    return VotedPairs(*(torch.tensor(each, dtype=torch.float32) for each in (drawn.a, drawn.b, drawn.counts)))


def voted(drawn: TasteWorld) -> Voted:
    """Every pair a prompt of its own; splits as large as SIZES says."""
    ids = [f"{row:032x}" for row in range(len(drawn.a))]
    table = pl.DataFrame(
        {
            "pair_id": ids,
            "split": np.repeat(list(SIZES), list(SIZES.values())),
            "prompt_group": [digest(name) for name in ids],
            "diverging": drawn.diverging,
        }
    )
    return Voted(table, voted_pairs(drawn))
