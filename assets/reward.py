"""The first model: a Bradley-Terry head on frozen embeddings, and what it says of the labels."""

from collections.abc import Iterator

import dagster as dg
import polars as pl
from dagster import MetadataValue as Meta
from pydantic import Field

from preflow.params import Params, ProjectPath
from preflow.reward.schemas import ResponseEmbeddings, RewardPredictions


class RewardParams(Params):
    """Section `reward`: encoder, fit and evaluation of the baseline reward model."""

    encoder: str
    """Sentence encoder: `package:all-MiniLM-L6-v2`, a folder, or `hub:OWNER/NAME@REVISION`."""
    max_tokens: int = Field(gt=2)
    """Where responses are cut, special tokens included; above 2 and within what the encoder takes."""
    batch_size: int = Field(gt=0)
    """Texts a forward pass; above 0."""
    threads: int = Field(gt=0)
    """CPU threads: a sum depends on them in its last bits, so they are a value like any other; above 0."""
    store: ProjectPath
    """Folder that keeps embeddings from one run to the next."""
    l2_grid: list[float] = Field(min_length=1)
    """Strengths of regularisation to try; the validation split chooses."""
    folds: int = Field(ge=2)
    """Folds by prompt group in which train pairs are scored by a model that has not seen them; at least 2."""
    bootstrap: int = Field(ge=2000)
    """Bootstrap rounds of every interval; at least 2000."""
    bins: int = Field(ge=2)
    """Bins of the reliability diagram; at least 2."""
    seed: int = Field(ge=0)
    """Seed of folds and bootstrap; at least 0."""


@dg.asset(
    io_manager_key="table", metadata={"schema": Meta.python_artifact(ResponseEmbeddings)}, kinds={"torch"}, pool="gpu"
)
def response_embeddings(comparisons: pl.LazyFrame, reward: dg.ResourceParam[RewardParams]) -> pl.LazyFrame:
    """One unit-length sentence embedding for each distinct response, tied ones included."""
    from pathlib import Path

    import torch

    from preflow.reward.encoder import embed_texts, load_encoder
    from preflow.store import ArrayStore

    torch.set_num_threads(reward.threads)
    sides = (comparisons.select(text=side) for side in ("response_a", "response_b"))
    texts = pl.concat(sides).unique().sort("text").collect()
    return embed_texts(
        texts["text"].to_list(),
        load_encoder(reward.encoder),
        batch_size=reward.batch_size,
        max_tokens=reward.max_tokens,
        store=ArrayStore(Path(reward.store)),
    ).lazy()


@dg.multi_asset(
    outs={
        "baseline_reward_model": dg.AssetOut(
            io_manager_key="model", description="The fitted head, in the save_pretrained form.", kinds={"torch"}
        ),
        "reward_predictions": dg.AssetOut(
            io_manager_key="table",
            metadata={"schema": Meta.python_artifact(RewardPredictions)},
            description="What the model thinks of every pair: held out, or out of fold on train.",
            kinds={"polars"},
        ),
        "reward_evaluation": dg.AssetOut(
            io_manager_key="metrics",
            description="Accuracy, log-loss and calibration against baselines, by split.",
        ),
        "reward_reliability": dg.AssetOut(
            io_manager_key="plot", description="Predicted probability against observed share of votes."
        ),
    },
)
def fit_baseline(
    preference_pairs: pl.LazyFrame, response_embeddings: pl.LazyFrame, reward: dg.ResourceParam[RewardParams]
) -> Iterator[dg.Output]:
    """A Bradley-Terry head fitted to the vote shares, evaluated where it has not been trained."""
    from preflow.charts import reliability_diagram
    from preflow.evaluation import evaluate, reliability
    from preflow.reward.baseline import fit_reward_model, predict
    from preflow.weights import model_folder, weights_sha256

    pairs, embeddings = preference_pairs.collect(), response_embeddings.collect()
    model = fit_reward_model(
        pairs,
        embeddings,
        l2_grid=reward.l2_grid,
        encoder=reward.encoder,
        encoder_sha256=weights_sha256(model_folder(reward.encoder)),
    )
    predictions = predict(model, pairs, embeddings, folds=reward.folds, seed=reward.seed)
    evaluation = evaluate(predictions, pairs, bootstrap=reward.bootstrap, bins=reward.bins, seed=reward.seed)
    yield dg.Output(model, "baseline_reward_model")
    yield dg.Output(predictions.lazy(), "reward_predictions")
    yield dg.Output(evaluation, "reward_evaluation")
    yield dg.Output(reliability_diagram(reliability(evaluation)), "reward_reliability")
