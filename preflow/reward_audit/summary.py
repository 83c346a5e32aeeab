"""What an audit found in words and numbers, as JSON-ready records."""

from typing import Any

import polars as pl


def audit_summary(found: pl.DataFrame) -> dict[str, Any]:
    """Of each reward what it pays for, and what cannot be known; `found` is `RewardedAttributes`."""
    rows = found.to_dicts()
    return {
        "attributes": [row for row in rows if row["identified"]],
        "not_identified": [
            {name: row[name] for name in ("reward", "attribute", "reason")} for row in rows if not row["identified"]
        ],
        "length": {row["reward"]: paid_per_doubling(row) for row in rows if row["per_doubling"] is not None},
    }


def paid_per_doubling(row: dict[str, Any]) -> str:
    """As in "pays +0.31 [+0.22, +0.40] per doubling of length"."""
    value, low, high = (round(row[f"per_doubling{end}"], 2) + 0.0 for end in ("", "_low", "_high"))  # + 0.0: no -0.00
    return f"pays {value:+.2f} [{low:+.2f}, {high:+.2f}] per doubling of length"
