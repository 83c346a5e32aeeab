"""How likely the recorded label is turned round, without the truth, and what a second look at it is worth.

Voters who were turned round together agree as well as any, so votes cannot see it: the accusation comes from models
that did not train on the pair, the reward model and the held-out policies. What the votes say is how much there is to
turn: where they are split no label was ever sure. With v = P(label wrong) by the worker model and models taken as
independent (naive Bayes),

    odds(models) = product over models of (1 - P(label)) / P(label)
    against = v (1 - P(models)) + (1 - v) P(models)
    odds(turned) = odds(against) * odds(flip_share).

A split vote (v = 1/2) leaves the prior flip_share whatever the models say. Applying the prior before the votes ranked
worse: split votes then came first (docs/triage.md has the figures).

A second look is worth P(turned) times the pull of the label: the weight 1 - exp(-loss) of the pair's gradient in DPO
and Bradley-Terry (Rafailov et al. 2023, the gradient below eq. 7) under the held-out model, for every exact copy of it.
"""

import polars as pl

_LEAST = 1e-6  # no model is surer than that
UNKNOWN_PULL = 0.5  # the gradient weight where a model cannot tell the two responses apart, at a loss of ln 2
COIN = 0.5  # P(wrong) of a label that is not there


def suspected_flip(*, flip_share: float) -> pl.Expr:
    """P(label is turned) of rows with `label`, `label_source`, `worker_share`, `probability` and `flip_suspicion`.

    Where a gold label or scores decided, votes say nothing. Null without a preference or without any evidence.

    Raises
    ------
    ValueError
        `flip_share`, the expected share of turned labels, is outside (0, 1).
    """
    if not 0 < flip_share < 1:
        raise ValueError(f"flip_share={flip_share}: the expected share of turned labels must lie between 0 and 1")
    doubts = [1 - pl.col("probability"), pl.col("flip_suspicion")]
    models = _sigmoid(pl.sum_horizontal(_log_odds(doubt).fill_null(0.0) for doubt in doubts))
    by_votes = pl.col("label_source").is_in(["majority", "worker_model"])
    err: pl.Expr = pl.when(by_votes).then(1 - pl.col("worker_share"))
    known = pl.col("label").is_in(["a", "b"]) & pl.any_horizontal(x.is_not_null() for x in (err, *doubts))
    err = err.fill_null(0.0)
    against = err * (1 - models) + (1 - err) * models
    return pl.when(known).then(_sigmoid(_log_odds(against) + _log_odds(pl.lit(flip_share))))


def value_of_second_look() -> pl.Expr:
    """P(turned) times pull of rows with `suspected_flip`, `label`, `difficulty`, `probability` and `n_exact`.

    Where there is no label, P(wrong) is that of a coin; a tie is not trained on, so it pulls at nothing.
    """
    wrong = pl.when(pl.col("label").is_null()).then(COIN).otherwise(pl.col("suspected_flip").fill_null(0.0))
    pull = pl.coalesce(1 - (-pl.col("difficulty")).exp(), 1 - pl.col("probability"), UNKNOWN_PULL)
    return wrong * pull * pl.col("n_exact")


def _log_odds(p: pl.Expr) -> pl.Expr:
    p = p.clip(_LEAST, 1 - _LEAST)
    return p.log() - (1 - p).log()


def _sigmoid(log_odds: pl.Expr) -> pl.Expr:
    return 1 / (1 + (-log_odds).exp())
