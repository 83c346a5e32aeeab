"""Raw feedback into the canonical tables: every row is kept, quarantined with a reason, or merged with its duplicate.

A *row* is one comparison that a record states, or the whole record when it states none. Rows are read as a stream,
checked by the chunk and spilled to parquet; only hashes of what was seen stay in memory.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl
from tqdm import tqdm

from preflow.formats.base import Row, RowError, Stated, as_json, refusal
from preflow.formats.recognise import Source, items_of, plan
from preflow.ingest.canonical import checked, comparison_frame, turn_problem, vote_id_of, vote_problem, with_hashes
from preflow.ingest.spill import Spill
from preflow.schemas import Comparisons, Quarantine, Votes
from preflow.sources.folder import DataFile, find_files
from preflow.sources.hub import HubDataset
from preflow.sources.records import FeedbackError, Record, Refusal

CHUNK_ROWS = 20_000
CHUNK_CHARS = 50_000_000  # a chunk ends with the row that reaches either
ROW_COUNTS = ("records_in", "rows_in", "rows_kept", "rows_quarantined", "rows_merged")
VOTE_COUNTS = ("votes_in", "votes_kept", "votes_quarantined", "votes_merged", "votes_of_quarantined_rows")
SAID = ("choice", "strength", "reason", "shown_first", "time", "seconds")  # columns of Votes, as a vote has them


@dataclass(frozen=True)
class Ingested:
    """The canonical tables in the order of the sources, and what was counted on the way."""

    comparisons: pl.LazyFrame
    votes: pl.LazyFrame
    quarantine: pl.LazyFrame
    counts: dict[str, Any]


def ingest(
    path: Path,
    *,
    formats: Mapping[str, str],
    hub: Sequence[HubDataset],
    max_field_chars: int,
    min_score_margin: float,
    scratch: Path,
) -> Ingested:
    """Read feedback from a file or folder and from the Hub into the canonical tables.

    `formats` maps a glob over file names (relative to `path`) or Hub names to the format to use instead of the
    recognised one. `scratch`, an empty folder, holds the tables, so it must outlive the frames that are returned.
    Pairs that only their scores decide need a margin of `min_score_margin`, on the source's scale. Rows with the same
    texts are one comparison with the votes of all; the first row says everything else of it.

    Raises FeedbackError if nothing can be read, if a format is unknown, if every row is refused, or if the rows do not
    add up.
    """
    files, skipped = find_files(path)
    if not files and not hub:
        known = "jsonl, json, csv, parquet or arrow (or .gz of these)"
        raise FeedbackError(f"feedback.path: no file under {path} is {known}, and feedback.hub names no dataset")
    intake = _Intake(scratch, max_field_chars, min_score_margin)
    for source in plan(files, formats, hub):
        intake.read(source)
    tables = intake.tables()
    counts = intake.counts(tables)
    if not counts["rows_in"]:
        raise FeedbackError(f"no row of feedback in {', '.join(file.name for file in files) or 'feedback.hub'}")
    if not counts["comparisons"]:
        raise FeedbackError(_none_kept(counts, tables["quarantine"]))
    return Ingested(**tables, counts=counts | {"files_skipped": skipped})


def _none_kept(counts: Mapping[str, Any], quarantine: pl.LazyFrame) -> str:
    """Why nothing is left: how many rows each reason took, and the first of them."""
    first = quarantine.head(1).collect().row(0, named=True)
    reasons = ", ".join(f"{reason} {n}" for reason, n in counts["quarantined"].items())
    place = f"{first['source_file']}, line {first['source_line']}"
    return f"none of {counts['rows_in']} rows was kept ({reasons}). The first: {place}: {first['detail']}"


class _Intake:
    """Takes in one source after the other."""

    def __init__(self, scratch: Path, max_field_chars: int, min_score_margin: float) -> None:
        self._max_field_chars = max_field_chars
        self._min_score_margin = min_score_margin
        self._comparisons = Spill(Comparisons, scratch / "comparisons")
        self._votes = Spill(Votes, scratch / "votes")
        self._quarantine = Spill(Quarantine, scratch / "quarantine")
        self._refused: list[tuple[object, ...]] = []  # not yet spilled
        self._parts: Counter[tuple[str, int]] = Counter()  # refusals of each file and line
        self._facts: dict[bytes, int] = {}  # of each pair seen: a hash of what the first row says of it
        self._other_facts: set[str] = set()  # pairs of which a duplicate says something else
        self._vote_ids: set[bytes] = set()
        self._sources: list[dict[str, Any]] = []
        self._tally: Counter[str] = Counter()  # of the source being read
        self._reasons: Counter[str] = Counter()

    def read(self, source: Source) -> None:
        """All rows of a source."""
        self._tally = Counter()
        chunk: list[Stated] = []
        chars = 0
        for stated in tqdm(self._stated(source), desc=source.name, unit=" rows", disable=None):
            chunk.append(stated)
            chars += len(stated.row.response_a) + len(stated.row.response_b)
            if len(chunk) >= CHUNK_ROWS or chars >= CHUNK_CHARS:
                self._take(source.name, chunk)
                chunk, chars = [], 0
        if chunk:
            self._take(source.name, chunk)
        self._spill_refused()
        self._sources.append(
            {
                "source": source.name,
                "format": source.format.name if source.format else None,
                "files": [file.name for file in (*source.main, *source.beside)],
                **{name: self._tally[name] for name in (*ROW_COUNTS, *VOTE_COUNTS)},
            }
        )

    def _stated(self, source: Source) -> Iterator[Stated]:
        """The rows whose turns are in order; everything else is refused on the way."""
        main, beside = self._records(source.name, source.main), self._records(source.name, source.beside)
        for item in source.format.read(main, beside) if source.format else main:
            if isinstance(item, Refusal):
                self._refuse(source.name, item)
            elif isinstance(item, Stated):
                problem = turn_problem(item.row.prompt)
                if problem is None:
                    yield item
                else:
                    self._refuse_row(source.name, item, *problem)

    def _records(self, source: str, files: Iterable[DataFile | HubDataset]) -> Iterator[Record]:
        """The records that are objects; everything else is refused on the way."""
        for item in items_of(files):
            self._tally["records_in"] += 1
            if isinstance(item, Refusal):
                self._refuse(source, item)
            elif isinstance(item.value, dict):
                yield item
            else:
                kind = type(item.value).__name__
                self._refuse(source, refusal(item, RowError("not_a_record", f"{kind} where an object should be")))

    def _refuse(self, source: str, refused: Refusal) -> None:
        kind = "votes" if refused.of_vote else "rows"
        self._tally.update((f"{kind}_in", f"{kind}_quarantined"))
        self._reasons[refused.reason] += 1
        place = (refused.file, refused.line)
        raw = None if refused.raw is None else refused.raw[: self._max_field_chars]
        self._refused.append((source, *place, self._parts[place], refused.reason, refused.detail, raw))
        self._parts[place] += 1
        if len(self._refused) >= CHUNK_ROWS:
            self._spill_refused()

    def _refuse_row(self, source: str, stated: Stated, reason: str, detail: str) -> None:
        row, record = stated.row, stated.record
        votes = len(row.votes) + len(row.refused_votes)
        self._tally.update({"votes_in": votes, "votes_of_quarantined_rows": votes})
        texts = {"prompt": row.prompt, "response_a": row.response_a, "response_b": row.response_b}
        self._refuse(source, Refusal(record.file, record.line, reason, detail, as_json(texts)))

    def _spill_refused(self) -> None:
        self._quarantine.append_tuples(self._refused)
        self._refused = []

    def _take(self, source: str, chunk: list[Stated]) -> None:
        """Check a chunk, refuse its bad rows, merge its duplicates, and write the rest with the votes of all."""
        rows = checked(
            comparison_frame(source, chunk),
            max_field_chars=self._max_field_chars,
            min_score_margin=self._min_score_margin,
        )
        bad = rows["reason"].is_not_null()
        for position in bad.arg_true():
            self._refuse_row(source, chunk[position], rows["reason"][position], rows["detail"][position])
        good = [stated.row for stated, is_bad in zip(chunk, bad, strict=True) if not is_bad]
        comparisons = with_hashes(rows.filter(~bad))
        is_new = [self._is_new(pair_id, row) for pair_id, row in zip(comparisons["pair_id"], good, strict=True)]
        self._comparisons.append(comparisons.filter(pl.Series(is_new, dtype=pl.Boolean)))
        kept = sum(is_new)
        self._tally.update({"rows_in": len(good), "rows_kept": kept, "rows_merged": len(good) - kept})
        places = comparisons.select("pair_id", "source_file", "source_line").iter_rows()
        judged = (self._judged(source, *place, row=row) for place, row in zip(places, good, strict=True))
        self._votes.append_tuples([vote for votes in judged for vote in votes])

    def _is_new(self, pair_id: str, row: Row) -> bool:
        """Whether no row before had the same texts; where a duplicate states other facts is remembered."""
        key = bytes.fromhex(pair_id)
        facts = hash((row.score_a, row.score_b, row.gold, row.model_a, row.model_b))
        if key not in self._facts:
            self._facts[key] = facts
            return True
        if self._facts[key] != facts:
            self._other_facts.add(pair_id)
        return False

    def _judged(self, source: str, pair_id: str, file: str, line: int, *, row: Row) -> Iterator[tuple[object, ...]]:
        """The votes of a row as tuples of `Votes`; the same judgement read twice is one vote."""
        ordinals: Counter[str] = Counter()
        for vote in row.votes:
            annotator = vote.annotator or f"label:{source}"
            place = (vote.file or file, vote.line or line)
            problem = vote_problem(vote, max_field_chars=self._max_field_chars)
            if problem is not None:
                self._refuse(source, Refusal(*place, *problem, as_json(asdict(vote)), of_vote=True))
                continue
            vote_id = vote_id_of(pair_id, annotator, vote, ordinals[annotator])
            ordinals[annotator] += 1
            if self._is_new_vote(vote_id):
                yield vote_id, pair_id, annotator, vote.kind, *(getattr(vote, name) for name in SAID), *place, []
        for refused in row.refused_votes:
            self._refuse(source, replace(refused, file=refused.file or file, line=refused.line or line))

    def _is_new_vote(self, vote_id: str) -> bool:
        key = bytes.fromhex(vote_id)
        is_new = key not in self._vote_ids
        self._vote_ids.add(key)
        self._tally.update(("votes_in", "votes_kept" if is_new else "votes_merged"))
        return is_new

    def tables(self) -> dict[str, pl.LazyFrame]:
        """The three tables, with the flags that only the whole shows."""
        differs = pl.col("pair_id").is_in(pl.Series(sorted(self._other_facts), dtype=pl.String).implode())
        votes = self._votes.scan()
        by = ["pair_id", "annotator"]
        both = (pl.col("choice") == "a").any() & (pl.col("choice") == "b").any()
        opposed = votes.group_by(by).agg(opposed=both).filter("opposed")
        return {
            "comparisons": self._comparisons.scan().with_columns(_flagged(differs, "duplicate_with_other_facts")),
            "votes": votes.join(opposed, on=by, how="left", maintain_order="left")
            .with_columns(_flagged(pl.col("opposed").is_not_null(), "own_vote_contradiction"))
            .drop("opposed"),
            "quarantine": self._quarantine.scan(),
        }

    def counts(self, tables: Mapping[str, pl.LazyFrame]) -> dict[str, Any]:
        """What was counted, checked against the tables.

        Raises FeedbackError if rows or votes do not add up.
        """
        total = {name: sum(source[name] for source in self._sources) for name in (*ROW_COUNTS, *VOTE_COUNTS)}
        height = {name: table.select(pl.len()).collect().item() for name, table in tables.items()}
        for whole, *parts in (
            ("rows_in", "rows_kept", "rows_quarantined", "rows_merged"),
            ("votes_in", "votes_kept", "votes_quarantined", "votes_merged", "votes_of_quarantined_rows"),
        ):
            if total[whole] != sum(total[part] for part in parts):
                raise FeedbackError(
                    f"{whole} {total[whole]} is not the sum of {[(part, total[part]) for part in parts]}"
                )
        written = (total["rows_kept"], total["votes_kept"], total["rows_quarantined"] + total["votes_quarantined"])
        if written != (height["comparisons"], height["votes"], height["quarantine"]):
            raise FeedbackError(f"rows counted {written} and rows written {height} differ")
        flags = Counter({"duplicate_with_other_facts": 0, "own_vote_contradiction": 0})
        for name in ("comparisons", "votes"):
            flags.update(dict(_flag_counts(tables[name])))
        return {
            **total,
            **{name: height[name] for name in ("comparisons", "votes")},
            "quarantined": dict(sorted(self._reasons.items())),
            "flags": dict(sorted(flags.items())),
            "sources": self._sources,
        }


def _flagged(condition: pl.Expr, name: str) -> pl.Expr:
    flags = pl.col("flags")
    return pl.when(condition).then(flags.list.concat(pl.lit([name], dtype=pl.List(pl.String)))).otherwise(flags)


def _flag_counts(table: pl.LazyFrame) -> Iterator[tuple[str, int]]:
    flags = table.select(flag=pl.col("flags").explode()).drop_nulls().group_by("flag").agg(n=pl.len())
    yield from flags.collect().iter_rows()
