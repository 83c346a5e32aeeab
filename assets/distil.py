"""Students distilled on data of every regime, and where they hack their teacher."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import dagster as dg
import polars as pl
from dagster import MetadataValue as Meta
from pydantic import Field, model_validator

from assets.oracle import OracleParams
from preflow.distil.schemas import DistilCurve, DistilEpochs, DistilRuns
from preflow.params import Params

if TYPE_CHECKING:
    from preflow.distil.regimes import Recipe, Regime
    from preflow.distil.runs import Watch


class DistilLossParams(Params):
    """What a student is trained on."""

    name: Literal["forward_kl", "reverse_kl", "jeffreys", "generalised_js", "sft"]
    """Which loss."""
    weight: float | None = Field(gt=0, lt=1)
    """Of the reverse KL in jeffreys, of the teacher in generalised_js; null for the others."""
    temperature: float = Field(gt=0)
    """Divides the logits of teacher and student; above 0, and 1 for sft."""

    @model_validator(mode="after")
    def _fits_the_loss(self) -> Self:
        if (self.weight is None) == (self.name in ("jeffreys", "generalised_js")):
            raise ValueError(f"{self.name} with weight {self.weight}: give one to jeffreys and generalised_js alone")
        if self.name == "sft" and self.temperature != 1:
            raise ValueError(f"sft with temperature {self.temperature}: it reads no distribution, so give 1")
        return self


class RegimeParams(Params):
    """What a student is distilled on."""

    name: str = Field(pattern=r"^[A-Za-z0-9_.-]+$")
    """What it is called in tables, report and folders."""
    prompts: int = Field(gt=0)
    """The first so many of the distillation prompts; above 0."""
    generations: int = Field(gt=0)
    """Responses to each; above 0."""
    online: bool
    """Responses drawn anew for each pass over the prompts."""
    student_share: float = Field(ge=0, le=1)
    """Share of the responses that the student writes, the teacher the others; 0 to 1."""
    loss: DistilLossParams
    """What is trained on."""


class DistilParams(Params):
    """Section `distil`: on what students are distilled, and how it is watched."""

    regimes: list[RegimeParams] = Field(min_length=2)
    """Every regime is run with every seed."""
    updates: int = Field(gt=0)
    """Of every run; above 0."""
    batch_size: int = Field(gt=0)
    """Responses an update; above 0."""
    lr: float = Field(gt=0)
    """Learning rate of the distillation; above 0."""
    checkpoints: int = Field(ge=10)
    """How often distances are measured in a run; at least 10, for a power law of the first 30 %."""
    top_k: int | None = Field(gt=0)
    """Tokens of a teacher's distribution that are stored; null for all."""
    control: str
    """The online regime that the alarm is calibrated on."""
    baseline: str
    """The regime that others are compared with as remedies."""
    tolerance: float = Field(gt=0)
    """Relative rise of the golden distance that is more than noise; above 0."""
    false_alarm_rate: float = Field(gt=0, lt=0.5)
    """Of the alarm on online runs; 0 to .5."""
    early_stopping: bool
    """Stop the runs of other regimes at the alarm."""
    slope_share: float = Field(gt=0, lt=1)
    """A run with alarm is stopped where the slope of its held-out proxy is below this share of the steepest; 0 to 1."""
    prompt_cost: float = Field(ge=0)
    """What one more prompt costs, in teacher responses; at least 0."""
    threads: int = Field(gt=0)
    """CPU threads; above 0."""

    @model_validator(mode="after")
    def _names_its_regimes(self) -> Self:
        names = [one.name for one in self.regimes]
        if len(set(names)) < len(names):
            raise ValueError(f"two regimes have one name: {names}")
        for key, name in (("control", self.control), ("baseline", self.baseline)):
            if name not in names:
                raise ValueError(f"{key} {name!r} is none of the regimes {names}")
        if not next(one for one in self.regimes if one.name == self.control).online:
            raise ValueError(f"control {self.control!r} is offline; the alarm is calibrated on online runs")
        if self.checkpoints > self.updates:
            raise ValueError(f"{self.checkpoints} checkpoints do not fit into {self.updates} updates")
        return self

    def library_regimes(self) -> "list[Regime]":
        """The regimes, as the library takes them."""
        from preflow.distil.divergences import Loss
        from preflow.distil.regimes import Regime

        return [
            Regime(**one.model_dump(exclude={"loss"}), updates=self.updates, loss=Loss(**one.loss.model_dump()))
            for one in self.regimes
        ]

    def recipe(self) -> "Recipe":
        """What all regimes share, as the library takes it."""
        from preflow.distil.regimes import Recipe

        return Recipe(**self.model_dump(include={"batch_size", "lr", "checkpoints", "top_k"}))

    def watch(self) -> "Watch":
        """How runs are watched, as the library takes it."""
        from preflow.distil.runs import Watch

        return Watch(**self.model_dump(include={"control", "false_alarm_rate", "slope_share"}))


def _table(schema: type, description: str) -> dg.AssetOut:
    metadata = {"schema": Meta.python_artifact(schema)}
    return dg.AssetOut(io_manager_key="table", metadata=metadata, description=description, kinds={"polars"})


@dg.multi_asset(
    outs={
        "distilled_student": dg.AssetOut(
            io_manager_key="model", description="The student of each regime, of the first seed."
        ),
        "distil_curves": _table(DistilCurve, "Distances to oracle and teacher along every run."),
        "distil_epochs": _table(DistilEpochs, "What every run was trained on, pass by pass."),
        "teacher_storage": dg.AssetOut(
            io_manager_key="metrics", description="What storing the teacher's top k tokens alone costs."
        ),
    },
    pool="gpu",
)
def distil_students(
    oracle_model: Path,
    oracle_data: pl.LazyFrame,
    teacher_model: Path,
    student_init: Path,
    oracle: dg.ResourceParam[OracleParams],
    distil: dg.ResourceParam[DistilParams],
) -> Iterator[dg.Output]:
    """Students of every regime and seed."""
    import torch

    from preflow.distil.runs import Study
    from preflow.distil.seeded import load_seeded

    torch.set_num_threads(distil.threads)
    family = oracle.family()
    study = Study(
        family=family,
        data=oracle_data.collect(),
        oracle=load_seeded(oracle_model, family.load),
        teacher=load_seeded(teacher_model, family.load),
        student=load_seeded(student_init, family.load),
        recipe=distil.recipe(),
    )
    found = study.runs(distil.library_regimes(), distil.watch(), stop=distil.early_stopping)
    error = None if distil.top_k is None else study.storage_error(top_k=distil.top_k)
    yield dg.Output(found.students, "distilled_student")
    yield dg.Output(found.curves.lazy(), "distil_curves")
    yield dg.Output(found.epochs.lazy(), "distil_epochs")
    yield dg.Output({"top_k": distil.top_k, "error": error}, "teacher_storage")


@dg.multi_asset(
    outs={
        "distil_runs": _table(DistilRuns, "What the curves of every run say."),
        "hacking_report": dg.AssetOut(
            io_manager_key="metrics", description="Regimes, the alarm without oracle, what stopping recovers, remedies."
        ),
        "proxy_golden": dg.AssetOut(io_manager_key="plot", description="Distance to the oracle against the teacher's."),
        "distance_curves": dg.AssetOut(io_manager_key="plot", description="Both distances along training."),
    }
)
def report_hacking(
    distil_curves: pl.LazyFrame,
    distil_epochs: pl.LazyFrame,
    teacher_storage: dict[str, Any],
    distil: dg.ResourceParam[DistilParams],
) -> Iterator[dg.Output]:
    """Where the teacher was hacked, what would have told without an oracle, and the cheapest remedy."""
    from preflow import charts
    from preflow.distil.report import hacking_report
    from preflow.distil.verdicts import judged_runs

    curves, epochs = distil_curves.collect(), distil_epochs.collect()
    judged = judged_runs(curves, control=distil.control, tolerance=distil.tolerance)
    found = hacking_report(
        curves,
        epochs,
        judged,
        distil.library_regimes(),
        distil.recipe(),
        distil.watch(),
        baseline=distil.baseline,
        prompt_cost=distil.prompt_cost,
    )
    yield dg.Output(judged.lazy(), "distil_runs")
    yield dg.Output(found | {"storage": teacher_storage}, "hacking_report")
    bands, drawn = pl.DataFrame(found["bands"]), {"baseline": distil.baseline, "control": distil.control}
    yield dg.Output(charts.proxy_golden(bands, **drawn), "proxy_golden")
    yield dg.Output(charts.distance_curves(bands, **drawn), "distance_curves")
