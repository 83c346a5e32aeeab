"""Teacher hacking with tiny Llamas: what the ratio sees in seconds, and the study of the page with --full (minutes)."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
import torch

from benchmarks import teacher_hacking_transformers as study
from preflow.distil.regimes import Recipe, Regime
from preflow.distil.states import held_out_states
from preflow.distil.training import HeldOut, distil
from preflow.distil.verdicts import judged_runs
from tests.preflow.distil.test_transformer import drawn, tiny, turns


def test_a_transformer_memorises_a_few_responses_and_follows_its_teacher_on_fresh_ones():
    """The reduced form of hack-14: random models, eight prompts."""
    teacher = tiny(0, "small", scale=4.0).requires_grad_(requires_grad=False)
    states = held_out_states(teacher, turns("efgh"), generator=drawn(9))
    recipe, ends = Recipe(batch_size=8, lr=3e-3, checkpoints=4), {}
    for online in (False, True):
        one = Regime(name="r", prompts=8, generations=1, updates=40, online=online, student_share=0.0)
        ends[online] = distil(tiny(1), teacher, turns("ab"), one, recipe, HeldOut(states, None), seed=0).curve.tail(1)
    ratio = {online: (end["train_proxy"] / end["proxy"]).item() for online, end in ends.items()}
    assert ratio[False] < 0.5 * ratio[True]
    assert ends[True]["proxy"].item() < ends[False]["proxy"].item()


@cache
def judged():
    """Runs of the study's seeds, trained anew."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        given = study.family(study.taught_oracle(Path(folder) / "oracle"))
        curves = pl.concat([curve for seed in study.SEEDS for curve, _ in study.trained(given, seed)])
    return judged_runs(curves, control=study.ONLINE.name, tolerance=study.TOLERANCE)


def of(regime, column):
    return judged().filter(regime=regime).sort("seed")[column].to_numpy()


@pytest.mark.full
@pytest.mark.claim("hack-13")
def test_where_tiny_llamas_hack_their_teacher(record_claim):
    hacked = {
        name: int((of(name, "verdict") == "teacher_hacking").sum()) for name in (study.BASELINE.name, study.ONLINE.name)
    }
    offline, online = (of(one.name, "golden_end") for one in (study.BASELINE, study.ONLINE))
    rises = [", ".join(f"{100 * rise:.1f}" for rise in of(one.name, "golden_rise")) for one in study.REGIMES]
    record_claim(
        f"joint event in {hacked[study.BASELINE.name]} of {len(offline)} seeds offline and {hacked[study.ONLINE.name]} "
        f"online; golden rises by {dict(zip((one.name for one in study.REGIMES), rises, strict=True))} %; it ends at "
        f"{(online / offline).mean():.2f} of offline online, lower in {(online < offline).sum()} of {len(offline)}",
        holds=bool(hacked[study.BASELINE.name] > hacked[study.ONLINE.name] and (online < offline).all()),
        seeds=len(offline),
    )
    assert (online < offline).all()


@pytest.mark.full
@pytest.mark.claim("hack-14")
def test_the_ratio_tells_offline_from_online_runs_of_tiny_llamas(record_claim):
    offline, online = (of(one.name, "ratio_end") for one in (study.BASELINE, study.ONLINE))
    record_claim(
        f"train / val proxy at the end {offline.min():.2f} to {offline.max():.2f} offline, {online.min():.2f} to "
        f"{online.max():.2f} online",
        holds=bool(offline.max() < 0.5 < online.min()),
        seeds=len(offline),
    )
    assert offline.max() < online.min()
