"""What every section of params.yaml has in common."""

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    """A section of params.yaml: strict types, no unknown key, no default, immutable, a description under each field."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)
