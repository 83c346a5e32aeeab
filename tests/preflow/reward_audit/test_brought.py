"""Rewrites that a user brings, in the authors' form."""

import json

import pytest

from preflow.reward_audit.brought import brought_rewrites
from preflow.reward_audit.schemas import Rewrites


def line(original, has, **texts):
    return {"w_original": has, "reward_question": "Why?", "completions": {"original": original, **texts}}


def write(folder, *rows):
    path = folder / "rewrites.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_each_row_is_kept_with_what_it_lacks(tmp_path):
    both = {"rewrite": "b", "rewritten rewrite": "c"}
    rows = [
        line("one", True, **both), line("two", False, rewrite="b"), line("three", True), line("four", None, **both),
        line("one", True, **both) | {"attribute": "sentiment"}, line("one", True, **both),
    ]  # fmt: skip
    found = brought_rewrites(write(tmp_path, *rows))
    Rewrites.validate(found)
    outcomes = {(row["attribute"], row["original"]): row["outcome"] for row in found.to_dicts()}
    assert outcomes == {
        ("brought", "one"): "rewritten",
        ("brought", "two"): "no_second_rewrite",
        ("brought", "three"): "no_rewrite",
        ("brought", "four"): "unclassified",
        ("sentiment", "one"): "rewritten",
    }


def test_an_empty_file_has_none(tmp_path):
    assert brought_rewrites(write(tmp_path)).equals(Rewrites.create_empty())


@pytest.mark.parametrize("bad", ["{broken", "[1]", '{"completions": {}}', '{"w_original": true}'])
def test_a_bad_line_is_named(tmp_path, bad):
    path = write(tmp_path, line("one", True, rewrite="b"))
    path.write_text(path.read_text() + bad + "\n")
    with pytest.raises(ValueError, match=r"rewrites\.jsonl, line 2"):
        brought_rewrites(path)
