"""Pytest plugin: which acceptance statements were measured, and what came out.

A test carries `@pytest.mark.claim("rad-5")` and calls `record_claim(figure, holds, seeds)` once it has measured. It
then asserts the measured fact, also where the statement does not hold. `--claims-out FOLDER` writes `docs/claims.md`
and `metrics/claims.json` below the folder, from the tests that ran and nothing else.
"""

import json
from collections import Counter
from pathlib import Path

import pytest
from ruamel.yaml import YAML

HOLDS, REFUTED, OPEN = "holds", "does not hold (measured)", "not yet"


def statements():
    """Statements by id, by method title, in the order of claims.yaml."""
    return YAML(typ="safe").load(Path(__file__).with_name("claims.yaml"))


def pytest_addoption(parser):
    group = parser.getgroup("claims")
    group.addoption(
        "--claims-out", type=Path, metavar="FOLDER", help="write docs/claims.md and metrics/claims.json here"
    )


def pytest_configure(config):
    config.addinivalue_line("markers", "claim(id): the test of an acceptance statement of tests/claims.yaml")
    config.pluginmanager.register(ClaimRecords(config), "claim-records")


def pytest_collection_modifyitems(items):
    known = {key for method in statements().values() for key in method}
    for item in items:
        for unknown in sorted(set(claims_of(item)) - known):
            raise pytest.UsageError(f"{item.nodeid}: claim {unknown!r} is not in tests/claims.yaml")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """A claim is not verified by a test that says nothing about what it measured."""
    outcome = yield
    if claims_of(item) and not any(name == "claim" for name, _ in item.user_properties):
        pytest.fail("a test of a claim must call record_claim with the figure that it measured", pytrace=False)
    return outcome


@pytest.fixture
def record_claim(request):
    """Records `figure`, a short text with the measured number, for each claim of the test."""
    claims = claims_of(request.node)
    if not claims:
        raise pytest.UsageError(f"{request.node.nodeid} records a figure but carries no @pytest.mark.claim(id)")

    def record(figure: str, holds: bool = True, seeds: int | None = None) -> None:
        test = request.node.nodeid.split("[")[0]
        for claim in claims:
            entry = {"id": claim, "figure": figure, "holds": holds, "seeds": seeds, "test": test}
            request.node.user_properties.append(("claim", entry))

    return record


def claims_of(item):
    return [marker.args[0] for marker in item.iter_markers("claim")]


class ClaimRecords:
    """Gathers what the tests recorded; user properties travel from the workers of pytest-xdist too."""

    def __init__(self, config):
        self.folder = config.getoption("--claims-out")
        self.records = []
        self.failed = set()

    def pytest_runtest_logreport(self, report):
        entries = [entry for name, entry in report.user_properties if name == "claim"]
        if report.failed:
            self.failed.add(report.nodeid)
        elif report.when == "call" and report.passed:
            self.records += entries

    def pytest_sessionfinish(self, session, exitstatus):
        """No claim tested yet is a table full of "not yet", not an error."""
        if self.folder is not None and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter):
        if self.folder is None:
            return
        if self.failed:
            terminalreporter.write_line(f"claims not written: {len(self.failed)} tests failed", red=True)
            return
        table = outcomes(statements(), self.records)
        write(
            self.folder / "metrics" / "claims.json", json.dumps(as_metrics(table), indent=2, ensure_ascii=False) + "\n"
        )
        write(self.folder / "docs" / "claims.md", as_page(table))


def outcomes(methods, records):
    """The statements with what was measured: rows by method title. Several records of a claim are taken together."""
    unique = {json.dumps(record, sort_keys=True): record for record in records}
    ordered = [unique[key] for key in sorted(unique)]
    return {
        title: [row_of(key, statement, [r for r in ordered if r["id"] == key]) for key, statement in claims.items()]
        for title, claims in methods.items()
    }


def row_of(key, statement, records):
    status = OPEN if not records else HOLDS if all(record["holds"] for record in records) else REFUTED
    seeds = [record["seeds"] for record in records if record["seeds"] is not None]
    return {
        "id": key,
        "statement": statement,
        "status": status,
        "figure": "; ".join(dict.fromkeys(record["figure"] for record in records)),
        "seeds": min(seeds) if seeds else None,
        "tests": sorted({record["test"] for record in records}),
    }


def as_metrics(table):
    rows = [row for claims in table.values() for row in claims]
    counts = Counter(row["status"] for row in rows)
    total = {"holds": counts[HOLDS], "does_not_hold": counts[REFUTED], "not_yet": counts[OPEN], "all": len(rows)}
    return {"count": total, "claims": {row.pop("id"): row for row in [dict(row) for row in rows]}}


def as_page(table):
    count = as_metrics(table)["count"]
    lines = [
        "# What is verified",
        "",
        "Written by `make claims` from the tests that ran; edit `tests/claims.yaml` or the tests, not this page.",
        "A statement that was measured and does not hold stays here with its figure.",
        "",
        f"Of {count['all']} statements {count['holds']} hold, {count['does_not_hold']} do not hold as measured, and "
        f"{count['not_yet']} are not measured yet.",
    ]
    for title, rows in table.items():
        lines += [
            "",
            f"## {title}",
            "",
            "| id | statement | status | figure | seeds | test |",
            "|---|---|---|---|---|---|",
        ]
        lines += [table_line(row) for row in rows]
    return "\n".join([*lines, ""])


def table_line(row):
    tests = "<br>".join(f"`{test}`" for test in row["tests"])
    cells = [row["id"], row["statement"], row["status"], row["figure"], row["seeds"] or "", tests]
    return "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
