"""Makes feedback.jsonl.gz: a simulated world of tasks, policies, annotators and a judge.

Run from the project's root: `python examples/feedback_world/generate.py`. It trains the world's policy first, which
takes about a minute.
"""

from pathlib import Path

import torch

from preflow.world.recipe import DEFAULT_WORLD, feedback_on, taught_policies

FOLDER = Path(__file__).parent
SEED = 0


def main() -> None:
    """Write the file."""
    torch.set_num_threads(1)  # a part of the recipe: the number of threads decides the order of floating-point sums
    feedback_on(taught_policies(DEFAULT_WORLD, seed=SEED), DEFAULT_WORLD, seed=SEED).save_to_disk(FOLDER)


if __name__ == "__main__":
    main()
