"""What a section of the report is made of. A section holds plain values; the template alone knows HTML.

Every string is escaped by the template except the SVG of a `Figure`, which must come from `preflow.charts`.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import polars as pl

from preflow.charts import Spec, to_svg

NOTHING = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
WRAPPED = 40  # characters of a cell that stay on one line
EXCERPT = 120  # characters of a text on one line
FIGURE = re.compile(rf"[\d.,%{MINUS}{NOTHING}]+")
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
    """Rows under headings; columns of figures align right."""

    kind: ClassVar[str] = "table"
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""

    @property
    def figures(self) -> list[bool]:
        """Of each column, whether it holds figures alone."""
        columns = zip(*self.rows, strict=True) if self.rows else [[] for _ in self.columns]
        return [all(FIGURE.fullmatch(number(cell)) for cell in column) for column in columns]

    @property
    def size(self) -> str:
        """How much of the page's width the text needs: small (a third), medium (two thirds) or large."""
        lines = [self.columns, *([number(cell) for cell in row] for row in self.rows)]
        columns = (max(len(cell) for cell in column) for column in zip(*lines, strict=True))
        characters = sum(min(longest, WRAPPED) + 3 for longest in columns)
        return "small" if characters <= 53 else "medium" if characters <= 110 else "large"


@dataclass(frozen=True)
class FilterTable:
    """Rows that the reader narrows down by what they are: a choice a facet, made in CSS alone.

    `facets` names columns; their values are offered as choices, in the order in which they first appear.
    """

    kind: ClassVar[str] = "filter"
    id: str
    table: Table
    facets: Sequence[str]

    def __post_init__(self) -> None:
        if unknown := [name for name in self.facets if name not in self.table.columns]:
            raise ValueError(
                f"facets {unknown} are no columns of the table; its columns are {list(self.table.columns)}"
            )

    @property
    def choices(self) -> list[tuple[str, list[tuple[str, int]]]]:
        """Of each facet its name and its values, each with the number of rows that have it."""
        return [(name, list(Counter(self._values(name)).items())) for name in self.facets]

    @property
    def places(self) -> list[list[int]]:
        """Of each row, the place of its value among the choices of each facet."""
        columns = []
        for name, choices in self.choices:
            place = {value: index for index, (value, _) in enumerate(choices)}
            columns.append([place[value] for value in self._values(name)])
        return [list(row) for row in zip(*columns, strict=True)]

    def _values(self, name: str) -> list[str]:
        column = self.table.columns.index(name)
        return [number(row[column]) for row in self.table.rows]


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

    summary: str
    facts: str
    passages: Sequence[Passage]


@dataclass(frozen=True)
class Folds:
    """Lines that open, one below the other."""

    kind: ClassVar[str] = "folds"
    items: Sequence[Details]


@dataclass(frozen=True)
class Links:
    """Names and relative paths of files that lie beside the page."""

    kind: ClassVar[str] = "links"
    paths: dict[str, str]


Block = Text | Numbers | Table | FilterTable | Figure | Folds | Links


@dataclass(frozen=True)
class Section:
    """One part of the page: `finding` is what came out, in a sentence for the page's top; `lead` is how to read it."""

    id: str
    title: str
    finding: str
    lead: str
    blocks: Sequence[Block] = field(default_factory=list)


def pair_details(pair: Mapping[str, Any], name: str, facts: Sequence[str]) -> Details:
    """A pair (prompt, chosen, rejected) that opens to its full texts, under `name` and the opening of its prompt."""
    prompt = [Passage(message["role"], message["content"]) for message in pair["prompt"]]
    answers = [Passage("chosen", pair["chosen"], "chosen"), Passage("rejected", pair["rejected"], "rejected")]
    opening = pair["prompt"][-1]["content"] if pair["prompt"] else pair["chosen"]
    return Details(f"{name} {excerpt(opening)}", " · ".join(facts), [*prompt, *answers])


def frame_table(frame: pl.DataFrame, columns: Sequence[str], caption: str = "") -> Table:
    """A polars frame as a table under the given headings."""
    return Table(columns, frame.rows(), caption)


def number(value: Cell, digits: int = 3) -> str:
    """A cell as text: thousands apart, fractions to `digits` places, a dash for nothing."""
    if value is None:
        return NOTHING
    if isinstance(value, float):
        return f"{value:,.{digits}f}".replace("-", MINUS)
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


def excerpt(text: str) -> str:
    """The beginning of a text on one line."""
    line = " ".join(text.split())
    return line if len(line) <= EXCERPT else line[: EXCERPT - 1] + "…"
