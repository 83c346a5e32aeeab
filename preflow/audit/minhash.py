"""MinHash signatures of texts, and the pairs of comparisons whose parts all collide in some band (LSH).

Broder, "On the resemblance and containment of documents" (1997); banding as in Leskovec, Rajaraman and Ullman,
"Mining of Massive Datasets", section 3.4. A comparison has three parts: prompt and two responses. A band here covers
all three, so that neither a long shared prompt nor one shared response makes two comparisons candidates.
"""

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rensa import RMinHash

Words = NDArray[np.uint64]
Signatures = NDArray[np.uint32]
Indices = NDArray[np.int64]

SHINGLE_WORDS = 3  # a change of one word touches three shingles
RECALL = 0.99  # share of comparisons exactly at the threshold that must meet in a band
CHUNK = 20_000  # texts (or edges) at a time: rensa hands out rows as Python lists
_MIX = np.uint64(0x9E3779B97F4A7C15)
_SPREAD = np.uint64(0xBF58476D1CE4E5B9)


def signatures(texts: pl.Series, *, num_perm: int, seed: int) -> Signatures:
    """MinHash signatures of the word shingles of normalised texts: one row of `num_perm` values a text."""
    rows = np.empty((len(texts), num_perm), dtype=np.uint32)
    for start in range(0, len(texts), CHUNK):
        hashes, offsets = _shingles(texts.slice(start, CHUNK))
        matrix = RMinHash.digest_matrix_from_flat_token_hashes(hashes, offsets, num_perm, seed)
        rows[start : start + CHUNK] = matrix.to_rows()
    return rows


def similarity(left: Signatures, right: Signatures) -> NDArray[np.float64]:
    """Estimated Jaccard similarity of the shingle sets behind each pair of rows."""
    return (left == right).mean(axis=1)


def rows_per_band(threshold: float, num_perm: int) -> int:
    """Most signature rows a band may have so that comparisons at the threshold in all three parts still meet.

    Raises ValueError if even bands of one row miss more than 1 % of them.
    """
    for rows in range(num_perm, 0, -1):
        if 1 - (1 - threshold ** (3 * rows)) ** (num_perm // rows) >= RECALL:
            return rows
    raise ValueError(
        f"num_perm={num_perm} is too small for threshold={threshold}: near duplicates would be missed; raise either"
    )


def candidate_edges(signature: Signatures, prompt: Indices, a: Indices, b: Indices, *, rows: int) -> NDArray[np.int64]:
    """Comparisons that meet in a band, each linked to the next one there: an array (edges, 2) without repeats.

    `prompt`, `a` and `b` say which signature belongs to which part of each comparison. The keys of the two responses
    are added, so their order plays no part.
    """
    edges = [np.empty((0, 2), dtype=np.int64)]
    for start in range(0, signature.shape[1] - rows + 1, rows):
        text_key = _mix(signature[:, start : start + rows])
        key = text_key[prompt] * _MIX + text_key[a] + text_key[b]
        order = np.argsort(key, kind="stable")
        meet = key[order][1:] == key[order][:-1]
        edges.append(np.stack([order[:-1][meet], order[1:][meet]], axis=1))
    return np.unique(np.concatenate(edges), axis=0)


def _shingles(texts: pl.Series) -> tuple[Words, NDArray[np.uint64]]:
    """Hashes of the word shingles of all texts in one buffer, and where each text starts in it.

    A text shorter than a shingle is one shingle. The hash is polars' own: fixed for a version of polars.
    """
    words = texts.str.split(" ")
    counts = words.list.len().to_numpy().astype(np.int64)
    hashes = words.explode(empty_as_null=False).hash().to_numpy()
    ends = np.cumsum(counts)
    end, position = np.repeat(ends, counts), np.arange(len(hashes))
    shingle = np.zeros(len(hashes), dtype=np.uint64)
    for step in range(SHINGLE_WORDS):
        inside = position + step < end
        following = hashes[np.minimum(position + step, len(hashes) - 1)]
        shingle = (shingle + np.where(inside, following, np.uint64(0))) * _MIX
    keep = (position + SHINGLE_WORDS <= end) | (position == np.repeat(ends - counts, counts))
    sizes = np.maximum(counts - SHINGLE_WORDS + 1, 1)
    return shingle[keep], np.concatenate([[0], np.cumsum(sizes)]).astype(np.uint64)


def _mix(columns: Signatures) -> NDArray[np.uint64]:
    """One well-spread 64-bit key a row, so that sums of keys collide only by chance."""
    key = np.zeros(len(columns), dtype=np.uint64)
    for column in columns.T:
        key = (key ^ column) * _MIX
        key = (key ^ (key >> np.uint64(29))) * _SPREAD
        key ^= key >> np.uint64(32)
    return key
