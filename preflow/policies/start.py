"""The policy that every treatment starts from, by name."""

from dataclasses import replace
from pathlib import Path

from preflow.policies.policy import Policy, load_policy
from preflow.weights import model_folder
from preflow.world.recipe import DEFAULT_WORLD, taught_policies
from preflow.world.smollm2 import FOLDER, smollm2_folder
from preflow.world.tokenizer import world_tokenizer


def start_policy(name: str, *, chat_template: str | None, seed: int, cache: Path) -> Policy:
    """The policy `world:SIZE`, taught here on demonstrations of the world, or the one that `name` says.

    `package:SmolLM2-135M-Instruct` is converted into `cache` once; see `preflow.weights.model_folder` for the other
    names, and `load_policy` for the chat template. `seed` decides the policy of a world.

    Raises
    ------
    ValueError
        The size or package is unknown, or a model has no chat template.
    FileNotFoundError, OSError
        The model is not there.
    """
    kind, _, rest = name.partition(":")
    if kind == "world":
        taught = taught_policies(replace(DEFAULT_WORLD, size=rest), seed=seed)
        return Policy(taught.late, world_tokenizer())
    folder = smollm2_folder(cache) if name == f"package:{FOLDER}" else model_folder(name)
    return load_policy(folder, chat_template=chat_template)
