import json
from pathlib import Path

import pytest

from tests import claims

MEASURED = """
    import pytest

    @pytest.mark.claim("rad-5")
    @pytest.mark.parametrize("world", ["one", "two"])
    def test_control(record_claim, world):
        record_claim(f"rho .9{len(world)}", seeds=5)

    @pytest.mark.claim("cpo-6")
    def test_slogan(record_claim):
        record_claim("gain -.01 | p = .8", holds=False, seeds=8)

    @pytest.mark.claim("rad-1")
    def test_skipped(record_claim):
        pytest.skip("later")

    def test_plain():
        pass
"""


@pytest.fixture
def run(pytester):
    pytester.makeconftest('pytest_plugins = ["tests.claims"]')

    def run(source, *args):
        pytester.makepyfile(source)
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", "--claims-out", ".", *args)

    return run


def test_statuses_come_from_what_ran(run, pytester):
    run(MEASURED).assert_outcomes(passed=4, skipped=1)
    metrics = json.loads(Path(pytester.path, "metrics/claims.json").read_text())
    count = metrics["count"]
    assert (count["holds"], count["does_not_hold"], count["not_yet"]) == (1, 1, count["all"] - 2)
    held = metrics["claims"]["rad-5"]
    assert (held["status"], held["figure"], held["seeds"]) == (claims.HOLDS, "rho .93", 5)
    assert held["tests"] == ["test_statuses_come_from_what_ran.py::test_control"]
    assert metrics["claims"]["cpo-6"]["status"] == claims.REFUTED
    assert metrics["claims"]["rad-1"]["status"] == claims.OPEN


def test_page_shows_figures_and_keeps_its_columns(run, pytester):
    run(MEASURED)
    page = Path(pytester.path, "docs/claims.md").read_text()
    line = next(line for line in page.splitlines() if line.startswith("| cpo-6 "))
    assert "does not hold (measured) | gain -.01 \\| p = .8 | 8 |" in line


def test_same_run_same_bytes(run, pytester):
    written = []
    for order in (MEASURED, MEASURED):
        run(order)
        written.append([Path(pytester.path, name).read_bytes() for name in ("docs/claims.md", "metrics/claims.json")])
    assert written[0] == written[1]


def test_no_claim_tested_yet_is_a_table_of_open_statements(run, pytester):
    assert run("def test_plain(): pass", "-m", "claim").ret == 0
    assert json.loads(Path(pytester.path, "metrics/claims.json").read_text())["count"]["holds"] == 0


def test_unknown_claim_is_an_error(run):
    result = run('import pytest\n@pytest.mark.claim("rad-99")\ndef test_it(record_claim): record_claim("1")')
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*claim 'rad-99' is not in tests/claims.yaml*"])


def test_claim_without_a_figure_fails_and_nothing_is_written(run, pytester):
    run('import pytest\n@pytest.mark.claim("rad-5")\ndef test_it(): pass').assert_outcomes(failed=1)
    assert not Path(pytester.path, "docs").exists()


def test_figure_without_a_claim_is_an_error(run):
    run('def test_it(record_claim): record_claim("1")').assert_outcomes(errors=1)


def test_one_record_that_fails_refutes_the_claim():
    records = [
        {"id": "a-1", "figure": "1", "holds": True, "seeds": 9, "test": "t::one"},
        {"id": "a-1", "figure": "2", "holds": False, "seeds": 5, "test": "t::two"},
    ]
    (row,) = claims.outcomes({"A": {"a-1": "it is so"}}, records)["A"]
    assert (row["status"], row["figure"], row["seeds"]) == (claims.REFUTED, "1; 2", 5)


def test_statements_are_complete_and_numbered_without_gaps():
    expected = {"cpo": 12, "rad": 12, "sdpo": 12, "div": 12, "triage": 1, "hack": 14, "gram": 10, "rate": 10,
                "selfcite": 10, "icl": 10, "pandas": 10, "rstar": 10, "ppl": 10}  # fmt: skip
    keys = [key for method in claims.statements().values() for key in method]
    assert keys == [f"{method}-{number}" for method, count in expected.items() for number in range(1, count + 1)]


def test_published_page_has_the_current_statements():
    page = Path(__file__).parents[1] / "docs" / "claims.md"
    lines = page.read_text(encoding="utf-8").splitlines()
    for method in claims.statements().values():
        for key, statement in method.items():
            cells = f"| {key} | {statement.replace('|', chr(92) + '|')} |"
            assert any(line.startswith(cells) for line in lines), f"{key}: run `make claims`"
