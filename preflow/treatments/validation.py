"""A setting of a treatment (the goal to ask for, the share to keep) is measured on validation, not assumed."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

Setting = TypeVar("Setting")


def best_on_validation(measured: Mapping[Setting, Sequence[float] | np.ndarray]) -> Setting:
    """The setting with the greatest mean over the same validation prompts; of equal ones the first named.

    Parameters
    ----------
    measured
        Per setting one value (a reward, a correct answer) for each validation prompt, [n].

    Raises
    ------
    ValueError
        Nothing was measured, settings were measured on different numbers of prompts, or a value is not finite.
    """
    sizes = {len(values) for values in measured.values()}
    if len(sizes) != 1 or 0 in sizes:
        raise ValueError(
            f"settings need the same validation prompts, at least one; {len(measured)} have {sorted(sizes)}"
        )
    if not np.isfinite(np.concatenate([np.asarray(values, dtype=float) for values in measured.values()])).all():
        raise ValueError("a validation value is not finite; the run that measured it failed")
    return max(measured, key=lambda setting: float(np.mean(measured[setting])))
