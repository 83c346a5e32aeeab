"""Which format a file has: by name where the user says so, else by what its records look like."""

import importlib
import itertools
import pkgutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache

import preflow.formats
from preflow.formats.base import Format, Value
from preflow.sources.folder import DataFile
from preflow.sources.hub import HubDataset, read_hub
from preflow.sources.readers import Item, read_file
from preflow.sources.records import FeedbackError, Record

SAMPLE = 100  # records of a file that are looked at


@dataclass(frozen=True)
class Source:
    """Records that are read together: `main` states the rows, `beside` what is joined to them."""

    name: str
    format: Format | None  # None: nothing in it can be read
    main: tuple[DataFile | HubDataset, ...]
    beside: tuple[DataFile, ...] = ()


@cache
def known_formats() -> Mapping[str, Format]:
    """Every format by name: the subclasses of Format in the modules of `preflow.formats`."""
    for module in pkgutil.iter_modules(preflow.formats.__path__):
        importlib.import_module(f"preflow.formats.{module.name}")
    return {kind.name: kind() for kind in sorted(_named(), key=lambda kind: kind.name)}


def _named() -> Iterator[type[Format]]:
    waiting = Format.__subclasses__()
    for kind in waiting:
        waiting += kind.__subclasses__()
        if hasattr(kind, "name"):
            yield kind


def recognise(values: Iterable[Value], place: str) -> tuple[Format, bool]:
    """The format that claims most of the values, and whether they are its main records (else they stand beside them).

    Raises FeedbackError with the fields seen and the formats known if none or more than one does.
    """
    sample = list(values)
    claims = Counter(
        (known.name, main)
        for value in sample
        for known in known_formats().values()
        for main, claimed in ((True, known.matches(value)), (False, known.accompanies(value)))
        if claimed
    )
    ranked = claims.most_common(2)
    if not ranked or (len(ranked) == 2 and ranked[0][1] == ranked[1][1]):
        raise FeedbackError(_unknown(sample, place, [name for (name, _), _ in ranked]))
    name, main = ranked[0][0]
    return known_formats()[name], main


def _unknown(sample: list[Value], place: str, claimed: list[str]) -> str:
    seen = sorted({str(key) for value in sample for key in value})
    found = f"could be {' or '.join(claimed)}" if claimed else "is of no known format"
    known = "\n".join(f"  {known.name}: {known.fields}" for known in known_formats().values())
    return (
        f"{place} {found}. Its fields are: {', '.join(seen) or 'none'}. Name the format under feedback.formats "
        f"(file glob: format), or write an adapter (CONTRIBUTING.md). Known formats:\n{known}"
    )


def plan(files: Iterable[DataFile], formats: Mapping[str, str], hub: Iterable[HubDataset]) -> list[Source]:
    """The sources among the files, in order of name, then those of the Hub in the order given.

    The files of one folder that share a joined format are one source, named after the folder; so are the shards of
    one table. Raises FeedbackError for an unknown format name, a pattern that no file has, or an unknown format.
    """
    files, hub = list(files), list(hub)
    _check_overrides(formats, [file.name for file in files] + [one.dataset for one in hub])
    groups: dict[tuple[str, str], list[tuple[DataFile, bool]]] = {}
    for file in files:
        found = _format_of(file.name, read_file(file.path, file.name), formats)
        form, main = found or (None, True)
        name = _folder_name(file) if form and form.joined else file.source
        groups.setdefault((name, form.name if form else ""), []).append((file, main))
    sources = [_source(name, known_formats().get(form), found) for (name, form), found in groups.items()]
    return sources + [_hub_source(one, formats) for one in hub]


def _source(name: str, form: Format | None, found: list[tuple[DataFile, bool]]) -> Source:
    main = tuple(file for file, is_main in found if is_main)
    beside = tuple(file for file, is_main in found if not is_main)
    if not main:
        raise FeedbackError(
            f"{', '.join(file.name for file in beside)}: nothing to join to; the {form.name if form else ''} format "
            f"needs files of {form.fields if form else ''} in the same folder"
        )
    return Source(found[0][0].source if len(found) == 1 else name, form, main, beside)


def _hub_source(hub: HubDataset, formats: Mapping[str, str]) -> Source:
    found = _format_of(hub.dataset, read_hub(hub), formats)
    return Source(hub.dataset, found[0] if found else None, (hub,))


def _format_of(name: str, records: Iterable[Item], formats: Mapping[str, str]) -> tuple[Format, bool] | None:
    """The format of a file and whether the file is a main one; None if nothing in it can be read."""
    good = (item.value for item in records if isinstance(item, Record) and isinstance(item.value, dict))
    sample = list(itertools.islice(good, SAMPLE))
    for pattern, form in formats.items():
        if fnmatchcase(name, pattern):
            known = known_formats()[form]
            return known, not (any(map(known.accompanies, sample)) and not any(map(known.matches, sample)))
    return recognise(sample, name) if sample else None


def _check_overrides(formats: Mapping[str, str], names: list[str]) -> None:
    for pattern, form in formats.items():
        if form not in known_formats():
            raise FeedbackError(f"feedback.formats: {form!r} is unknown; known are {', '.join(known_formats())}")
        if not any(fnmatchcase(name, pattern) for name in names):
            raise FeedbackError(f"feedback.formats: {pattern!r} matches none of {', '.join(names)}")


def _folder_name(file: DataFile) -> str:
    return file.path.parent.resolve().name if file.folder == "." else file.folder


def items_of(sources: Iterable[DataFile | HubDataset]) -> Iterator[Item]:
    """The records and refusals of some files, one file after the other."""
    for source in sources:
        yield from read_hub(source) if isinstance(source, HubDataset) else read_file(source.path, source.name)
