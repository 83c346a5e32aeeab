"""What every reward can be asked, whatever it is made of."""

from typing import Protocol

import numpy as np
import polars as pl


class Scorer(Protocol):
    """A reward of responses; one that only compares measures a response beside a reference."""

    def rewards(self, rows: pl.DataFrame) -> np.ndarray:
        """Rewards of `response` under `prompt` beside `reference`, float64 [n]; NaN where it cannot read a text.

        Differences between responses to one prompt (beside one reference) are log odds of being preferred.
        """

    def in_both_orders(self, rows: pl.DataFrame) -> np.ndarray | None:
        """P(`response` better than `reference`) with it shown first and second, [n, 2]; None where no order is seen."""
