"""How diverse the responses are that a student is distilled on; the paper's remedy is more diversity.

Distinct-n (Li et al., NAACL 2016, arXiv 1510.03055): distinct n-grams over all n-grams. Self-BLEU (Zhu et al.,
SIGIR 2018, arXiv 1802.01886), here without brevity penalty and per prompt: how much of a response's n-grams the other
responses to its prompt already have; 0 where a prompt has one response.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from torch import Tensor

from preflow.distil.language import PAD

Tokens = tuple[int, ...]


def diversity(responses: Tensor, *, generations: int, orders: Sequence[int]) -> dict[str, float]:
    """Of responses [prompts * generations, T], those of a prompt beside each other.

    Returns
    -------
    `distinct_responses`, the share of responses that differ from all before;
    `distinct_n` and `overlap_n` for n of `orders`: distinct-n, and the mean of the self-BLEU precision of order n.

    Raises
    ------
    ValueError
        The responses do not divide into prompts, or there are none.
    """
    rows: list[Tokens] = [tuple(token for token in row if token != PAD) for row in responses.tolist()]
    if not rows or len(rows) % generations:
        raise ValueError(f"{len(rows)} responses are no multiple of {generations} generations; give all of each prompt")
    found = {"distinct_responses": len(set(rows)) / len(rows)}
    groups = [rows[start : start + generations] for start in range(0, len(rows), generations)]
    for order in orders:
        grams = [gram for row in rows for gram in ngrams(row, order)]
        found[f"distinct_{order}"] = len(set(grams)) / max(1, len(grams))
        found[f"overlap_{order}"] = float(np.mean([overlap(group, order) for group in groups]))
    return found


def ngrams(row: Tokens, order: int) -> list[Tokens]:
    """All `order` tokens that follow one another."""
    return [row[start : start + order] for start in range(len(row) - order + 1)]


def overlap(group: Sequence[Tokens], order: int) -> float:
    """Mean share of a response's n-grams, counted with multiplicity, that another response of the group has; else 0."""
    if len(group) == 1:
        return 0.0
    counts = [Counter(ngrams(row, order)) for row in group]
    shares = []
    for place, own in enumerate(counts):
        others = [count for at, count in enumerate(counts) if at != place]
        hits = sum(min(n, max(count[gram] for count in others)) for gram, n in own.items())
        shares.append(hits / max(1, own.total()))
    return float(np.mean(shares))
