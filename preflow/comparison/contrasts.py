"""Each treatment against plain training, and each against the control that isolates its idea."""

from collections.abc import Iterable
from typing import Any

import polars as pl

from preflow.comparison.paired import (
    Record,
    against_baseline,
    named,
    paired_differences,
    rank_correlation,
    sign_flip_test,
    with_holm,
)
from preflow.evaluation import bootstrap_interval, correctness

CONTROLS = (
    ("easiest_share", "random_share"),
    ("hardest_share", "random_share"),
    ("easiest_share_augmented", "reward_augmented"),
)
"""Which pairs were kept, against how many; selection on top of augmentation, against augmentation."""


def policy_scores(scores: pl.DataFrame, *, rounds: int, seed: int) -> list[Record]:
    """Per treatment its mean score, mean words, and Spearman's correlation of the two over responses (length bias).

    `scores` is one judge's on test, each policy at its goal (`goals.scores_by` of `goals.at_goals`). The interval
    resamples prompts, each the mean over its seeds and samples.
    """
    records = []
    for (name,), rows in scores.partition_by("treatment", as_dict=True).items():
        prompts = rows.group_by("prompt_group", maintain_order=True).agg(pl.col("value").mean()).sort("prompt_group")
        interval = bootstrap_interval(prompts["value"].to_numpy(), None, rounds=rounds, seed=seed)
        sizes = {"n_prompts": len(prompts), "n_seeds": rows["seed"].n_unique(), "n_responses": len(rows)}
        words = float(rows["words"].to_numpy().mean())
        bias = rank_correlation(rows["value"], rows["words"])
        goal = rows["goal"][0]
        records.append(
            {"treatment": name, "goal": goal, **named(interval, "mean"), "words": words, "spearman_words": bias} | sizes
        )
    return records


def score_contrasts(scores: pl.DataFrame, *, rounds: int, seed: int) -> tuple[list[Record], list[Record]]:
    """Contrasts of one judge's scores, adjusted together, and each contrast's difference in every seed.

    Every treatment is compared with plain training (`untreated`), and the pairs of CONTROLS that exist. The unit is the
    prompt: a difference is the mean over prompts of the mean over seeds and samples, its interval resamples prompts,
    and its p is a sign-flip test's over prompts. A conclusion is about these trained policies; see `paired`. The win
    rate is the share of (prompt, seed, sample) in which the treatment's response scores higher, equal scores half.

    Parameters
    ----------
    scores
        As in `policy_scores`.

    Raises
    ------
    ValueError
        There is no `untreated`, or two compared policies did not answer the same prompts.
    """
    differences = [(pair, paired_differences(scores, *pair)) for pair in _planned(scores["treatment"])]
    return _contrasts(differences, rounds=rounds, seed=seed)


def endpoint_contrasts(verdicts: pl.DataFrame, *, rounds: int, seed: int) -> tuple[list[Record], list[Record]]:
    """The same of `EndpointVerdicts`: a win rate and its test against one half; there is no score to differ.

    Raises
    ------
    ValueError
        A response was compared twice with the same baseline's.
    """
    keys = ["treatment", "baseline", "seed", "prompt_group", "sample"]
    repeated = int(verdicts.select(pl.struct(keys).is_duplicated().sum()).item())
    if repeated:
        raise ValueError(f"{repeated} verdicts say again who won a response; keep one for each of {keys}")
    rows = verdicts.sort(keys).with_columns(difference=pl.col("win") - 0.5)
    differences = list(rows.partition_by("treatment", "baseline", as_dict=True).items())
    contrasts, by_seed = _contrasts(differences, rounds=rounds, seed=seed)
    unscored = {"difference": None, "difference_low": None, "difference_high": None}
    return [row | unscored for row in contrasts], [row | {"difference": None} for row in by_seed]


def position_bias(verdicts: pl.DataFrame, *, rounds: int, seed: int) -> list[Record]:
    """How often whichever response came first was preferred, of all preferences in `EndpointVerdicts`.

    A record of `for_first` with its interval over prompt groups (0.5: no bias), `n_preferences` and `n_unclear`, the
    answers that were no verdict; none where nothing was preferred.
    """
    orders = [("first_order", "treatment"), ("second_order", "baseline")]
    said = pl.concat(
        verdicts.select("prompt_group", verdict=pl.col(order).cast(pl.String), first=pl.lit(first))
        for order, first in orders
    )
    preferred = said.filter(pl.col("verdict").is_in(["treatment", "baseline"]))
    if preferred.is_empty():
        return []
    is_first = (preferred["verdict"] == preferred["first"]).to_numpy()
    bias = bootstrap_interval(is_first, preferred["prompt_group"].to_numpy(), rounds=rounds, seed=seed)
    counts = {"n_preferences": len(preferred), "n_unclear": int((said["verdict"] == "unclear").sum())}
    return [{**named(bias, "for_first"), **counts}]


def _planned(treatments: Iterable[str]) -> list[tuple[str, str]]:
    names = set(treatments)
    return against_baseline(names) + [pair for pair in CONTROLS if names.issuperset(pair)]


def _contrasts(
    differences: list[tuple[Any, pl.DataFrame]], *, rounds: int, seed: int
) -> tuple[list[Record], list[Record]]:
    contrasts, by_seed = [], []
    for (treatment, baseline), rows in differences:
        pair = {"treatment": treatment, "baseline": baseline}
        won = rows.with_columns(win=pl.Series(correctness(rows["difference"].to_numpy())))
        means = won.group_by("seed").agg(pl.col("difference", "win").mean()).sort("seed")
        by_seed += [
            pair | {"seed": seed_, "difference": difference, "win_rate": win}
            for seed_, difference, win in means.iter_rows()
        ]
        contrasts.append(pair | _contrast(won, rounds=rounds, seed=seed) | {"n_seeds": len(means)})
    return with_holm(contrasts), by_seed


def _contrast(rows: pl.DataFrame, *, rounds: int, seed: int) -> Record:
    prompts = rows.group_by("prompt_group").agg(pl.col("difference", "win").mean()).sort("prompt_group")
    difference, win = (prompts[name].to_numpy() for name in ("difference", "win"))
    counts = {
        name: int((rows["win"] == value).sum()) for name, value in (("wins", 1.0), ("ties", 0.5), ("losses", 0.0))
    }
    return {
        **named(bootstrap_interval(difference, None, rounds=rounds, seed=seed), "difference"),
        "p_value": sign_flip_test(difference, prompts["prompt_group"].to_numpy(), seed=seed),
        **named(bootstrap_interval(win, None, rounds=rounds, seed=seed), "win_rate"),
        **counts,
        "n_prompts": len(prompts),
    }
