"""The policy before any preference."""

from typing import Annotated

import dagster as dg
from pydantic import AfterValidator, Field

from preflow.params import Params, ProjectPath

WORLD_SIZES = ("tiny", "small", "medium", "large")  # those of preflow.world.policy, which takes torch to import


def _known(name: str) -> str:
    kind, _, size = name.partition(":")
    if kind == "world" and size not in WORLD_SIZES:
        raise ValueError(f"names no size of the world's policies: {', '.join(WORLD_SIZES)}")
    return name


StartName = Annotated[str, AfterValidator(_known)]


class PolicyParams(Params):
    """Section `policy`: the language model that every treatment starts from."""

    start: StartName
    """`world:tiny` (small, medium, large), `package:SmolLM2-135M-Instruct`, a folder, `hub:OWNER/NAME@REVISION`."""
    chat_template: str | None
    """Jinja source of a chat template, for a model that has none; null keeps the model's own."""
    cache: ProjectPath
    """Folder for models that are converted once."""
    threads: int = Field(gt=0)
    """CPU threads: a sum depends on them in its last bits, so they are a value like any other; above 0."""
    seed: int = Field(ge=0)
    """Seed of the policy of a world; at least 0."""


@dg.asset(io_manager_key="model", kinds={"torch"}, pool="gpu")
def start_policy(policy: dg.ResourceParam[PolicyParams]) -> dg.Output:
    """A model and its tokenizer, before any training on pairs; of the simulated world, it is taught here."""
    from pathlib import Path

    import torch

    from preflow.policies import start

    torch.set_num_threads(policy.threads)
    made = start.start_policy(
        policy.start, chat_template=policy.chat_template, seed=policy.seed, cache=Path(policy.cache)
    )
    return dg.Output(made)
