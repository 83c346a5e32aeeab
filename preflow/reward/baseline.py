"""The baseline reward model: a linear Bradley-Terry head on sentence embeddings and simple features.

Reward r(y) = w . clip((x(y) - mean) / scale) with x = [embedding, features] of the response; the prompt is not read.
Vote shares are soft labels, so a 3 to 2 pair pulls less than a 5 to 0 pair.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
import polars as pl
import torch
from safetensors.torch import load_file, save_file
from scipy.special import expit

from preflow.reward.bradley_terry import cross_entropy, fit_bradley_terry
from preflow.reward.features import FEATURES, response_features
from preflow.tokens import text_id

CLIP = 3.0  # standard deviations; a lone odd value (one all-capitals response) must not outweigh everything else


class BradleyTerryReward(torch.nn.Module):
    """A linear reward on the inputs that `reward_inputs` makes; saved as `model.safetensors` and `config.json`."""

    weight: torch.Tensor
    mean: torch.Tensor
    scale: torch.Tensor

    def __init__(
        self, weight: np.ndarray, mean: np.ndarray, scale: np.ndarray, *, l2: float, encoder: str, encoder_sha256: str
    ) -> None:
        super().__init__()
        for name, value in {"weight": weight, "mean": mean, "scale": scale}.items():
            self.register_buffer(name, torch.tensor(value, dtype=torch.float64))
        self.l2, self.encoder, self.encoder_sha256 = l2, encoder, encoder_sha256

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Rewards, [..., d] -> [...]; only differences between responses to one prompt mean anything."""
        return ((inputs.double() - self.mean) / self.scale).clamp(-CLIP, CLIP) @ self.weight

    def save_pretrained(self, folder: Path) -> None:
        """Write the two files into `folder`, which is made where it is missing."""
        folder.mkdir(parents=True, exist_ok=True)
        save_file(self.state_dict(), folder / "model.safetensors")
        config = {
            "model_type": "preflow_bradley_terry",
            "encoder": self.encoder,
            "encoder_sha256": self.encoder_sha256,
            "features": list(FEATURES),
            "l2": self.l2,
        }
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")

    @classmethod
    def from_pretrained(cls, folder: Path) -> Self:
        """Read what `save_pretrained` wrote.

        Raises
        ------
        ValueError
            The model was fitted on other features than this version computes.
        """
        config = json.loads((folder / "config.json").read_text())
        if config["features"] != list(FEATURES):
            raise ValueError(
                f"{folder} was fitted on features {config['features']}, not {list(FEATURES)}; fit it again"
            )
        state = {name: value.numpy() for name, value in load_file(folder / "model.safetensors").items()}
        source = {"encoder": config["encoder"], "encoder_sha256": config["encoder_sha256"]}
        return cls(state["weight"], state["mean"], state["scale"], l2=config["l2"], **source)


def reward_inputs(texts: Sequence[str], embeddings: pl.DataFrame) -> np.ndarray:
    """[embedding, features] of each text, [n, d] float64, from a `ResponseEmbeddings` table.

    Raises
    ------
    ValueError
        A text has no embedding or one that is not finite; up to ten text ids are named.
    """
    matrix = np.asarray(embeddings["embedding"].to_list(), dtype=np.float64)
    ids = [text_id(text) for text in texts]
    row = {name: index for index, name in enumerate(embeddings["text_id"])}
    missing = sorted({name for name in ids if name not in row})
    if missing:
        raise ValueError(f"{len(missing)} texts have no embedding; rerun response_embeddings. Text ids: {missing[:10]}")
    vectors = matrix[[row[name] for name in ids]]
    broken = sorted({name for name, vector in zip(ids, vectors, strict=True) if not np.isfinite(vector).all()})
    if broken:
        raise ValueError(f"{len(broken)} embeddings hold NaN or infinity; embed again. Text ids: {broken[:10]}")
    return np.hstack([vectors, response_features(texts).to_numpy()])


def fit_reward_model(
    pairs: pl.DataFrame, embeddings: pl.DataFrame, *, l2_grid: Sequence[float], encoder: str, encoder_sha256: str
) -> BradleyTerryReward:
    """Fit on the train pairs; of `l2_grid` the value with the least validation cross-entropy is kept.

    Raises
    ------
    ValueError
        A split that is needed has no pairs, or an embedding is missing (see `reward_inputs`).
    """
    for split in ["train", "validation"][: min(len(l2_grid), 2)]:
        if not (pairs["split"] == split).any():
            raise ValueError(f"no pair in split {split!r}: raise its share, or name one single value in l2_grid")
    train, validation = (pairs.filter(pl.col("split") == name).sort("pair_id") for name in ("train", "validation"))
    chosen, rejected = _pair_inputs(train, embeddings)
    fits = [_fit(chosen, rejected, train["vote_share"].to_numpy(), l2) for l2 in l2_grid]
    best = 0
    if len(fits) > 1:
        sides, share = _pair_inputs(validation, embeddings), validation["vote_share"].to_numpy()
        margins = [np.subtract(*(_rewards(side, *fit) for side in sides)) for fit in fits]
        best = int(np.argmin([cross_entropy(margin, share).mean() for margin in margins]))
    return BradleyTerryReward(*fits[best], l2=l2_grid[best], encoder=encoder, encoder_sha256=encoder_sha256)


def predict(
    model: BradleyTerryReward, pairs: pl.DataFrame, embeddings: pl.DataFrame, *, folds: int, seed: int
) -> pl.DataFrame:
    """`RewardPredictions`, sorted by pair id.

    Train pairs are predicted by models that saw none of their fold (the same l2, folds of whole prompt groups), so that
    a wrong label cannot vouch for itself; validation and test pairs by `model`.

    Raises
    ------
    ValueError
        `folds` is below 2, or train holds fewer than 2 pairs.
    """
    pairs = pairs.sort("pair_id")
    chosen, rejected = _pair_inputs(pairs, embeddings)
    rewards = model(torch.from_numpy(np.stack([chosen, rejected]))).numpy()
    train = np.flatnonzero((pairs["split"] == "train").to_numpy())
    share = pairs["vote_share"].to_numpy()
    for held_out in group_folds(pairs[train], folds, seed):
        test, rest = train[held_out], train[~held_out]
        fit = _fit(chosen[rest], rejected[rest], share[rest], model.l2)
        rewards[0, test], rewards[1, test] = _rewards(chosen[test], *fit), _rewards(rejected[test], *fit)
    margin = rewards[0] - rewards[1]
    return pairs.select("pair_id", "split").with_columns(
        reward_chosen=rewards[0],
        reward_rejected=rewards[1],
        probability=expit(margin),
        suspicion=np.logaddexp(0, -margin),
    )


def _pair_inputs(pairs: pl.DataFrame, embeddings: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Inputs of chosen and of rejected, [n, d] each; every distinct text is looked at once."""
    texts = pl.concat([pairs["chosen"], pairs["rejected"]]).unique().sort()
    inputs = reward_inputs(texts.to_list(), embeddings)
    row = {text: index for index, text in enumerate(texts)}
    return inputs[[row[text] for text in pairs["chosen"]]], inputs[[row[text] for text in pairs["rejected"]]]


def _fit(
    chosen: np.ndarray, rejected: np.ndarray, share: np.ndarray, l2: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weight, mean and scale, [d] each; mean and standard deviation are those of the responses of these pairs.

    In the fit, the embedding as a block has the variance of the features as a block, so that the one penalty treats the
    two alike although one has hundreds of dimensions and the other a dozen.
    """
    responses = np.vstack([chosen, rejected])
    mean, scale = responses.mean(0), responses.std(0)
    scale[scale == 0] = 1.0  # an input that never differs has no influence
    block = np.ones(len(mean))
    block[: -len(FEATURES)] = np.sqrt(len(FEATURES) / max(len(mean) - len(FEATURES), 1))
    differences = _standardise(chosen, mean, scale) - _standardise(rejected, mean, scale)
    return fit_bradley_terry(differences * block, share, l2=l2) * block, mean, scale


def _standardise(inputs: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return ((inputs - mean) / scale).clip(-CLIP, CLIP)


def _rewards(inputs: np.ndarray, weight: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return _standardise(inputs, mean, scale) @ weight


def group_folds(pairs: pl.DataFrame, folds: int, seed: int) -> list[np.ndarray]:
    """Masks of the folds, [n] each: whole prompt groups, or single pairs where there are fewer groups than folds."""
    if folds < 2 or 0 < len(pairs) < 2:
        raise ValueError(f"out-of-fold prediction needs 2 folds and 2 train pairs; it got {folds} and {len(pairs)}")
    groups = pairs["prompt_group"] if pairs["prompt_group"].n_unique() >= folds else pairs["pair_id"]
    names = groups.unique().sort().to_numpy()
    np.random.default_rng(seed).shuffle(names)
    return [groups.is_in(part.tolist()).to_numpy() for part in np.array_split(names, folds) if len(part)]
