"""Teacher hacking in the small language, the full study.

`python -m benchmarks.teacher_hacking runs FOLDER` trains every regime for SEEDS and the alarm's for HELD_OUT and
writes the curves (about 15 minutes on one core); `python -m benchmarks.teacher_hacking tables FOLDER` prints the
tables of docs/teacher_hacking.md as Markdown.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
import typer

from preflow.distil.advice import advice, remedy_effects
from preflow.distil.alarm_evaluation import alarm_evaluation, stop_evaluation
from preflow.distil.divergences import FORWARD_KL, Loss
from preflow.distil.monitor import SIGNALS, Alarm, calibrated, signals
from preflow.distil.ngram import Language
from preflow.distil.regimes import Recipe, Regime
from preflow.distil.report import regime_summary
from preflow.distil.runs import Study
from preflow.distil.seed_intervals import mean_over_seeds
from preflow.distil.small_language import FineTuning, Sizes, SmallLanguage
from preflow.distil.targets import truncation_error
from preflow.distil.verdicts import judged_runs

LANGUAGE = Language(vocabulary=20, length=8, order=3, prompt_size=8)
ORACLE_WIDTH, EMBEDDING = 64, 24
SIZES = Sizes(oracle=1500, distillation=200, validation=1000)
TEACHER_TUNING = FineTuning(width=128, epochs=30, batch_size=100, lr=2e-3)
OVER_TRAINED = replace(TEACHER_TUNING, epochs=120)
STUDENT_TUNING = FineTuning(width=48, epochs=7, batch_size=100, lr=2e-3)
RECIPE = Recipe(batch_size=100, lr=1e-3, checkpoints=30)
UPDATES = 450
SEEDS, HELD_OUT = (0, 1, 2, 3, 4), (10, 11, 12, 13, 14, 15, 16, 17, 18, 19)
FALSE_ALARM_RATE = 0.05
TOLERANCE = 0.02  # of a golden rise: the largest of an online run
SLOPE_SHARE = 0.75  # of EarlyStop; chosen on SEEDS
AUROCS = (*SIGNALS, "golden_deviation")
ORACLE_TEACHES, OVER_TRAINED_TEACHES = ", teacher is oracle", ", over-trained teacher"
CALIBRATION = (5, 6, 7, 8, 9)  # with SEEDS, online runs that the alarm's thresholds come from


def regime(
    name: str,
    prompts: int,
    generations: int = 1,
    *,
    online: bool = False,
    student: float = 0.0,
    loss: Loss = FORWARD_KL,
) -> Regime:
    """A regime at equal updates."""
    return Regime(
        name=name, prompts=prompts, generations=generations, updates=UPDATES, online=online, student_share=student,
        loss=loss,
    )  # fmt: skip


BASELINE = regime("offline_60", 60)
ONLINE = regime("online_teacher", 60, online=True)
ALARMED = (
    BASELINE,
    regime("offline_100", 100),
    regime("offline_200", 200),
    regime("offline_60x3", 60, 3),
    regime("offline_40x5", 40, 5),
    ONLINE,
    regime("online_student", 60, online=True, student=1.0),
    regime("mixture", 60, online=True, student=0.5),
)
LOSSES = (
    Loss(name="reverse_kl"),
    Loss(name="jeffreys", weight=0.5),
    Loss(name="generalised_js", weight=0.5),
    Loss(name="sft"),
    Loss(name="forward_kl", temperature=2.0),
)


def loss_name(loss: Loss) -> str:
    """As the regimes of the ablation are called."""
    return loss.name + (f" at {loss.temperature:g}" if loss.temperature != 1 else "")


ABLATIONS = tuple(
    replace(base, name=f"{base.name}, {loss_name(loss)}", loss=loss) for loss in LOSSES for base in (BASELINE, ONLINE)
)


def family(sizes: Sizes = SIZES, teacher: FineTuning = TEACHER_TUNING) -> SmallLanguage:
    """Where the models come from."""
    return SmallLanguage(
        language=LANGUAGE, oracle_width=ORACLE_WIDTH, embedding=EMBEDDING, teacher_tuning=teacher,
        student_tuning=STUDENT_TUNING, sizes=sizes,
    )  # fmt: skip


def made(seed: int, sizes: Sizes = SIZES) -> Study:
    """What the runs of a seed start from."""
    models = family(sizes)
    oracle = models.oracle([seed])
    data = models.data(oracle, [seed])
    return Study(
        family=models, data=data, oracle=oracle, teacher=models.teacher(data), student=models.student(data),
        recipe=RECIPE,
    )  # fmt: skip


def trained(seed: int) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Curve and epochs of every run of a seed."""
    for study, one in planned(seed, made(seed)):
        found = study.run(one, seed=seed)
        yield found.curve, found.epochs


def planned(seed: int, study: Study) -> list[tuple[Study, Regime]]:
    """The runs of a seed: all for SEEDS, without ablations and controls for HELD_OUT, else online alone."""
    if seed not in SEEDS + HELD_OUT:
        return [(study, ONLINE)]
    if seed in HELD_OUT:
        return [(study, one) for one in ALARMED]
    over_trained = family(teacher=OVER_TRAINED).teacher(study.data)
    teachers = ((study.oracle, ORACLE_TEACHES), (over_trained, OVER_TRAINED_TEACHES))
    controls = [
        (replace(study, teacher=teacher), replace(base, name=f"{base.name}{words}"))
        for base in (BASELINE, ONLINE)
        for teacher, words in teachers
    ]
    return [(study, one) for one in ALARMED + ABLATIONS] + controls


def without_ablations(curves: pl.DataFrame) -> pl.DataFrame:
    """The runs of the regimes of ALARMED alone."""
    return curves.filter(pl.col("regime").is_in([one.name for one in ALARMED]))


def held_out_alarm(
    calibration: tuple[pl.DataFrame, pl.DataFrame], held_out: tuple[pl.DataFrame, pl.DataFrame]
) -> tuple[Alarm, dict[str, Any], dict[str, Any]]:
    """The alarm of the online control of the calibration seeds, and alarm and stop measured on the held-out ones."""
    alarm = calibrated(signals(*calibration, [ONLINE], RECIPE), false_alarm_rate=FALSE_ALARM_RATE)
    judged = judged_runs(held_out[0], control=ONLINE.name, tolerance=TOLERANCE)
    deviations = judged.select("regime", "seed", "golden_deviation")
    found = signals(*held_out, list(ALARMED), RECIPE).join(deviations, on=["regime", "seed"])
    stops = stop_evaluation(held_out[0], alarm, slope_share=SLOPE_SHARE)
    return alarm, alarm_evaluation(found, alarm, control=ONLINE.name), stops


def read(folder: Path, kind: str, seeds: tuple[int, ...]) -> pl.DataFrame:
    """Curves or epochs of seeds."""
    return pl.concat([pl.read_parquet(folder / f"{kind}-{seed}.parquet") for seed in seeds])


def markdown(title: str, rows: list[dict[str, Any]]) -> None:
    """Print a table."""
    typer.echo(f"\n{title}\n")
    names = list(rows[0])
    typer.echo("| " + " | ".join(names) + " |\n" + "|---" * len(names) + "|")
    for row in rows:
        typer.echo("| " + " | ".join(str(row[name]) for name in names) + " |")


def interval(values: np.ndarray, *, scale: float = 1.0, digits: int = 3) -> str:
    """Mean over seeds and its 95 % interval."""
    found = mean_over_seeds(values)
    mean, low, high = (f"{scale * value:.{digits}f}" for value in (found.estimate, found.low, found.high))
    return f"{mean} [{low}, {high}]"


def regime_rows(judged: pl.DataFrame, curves: pl.DataFrame) -> list[dict[str, Any]]:
    """A row a regime: what `DistilRuns` says of its seeds."""
    summary, rows = regime_summary(judged, curves), []
    for name, part in ((name, judged.filter(pl.col("regime") == name).sort("seed")) for name in summary):
        rows.append(
            {
                "regime": name,
                "golden rise, % by seed": ", ".join(f"{100 * rise:.1f}" for rise in part["golden_rise"]),
                "proxy over that span, %": interval(part["proxy_change"].to_numpy(), scale=100, digits=1),
                "final golden": interval(part["golden_end"].to_numpy()),
                "final proxy": interval(part["proxy_end"].to_numpy()),
                "train / val proxy": interval(part["ratio_end"].to_numpy(), digits=2),
                "golden off its law": interval(part["golden_deviation"].to_numpy()),
                "R2": f"{summary[name]['golden_r2']['estimate']:.2f}",
                "verdicts": ", ".join(f"{n} {v}" for v, n in summary[name]["verdicts"].items() if n),
            }
        )
    return rows


def data_rows(epochs: pl.DataFrame) -> list[dict[str, Any]]:
    """Diversity of the offline data, means over seeds."""
    names = ("distinct_responses", "distinct_2", "overlap_2")
    offline = [one for one in ALARMED if not one.online]
    means = {one.name: epochs.filter(regime=one.name).select(pl.mean(*names).round(3)).row(0) for one in offline}
    return [
        {"regime": one.name, "prompts": one.prompts, "generations": one.generations}
        | dict(zip(names, means[one.name], strict=True))
        for one in offline
    ]


def truncation_rows(seed: int) -> list[dict[str, Any]]:
    """What storing the teacher's k most probable tokens of 20 costs, on 200 prompts and the student's start."""
    study = made(seed)
    prompts = study.family.prompts(study.data, seed=seed, split="distillation")
    responses = study.teacher[seed].sample(prompts, torch.Generator().manual_seed(seed))
    exact, own = (models[seed].logprobs(prompts, responses).detach() for models in (study.teacher, study.student))
    rows = []
    for k in (1, 2, 4, 8, 16):
        found = truncation_error(exact, own, responses, FORWARD_KL, top_k=k)
        rows.append({"k": k} | {name: f"{value:.3g}" for name, value in found.items()})
    return rows


def alarm_rows(alarms: dict[str, Any], stops: dict[str, Any]) -> list[dict[str, Any]]:
    """A row a regime: share of alarms, AUROC of each signal beside the online control, what stopping recovers."""
    rows = []
    for name, found in alarms.items():
        scores = found.get("auroc", {})
        named = {f"AUROC {signal}": f"{scores[signal]:.2f}" if scores else "" for signal in AUROCS}
        stop = {key: "" if value is None else f"{value:.3g}" for key, value in stops[name].items() if key != "runs"}
        rows.append({"regime": name, "runs": found["runs"], "alarms": f"{found['alarms']:.2f}"} | named | stop)
    return rows


app = typer.Typer(add_completion=False)


@app.command()
def runs(folder: Path) -> None:
    """Train, and write curves and epochs, a file each and a seed; seeds that are there are left."""
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    for seed in (*SEEDS, *HELD_OUT, *CALIBRATION):
        if (folder / f"epochs-{seed}.parquet").exists():
            continue
        curves, epochs = zip(*trained(seed), strict=True)
        pl.concat(curves).write_parquet(folder / f"curves-{seed}.parquet")
        pl.concat(epochs).write_parquet(folder / f"epochs-{seed}.parquet")
        typer.echo(f"seed {seed}: {len(curves)} runs", err=True)


@app.command()
def tables(folder: Path) -> None:
    """Print the tables of the page."""
    everything = read(folder, "curves", SEEDS)
    for title, part in (
        ("Regimes", without_ablations(everything)),
        *(
            (f"{loss_name(loss)}", everything.filter(pl.col("regime").str.ends_with(f", {loss_name(loss)}")))
            for loss in LOSSES
        ),
        ("The oracle as teacher", everything.filter(pl.col("regime").str.ends_with(ORACLE_TEACHES))),
        ("An over-trained teacher", everything.filter(pl.col("regime").str.ends_with(OVER_TRAINED_TEACHES))),
    ):
        control = next(name for name in part["regime"].unique().sort() if name.startswith(ONLINE.name))
        markdown(title, regime_rows(judged_runs(part, control=control, tolerance=TOLERANCE), part))
    calibration = (read(folder, "curves", SEEDS + CALIBRATION), read(folder, "epochs", SEEDS + CALIBRATION))
    held_out = (read(folder, "curves", HELD_OUT), read(folder, "epochs", HELD_OUT))
    alarm, alarms, stops = held_out_alarm(calibration, held_out)
    typer.echo(f"\n{alarm}")
    markdown("Alarm and stop on held-out runs", alarm_rows(alarms, stops))
    markdown(
        "Held-out runs", regime_rows(judged_runs(held_out[0], control=ONLINE.name, tolerance=TOLERANCE), held_out[0])
    )
    effects = remedy_effects(without_ablations(everything), BASELINE, list(ALARMED[1:]), RECIPE, alarm)
    numbers = effects.with_columns(pl.col(pl.Float64).round(3))
    markdown("Remedies beside offline_60, changes as log ratios", numbers.to_dicts())
    typer.echo(
        "\n".join(
            f"\nA prompt costs {cost:g} responses: {advice(effects, prompt_cost=cost).text}" for cost in (1, 1000)
        )
    )
    markdown("Diversity of the data", data_rows(read(folder, "epochs", SEEDS)))
    markdown("Truncation, seed 0", truncation_rows(0))


if __name__ == "__main__":
    app()
