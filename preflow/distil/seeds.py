"""Random numbers of a seed's parts that do not depend on each other: prompts, responses, models, order of training."""

import numpy as np
import torch


def derived(seed: int, part: int) -> int:
    """A seed of its own for one part of what is made with `seed`."""
    return int(np.random.SeedSequence([seed, part]).generate_state(1)[0])


def generator(seed: int, part: int) -> torch.Generator:
    """A generator of its own for one part of what is made with `seed`."""
    return torch.Generator().manual_seed(derived(seed, part))
