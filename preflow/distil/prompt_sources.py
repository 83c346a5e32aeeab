"""Prompts of a distillation of transformers: tasks of the world, or the lines of a file."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from preflow.world.tasks import FAMILIES, LEVELS, distinct_tasks


def world_prompts(n: int, rng: np.random.Generator) -> list[str]:
    """`n` distinct prompts of the world's tasks in random order; see `distinct_tasks` for what is raised."""
    tasks = distinct_tasks(n, rng, families=list(FAMILIES), levels=LEVELS, exclude=frozenset())
    return [tasks[row].prompt for row in rng.permutation(n)]


@dataclass(frozen=True)
class FilePrompts:
    """The distinct prompts of a file."""

    texts: tuple[str, ...]
    duplicates: int
    """Lines whose prompt stands further up."""
    refused: Mapping[int, str]
    """Why a line was left out, by its number from 1."""

    def drawn(self, n: int, rng: np.random.Generator) -> list[str]:
        """`n` of them in random order.

        Raises
        ------
        ValueError
            There are fewer.
        """
        if len(self.texts) < n:
            raise ValueError(
                f"the splits need {n} prompts and the file has {len(self.texts)}, without {self.duplicates} duplicates "
                f"and {len(self.refused)} refused lines {dict(list(self.refused.items())[:5])}; add prompts or take "
                "smaller splits"
            )
        return [self.texts[row] for row in rng.permutation(len(self.texts))[:n]]


def read_prompts(path: Path) -> FilePrompts:
    """The prompts of a file with a JSON object a line, such as `{"prompt": "What is tea?"}`; blank lines are no lines.

    Raises
    ------
    FileNotFoundError
        The file is not there.
    """
    if not path.is_file():
        raise FileNotFoundError(f"prompts file {path} is not there; give one with a JSON object with `prompt` a line")
    texts: dict[str, None] = {}
    refused: dict[int, str] = {}
    duplicates = 0
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        text, reason = _prompt(line)
        if reason:
            refused[number] = reason
        elif text in texts:
            duplicates += 1
        else:
            texts[text] = None
    return FilePrompts(tuple(texts), duplicates, refused)


def _prompt(line: str) -> tuple[str, str | None]:
    """The prompt of a line, or why it has none."""
    try:
        row = json.loads(line)
    except json.JSONDecodeError:
        return "", "not_json"
    text = row.get("prompt") if isinstance(row, dict) else None
    if not isinstance(text, str):
        return "", "no_prompt"
    return (text, None) if text.strip() else ("", "empty_prompt")
