"""What the runs of a group say, as JSON-ready numbers and as the rows of its charts."""

from dataclasses import asdict
from typing import Any

import polars as pl

from preflow.distil.power_law import log_log_r2
from preflow.distil.schemas import VERDICTS
from preflow.distil.seed_intervals import mean_over_seeds

MEASURES = (
    "golden_end", "golden_rise", "proxy_change", "proxy_end", "ratio_end", "golden_deviation", "proxy_deviation",
)  # fmt: skip


def regime_summary(judged: pl.DataFrame, curves: pl.DataFrame) -> dict[str, Any]:
    """By regime: seeds, verdicts, the MEASURES of `DistilRuns` with intervals over seeds, R^2 of golden's power law."""
    summary = {}
    for (regime,), part in judged.group_by("regime", maintain_order=True):
        runs = curves.filter(pl.col("regime") == regime).sort("update").partition_by("seed")
        fits = pl.Series([log_log_r2(run["update"].to_numpy(), run["golden"].to_numpy()) for run in runs])
        summary[str(regime)] = {
            "seeds": len(part),
            "verdicts": {name: int((part["verdict"] == name).sum()) for name in VERDICTS},
            "golden_r2": asdict(mean_over_seeds(fits.to_numpy())),
        } | {name: asdict(mean_over_seeds(part[name].to_numpy())) for name in MEASURES}
    return summary


def curve_bands(curves: pl.DataFrame) -> pl.DataFrame:
    """Mean over seeds with its 95 % interval by regime, update and `distance`: golden, proxy, train_proxy or ratio.

    Without an oracle there are no golden rows.
    """
    names = ["golden", "proxy", "train_proxy", "ratio"]
    long = (
        curves.with_columns(ratio=pl.col("train_proxy") / pl.col("proxy"))
        .unpivot(names, index=["regime", "seed", "update"], variable_name="distance")
        .drop_nulls("value")
    )
    rows = []
    groups = long.sort("regime", "distance", "update").group_by("regime", "distance", "update", maintain_order=True)
    for (regime, distance, update), part in groups:
        found = mean_over_seeds(part["value"].to_numpy())
        bands = {"mean": found.estimate, "low": found.low, "high": found.high}
        rows.append({"regime": regime, "distance": distance, "update": update} | bands)
    return pl.DataFrame(rows)
