"""params.yaml, read once by one YAML 1.2 parser into typed, validated sections.

DVC reads the same file with the same parser, so that `1e-4`, `no` and `012` mean the same to both.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML, YAMLError


class ParamsError(ValueError):
    """params.yaml is not what the stages need; the message names the key and what is allowed."""


def load_sections(path: Path, classes: Mapping[str, type[BaseModel]]) -> dict[str, BaseModel]:
    """One validated object per section of params.yaml.

    Raises
    ------
    ParamsError
        The file is missing or no mapping, a section or key is unknown, missing, of a wrong type or out of range.
    """
    values = read_yaml(path)
    if unknown := sorted(values.keys() - classes.keys()):
        raise ParamsError(f"{path.name}: unknown section {unknown[0]!r}; known sections: {', '.join(sorted(classes))}")
    if missing := sorted(classes.keys() - values.keys()):
        raise ParamsError(f"{path.name}: section {missing[0]!r} is missing; the stages of that group need it")
    return {name: _section(path.name, name, cls, values[name]) for name, cls in classes.items()}


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML 1.2 file; duplicate keys are an error."""
    try:
        values = YAML(typ="safe", pure=True).load(path)
    except FileNotFoundError as error:
        raise ParamsError(f"{path} is missing; restore it with `git checkout -- {path.name}`") from error
    except YAMLError as error:
        raise ParamsError(f"{path.name} is not valid YAML 1.2: {error}") from error
    if not isinstance(values, dict):
        raise ParamsError(f"{path.name} must be a mapping of sections, not {type(values).__name__}")
    return values


def _section(file: str, name: str, cls: type[BaseModel], values: Any) -> BaseModel:
    try:
        return cls.model_validate(values, strict=True)
    except ValidationError as error:
        problems = "\n".join(f"  {_describe(name, problem, cls)}" for problem in error.errors())
        raise ParamsError(f"{file} does not fit:\n{problems}") from error


def _describe(section: str, problem: Any, cls: type[BaseModel]) -> str:
    key = ".".join([section, *map(str, problem["loc"])])
    holder, name = _place(cls, problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"{key}: unknown key; {key.rpartition('.')[0]} has {', '.join(holder.model_fields)}"
    if problem["type"] == "missing":
        return f"{key}: missing; {_doc(holder, name)}"
    message = problem["msg"].removeprefix("Value error, ")
    return f"{key}: {message}, not {problem['input']!r}; {_doc(holder, name)}"


def _place(cls: type[BaseModel], loc: tuple[int | str, ...]) -> tuple[type[BaseModel], str]:
    """The innermost class of params that a problem lies in, and the name of the field there."""
    name = ""
    for part in loc:
        inner = [one for one in _types(cls, name) if isinstance(one, type) and issubclass(one, BaseModel)]
        cls = inner[0] if inner else cls
        name = str(part) if isinstance(part, str) else name
    return cls, name


def _types(cls: type[BaseModel], name: str) -> tuple[Any, ...]:
    """What a field may be: its type, or the arguments of a union or a list."""
    field = cls.model_fields.get(name)
    return (field.annotation, *get_args(field.annotation)) if field else ()


def _doc(cls: type[BaseModel], name: str) -> str:
    field = cls.model_fields.get(name)
    return field.description if field and field.description else "see params.yaml"
