"""The table of a judge's verdicts; apart from the code, so that knowing it needs no statistics package."""

import dataframely as dy

from preflow.schemas import CHOICES, pair_id_column


def _verdict(shown_first: str) -> dy.Enum:
    return dy.Enum(
        CHOICES, nullable=True, description=f"The verdict with {shown_first} shown first; null where it is unreadable."
    )


class JudgeVerdicts(dy.Schema):
    """One row per pair: what one judge says of it. Verdicts name the data's sides, whatever was shown first."""

    pair_id = pair_id_column()
    verdict = _verdict("response_a")
    swapped_verdict = _verdict("response_b")
