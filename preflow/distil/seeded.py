"""One model for each seed, kept together as one model asset."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from preflow.distil.language import LanguageModel

Model = TypeVar("Model", bound=LanguageModel)
INDEX = "seeds.json"


@dataclass(frozen=True)
class Seeded(Generic[Model]):
    """Models by seed; seeds may share one, and without an oracle there are none."""

    models: dict[int, Model]

    def __getitem__(self, seed: int) -> Model:
        return self.models[seed]

    def __iter__(self) -> Iterator[int]:
        return iter(self.models)

    def __len__(self) -> int:
        return len(self.models)

    def save_pretrained(self, folder: Path) -> None:
        """Write each model once, into a folder of its own, and in `seeds.json` which seed has which."""
        places: dict[int, str] = {}
        for seed, model in self.models.items():
            if id(model) not in places:
                places[id(model)] = f"seed-{seed}"
                model.save_pretrained(folder / f"seed-{seed}")
        index = {str(seed): places[id(model)] for seed, model in self.models.items()}
        folder.mkdir(parents=True, exist_ok=True)
        (folder / INDEX).write_text(json.dumps(index, indent=2) + "\n")


def load_seeded(folder: Path, load: Callable[[Path], Model]) -> Seeded[Model]:
    """What `Seeded.save_pretrained` wrote, each model read by `load`."""
    index = json.loads((folder / INDEX).read_text())
    found = {place: load(folder / place) for place in sorted(set(index.values()))}
    return Seeded({int(seed): found[place] for seed, place in index.items()})
