import math

import numpy as np
import polars as pl
import pytest
import torch

from preflow.concepts.arrays import class_names, concept_arrays
from preflow.concepts.digits import load_digits_8x8
from preflow.concepts.noise import plant_noise
from preflow.concepts.splits import noisy_splits

CONCEPTS = pl.DataFrame({"concept": ["striped", "big"]})


def items(features=([1.0, 2.0], [3.0, 4.0], [5.0, 6.0])):
    return pl.DataFrame(
        {
            "item_id": ["c", "a", "b"],
            "label": ["zebra", "ant", "bear"],
            "split": ["train", "train", "test"],
            "features": features,
            "image": [None, None, None],
        },
        schema_overrides={"image": pl.Binary, "features": pl.List(pl.Float32)},
    )


def labels(*rows):
    return pl.DataFrame(rows, schema=["item_id", "concept", "value"], orient="row")


def test_cells_find_their_place_and_missing_ones_are_nan():
    cells = labels(("c", "striped", True), ("c", "big", True), ("a", "big", False), ("b", "big", True))
    arrays = concept_arrays(items(), cells, CONCEPTS, "train")
    assert arrays.item_ids == ["a", "c"]
    assert arrays.inputs.tolist() == [[3, 4], [1, 2]]
    assert arrays.concepts[:, 0].tolist() == [0, 1]  # big, the first by name
    assert math.isnan(arrays.concepts[0, 1])
    assert arrays.concepts[1, 1] == 1
    assert [class_names(items())[number] for number in arrays.classes] == ["ant", "zebra"]


def test_rows_can_be_taken():
    part = concept_arrays(items(), labels(("a", "big", True)), CONCEPTS, "train")[torch.tensor([1])]
    assert (part.item_ids, part.inputs.tolist(), len(part)) == (["c"], [[1, 2]], 1)


def test_a_split_without_items_and_inputs_of_different_shape_are_refused():
    with pytest.raises(ValueError, match=r"split 'validation' has no item; there are \['test', 'train'\]"):
        concept_arrays(items(), labels(("a", "big", True)), CONCEPTS, "validation")
    with pytest.raises(ValueError, match="must be of one shape"):
        concept_arrays(items(([1.0], [1.0, 2.0], [1.0])), labels(("a", "big", True)), CONCEPTS, "train")


def test_images_become_channels_between_0_and_1():
    from preflow.concepts.digits import grey_png

    pytest.importorskip("PIL")
    pixels = np.linspace(0, 1, 12).reshape(3, 4)
    table = items().with_columns(features=pl.lit(None, pl.List(pl.Float32)), image=pl.lit(grey_png(pixels)))
    arrays = concept_arrays(table, labels(("a", "big", True)), CONCEPTS, "train")
    assert arrays.inputs.shape == (2, 1, 3, 4)
    assert np.abs(arrays.inputs[0, 0].numpy() - pixels).max() <= 0.5 / 255 + 1e-6


def test_digits_with_planted_noise_keep_the_truth_apart():
    data = load_digits_8x8(seed=0)
    noisy, truth = plant_noise(data.items, data.concepts, data.labels, model="uniform", rate=0.2, exact=True, seed=0)
    splits = noisy_splits(data.items, data.concepts, noisy, truth)
    wrong = splits.train.concepts != splits.true_train
    assert int(wrong.sum()) == int(0.2 * wrong.numel())
    assert len(splits.train) + len(splits.validation) + len(splits.test) == 1797
    assert splits.test.concepts.shape[1] == len(data.concepts) == 22
    assert splits.classes == 10
