"""Scores of the pairs by name of their origin: the data, the reward model, or a policy's own implicit reward (IRA)."""

from collections.abc import Mapping

import polars as pl

from preflow.policies.measured import pair_logprobs
from preflow.policies.study import Study
from preflow.policies.training import train_on
from preflow.treatments.schemas import PairScores, training_rows
from preflow.treatments.scores import implicit_rewards, model_rewards, rescaled, source_scores


def scores_by_attribute(
    origins: Mapping[str, str],
    study: Study,
    rows: pl.DataFrame,
    predictions: pl.DataFrame,
    *,
    low: float,
    high: float,
    decimals: int,
    seed: int,
) -> pl.DataFrame:
    """`PairScores` of `rows` (`TreatedPairs`) for each attribute: its origin is source, reward_model or implicit.

    Scores of models are mapped to a scale (see `rescaled`, which says what is raised); those of the source stay as
    they are. `predictions` are `RewardPredictions`. Implicit rewards are those of a policy trained on `rows`.
    """
    parts: list[pl.DataFrame] = [PairScores.create_empty()]
    for attribute, origin in origins.items() if len(rows) else ():
        if origin == "source":
            parts.append(source_scores(rows, attribute=attribute))
            continue
        if origin == "implicit":
            found = own_scores(study, rows, attribute=attribute, seed=seed)
        else:
            found = model_rewards(predictions.join(rows, on="pair_id", how="semi"), attribute=attribute)
        parts.append(rescaled(found, low=low, high=high, decimals=decimals))
    return PairScores.cast(pl.concat(parts).sort("pair_id", "attribute"))


def own_scores(study: Study, rows: pl.DataFrame, *, attribute: str, seed: int) -> pl.DataFrame:
    """`PairScores` by a policy that is trained on these rows: see `implicit_rewards`."""
    trained = train_on(study, training_rows(rows), seed=seed)
    return implicit_rewards(pair_logprobs(trained.model, study, rows), beta=study.recipe.beta, attribute=attribute)
