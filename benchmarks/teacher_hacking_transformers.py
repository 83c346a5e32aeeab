"""Teacher hacking with transformers: tiny Llamas of the world, through the same library as the small language.

`python -m benchmarks.teacher_hacking_transformers runs FOLDER` teaches the oracle and trains every regime for SEEDS;
`python -m benchmarks.teacher_hacking_transformers tables FOLDER` prints the tables of
docs/teacher_hacking_transformers.md as Markdown.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
import torch
import typer

from benchmarks.teacher_hacking import FALSE_ALARM_RATE, SLOPE_SHARE, markdown, read, regime_rows
from preflow.distil.advice import remedy_effects
from preflow.distil.alarm_evaluation import stop_evaluation
from preflow.distil.monitor import calibrated, signals
from preflow.distil.regimes import Recipe, Regime
from preflow.distil.runs import Study
from preflow.distil.small_language import Sizes
from preflow.distil.transformer import Running
from preflow.distil.transformers_family import ModelTuning, Transformers
from preflow.distil.verdicts import judged_runs
from preflow.policies.policy import Policy
from preflow.world.recipe import DEFAULT_WORLD, taught_policies
from preflow.world.tokenizer import world_tokenizer

ORACLE = replace(DEFAULT_WORLD, size="tiny", steps=400, early_step=100)
"""The oracle is the early policy: after 100 steps it still has 14 nats of entropy a response."""
TEACHER = ModelTuning(model="world:small", epochs=11, batch_size=50, lr=3e-3)
STUDENT = ModelTuning(model="world:tiny", epochs=1, batch_size=50, lr=3e-3)
SIZES = Sizes(oracle=1500, distillation=120, validation=200)
RUNNING = Running(max_prompt_tokens=64, max_response_tokens=16, sampling_batch=256, micro_batch_size=None, bf16=False)
RECIPE = Recipe(batch_size=30, lr=5e-4, checkpoints=12)
UPDATES = 300
SEEDS = (20, 21, 22)  # looked at once; the setting is that of the map where it shows most
TOLERANCE = 0.02
MAP_EPOCHS, MAP_PROMPTS, MAP_SEEDS = (8, 11, 14), (15, 30, 60), (0, 1, 2)


def regime(name: str, prompts: int, generations: int, *, online: bool) -> Regime:
    """A regime at equal updates."""
    return Regime(
        name=name, prompts=prompts, generations=generations, updates=UPDATES, online=online, student_share=0.0
    )


BASELINE = regime("offline_30", 30, 1, online=False)
ONLINE = regime("online_teacher", 30, 1, online=True)
REGIMES = (BASELINE, regime("offline_30x3", 30, 3, online=False), regime("offline_90", 90, 1, online=False), ONLINE)


def taught_oracle(folder: Path) -> Path:
    """The oracle's folder, made on first use."""
    if not (folder / "config.json").exists():
        Policy(taught_policies(ORACLE, seed=0).early, world_tokenizer()).save_pretrained(folder)
    return folder


def family(oracle: Path) -> Transformers:
    """Tiny Llamas that learn from the oracle in a folder."""
    return Transformers(
        oracle_model=str(oracle), oracle_seed=0, teacher_tuning=TEACHER, student_tuning=STUDENT, prompts_file=None,
        sizes=SIZES, running=RUNNING, cache=oracle.parent,
    )  # fmt: skip


def study(given: Transformers, seed: int) -> Study:
    """What the runs of a seed start from."""
    oracle = given.oracle([seed])
    data = given.data(oracle, [seed])
    teacher, student = given.teacher(data), given.student(data)
    return Study(family=given, data=data, oracle=oracle, teacher=teacher, student=student, recipe=RECIPE)


def trained(given: Transformers, seed: int) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Curve and epochs of every run of a seed."""
    made = study(given, seed)
    for one in REGIMES:
        found = made.run(one, seed=seed)
        yield found.curve, found.epochs


def mapped(given: Transformers, epochs: int, seed: int) -> pl.DataFrame:
    """Curves of a seed with a teacher of so many epochs, offline on each of MAP_PROMPTS and online."""
    taught = replace(given, teacher_tuning=replace(TEACHER, epochs=epochs))
    made = study(taught, seed)
    offline = [regime(f"offline_{prompts}", prompts, 1, online=False) for prompts in MAP_PROMPTS]
    runs = [made.run(one, seed=seed).curve for one in (*offline, ONLINE)]
    return pl.concat(runs).with_columns(teacher_epochs=pl.lit(epochs))


app = typer.Typer(add_completion=False)


@app.command()
def regime_map(folder: Path) -> None:
    """Print where offline runs hack: how long the teacher was taught against how many prompts."""
    torch.set_num_threads(1)
    given, file = family(taught_oracle(folder / "oracle")), folder / "map.parquet"
    if not file.exists():
        pl.concat([mapped(given, epochs, seed) for epochs in MAP_EPOCHS for seed in MAP_SEEDS]).write_parquet(file)
    for (epochs,), curves in pl.read_parquet(file).group_by("teacher_epochs", maintain_order=True):
        judged = judged_runs(curves.drop("teacher_epochs"), control=ONLINE.name, tolerance=TOLERANCE)
        markdown(f"Teacher of {epochs} epochs", regime_rows(judged, curves))


@app.command()
def runs(folder: Path) -> None:
    """Train, and write curves and epochs, a file each and a seed; seeds that are there are left."""
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    given = family(taught_oracle(folder / "oracle"))
    for seed in SEEDS:
        if (folder / f"epochs-{seed}.parquet").exists():
            continue
        curves, epochs = zip(*trained(given, seed), strict=True)
        pl.concat(curves).write_parquet(folder / f"curves-{seed}.parquet")
        pl.concat(epochs).write_parquet(folder / f"epochs-{seed}.parquet")
        typer.echo(f"seed {seed}: {len(curves)} runs", err=True)


@app.command()
def tables(folder: Path) -> None:
    """Print the tables of the page."""
    seeds = tuple(seed for seed in SEEDS if (folder / f"curves-{seed}.parquet").exists())
    curves = read(folder, "curves", seeds)
    judged = judged_runs(curves, control=ONLINE.name, tolerance=TOLERANCE)
    markdown(f"Regimes, seeds {seeds}", regime_rows(judged, curves))
    epochs = read(folder, "epochs", seeds)
    alarm = calibrated(signals(curves, epochs, [ONLINE], RECIPE), false_alarm_rate=FALSE_ALARM_RATE)
    stops = stop_evaluation(curves, alarm, slope_share=SLOPE_SHARE)
    rounded = {name: {key: value and round(value, 3) for key, value in row.items()} for name, row in stops.items()}
    markdown(f"Stops, ratio below {alarm.ratio_below:.2f}", [{"regime": name} | row for name, row in rounded.items()])
    others = [one for one in REGIMES if one is not BASELINE]
    effects = remedy_effects(curves, BASELINE, others, RECIPE, alarm).with_columns(pl.col(pl.Float64).round(3))
    markdown(f"Remedies beside {BASELINE.name}, changes as log ratios", effects.to_dicts())


if __name__ == "__main__":
    app()
