import numpy as np
import polars as pl
import pytest
from scipy.stats import binom, binomtest, spearmanr

from preflow.concepts.digits import load_digits_8x8
from preflow.concepts.noise import ANNOTATORS, LEAST, MOST, dealt_annotators, flip_chances, plant_noise
from preflow.concepts.schemas import NoisyConceptLabels, TrueConceptLabels

MODELS = ("uniform", "class_conditional", "annotator", "visibility", "adversarial")
RATES = (0.1, 0.3, 0.4)
TAIL = 1e-6


@pytest.fixture(scope="module")
def data():
    """Digits whose labels have a certainty, 1 to 4 at random, so that every model applies."""
    read = load_digits_8x8(seed=0)
    certainty = pl.Series(np.random.default_rng(0).integers(1, 5, len(read.labels)), dtype=pl.Int8)
    return read.items, read.concepts, read.labels.with_columns(certainty=certainty)


def planted(data, model, rate=0.3, *, exact=True, seed=0):
    noisy, truth = plant_noise(*data, model=model, rate=rate, exact=exact, seed=seed)
    NoisyConceptLabels.validate(noisy)
    TrueConceptLabels.validate(truth)
    return noisy, truth


def facts(data, truth):
    """The truth with all that is known of each cell."""
    items, _, labels = data
    about = labels.select("item_id", "concept", "certainty", "annotator")
    cells = truth.join(about, on=["item_id", "concept"]).join(items.select("item_id", "label", "split"), on="item_id")
    return cells.with_columns(pl.col("split").cast(pl.String)).sort("item_id", "concept")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("rate", RATES)
def test_exactly_the_stated_number_of_cells_is_flipped_in_train_and_in_validation(data, model, rate):
    _, truth = planted(data, model, rate)
    counts = facts(data, truth).group_by("split").agg(pl.col("flipped").sum(), n=pl.len())
    assert len(counts) == 3
    for split, flipped, n in counts.iter_rows():
        assert flipped == (0 if split == "test" else int(rate * n))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("rate", RATES)
def test_bernoulli_flips_have_the_stated_mean(data, model, rate):
    """The variance of independent flips of unequal chance is at most that of the binomial of their mean."""
    _, truth = planted(data, model, rate, exact=False)
    counts = (
        facts(data, truth).filter(pl.col("split") != "test").group_by("split").agg(pl.col("flipped").sum(), n=pl.len())
    )
    assert len(counts) == 2
    for _, flipped, n in counts.iter_rows():
        assert binom.ppf(TAIL, n, rate) <= flipped <= binom.ppf(1 - TAIL, n, rate)
        assert flipped != int(rate * n)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("exact", [True, False])
def test_the_noisy_labels_are_the_true_ones_but_for_the_flips_and_test_has_none(data, model, exact):
    noisy, truth = planted(data, model, exact=exact)
    _, _, labels = data
    assert truth.drop("flipped").equals(labels.select("item_id", "concept", "value").sort("item_id", "concept"))
    cells = facts(data, truth)
    assert not cells.filter(pl.col("split") == "test")["flipped"].any()
    learned = cells.filter(pl.col("split") != "test")
    assert noisy.select("item_id", "concept").equals(learned.select("item_id", "concept"))
    assert (noisy["value"] != learned["value"]).equals(learned["flipped"].alias("value"))


@pytest.mark.parametrize("model", MODELS)
def test_the_same_seed_gives_the_same_flips_and_another_seed_others(data, model):
    items, concepts, labels = data
    first = planted(data, model)
    again = planted((items.reverse(), concepts, labels.sample(fraction=1, shuffle=True, seed=1)), model)
    assert first[0].equals(again[0]), "whatever the order of the rows"
    assert first[1].equals(again[1])
    assert not first[1].equals(planted(data, model, seed=1)[1])


@pytest.mark.parametrize(("model", "rate"), [("none", 0.3), ("uniform", 0.0), ("adversarial", 0.0)])
def test_no_noise_changes_nothing(data, model, rate):
    noisy, truth = planted(data, model, rate)
    assert not truth["flipped"].any()
    assert noisy["value"].equals(facts(data, truth).filter(pl.col("split") != "test")["value"])


def test_all_labels_can_be_flipped(data):
    noisy, truth = planted(data, "adversarial", 1.0)
    assert facts(data, truth).filter(pl.col("split") != "test")["flipped"].all()
    assert len(noisy) > 30_000


def rates(data, truth, by):
    cells = facts(data, truth).filter(pl.col("split") == "train")
    return cells.group_by(by).agg(pl.col("flipped").mean(), n=pl.len()).sort(by)


def test_uniform_noise_falls_on_every_class_and_concept_alike(data):
    """Control of the next tests: no class departs from the rate more than chance allows, 1 % over all ten."""
    _, truth = planted(data, "uniform", exact=False)
    table = rates(data, truth, "label")
    p = [binomtest(round(rate * n), n, 0.3).pvalue for _, rate, n in table.iter_rows()]
    assert len(p) == 10
    assert min(p) > 0.001


@pytest.mark.parametrize("seed", range(3))
def test_classes_have_the_rates_that_were_planted(data, seed):
    _, truth = planted(data, "class_conditional", exact=False, seed=seed)
    table = rates(data, truth, "label")
    weights = np.random.default_rng(seed).permutation(np.linspace(LEAST, MOST, 10))
    assert spearmanr(table["flipped"], weights).statistic > 0.95
    assert table["flipped"].to_numpy() == pytest.approx(0.3 * weights, abs=0.05)


@pytest.mark.parametrize("exact", [True, False])
def test_annotators_have_rates_of_their_own(data, exact):
    items, concepts, labels = data
    named = labels.sort("item_id", "concept")
    named = named.with_columns(annotator=dealt_annotators(named, seed=7))
    assert named["annotator"].n_unique() == ANNOTATORS
    assert named.group_by("item_id").agg(pl.col("annotator").n_unique())["annotator"].unique().to_list() == [1]
    given = (items, concepts, named)
    table = rates(given, planted(given, "annotator", exact=exact)[1], "annotator")
    assert np.sort(table["flipped"].to_numpy()) == pytest.approx(0.3 * np.linspace(LEAST, MOST, ANNOTATORS), abs=0.04)


def test_items_without_annotator_are_dealt_to_some(data):
    _, _, labels = data
    noised = labels.join(data[0].filter(pl.col("split") != "test").select("item_id"), on="item_id").sort(
        "item_id", "concept"
    )
    _, truth = planted(data, "annotator", exact=False, seed=3)
    dealt = noised.with_columns(annotator=dealt_annotators(noised, seed=3))
    table = rates((data[0], data[1], dealt), truth, "annotator").drop_nulls()
    assert len(table) == ANNOTATORS
    assert table["flipped"].min() < 0.12
    assert table["flipped"].max() > 0.45


def test_what_is_less_visible_is_flipped_more(data):
    table = rates(data, planted(data, "visibility", 0.2, exact=False)[1], "certainty")
    assert table["flipped"].to_numpy() == pytest.approx(0.2 * np.array([4, 3, 2, 1]) / 2.5, abs=0.03)


def test_visibility_without_certainty_names_the_remedy(data):
    items, concepts, labels = data
    unknown = labels.with_columns(certainty=pl.lit(None, pl.Int8))
    with pytest.raises(ValueError, match="take CUB-200-2011, add a column certainty"):
        plant_noise(items, concepts, unknown, model="visibility", rate=0.2, exact=True, seed=0)


def class_distances(data, truth, noisy):
    """Of each train item: disagreements of its noisy concepts with its own class and with the nearest other class."""
    cells = facts(data, truth).filter(pl.col("split") != "test")
    cells = cells.with_columns(noisy=noisy["value"])
    means = cells.pivot("concept", index="label", values="value", aggregate_function="mean", sort_columns=True).sort(
        "label"
    )
    profile = means.drop("label").to_numpy()
    gap = np.abs(profile[:, None] - profile[None]).sum(2) + 99 * np.eye(len(profile))
    wide = cells.pivot("concept", index=["item_id", "label"], values="noisy", sort_columns=True)
    own = np.searchsorted(means["label"].to_numpy().astype(str), wide["label"].to_numpy().astype(str))
    values = wide.drop("item_id", "label").to_numpy()
    majority = profile >= 0.5
    return (values != majority[own]).sum(1), (values != majority[gap.argmin(1)[own]]).sum(1)


def test_an_adversary_moves_items_to_the_class_most_like_theirs(data):
    """At 10 % the cells that tell the two classes apart do not run out: near all flips are among them."""
    moved = {}
    for model in ("uniform", "adversarial"):
        noisy, truth = planted(data, model, 0.1)
        own, other = class_distances(data, truth, noisy)
        moved[model] = float((other < own).mean())
    assert moved["uniform"] < 0.1
    assert moved["adversarial"] > 5 * moved["uniform"]


def test_an_adversary_prefers_informative_concepts(data):
    table = rates(data, planted(data, "adversarial", 0.1, exact=False)[1], "concept").join(data[1], on="concept")
    share = dict(table.group_by("level").agg(pl.col("flipped").mean()).iter_rows())
    assert share["class"] > 1.5 * share["item"]


def test_chances_keep_their_mean_when_some_are_certain():
    """By hand: .6 of 5 cells are 3; the cell of weight 12 is certain, the others share 2 as 1, 1, 1, 1."""
    assert flip_chances(np.array([1.0, 1.0, 12.0, 1.0, 1.0]), 0.6).tolist() == [0.5, 0.5, 1.0, 0.5, 0.5]
    weights = np.random.default_rng(0).pareto(0.5, 1000) + 1e-6
    for rate in (0.01, 0.5, 0.99, 1.0):
        chances = flip_chances(weights, rate)
        assert chances.mean() == pytest.approx(rate)
        assert 0 <= chances.min() <= chances.max() <= 1


def test_exact_counts_keep_the_chance_of_each_cell():
    """One item a class, weights from LEAST to MOST: over 400 seeds each cell is flipped as often as its chance says."""
    n, seeds = 10, 400
    ids = [f"{row:032x}" for row in range(n)]
    items = pl.DataFrame({"item_id": ids, "label": [str(row) for row in range(n)], "split": "train"})
    concepts = pl.DataFrame({"concept": ["c"]})
    labels = pl.DataFrame({"item_id": ids, "concept": "c", "value": True, "certainty": [1, 4] * 5, "annotator": None})
    times = np.zeros(n)
    for seed in range(seeds):
        _, truth = plant_noise(items, concepts, labels, model="visibility", rate=0.3, exact=True, seed=seed)
        assert truth["flipped"].sum() == 3
        times += truth["flipped"].to_numpy()
    chances = 0.3 * np.array([4, 1] * 5) / 2.5
    assert (np.abs(times - seeds * chances) < 4.5 * np.sqrt(seeds * chances * (1 - chances))).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model": "gaussian"}, "models are none, uniform"),
        ({"rate": 1.2}, "rates 0 to 1"),
    ],
)
def test_unknown_models_and_rates_are_refused(data, given, message):
    with pytest.raises(ValueError, match=message):
        plant_noise(*data, **({"model": "uniform", "rate": 0.1, "exact": True, "seed": 0} | given))


def test_labels_of_other_tables_are_refused(data):
    items, concepts, labels = data
    with pytest.raises(ValueError, match="22 labels are of no given item"):
        plant_noise(items.tail(-1), concepts, labels, model="uniform", rate=0.1, exact=True, seed=0)


def test_one_class_cannot_be_confused(data):
    items, concepts, labels = data
    with pytest.raises(ValueError, match="one class only"):
        plant_noise(
            items.with_columns(label=pl.lit("a")), concepts, labels, model="adversarial", rate=0.1, exact=True, seed=0
        )
