"""A teacher of one's own, without an oracle: SmolLM2-135M-Instruct taught to the first layers of itself.

`python -m benchmarks.smollm2_pair FOLDER` distils on prompts of the embedded instructions, offline and online, and
prints the tables of docs/teacher_hacking_transformers.md (a quarter of an hour on one core).
"""

import gzip
from pathlib import Path

import torch
import typer

from benchmarks.teacher_hacking import interval, markdown
from preflow.distil.regimes import Recipe, Regime
from preflow.distil.report import hacking_report
from preflow.distil.runs import Study, Watch
from preflow.distil.small_language import Sizes
from preflow.distil.transformer import Running
from preflow.distil.transformers_family import ModelTuning, Transformers
from preflow.distil.verdicts import judged_runs
from preflow.policies.policy import Policy, load_policy
from preflow.world.smollm2 import smollm2_folder

EXAMPLES = Path("examples/verifiable_instructions/feedback.jsonl.gz")
LAYERS = 6  # of 30
SEEDS = (0, 1, 2)
SIZES = Sizes(oracle=1, distillation=20, validation=30)
RUNNING = Running(max_prompt_tokens=96, max_response_tokens=16, sampling_batch=64, micro_batch_size=None, bf16=False)
RECIPE = Recipe(batch_size=10, lr=1e-4, checkpoints=10, top_k=256)
UPDATES = 30
WATCH = Watch(control="online_teacher", false_alarm_rate=0.05, slope_share=0.75)
STORED = (16, 64, 256, 1024)


def regime(name: str, *, online: bool) -> Regime:
    """On all prompts, one response each."""
    return Regime(
        name=name, prompts=SIZES.distillation, generations=1, updates=UPDATES, online=online, student_share=0.0
    )


REGIMES = [regime("offline_20", online=False), regime("online_teacher", online=True)]


def first_layers(teacher: Path, folder: Path) -> Path:
    """The folder of a model that has the first LAYERS of the teacher's, and all else."""
    if not folder.exists():
        policy = load_policy(teacher, chat_template=None)
        policy.model.model.layers = policy.model.model.layers[:LAYERS]
        policy.model.config.num_hidden_layers = LAYERS
        Policy(policy.model, policy.tokenizer).save_pretrained(folder)
    return folder


def prompts_file(folder: Path) -> Path:
    """The embedded instructions, whose lines have prompts beside all else."""
    file = folder / "prompts.jsonl"
    file.write_bytes(gzip.decompress(EXAMPLES.read_bytes()))
    return file


def made(folder: Path) -> Study:
    """Teacher and student for all seeds, and their prompts."""
    teacher = smollm2_folder(folder)
    student = first_layers(teacher, folder / "student")
    as_they_are = (ModelTuning(model=str(path), epochs=0, batch_size=1, lr=1e-4) for path in (teacher, student))
    family = Transformers(
        oracle_model=None, oracle_seed=0, prompts_file=prompts_file(folder), sizes=SIZES, running=RUNNING,
        cache=folder, **dict(zip(("teacher_tuning", "student_tuning"), as_they_are, strict=True)),
    )  # fmt: skip
    oracle = family.oracle(SEEDS)
    data = family.data(oracle, SEEDS)
    models = {"teacher": family.teacher(data), "student": family.student(data)}
    return Study(family=family, data=data, oracle=oracle, recipe=RECIPE, **models)


def main(folder: Path) -> None:
    """Train and print."""
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    study = made(folder)
    errors = [{"k": k} | {n: f"{v:.3g}" for n, v in study.storage_error(top_k=k).items()} for k in STORED]
    markdown("What storing k of 49,152 tokens costs", errors)
    found = study.runs(REGIMES, WATCH, stop=False)
    found.curves.write_parquet(folder / "curves.parquet")
    found.epochs.write_parquet(folder / "epochs.parquet")
    judged = judged_runs(found.curves, control=WATCH.control, tolerance=0.02)
    report = hacking_report(
        found.curves, found.epochs, judged, REGIMES, RECIPE, WATCH, baseline=REGIMES[0].name, prompt_cost=1.0
    )
    starts = found.curves.filter(update=0)
    rows = [
        {
            "regime": one.name,
            "proxy at the start": interval(starts.filter(regime=one.name)["proxy"].to_numpy()),
            "proxy at the end": interval(judged.filter(regime=one.name)["proxy_end"].to_numpy()),
            "train / held-out proxy": interval(judged.filter(regime=one.name)["ratio_end"].to_numpy(), digits=2),
            "alarm": f"{report['alarms'][one.name]['alarms']:.0%}",
        }
        for one in REGIMES
    ]
    markdown("Regimes", rows)
    typer.echo(f"\n{report['alarm']}\n\n{report['advice']['text']}")


if __name__ == "__main__":
    typer.run(main)
