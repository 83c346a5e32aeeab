"""Scores of pairs by name of their origin: the data, a reward by its name, or a policy's own implicit reward (IRA)."""

from collections.abc import Mapping

import polars as pl

from preflow.policies.measured import pair_logprobs
from preflow.policies.study import Study
from preflow.policies.training import train_on
from preflow.reward_models.scores import scored_pairs
from preflow.treatments.schemas import PairScores, training_rows
from preflow.treatments.scores import implicit_rewards, model_rewards, rescaled, source_scores


def scores_by_attribute(
    origins: Mapping[str, str],
    study: Study,
    rows: pl.DataFrame,
    rewards: pl.DataFrame,
    *,
    low: float,
    high: float,
    decimals: int,
    seed: int,
) -> pl.DataFrame:
    """`PairScores` of `rows` (`TreatedPairs`) for each attribute: its origin is source, implicit or a reward's name.

    Scores of models are mapped to a scale (see `rescaled`, which says what is raised); those of the source stay as
    they are. `rewards` are `RewardScores`. Implicit rewards are those of a policy trained on `rows`.

    Raises
    ------
    ValueError
        A named reward has not scored any of the rows.
    """
    parts: list[pl.DataFrame] = [PairScores.create_empty()]
    for attribute, origin in origins.items() if len(rows) else ():
        if origin == "source":
            parts.append(source_scores(rows, attribute=attribute))
            continue
        if origin == "implicit":
            found = own_scores(study, rows, attribute=attribute, seed=seed)
        else:
            found = model_rewards(_scored(rewards, rows, origin), attribute=attribute)
        parts.append(rescaled(found, low=low, high=high, decimals=decimals))
    return PairScores.cast(pl.concat(parts).sort("pair_id", "attribute"))


def own_scores(study: Study, rows: pl.DataFrame, *, attribute: str, seed: int) -> pl.DataFrame:
    """`PairScores` by a policy that is trained on these rows: see `implicit_rewards`."""
    trained = train_on(study, training_rows(rows), seed=seed)
    return implicit_rewards(pair_logprobs(trained.model, study, rows), beta=study.recipe.beta, attribute=attribute)


def _scored(rewards: pl.DataFrame, rows: pl.DataFrame, reward: str) -> pl.DataFrame:
    scored = scored_pairs(rewards.lazy(), rows.lazy(), reward=reward).collect()
    if scored.is_empty():
        raise ValueError(
            f"{reward!r} has scored none of {len(rows)} pairs: name it in reward_models.used, or another origin in "
            "augmentation.attributes"
        )
    return scored
