import numpy as np
import polars as pl
import pytest
from scipy.stats import ttest_rel

from preflow.concepts.comparison import paired_comparisons, pareto_front
from preflow.concepts.losses import concept_loss
from preflow.concepts.networks import Architecture
from preflow.concepts.recipe import Recipe
from preflow.concepts.study import METRICS, concept_study, with_chosen
from preflow.world.concepts import class_world

WORLD = class_world((200, 80, 200), classes=5, concepts=4, inputs=8, scale=1.5, seed=0)
RECIPE = Recipe(
    architecture=Architecture(encoder="mlp", widths=[16], embedding=0),
    mode="joint", epochs=4, batch_size=32, lr=1e-2, checkpoints=2, intervened=0.25,
)  # fmt: skip
LOSSES = (concept_loss("bce"), concept_loss("forward_bce"), concept_loss("cpo_joint", beta=0.3, draws=2))


def studied(losses=LOSSES, **how):
    how = {"lambdas": (1.0, 4.0), "rates": (0.0, 0.2), "seeds": (0, 1)} | how
    return concept_study(lambda rate, seed: WORLD.noisy(rate=rate, seed=seed), losses, RECIPE, **how)


@pytest.fixture(scope="module")
def runs():
    return studied()


def test_there_is_a_row_a_run_and_checkpoint_with_every_setting_and_score(runs):
    assert len(runs) == 2 * 2 * 3 * 2 * 2
    assert set(METRICS) <= set(runs.columns)
    assert runs.filter(loss="cpo_joint").select("method", "beta", "reduction", "samples").unique().rows() == [
        ("cpo_joint, beta 0.3", 0.3, "mean", 2)
    ]
    assert runs.filter(rate=0.0)["memorised"].is_nan().all()
    assert runs.drop_nulls(METRICS).filter(pl.col("rate") > 0)["memorised"].is_between(0, 1).all()
    assert (runs.filter(checkpoint="last")["peak_to_final_auc"] >= 0).all()


def test_one_lambda_is_chosen_a_loss_checkpoint_seed_and_rate_by_its_validation_score(runs):
    groups = ["method", "checkpoint", "rate", "seed"]
    assert (runs.group_by(groups).agg(pl.col("chosen").sum())["chosen"] == 1).all()
    best = pl.col("validation_score").max().over(groups)
    assert (runs.filter("chosen")["validation_score"] == runs.with_columns(best=best).filter("chosen")["best"]).all()


def test_the_same_study_repeats_to_the_same_values(runs):
    again = studied(rates=(0.2,), seeds=(1,))
    assert again.equals(runs.filter(rate=0.2, seed=1).select(again.columns))


def test_equal_scores_choose_the_least_lambda():
    table = pl.DataFrame(
        {"method": "m", "checkpoint": "best", "lambda": [4.0, 1.0, 2.0], "validation_score": [0.5, 0.5, 0.4]}
    )
    assert with_chosen(table)["chosen"].to_list() == [False, True, False]


def table(**methods):
    """Runs of one rate: method -> (AUC, task accuracy) a seed."""
    rows = [
        {
            "rate": 0.2, "checkpoint": "best", "method": method, "loss": method, "lambda": 1.0, "beta": None,
            "reduction": "mean", "samples": 0, "seed": seed, "chosen": True, "concept_auc": auc, "task_accuracy": task,
        }
        for method, values in methods.items()
        for seed, (auc, task) in enumerate(values)
    ]  # fmt: skip
    return pl.DataFrame(rows)


def test_the_front_is_what_nothing_passes_in_both_goals():
    points = pareto_front(
        table(a=[(0.9, 0.8), (0.9, 0.8)], b=[(0.8, 0.9), (0.8, 0.9)], c=[(0.8, 0.8), (0.8, 0.8)], d=[(0.9, 0.8)] * 2)
    )
    assert dict(points.select("method", "on_front").iter_rows()) == {"a": True, "b": True, "c": False, "d": True}
    assert points["seeds"].to_list() == [2] * 4
    assert points["concept_auc_se"].to_list() == [0] * 4


def test_paired_differences_are_those_of_the_t_test():
    rng = np.random.default_rng(0)
    first, second = rng.random((2, 6))
    runs = table(bce=[(a, 0.5) for a in first], x=[(a, 0.5) for a in second], y=[(a + 1, 0.5) for a in first])
    found = paired_comparisons(runs, baseline="bce", checkpoint="best", metrics=("concept_auc", "task_accuracy"))
    row = found.filter(method="x", metric="concept_auc").row(0, named=True)
    test = ttest_rel(second, first)
    assert row["p_value"] == pytest.approx(test.pvalue)
    assert (row["low"], row["high"]) == pytest.approx(tuple(test.confidence_interval()))
    assert row["difference"] == pytest.approx((second - first).mean())
    assert row["positive"] == int((second > first).sum())
    assert row["p_adjusted"] >= row["p_value"]
    same = found.filter(metric="task_accuracy")
    assert same["p_value"].to_list() == [1, 1]


def test_comparisons_without_baseline_or_with_one_seed_are_refused():
    with pytest.raises(ValueError, match=r"baseline 'bce' was not run; there are \['a'\]"):
        paired_comparisons(table(a=[(1.0, 1.0)] * 2), baseline="bce", checkpoint="best", metrics=("concept_auc",))
    with pytest.raises(ValueError, match="at least two seeds"):
        paired_comparisons(table(a=[(1.0, 1.0)]), baseline="a", checkpoint="best", metrics=("concept_auc",))
