"""Records in, canonical tables out: what the test of a format needs."""

import json
from types import SimpleNamespace

import pytest

from preflow.ingest.intake import ingest
from preflow.schemas import Comparisons, Quarantine, Votes


@pytest.fixture
def take(tmp_path):
    """Ingest files of records; the tables come back as lists of rows, checked against their schemas."""

    def take(*records, margin=0.5, formats=(), max_field_chars=10_000, **files):
        number = len(list(tmp_path.iterdir()))
        folder = tmp_path / f"input{number}"
        folder.mkdir()
        for name, lines in (({"data": records} if records else {}) | files).items():
            write(folder / f"{name}.jsonl", lines)
        return tables(folder, tmp_path / f"scratch{number}", margin, dict(formats), max_field_chars)

    return take


def write(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def tables(path, scratch, margin=0.5, formats=(), max_field_chars=10_000):
    found = ingest(
        path,
        formats=dict(formats),
        hub=[],
        max_field_chars=max_field_chars,
        min_score_margin=margin,
        scratch=scratch,
    )
    return SimpleNamespace(
        comparisons=Comparisons.validate(found.comparisons.collect()).to_dicts(),
        votes=Votes.validate(found.votes.collect()).to_dicts(),
        quarantine=Quarantine.validate(found.quarantine.collect()).to_dicts(),
        counts=found.counts,
    )
