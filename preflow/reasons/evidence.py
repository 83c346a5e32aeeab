"""All that is measured of a pair for the reasons of its divergence, in one table."""

import numpy as np
import polars as pl

from preflow.reasons.content import PROPERTIES, TOGETHER, content_evidence
from preflow.reasons.judgements import Carelessness, doubtful_votes, vote_evidence
from preflow.tokens import text_id

CONTENT = [*(f"gap_{name}" for name in PROPERTIES), *TOGETHER]
"""Columns that no vote enters."""
JUDGEMENTS = ["doubtful_share", "only_doubtful", *(f"split_{name}" for name in PROPERTIES)]
"""Columns that come from the votes; 0 says nothing."""
_ROWS = 50_000  # pairs measured at once: every word of their texts is held as a string of its own


def pair_evidence(
    comparisons: pl.LazyFrame, votes: pl.LazyFrame, quality: pl.LazyFrame, *, care: Carelessness, shrinkage: float
) -> pl.DataFrame:
    """pair_id, diverges (votes on both sides), CONTENT and JUDGEMENTS of each comparison, in order of pair_id.

    `quality` is `AnnotatorQuality`. For the arguments see `doubtful_votes` and `vote_evidence`.
    """
    table = comparisons.sort("pair_id").collect()
    parts = [content_evidence(part) for part in table.iter_slices(_ROWS)] or [content_evidence(table)]
    content, differences = (pl.concat(tables) for tables in zip(*parts, strict=True))
    judged = vote_evidence(doubtful_votes(votes, quality, care), differences, shrinkage=shrinkage)
    found = content.join(judged, on="pair_id", validate="1:1", maintain_order="left")
    return found.select("pair_id", pl.col("diverges") > 0, *CONTENT, *JUDGEMENTS)


def with_embeddings(evidence: pl.DataFrame, comparisons: pl.LazyFrame, embeddings: pl.DataFrame) -> pl.DataFrame:
    """The evidence and |e_a - e_b| of the responses' sentence embeddings as columns `distance_0`, `distance_1`, ...

    Raises
    ------
    ValueError
        A response has no row in `embeddings` (`ResponseEmbeddings`).
    """
    texts = evidence.select("pair_id").join(comparisons.collect(), on="pair_id", maintain_order="left")
    found = dict(embeddings.select("text_id", "embedding").iter_rows())
    ids = {side: [text_id(text) for text in texts[f"response_{side}"]] for side in "ab"}
    missing = sorted({name for names in ids.values() for name in names} - found.keys())
    if missing:
        raise ValueError(f"{len(missing)} responses have no embedding; embed them too. Text ids: {missing[:10]}")
    a, b = (np.array([found[name] for name in ids[side]], dtype=np.float64) for side in "ab")
    distance = np.abs(a - b)
    return evidence.hstack(pl.DataFrame(distance, schema=[f"distance_{i}" for i in range(distance.shape[1])]))
