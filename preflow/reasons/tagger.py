"""A trained tagger of reasons: one calibrated logistic head a cause, and one for "no cause", over the evidence.

Each head is logistic regression on standardised evidence, balanced between the two classes; Platt's sigmoid (Platt,
1999) is fitted to its held-out scores (cross-validation that keeps prompt groups whole) and folded into its weights.
A pair that careless votes alone made diverge has no other cause, so all other heads are fitted on the rest of the pairs
and P(cause) = (1 - P(careless)) P(cause | not careless). Beyond that heads decide apart: a pair may have several causes
or none, and none is forced on it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl
from safetensors.numpy import load_file, save_file
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedGroupKFold

from preflow.reasons.rules import reason_tables
from preflow.reasons.schemas import CLASS_OF

UNEXPLAINED = "unexplained"
CARELESS = "careless_rating"
DOUBTS = ("doubtful_share", "only_doubtful")
"""All that the head of CARELESS sees: no text makes an annotator careless."""
CLIP = 4.0  # standard deviations: one odd text must not outweigh all other evidence
_NAMED = 3  # pieces of evidence named for a cause


@dataclass(frozen=True)
class ReasonTagger:
    """Heads over standardised evidence; saved as `model.safetensors` and `config.json`."""

    heads: tuple[str, ...]
    """Causes that the training data had enough of, then `unexplained`."""
    columns: tuple[str, ...]
    """Of the evidence, in the order of the weights."""
    mean: np.ndarray
    scale: np.ndarray
    weight: np.ndarray
    """[heads, columns], calibration included."""
    bias: np.ndarray
    """[heads]."""

    def probabilities(self, evidence: pl.DataFrame) -> np.ndarray:
        """Calibrated probability of each head, [n, heads]."""
        probability = expit(self._inputs(evidence) @ self.weight.T + self.bias)
        careless = [name == CARELESS for name in self.heads]
        others = ~np.array(careless)
        probability[:, others] *= 1 - probability[:, careless].sum(1, keepdims=True)
        return probability

    def tag(self, evidence: pl.DataFrame, *, min_probability: float) -> tuple[pl.DataFrame, pl.DataFrame]:
        """`DivergenceReasons` with at least `min_probability` and `ReasonRemainders` of the diverging pairs."""
        diverging = evidence.filter("diverges").sort("pair_id")
        inputs, probability = self._inputs(diverging), self.probabilities(diverging)
        ids = diverging["pair_id"]
        rows = [
            (ids[i], self.heads[h], probability[i, h], self._speaks_for(h, inputs[i], diverging.row(i, named=True)))
            for i, h in np.argwhere(probability[:, :-1] >= min_probability).tolist()
        ]
        schema = {"pair_id": pl.String, "label": pl.String, "probability": pl.Float64, "evidence": pl.String}
        found = pl.DataFrame(rows, schema=schema, orient="row")
        looked_at = pl.DataFrame({"pair_id": ids, UNEXPLAINED: probability[:, -1]})
        return reason_tables(found, looked_at, source="tagger")

    def save_pretrained(self, folder: Path) -> None:
        """Write the two files into `folder`, which is made where it is missing."""
        folder.mkdir(parents=True, exist_ok=True)
        state = {name: getattr(self, name) for name in ("mean", "scale", "weight", "bias")}
        save_file(state, folder / "model.safetensors")
        config = {"model_type": "preflow_reason_tagger", "heads": list(self.heads), "columns": list(self.columns)}
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")

    @classmethod
    def from_pretrained(cls, folder: Path) -> Self:
        """Read what `save_pretrained` wrote.

        Raises
        ------
        ValueError
            A head is no cause that this version knows.
        """
        config = json.loads((folder / "config.json").read_text())
        unknown = set(config["heads"]) - CLASS_OF.keys() - {UNEXPLAINED}
        if unknown:
            raise ValueError(f"{folder} tags {sorted(unknown)}, which are no causes here; fit the tagger again")
        return cls(tuple(config["heads"]), tuple(config["columns"]), **load_file(folder / "model.safetensors"))

    def _inputs(self, evidence: pl.DataFrame) -> np.ndarray:
        missing = [name for name in self.columns if name not in evidence.columns]
        if missing:
            raise ValueError(f"the evidence has no {missing[:5]}: measure it as for the pairs the tagger was fitted on")
        values = evidence.select(self.columns).cast(pl.Float64).to_numpy()
        return np.clip((values - self.mean) / self.scale, -CLIP, CLIP)

    def _speaks_for(self, head: int, inputs: np.ndarray, evidence: Mapping[str, Any]) -> str:
        """The strongest evidence for a head: its value, and what it adds to the log-odds of an average pair."""
        adds = self.weight[head] * inputs
        strongest = [i for i in np.argsort(-adds, kind="stable")[:_NAMED].tolist() if adds[i] > 0]
        stated = [f"{self.columns[i]} {evidence[self.columns[i]]:.2f} ({adds[i]:+.1f})" for i in strongest]
        return ", ".join(stated) or "nothing beyond how common the cause is in the training pairs"


def fit_tagger(
    evidence: pl.DataFrame,
    causes: Mapping[str, Sequence[str]],
    groups: Mapping[str, str],
    *,
    columns: Sequence[str],
    inverse_l2: float,
    folds: int,
) -> ReasonTagger:
    """Fit a head for every cause that at least 2 `folds` of the labelled pairs have, and one for no cause at all.

    Parameters
    ----------
    evidence
        What `pair_evidence` gives. Only diverging pairs that have an entry in `causes` are used.
    causes, groups
        By pair_id: the causes of a labelled pair (keys of CLASS_OF; empty where none applies), and its prompt group.
    columns
        What the heads see.
    inverse_l2
        scikit-learn's C: the smaller, the nearer to zero are the weights.
    folds
        Of the cross-validation behind the calibration.

    Raises
    ------
    ValueError
        A cause is unknown, or there are not at least 2 `folds` labelled pairs with a cause and as many without one: a
        remainder that was never seen cannot be learned.
    """
    rows = evidence.filter(pl.col("diverges") & pl.col("pair_id").is_in(list(causes))).sort("pair_id")
    targets = _targets([set(causes[name]) for name in rows["pair_id"]])
    _check_counts(targets, folds)
    values = rows.select(columns).cast(pl.Float64).to_numpy()
    mean, scale = values.mean(0), values.std(0)
    scale = np.where(scale > 0, scale, 1.0)
    inputs = np.clip((values - mean) / scale, -CLIP, CLIP)
    group = np.array([groups[name] for name in rows["pair_id"]])
    heads = {}
    for name, target in targets.items():
        asked = np.ones_like(target) if name == CARELESS else ~targets[CARELESS]
        seen = [column in DOUBTS or name != CARELESS for column in columns]
        if any(seen) and 2 * folds <= target.sum() <= asked.sum() - 2 * folds:
            parts = list(StratifiedGroupKFold(folds).split(inputs[asked], target[asked], group[asked]))
            heads[name] = _fit_head((inputs * seen)[asked], target[asked], parts, inverse_l2=inverse_l2)
    weight, bias = np.stack([w for w, _ in heads.values()]), np.array([b for _, b in heads.values()])
    return ReasonTagger(tuple(heads), tuple(columns), mean, scale, weight, bias)


def _targets(truth: Sequence[set[str]]) -> dict[str, np.ndarray]:
    """Whether each pair has a cause, [n] by cause; and by UNEXPLAINED, last, whether it has none."""
    if unknown := set().union(*truth) - CLASS_OF.keys():
        raise ValueError(f"unknown causes {sorted(unknown)}: known are {', '.join(CLASS_OF)}")
    targets = {label: np.array([label in found for found in truth], dtype=bool) for label in CLASS_OF}
    return targets | {UNEXPLAINED: np.array([not found for found in truth], dtype=bool)}


def _check_counts(targets: Mapping[str, np.ndarray], folds: int) -> None:
    none, careless = targets[UNEXPLAINED], targets[CARELESS]
    n_with, n_without = int((~none & ~careless).sum()), int(none.sum())
    if min(n_with, n_without) < 2 * folds:
        raise ValueError(
            f"{n_with} labelled diverging pairs have a cause beside carelessness and {n_without} have none: "
            f"{2 * folds} of each are needed, or nothing can be told apart; label more pairs, or lower folds"
        )


def _fit_head(
    inputs: np.ndarray, target: np.ndarray, parts: list[tuple[np.ndarray, np.ndarray]], *, inverse_l2: float
) -> tuple[np.ndarray, float]:
    """Weights, [d], and bias of a head: sigmoid(-(A (w . x + c) + B)) with Platt's A and B, in one linear form."""
    head = LogisticRegression(C=inverse_l2, class_weight="balanced", max_iter=1000)
    model = CalibratedClassifierCV(head, method="sigmoid", cv=parts, ensemble=False).fit(inputs, target)
    found = model.calibrated_classifiers_[0]
    platt, linear = found.calibrators[0], found.estimator
    return -platt.a_ * linear.coef_[0], float(-platt.a_ * linear.intercept_[0] - platt.b_)
