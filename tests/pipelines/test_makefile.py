"""`make run` has parts that run side by side: they must not meet at a stage, and find what they read."""

import re

from pipelines import ROOT
from pipelines.graph import Graph

MAKEFILE = (ROOT / "Makefile").read_text().replace("\\\n", " ")


def named(target: str) -> list[str]:
    """The stages that a part names."""
    (line,) = re.findall(rf"(?m)^{target}: .*\n\tdvc --wait-for-lock repro (?:--single-item )?(.*)$", MAKEFILE)
    return line.split()


def upstream(graph: Graph, name: str) -> set[str]:
    """The stages that one reads."""
    made_by = {output.asset: stage.name for stage in graph.stages.values() for output in stage.outputs}
    return {made_by[output.asset] for output in graph.stages[name].upstream}


def closure(graph: Graph, names: list[str]) -> set[str]:
    """These stages and all before them."""
    known: set[str] = set()
    while names:
        known |= set(names)
        names = [name for name in set().union(*(upstream(graph, one) for one in names)) if name not in known]
    return known


def test_the_first_two_parts_share_no_stage() -> None:
    graph = Graph(ROOT)
    pairs, studies = (closure(graph, named(target)) for target in ("pairs", "studies"))
    assert len(pairs) > 8
    assert len(studies) > 4
    assert not pairs & studies


def test_the_next_two_find_what_they_read_and_name_different_stages() -> None:
    graph = Graph(ROOT)
    there = closure(graph, named("pairs")) | closure(graph, named("studies"))
    lists = [named(target) for target in ("treatments", "triage")]
    assert not set(lists[0]) & set(lists[1])
    for names in lists:
        done: set[str] = set()
        for name in names:
            assert upstream(graph, name) <= there | done, name
            done.add(name)
    last = graph.stages.keys() - there - set(lists[0]) - set(lists[1])
    assert last <= {"report", "data_docs"}, "a part could make these beside another"
