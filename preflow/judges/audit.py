"""A judge's verdicts against the agreement classes of people, with its biases for position and for length.

Zhang et al. (ICML 2025) find that language models as judges name a winner on pairs on which people differ as often as
on those on which they agree. Intervals and tests count prompt groups, not rows: standard errors are clustered by prompt
(Liang and Zeger, 1986, as statsmodels has them).
"""

import warnings
from dataclasses import asdict
from typing import Any

import numpy as np
import polars as pl
import statsmodels.api as sm
from scipy.stats import norm
from statsmodels.tools.sm_exceptions import PerfectSeparationWarning

from preflow.evaluation import bootstrap_interval
from preflow.judges.schemas import JudgeVerdicts

GROUPS = ("preference", "tie", "diverging", "substantial")
_NO_ERROR = 1e-12
Record = dict[str, Any]


def verdicts_of(votes: pl.LazyFrame, judge: str) -> pl.DataFrame:
    """`JudgeVerdicts` of the annotator `judge` of `Votes`, sorted by pair id.

    A vote that does not say what was shown first counts as given with response_a first. Of several votes in one order
    the leading choice counts, a tie where nothing leads.

    Raises
    ------
    ValueError
        The judge gave no vote.
    """
    of_judge = votes.filter(pl.col("annotator") == judge)
    swapped = pl.col("shown_first").cast(pl.String).fill_null("a") == "b"
    rows = of_judge.group_by("pair_id").agg(verdict=_leading(~swapped), swapped_verdict=_leading(swapped))
    table = rows.sort("pair_id").collect()
    if table.is_empty():
        raise ValueError(f"there is no vote of a judge {judge!r}; see the column annotator of votes")
    return JudgeVerdicts.cast(table)


def with_decisions(verdicts: pl.DataFrame) -> pl.DataFrame:
    """`JudgeVerdicts` with `decision`: the verdict of both orders, a tie where they differ, null where one is null.

    A judge who saw each pair in one order alone, whichever it was, decides by that.
    """
    one, other = (pl.col(name).cast(pl.String) for name in ("verdict", "swapped_verdict"))
    if not verdicts.select((one.is_not_null() & other.is_not_null()).any()).item():
        return verdicts.with_columns(decision=pl.coalesce(one, other))
    agreed = pl.when(one == other).then(one).when(one.is_not_null() & other.is_not_null()).then(pl.lit("tie"))
    return verdicts.with_columns(decision=agreed)


def judge_audit(
    comparisons: pl.LazyFrame, classes: pl.LazyFrame, verdicts: pl.DataFrame, *, bootstrap: int, seed: int
) -> Record:
    """How a judge decides where people agree and where they do not, as JSON-ready numbers.

    Parameters
    ----------
    classes
        `AgreementClasses` by people: the judge's own votes must not be among theirs.
    verdicts
        `JudgeVerdicts` of one judge.

    Returns
    -------
    `n_pairs` and `n_unreadable`; `winner_rate`: for each of GROUPS the share of its pairs on which the judge names a
    winner, with interval; `diverging_minus_preference`: the difference of two of them, with a test; `agreed_winner`:
    how often the winner is the response that people agree on; `gold`: how often it is the gold one, a tie half;
    `position` and `length`: see there. None where there is nothing to measure on.

    Raises
    ------
    ValueError
        No verdict is on a pair of `comparisons`.
    """
    rows = _rows(comparisons, classes, verdicts)
    if rows.is_empty():
        raise ValueError("no verdict is on a pair of these comparisons: check that pair_id is that of the same texts")
    read = rows.drop_nulls("decision").with_columns(winner=(pl.col("decision") != "tie").cast(pl.Float64))
    chosen = {"preference": "preferred", "gold": "gold"}
    resampling = {"rounds": bootstrap, "seed": seed}
    right = {name: _credited(read, column) for name, column in chosen.items()}
    return {
        "n_pairs": len(rows),
        "n_unreadable": len(rows) - len(read),
        "winner_rate": {name: _mean(_group(read, name), "winner", **resampling) for name in GROUPS},
        "diverging_minus_preference": _difference(read),
        "agreed_winner": _mean(right["preference"], "credit", **resampling),
        "gold": _mean(right["gold"], "credit", **resampling),
        "position": _position(rows, **resampling),
        "length": _length(read, **resampling),
    }


def _rows(comparisons: pl.LazyFrame, classes: pl.LazyFrame, verdicts: pl.DataFrame) -> pl.DataFrame:
    texts = [pl.col(f"response_{side}").str.len_chars().alias(f"length_{side}") for side in "ab"]
    known = comparisons.select("pair_id", "prompt_group", pl.col("gold").cast(pl.String), *texts)
    agreed = classes.select("pair_id", pl.col("agreement_class", "preferred").cast(pl.String), "substantial")
    judged = with_decisions(verdicts).lazy()
    rows = judged.join(known, on="pair_id").join(agreed, on="pair_id", how="left")
    return rows.sort("pair_id").collect()


def _leading(asked: pl.Expr) -> pl.Expr:
    """The choice with most votes among those for which `asked` holds; null where there is none."""
    count = {side: (asked & (pl.col("choice") == side)).sum() for side in ("a", "b", "tie")}
    leads = {side: count[side] > pl.max_horizontal(*(n for name, n in count.items() if name != side)) for side in "ab"}
    any_side = pl.when(leads["a"]).then(pl.lit("a")).when(leads["b"]).then(pl.lit("b")).otherwise(pl.lit("tie"))
    return pl.when(asked.any()).then(any_side)


def _group(read: pl.DataFrame, name: str) -> pl.DataFrame:
    return read.filter("substantial" if name == "substantial" else pl.col("agreement_class") == name)


def _credited(read: pl.DataFrame, column: str) -> pl.DataFrame:
    """Rows where `column` names a side, with `credit`: 1 where the judge says the same, 1/2 for its tie, else 0."""
    credit = pl.when(pl.col("decision") == "tie").then(0.5).otherwise((pl.col("decision") == pl.col(column)) * 1.0)
    return read.filter(pl.col(column).is_in(["a", "b"])).with_columns(credit=credit)


def _mean(rows: pl.DataFrame, column: str, *, rounds: int, seed: int) -> Record | None:
    if rows.is_empty():
        return None
    found = bootstrap_interval(rows[column].to_numpy(), rows["prompt_group"].to_numpy(), rounds=rounds, seed=seed)
    return {"n": len(rows)} | asdict(found)


def _difference(read: pl.DataFrame) -> Record | None:
    """Winner rate on diverging minus that on agreed pairs, with its interval and the p-value of no difference."""
    rows = read.filter(pl.col("agreement_class").is_in(["preference", "diverging"]))
    diverging = (rows["agreement_class"] == "diverging").to_numpy().astype(float)
    if diverging.sum() in (0, len(rows)):
        return None
    return _coefficient(
        sm.OLS(rows["winner"].to_numpy(), sm.add_constant(diverging, has_constant="add")), rows["prompt_group"]
    )


def _position(rows: pl.DataFrame, *, rounds: int, seed: int) -> Record | None:
    """Of pairs judged in both orders: the share with the same verdict, and of decided verdicts that for the first.

    None where the judge was asked in one order: what it prefers there may be the better response.
    """
    both = rows.drop_nulls(["verdict", "swapped_verdict"])
    if both.is_empty():
        return None
    one, other = (pl.col(name).cast(pl.String) for name in ("verdict", "swapped_verdict"))
    both = both.with_columns(same=(one == other).cast(pl.Float64))
    first = pl.concat(
        [both.select("prompt_group", said=said, first=pl.lit(side)) for said, side in ((one, "a"), (other, "b"))]
    )
    decided = first.filter(pl.col("said") != "tie").with_columns(for_first=(pl.col("said") == pl.col("first")) * 1.0)
    how = {"rounds": rounds, "seed": seed}
    return {"same_verdict": _mean(both, "same", **how), "for_first": _mean(decided, "for_first", **how)}


def _length(read: pl.DataFrame, *, rounds: int, seed: int) -> Record | None:
    """How often the winner is the longer response, and the slope of log odds(a wins) in log(length a / length b).

    With an intercept. A slope of 1: twice the length doubles the odds. None where nothing is decided.
    """
    ratio = (pl.col("length_a") / pl.col("length_b")).log()
    decided = read.filter(pl.col("winner") == 1).with_columns(ratio=ratio, a_wins=(pl.col("decision") == "a") * 1.0)
    unequal = decided.filter(pl.col("ratio") != 0).with_columns(
        longer=((pl.col("ratio") > 0) == (pl.col("a_wins") == 1)).cast(pl.Float64)
    )
    if unequal.is_empty():
        return None
    inputs = sm.add_constant(decided["ratio"].to_numpy(), has_constant="add")
    model = sm.GLM(decided["a_wins"].to_numpy(), inputs, family=sm.families.Binomial())
    varies = decided["a_wins"].n_unique() == 2 and decided["ratio"].n_unique() > 1
    slope = _coefficient(model, decided["prompt_group"]) if varies else None
    return {"longer_wins": _mean(unequal, "longer", rounds=rounds, seed=seed), "slope": slope}


def _coefficient(model: Any, groups: pl.Series) -> Record | None:
    """The second coefficient with its 95 % interval and p-value; None where length separates the two outcomes."""
    clusters = np.unique(groups.to_numpy(), return_inverse=True)[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error", PerfectSeparationWarning)
        try:
            fitted = model.fit(cov_type="cluster", cov_kwds={"groups": clusters})
        except PerfectSeparationWarning:
            return None
    estimate, error = float(fitted.params[1]), float(fitted.bse[1])
    estimate = 0.0 if abs(estimate) < _NO_ERROR else estimate
    if error < _NO_ERROR:  # every row has the same outcome
        return {"estimate": estimate, "low": estimate, "high": estimate, "p_value": 1.0}
    half = float(norm.ppf(0.975)) * error
    p_value = float(2 * norm.sf(abs(estimate) / error))
    return {"estimate": estimate, "low": estimate - half, "high": estimate + half, "p_value": p_value}
