"""What training did to the probability of the data's own responses: unlearning, and the implicit reward's accuracy.

DPO lowers the probability of every rejected response, also of those that are good by their score; Zhang et al. (2025,
`docs/reward_augmented.md`) call this unlearning. Drift is log pi - log pi_start of a response, in nats.
"""

import polars as pl

from preflow.comparison.paired import (
    Record,
    against_baseline,
    named,
    paired_differences,
    sign_flip_test,
    with_holm,
)
from preflow.evaluation import bootstrap_interval, correctness


def drifts(logprobs: pl.DataFrame, *, good_score: float, rounds: int, seed: int) -> list[Record]:
    """Per policy the mean drift of rejected and of chosen, over train pairs whose rejected response is good.

    Pairs are averaged over seeds; the interval resamples prompt groups.

    Parameters
    ----------
    logprobs
        `PolicyLogprobs`.
    good_score
        Score from which on a rejected response counts as good; pairs without a score are left out.
    """
    records = []
    for (name,), rows in _good_rejected(logprobs, good_score).partition_by("treatment", as_dict=True).items():
        pairs = _by_pair(rows, "drift_rejected", "drift_chosen")
        rejected, chosen = (
            _interval(pairs, side, rounds=rounds, seed=seed) for side in ("drift_rejected", "drift_chosen")
        )
        records.append({"treatment": name, "n_pairs": len(pairs), **rejected, **chosen})
    return records


def drift_contrasts(logprobs: pl.DataFrame, *, good_score: float, rounds: int, seed: int) -> list[Record]:
    """The rejected responses' drift against that of plain training, paired; positive: less was unlearned.

    Raises
    ------
    ValueError
        There is no `untreated`, or the policies were not measured on the same pairs.
    """
    values = _good_rejected(logprobs, good_score).rename({"pair_id": "item", "drift_rejected": "value"})
    if values.is_empty():
        return []
    records = []
    for treatment, baseline in against_baseline(values["treatment"]):
        rows = paired_differences(values, treatment, baseline)
        pairs = _by_pair(rows.rename({"item": "pair_id"}), "difference")
        interval = _interval(pairs, "difference", rounds=rounds, seed=seed)
        p_value = sign_flip_test(pairs["difference"].to_numpy(), pairs["prompt_group"].to_numpy(), seed=seed)
        groups, seeds = pairs["prompt_group"].n_unique(), rows["seed"].n_unique()
        sizes = {"n_pairs": len(pairs), "n_prompts": groups, "n_seeds": seeds}
        records.append({"treatment": treatment, "baseline": baseline, **interval, "p_value": p_value, **sizes})
    return with_holm(records)


def implicit_accuracies(logprobs: pl.DataFrame, *, rounds: int, seed: int) -> list[Record]:
    """Per policy the share of test pairs whose chosen response drifted higher than the rejected one, ties half.

    Pairs are averaged over seeds; the interval resamples prompt groups.
    """
    test = _with_drift(logprobs.filter(pl.col("split") == "test"))
    margin = (test["drift_chosen"] - test["drift_rejected"]).to_numpy()
    test = test.with_columns(accuracy=pl.Series(correctness(margin), dtype=pl.Float64))
    records = []
    for (name,), rows in test.partition_by("treatment", as_dict=True).items():
        pairs = _by_pair(rows, "accuracy")
        interval = _interval(pairs, "accuracy", rounds=rounds, seed=seed)
        records.append({"treatment": name, **interval, "n_pairs": len(pairs)})
    return records


def _with_drift(logprobs: pl.DataFrame) -> pl.DataFrame:
    sides = {f"drift_{side}": pl.col(f"logp_{side}") - pl.col(f"ref_logp_{side}") for side in ("chosen", "rejected")}
    return logprobs.sort("treatment", "seed", "pair_id").with_columns(**sides)


def _good_rejected(logprobs: pl.DataFrame, good_score: float) -> pl.DataFrame:
    return _with_drift(logprobs.filter(pl.col("split") == "train", pl.col("score_rejected") >= good_score))


def _by_pair(rows: pl.DataFrame, *names: str) -> pl.DataFrame:
    """Means over seeds of each pair."""
    means = rows.group_by("pair_id", "prompt_group", maintain_order=True).agg(pl.col(names).mean())
    return means.sort("pair_id")


def _interval(pairs: pl.DataFrame, name: str, *, rounds: int, seed: int) -> Record:
    values, groups = pairs[name].to_numpy(), pairs["prompt_group"].to_numpy()
    return named(bootstrap_interval(values, groups, rounds=rounds, seed=seed), name)
