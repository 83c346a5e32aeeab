"""Oracle, teacher and student's start: what a distillation starts from."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import dagster as dg
from dagster import MetadataValue as Meta
from pydantic import Field

from preflow.distil.schemas import OracleData
from preflow.params import Params

if TYPE_CHECKING:
    from preflow.distil.family import Family


class TuningParams(Params):
    """How a model is made from the oracle's responses."""

    width: int = Field(gt=0)
    """Units in each hidden layer; above 0."""
    epochs: int = Field(ge=0)
    """Passes over the responses; at least 0."""
    batch_size: int = Field(gt=0)
    """Responses an update; above 0."""
    lr: float = Field(gt=0)
    """Learning rate; above 0."""


class SplitParams(Params):
    """Prompts of each split."""

    oracle: int = Field(gt=0)
    """That teacher and student's start learn from; above 0."""
    distillation: int = Field(gt=0)
    """That students are distilled on, at most; above 0."""
    validation: int = Field(gt=0)
    """That distances are measured on; above 0."""


class SmallLanguageParams(Params):
    """Models of a small language, whose oracle is random."""

    kind: Literal["small_language"]
    """An n-gram language that can be enumerated."""
    vocabulary: int = Field(gt=1)
    """Tokens; above 1."""
    length: int = Field(gt=0)
    """Tokens of a response; above 0."""
    order: int = Field(gt=1)
    """Of the n-grams; above 1."""
    prompt_size: int = Field(gt=0)
    """Numbers of a prompt; above 0."""
    oracle_width: int = Field(gt=0)
    """Units in each hidden layer of the oracle; above 0."""
    embedding: int = Field(gt=0)
    """Numbers of a token, in all models; above 0."""
    teacher: TuningParams
    """The teacher."""
    student: TuningParams
    """What students start from."""
    prompts: SplitParams
    """How many."""

    def family(self) -> "Family":
        """The same, as the library takes it."""
        from preflow.distil.ngram import Language
        from preflow.distil.small_language import FineTuning, Sizes, SmallLanguage

        return SmallLanguage(
            language=Language(**self.model_dump(include={"vocabulary", "length", "order", "prompt_size"})),
            oracle_width=self.oracle_width,
            embedding=self.embedding,
            teacher_tuning=FineTuning(**self.teacher.model_dump()),
            student_tuning=FineTuning(**self.student.model_dump()),
            sizes=Sizes(**self.prompts.model_dump()),
        )


class OracleParams(Params):
    """Section `oracle`: where oracle, teacher and student's start come from."""

    models: SmallLanguageParams
    """Which models."""
    seeds: list[int] = Field(min_length=3)
    """Each has its own data, teacher and student; at least three, for the alarm."""
    threads: int = Field(gt=0)
    """CPU threads; above 0."""


@dg.multi_asset(
    outs={
        "oracle_model": dg.AssetOut(
            io_manager_key="model", description="What the teacher stands for, by seed; none where nobody has it."
        ),
        "oracle_data": dg.AssetOut(
            io_manager_key="table",
            metadata={"schema": Meta.python_artifact(OracleData)},
            description="Prompts of each split, and the oracle's responses.",
            kinds={"polars"},
        ),
        "teacher_model": dg.AssetOut(io_manager_key="model", description="The teacher of each seed."),
        "student_init": dg.AssetOut(io_manager_key="model", description="What the students of each seed start from."),
    },
    pool="gpu",
)
def teach(oracle: dg.ResourceParam[OracleParams]) -> Iterator[dg.Output]:
    """An oracle, and a teacher and a student's start that are fine-tuned on what it says."""
    import torch

    torch.set_num_threads(oracle.threads)
    family = oracle.models.family()
    knows = family.oracle(oracle.seeds)
    data = family.data(knows, oracle.seeds)
    yield dg.Output(knows, "oracle_model")
    yield dg.Output(data.lazy(), "oracle_data")
    yield dg.Output(family.teacher(data), "teacher_model")
    yield dg.Output(family.student(data), "student_init")
