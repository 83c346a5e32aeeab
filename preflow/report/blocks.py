"""What a section of the report is made of. A section holds plain values; the template alone knows HTML.

Every string is escaped by the template except the SVG of a `Figure`, which must come from `preflow.charts`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import polars as pl

from preflow.charts import Spec, to_svg

NOTHING = "\N{EN DASH}"
Cell = str | int | float | None


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    kind: ClassVar[str] = "text"
    text: str


@dataclass(frozen=True)
class Numbers:
    """Large figures in a row, each above its meaning: (figure, meaning)."""

    kind: ClassVar[str] = "numbers"
    items: Sequence[tuple[Cell, str]]


@dataclass(frozen=True)
class Table:
    """Rows under headings; numbers align right."""

    kind: ClassVar[str] = "table"
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""


@dataclass(frozen=True)
class Figure:
    """A chart and what to see in it."""

    kind: ClassVar[str] = "figure"
    spec: Spec
    caption: str

    @property
    def svg(self) -> str:
        """The drawn chart."""
        return to_svg(self.spec)


@dataclass(frozen=True)
class Passage:
    """A labelled text in full, byte for byte; `tone` is chosen, rejected or nothing."""

    label: str
    text: str
    tone: str = ""


@dataclass(frozen=True)
class Details:
    """A line that opens to full texts: passages over the whole width, then two side by side."""

    kind: ClassVar[str] = "details"
    summary: str
    facts: str
    passages: Sequence[Passage]


@dataclass(frozen=True)
class Links:
    """Names and relative paths of files that lie beside the page."""

    kind: ClassVar[str] = "links"
    paths: dict[str, str]


Block = Text | Numbers | Table | Figure | Details | Links


@dataclass(frozen=True)
class Section:
    """One part of the page. `lead` says in a sentence or two how to read it."""

    id: str
    title: str
    lead: str
    blocks: Sequence[Block] = field(default_factory=list)


def frame_table(frame: pl.DataFrame, columns: Sequence[str], caption: str = "") -> Table:
    """A polars frame as a table under the given headings."""
    return Table(columns, frame.rows(), caption)


def number(value: Cell, digits: int = 3) -> str:
    """A cell as text: thousands apart, fractions to `digits` places, a dash for nothing."""
    if value is None:
        return NOTHING
    if isinstance(value, float):
        return f"{value:,.{digits}f}"
    return f"{value:,}" if isinstance(value, int) else value


def percent(value: float | None) -> str:
    """A share as a percentage."""
    return NOTHING if value is None else f"{value:.1%}"


def interval(value: float | None, low: float | None, high: float | None) -> str:
    """A value with its interval."""
    return number(value) if low is None or high is None else f"{number(value)} [{number(low)}, {number(high)}]"


def p_value(p: float | None) -> str:
    """A p-value as journals print it."""
    if p is None:
        return NOTHING
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
