from collections import Counter

import pytest

from preflow.concepts.loading import load_concepts
from tests.preflow.concepts.conftest import IMAGE, check, lines, refusals, splits_of, stated, write

ANIMALS = ("antelope", "grizzly+bear", "killer+whale")
PREDICATES = ("black", "white", "swims", "new world")
MATRIX = ((0, 1, 0, 0), (1, 0, 0, 1), (1, 1, 1, 0))
PER_CLASS = 10


def image(animal, row):
    return f"{animal}/{animal}_{10001 + row}.jpg"


def awa2(root, matrix=None):
    matrix = [" ".join(map(str, row)) for row in MATRIX] if matrix is None else matrix
    return write(
        root,
        {
            "classes.txt": lines(f"{i:8d}\t{animal}" for i, animal in enumerate(ANIMALS, 1)),
            "predicates.txt": lines(f"{i:8d}\t{name.replace(' ', '')}" for i, name in enumerate(PREDICATES, 1)),
            "predicate-matrix-binary.txt": lines(matrix),
        }
        | {f"JPEGImages/{image(animal, row)}": IMAGE for animal in ANIMALS for row in range(PER_CLASS)},
    )


def load(root):
    return check(load_concepts(str(root), seed=0, image_side=8, min_classes=None, code=None, one_in=1))


def test_every_image_has_the_predicates_of_its_class(tmp_path):
    data = load(awa2(tmp_path))
    assert (len(data.items), len(data.labels), len(data.quarantine)) == (30, 120, 0)
    names = [name.replace(" ", "") for name in PREDICATES]
    assert data.concepts["concept"].to_list() == names
    wanted = {
        (image(animal, row), name): bool(value)
        for animal, values in zip(ANIMALS, MATRIX, strict=True)
        for name, value in zip(names, values, strict=True)
        for row in range(PER_CLASS)
    }
    assert stated(data) == wanted


def test_images_are_dealt_70_10_20_with_every_class_in_training(tmp_path):
    splits = splits_of(load(awa2(tmp_path)))
    assert Counter(splits.values()) == {"train": 21, "validation": 3, "test": 6}
    assert Counter((name.split("/")[0], split) for name, split in splits.items()) == {
        (animal, split): n for animal in ANIMALS for split, n in (("train", 7), ("validation", 1), ("test", 2))
    }


def test_a_bad_value_of_a_class_is_refused_for_each_of_its_images(tmp_path):
    data = load(awa2(tmp_path, ["0 1 0 0", "1 0.5 0 1", "1 1 1"]))
    assert data.refused_cells == PER_CLASS * (1 + 4)
    assert refusals(data, "source_line", "item", "concept", "reason", "raw") >= {
        (2, image("grizzly+bear", 0), "white", "value_not_binary", "0.5"),
        (3, image("killer+whale", 9), "swims", "wrong_number_of_values", "1 1 1"),
    }


def test_a_matrix_of_other_size_than_the_classes_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="2 rows for 3 classes"):
        load(awa2(tmp_path, ["0 1 0 0", "1 0 0 1"]))


def test_images_that_are_of_no_class_or_do_not_decode_are_refused(tmp_path):
    root = awa2(tmp_path)
    write(root, {"JPEGImages/unicorn/1.jpg": IMAGE, f"JPEGImages/{image('antelope', 0)}": b"broken"})
    data = load(root)
    assert len(data.items) == 29
    assert data.refused_cells == 4
    assert refusals(data, "item", "reason") == {
        ("unicorn/1.jpg", "unknown_class"),
        (image("antelope", 0), "undecodable_image"),
    }


def test_without_images_there_are_no_items(tmp_path):
    root = awa2(tmp_path)
    (root / "JPEGImages").rename(root / "elsewhere")
    with pytest.raises(ValueError, match="no images"):
        load(root)
