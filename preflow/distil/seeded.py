"""One model for each seed, kept together as one model asset."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from preflow.distil.ngram import NGram, load_ngram


@dataclass(frozen=True)
class Seeded:
    """Models by seed."""

    models: dict[int, NGram]

    def __getitem__(self, seed: int) -> NGram:
        return self.models[seed]

    def __iter__(self) -> Iterator[int]:
        return iter(self.models)

    def save_pretrained(self, folder: Path) -> None:
        """Write each model into a folder of its own, `seed-N`."""
        for seed, model in self.models.items():
            model.save_pretrained(folder / f"seed-{seed}")


def load_seeded(folder: Path) -> Seeded:
    """What `Seeded.save_pretrained` wrote.

    Raises
    ------
    FileNotFoundError
        There is no model in the folder.
    """
    found = {int(path.name.removeprefix("seed-")): path for path in folder.glob("seed-*")}
    if not found:
        raise FileNotFoundError(f"no seed-N folder in {folder}; make the models again")
    return Seeded({seed: load_ngram(found[seed]) for seed in sorted(found)})
