"""Teacher hacking with transformers: tiny Llamas of the world, through the same library as the small language.

`python -m benchmarks.teacher_hacking_transformers runs FOLDER` teaches the oracle and trains every regime for SEEDS;
`python -m benchmarks.teacher_hacking_transformers tables FOLDER` prints the tables of
docs/teacher_hacking_transformers.md as Markdown; `... pair FOLDER` distils SmolLM2-135M-Instruct, without an oracle,
into its own first layers, on questions about Python's topics of help.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from pydoc_data.topics import topics

import polars as pl
import torch
import typer

from benchmarks.teacher_hacking import FALSE_ALARM_RATE, SLOPE_SHARE, markdown, read, regime_rows
from preflow.distil.advice import remedy_effects
from preflow.distil.alarm_evaluation import stop_evaluation
from preflow.distil.monitor import calibrated, run_signals, signals
from preflow.distil.regimes import Recipe, Regime
from preflow.distil.runs import Study
from preflow.distil.small_language import Sizes
from preflow.distil.transformer import Running
from preflow.distil.transformers_family import ModelTuning, Transformers
from preflow.distil.verdicts import judged_runs
from preflow.policies.policy import Policy
from preflow.policies.start import start_policy
from preflow.world.recipe import DEFAULT_WORLD, taught_policies
from preflow.world.tokenizer import world_tokenizer

ORACLE = replace(DEFAULT_WORLD, size="tiny", steps=400, early_step=100)
"""The oracle is the early policy: after 100 steps it still has 14 nats of entropy a response."""
TEACHER = ModelTuning(model="world:small", epochs=11, batch_size=50, lr=3e-3)
STUDENT = ModelTuning(model="world:tiny", epochs=1, batch_size=50, lr=3e-3)
SIZES = Sizes(oracle=1500, distillation=120, validation=200)
RUNNING = Running(max_prompt_tokens=64, max_response_tokens=16, sampling_batch=256, micro_batch_size=None, bf16=False)
RECIPE = Recipe(batch_size=30, lr=1e-3, checkpoints=12)
UPDATES = 200
SEEDS = (10, 11, 12)  # looked at once; the setting is from seeds 0 and 1
TOLERANCE = 0.02


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


PAIR_SIZES = Sizes(oracle=0, distillation=24, validation=12)
PAIR_RUNNING = Running(
    max_prompt_tokens=64, max_response_tokens=16, sampling_batch=36, micro_batch_size=None, bf16=False
)
PAIR_RECIPE = Recipe(batch_size=12, lr=1e-4, checkpoints=10, top_k=64)
PAIR_REGIME = Regime(name="offline_24", prompts=24, generations=1, updates=20, online=False, student_share=0.0)
FIRST_LAYERS = 4


def first_layers(teacher: str, folder: Path) -> Path:
    """A folder with the first layers of a model, its embeddings and its head."""
    policy = start_policy(teacher, chat_template=None, seed=0, cache=folder)
    policy.model.model.layers = policy.model.model.layers[:FIRST_LAYERS]
    policy.model.config.num_hidden_layers = FIRST_LAYERS
    policy.save_pretrained(folder / "first_layers")
    return folder / "first_layers"


def pair_study(folder: Path) -> Study:
    """SmolLM2 as teacher and its first layers as student, both as they are."""
    teacher, prompts = "package:SmolLM2-135M-Instruct", folder / "prompts.jsonl"
    asked = (f"What does Python's help say about {topic}?" for topic in sorted(topics))
    prompts.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in asked))
    given = Transformers(
        oracle_model=None, oracle_seed=0, teacher_tuning=replace(TEACHER, model=teacher, epochs=0),
        student_tuning=replace(STUDENT, model=str(first_layers(teacher, folder)), epochs=0),
        prompts_file=prompts, sizes=PAIR_SIZES, running=PAIR_RUNNING, cache=folder,
    )  # fmt: skip
    oracle = given.oracle([0])
    data = given.data(oracle, [0])
    teachers, students = given.teacher(data), given.student(data)
    return Study(family=given, data=data, oracle=oracle, teacher=teachers, student=students, recipe=PAIR_RECIPE)


app = typer.Typer(add_completion=False)


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


@app.command()
def pair(folder: Path) -> None:
    """Print curve, alarm signals and truncation error of a real teacher and a student made from it."""
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    made = pair_study(folder)
    curve = made.run(PAIR_REGIME, seed=0).curve
    markdown("SmolLM2 into its first layers", curve.drop("golden", "regime", "seed").to_dicts())
    typer.echo(f"\n{run_signals(curve)}\n{made.storage_error(top_k=PAIR_RECIPE.top_k or 1)}")


if __name__ == "__main__":
    app()
