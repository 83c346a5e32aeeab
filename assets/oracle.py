"""Oracle, teacher and student's start: what a distillation starts from."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import dagster as dg
from dagster import MetadataValue as Meta
from pydantic import Field

from preflow.distil.schemas import OracleData
from preflow.params import Params, ProjectPath

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


class ModelParams(Params):
    """A language model, and how it learns from the oracle's responses."""

    model: str
    """world:SIZE, new with random weights; else as policy.start: package:..., a folder, hub:OWNER/NAME@REVISION."""
    epochs: int = Field(ge=0)
    """Passes over the oracle's responses; 0 takes the model as it is."""
    batch_size: int = Field(gt=0)
    """Responses an update; above 0."""
    lr: float = Field(gt=0)
    """Learning rate; above 0."""


class RunningParams(Params):
    """How language models are run."""

    max_prompt_tokens: int = Field(gt=0)
    """A longer prompt is refused; above 0."""
    max_response_tokens: int = Field(gt=0)
    """A response is cut there; above 0."""
    sampling_batch: int = Field(gt=0)
    """Prompts answered at a time; above 0."""
    micro_batch_size: int | None = Field(gt=0)
    """Responses whose gradients are in memory at a time; null for all of an update."""
    bf16: bool
    """bfloat16 autocast while training, for hardware that has it."""


class TransformersParams(Params):
    """Causal language models: of the simulated world, or your own teacher with or without an oracle."""

    kind: Literal["transformers"]
    """Language models of transformers."""
    oracle: str | None
    """world:SIZE, taught on demonstrations; else as policy.start; null where there is none."""
    oracle_seed: int = Field(ge=0)
    """Of an oracle of the world; at least 0."""
    teacher: ModelParams
    """The teacher."""
    student: ModelParams
    """What students start from."""
    prompts_from: Literal["world", "file"]
    """Tasks of the simulated world, or the file of `prompts_file`."""
    prompts: SplitParams
    """How many."""
    running: RunningParams
    """Limits and batches."""
    cache: ProjectPath
    """Folder for models that are converted once."""

    def family(self, prompts_file: str) -> "Family":
        """The same, as the library takes it."""
        from preflow.distil.small_language import Sizes
        from preflow.distil.transformer import Running
        from preflow.distil.transformers_family import ModelTuning, Transformers

        return Transformers(
            oracle_model=self.oracle,
            oracle_seed=self.oracle_seed,
            teacher_tuning=ModelTuning(**self.teacher.model_dump()),
            student_tuning=ModelTuning(**self.student.model_dump()),
            prompts_file=Path(prompts_file) if self.prompts_from == "file" else None,
            sizes=Sizes(**self.prompts.model_dump()),
            running=Running(**self.running.model_dump()),
            cache=Path(self.cache),
        )


class OracleParams(Params):
    """Section `oracle`: where oracle, teacher and student's start come from."""

    models: SmallLanguageParams | TransformersParams = Field(discriminator="kind")
    """Which models."""
    prompts_file: ProjectPath
    """A JSON object with `prompt` a line; read where `models.prompts_from` is file."""
    seeds: list[int] = Field(min_length=3)
    """Each has its own data, teacher and student; at least three, for the alarm."""
    threads: int = Field(gt=0)
    """CPU threads; above 0."""

    def family(self) -> "Family":
        """The models, as the library takes them."""
        models = self.models
        return models.family(self.prompts_file) if isinstance(models, TransformersParams) else models.family()


prompts = dg.AssetSpec(
    "prompts",
    description="The user's prompts, read where `oracle.models.prompts_from` is file; never written to.",
    metadata={"path": "${oracle.prompts_file}"},
    kinds={"file"},
    owners=["team:oracle"],
)


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
    deps=[prompts],
    pool="gpu",
)
def teach(oracle: dg.ResourceParam[OracleParams]) -> Iterator[dg.Output]:
    """An oracle, and a teacher and a student's start that are fine-tuned on what it says."""
    import torch

    torch.set_num_threads(oracle.threads)
    family = oracle.family()
    knows = family.oracle(oracle.seeds)
    data = family.data(knows, oracle.seeds)
    yield dg.Output(knows, "oracle_model")
    yield dg.Output(data.lazy(), "oracle_data")
    yield dg.Output(family.teacher(data), "teacher_model")
    yield dg.Output(family.student(data), "student_init")
