"""A world of keys: what is good is a class that the key has, and labels tell of a few keys alone.

A prompt is a key, a word; a response is a class, a fruit. Which class a key has is drawn at random, as many keys a
class, so nothing can be concluded from one key about another. Pairs without labels hold the right class more often than
chance; labels, of which some are wrong, are there for three keys of each class. A judge that does well on the other
keys has learnt their classes from the pairs without labels.

Classes are shared by keys on purpose. With one answer a key, a judge learns which answers win and gets the other keys
wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from preflow.generative_reward.judge import JudgePrompt
from preflow.world.tasks import KINDS
from preflow.world.tokenizer import WORDS

CLASSES = KINDS["fruits"]
LABELLED_OF_CLASS = 3
JUDGE_OF_KEYS = JudgePrompt(
    instruction="", before_prompt="", before_first="", before_second="", cue=":", separator=" ", verdicts=("a", "b")
)
"""In the words of the world's tokenizer."""
KEYS = tuple(word for word in WORDS if word not in (*CLASSES, *JUDGE_OF_KEYS.verdicts, JUDGE_OF_KEYS.cue))[:56]


@dataclass(frozen=True)
class KeyedWorld:
    """The class of each key, and the keys for which there are labels."""

    class_of: dict[str, str]
    labelled_keys: tuple[str, ...]

    @property
    def unseen_keys(self) -> tuple[str, ...]:
        """Keys without any label."""
        return tuple(key for key in KEYS if key not in self.labelled_keys)

    def unlabelled(self, n: int, *, good: float, seed: int) -> pl.DataFrame:
        """Pairs on all keys: prompt, response_a, response_b; a response is right with probability `good`."""
        rng = np.random.default_rng(seed)
        keys = rng.choice(KEYS, n).tolist()
        sides = [
            [self.class_of[key] if rng.random() < good else self._wrong(key, rng) for key in keys] for _ in range(2)
        ]
        return pl.DataFrame({"prompt": _prompts(keys), "response_a": sides[0], "response_b": sides[1]})

    def labelled(self, keys: Sequence[str], n: int, *, noise: float, seed: int) -> pl.DataFrame:
        """A right and a wrong response each: prompt, chosen, rejected, share (null); a `noise` of labels is wrong."""
        rng = np.random.default_rng(seed)
        drawn = rng.choice(keys, n).tolist()
        sides = [(self.class_of[key], self._wrong(key, rng)) for key in drawn]
        said = [side[::-1] if flip else side for side, flip in zip(sides, rng.random(n) < noise, strict=True)]
        chosen, rejected = zip(*said, strict=True)
        share = pl.Series([None] * n, dtype=pl.Float64)
        return pl.DataFrame({"prompt": _prompts(drawn), "chosen": chosen, "rejected": rejected, "share": share})

    def _wrong(self, key: str, rng: np.random.Generator) -> str:
        return str(rng.choice([other for other in CLASSES if other != self.class_of[key]]))


def draw_keyed(seed: int) -> KeyedWorld:
    """A world: classes of the keys at random, and at random which keys of a class are labelled."""
    keys = [str(key) for key in np.random.default_rng(seed).permutation(KEYS)]
    own = np.array_split(keys, len(CLASSES))
    class_of = {str(key): name for name, part in zip(CLASSES, own, strict=True) for key in part}
    return KeyedWorld(class_of, tuple(str(key) for part in own for key in part[:LABELLED_OF_CLASS]))


def shuffled_prompts(rows: pl.DataFrame, *, seed: int) -> pl.DataFrame:
    """The placebo: the same prompts and the same pairs of responses, put together at random."""
    return rows.with_columns(prompt=rows["prompt"].gather(np.random.default_rng(seed).permutation(len(rows))))


def _prompts(keys: Sequence[str]) -> list[list[dict[str, str]]]:
    return [[{"role": "user", "content": key}] for key in keys]
