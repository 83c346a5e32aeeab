"""What every section of params.yaml has in common."""

import os
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict


class Params(BaseModel):
    """A section of params.yaml: strict types, no unknown key, no default, immutable, a description under each field."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


def _inside(path: str) -> str:
    if "://" in path:
        raise ValueError("is an address; name a local file or folder, or list a Hub dataset under `hub`")
    if not Path(path).is_absolute() and Path(os.path.normpath(path)).parts[0] == os.pardir:
        raise ValueError("leaves the project; name a place outside it by its absolute path")
    return path


ProjectPath = Annotated[str, AfterValidator(_inside)]
"""A path below the project root, or an absolute one."""
