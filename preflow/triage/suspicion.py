"""How likely the recorded label is wrong, without the truth, and what a second look at it is worth.

A label is wrong where the voters err or where the whole pair was turned round, but not both. That the voters err is for
the worker model to say. Voters turned round together agree as well as any, so votes say nothing of the second: that is
for models that did not train on the pair, the reward model and the held-out policies. With a share `flip_share` of
turned pairs and models taken as independent (naive Bayes),

    log odds(turned) = log odds(flip_share) + sum over models of log odds(1 - P(label))
    P(wrong) = P(err) (1 - P(turned)) + (1 - P(err)) P(turned).

A second look is worth P(wrong) times the pull of the label: the weight 1 - exp(-loss) of the pair's gradient in DPO and
Bradley-Terry (Rafailov et al. 2023, the gradient below eq. 7) under the held-out model, for every exact copy of it.
"""

import math

import polars as pl

_LEAST = 1e-6  # no model is surer than that
UNKNOWN_PULL = 0.5  # the gradient weight where a model cannot tell the two responses apart, at a loss of ln 2
COIN = 0.5  # P(wrong) of a label that is not there


def suspected_flip(*, flip_share: float) -> pl.Expr:
    """P(label is wrong) of rows with `label`, `label_source`, `worker_share`, `probability` and `flip_suspicion`.

    Where a gold label or scores decided, votes say nothing. Null without a preference or without any evidence.

    Raises
    ------
    ValueError
        `flip_share` is outside (0, 1).
    """
    if not 0 < flip_share < 1:
        raise ValueError(f"flip_share={flip_share}: the expected share of turned labels must lie between 0 and 1")
    models = [1 - pl.col("probability"), pl.col("flip_suspicion")]
    prior = math.log(flip_share / (1 - flip_share))
    log_odds = prior + pl.sum_horizontal(_log_odds(doubt).fill_null(0.0) for doubt in models)
    turned = 1 / (1 + (-log_odds).exp())
    by_votes = pl.col("label_source").is_in(["majority", "worker_model"])
    err = pl.when(by_votes).then(1 - pl.col("worker_share"))
    known = pl.col("label").is_in(["a", "b"]) & pl.any_horizontal(x.is_not_null() for x in (err, *models))
    err = err.fill_null(0.0)
    return pl.when(known).then((err * (1 - turned) + (1 - err) * turned).clip(0, 1))


def value_of_second_look() -> pl.Expr:
    """P(wrong) times pull of rows with `suspected_flip`, `label`, `difficulty`, `probability` and `n_exact`.

    Where there is no label, P(wrong) is that of a coin; a tie is not trained on, so it pulls at nothing.
    """
    wrong = pl.when(pl.col("label").is_null()).then(COIN).otherwise(pl.col("suspected_flip").fill_null(0.0))
    pull = pl.coalesce(1 - (-pl.col("difficulty")).exp(), 1 - pl.col("probability"), UNKNOWN_PULL)
    return wrong * pull * pl.col("n_exact")


def _log_odds(p: pl.Expr) -> pl.Expr:
    p = p.clip(_LEAST, 1 - _LEAST)
    return p.log() - (1 - p).log()
