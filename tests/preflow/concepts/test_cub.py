import polars as pl
import pytest

from preflow.concepts.cub import CELL_FILE, load_cub, with_validation
from preflow.concepts.loading import load_concepts
from tests.preflow.concepts.conftest import IMAGE, check, lines, refusals, splits_of, stated, write

BIRDS = ("001.Black_footed_Albatross", "002.Laysan_Albatross")
ATTRIBUTES = ("has_bill_shape::curved_(up_or_down)", "has_bill_shape::dagger", "has_wing_color::blue")
PER_CLASS = 10


def images():
    """Number and name of each image; the first half of each class is for training, as published."""
    return [
        (1 + row, f"{bird}/{bird[4:]}_{1 + row % PER_CLASS:04d}_{796000 + row}.jpg", 1 + row // PER_CLASS)
        for bird_number, bird in enumerate(BIRDS)
        for row in range(bird_number * PER_CLASS, (bird_number + 1) * PER_CLASS)
    ]


def cub(root, labels=None):
    """A folder as the archive unpacks; `labels`: the lines of the attribute file."""
    all_labels = [f"{image} {number} {number % 2} 4 2.349" for image, _, _ in images() for number in (1, 2, 3)]
    base = "CUB_200_2011/"
    return write(
        root,
        {
            "attributes.txt": lines(f"{1 + i} {name}" for i, name in enumerate(ATTRIBUTES)),
            base + "images.txt": lines(f"{number} {name}" for number, name, _ in images()),
            base + "classes.txt": lines(f"{1 + i} {bird}" for i, bird in enumerate(BIRDS)),
            base + "image_class_labels.txt": lines(f"{number} {bird}" for number, _, bird in images()),
            base + "train_test_split.txt": lines(f"{n} {int((n - 1) % PER_CLASS < 5)}" for n, _, _ in images()),
            base + CELL_FILE: lines(all_labels if labels is None else labels),
        }
        | {f"{base}images/{name}": IMAGE for _, name, _ in images()},
    )


def load(root, min_classes=None):
    return check(load_concepts(str(root), seed=0, image_side=8, min_classes=min_classes, code=None, one_in=1))


def test_the_archive_as_it_unpacks(tmp_path):
    data = load(cub(tmp_path))
    assert (len(data.items), data.cells, len(data.labels), len(data.quarantine)) == (20, 60, 60, 0)
    assert data.concepts["concept"].to_list() == list(ATTRIBUTES)
    assert data.concepts["group"].to_list() == ["has_bill_shape", "has_bill_shape", "has_wing_color"]
    assert data.items["label"].unique().sort().to_list() == list(BIRDS)
    assert {value for (_, concept), value in stated(data).items() if concept == ATTRIBUTES[1]} == {False}
    assert set(data.labels["certainty"]) == {4}


def test_attribute_names_inside_the_folder_serve_as_well(tmp_path):
    root = cub(tmp_path)
    inside = root / "CUB_200_2011"
    (root / "attributes.txt").rename(inside / "attributes" / "attributes.txt")
    assert len(load(inside).labels) == 60
    (inside / "attributes" / "attributes.txt").unlink()
    with pytest.raises(ValueError, match=r"has no attributes\.txt"):
        load(inside)


def test_the_published_test_split_stays_and_validation_is_a_fifth_of_train(tmp_path):
    splits = splits_of(load(cub(tmp_path)))
    published = {name: "train" if (number - 1) % PER_CLASS < 5 else "test" for number, name, _ in images()}
    assert {name for name, split in splits.items() if split == "test"} == {
        name for name, split in published.items() if split == "test"
    }
    held_out = [name for name, split in splits.items() if split == "validation"]
    assert sorted(name.split("/")[0] for name in held_out) == list(BIRDS), "one of the five of each class"


def test_lines_with_extra_columns_tabs_and_carriage_returns_are_read(tmp_path):
    data = load(cub(tmp_path, ["1 1 1 3 0 2.349", "1 2 0 3 1.0 0 0", "1\t3\t1\t2\t9", " 2  1  1  4  3 \r"]))
    assert len(data.quarantine) == 0
    assert data.labels["certainty"].to_list() == [3, 3, 2, 4]
    assert data.labels["probability"].to_list() == [0.75, 0.25, 0.5, 1.0]


def test_the_soft_labels_are_those_of_koh(tmp_path):
    rows = [f"{1 + i} 1 {present} {certainty} 1" for i, (present, certainty) in enumerate(
        (present, certainty) for present in (1, 0) for certainty in (1, 2, 3, 4)
    )]  # fmt: skip
    data = load(cub(tmp_path, rows))
    assert data.labels["probability"].to_list() == [0, 0.5, 0.75, 1, 0, 0.5, 0.25, 0]


def test_malformed_cells_are_refused_one_by_one_with_their_line(tmp_path):
    rows = ["1 1 1 4 1", "1 2 2 4 1", "1 3 1 7 1", "99 1 1 4 1", "2 44 1 4 1", "2 2 1", "2 1 0 4 1", "1 1 0 4 1", "x"]
    data = load(cub(tmp_path, rows))
    assert (data.cells, len(data.labels)) == (9, 2)
    assert refusals(data, "source_file", "source_line", "reason") == {
        (CELL_FILE, 2, "value_not_binary"),
        (CELL_FILE, 3, "certainty_not_1_to_4"),
        (CELL_FILE, 4, "unknown_item"),
        (CELL_FILE, 5, "unknown_concept"),
        (CELL_FILE, 6, "short_line"),
        (CELL_FILE, 8, "duplicate_cell"),
        (CELL_FILE, 9, "short_line"),
    }
    assert (CELL_FILE, ATTRIBUTES[1], "1 2 2 4 1") in refusals(data, "source_file", "concept", "raw")


def test_cells_of_an_image_that_cannot_be_used_are_refused_with_it(tmp_path):
    root = cub(tmp_path)
    names = [name for _, name, _ in images()]
    (root / "CUB_200_2011" / "images" / names[0]).unlink()
    (root / "CUB_200_2011" / "images" / names[1]).write_bytes(b"broken")
    data = load(root)
    assert (len(data.items), len(data.labels), data.refused_cells) == (18, 54, 6)
    assert refusals(data, "source_file", "source_line", "item", "reason") >= {
        ("images.txt", 1, names[0], "missing_image_file"),
        ("images.txt", 2, names[1], "undecodable_image"),
        (CELL_FILE, 1, "1", "missing_image_file"),
        (CELL_FILE, 4, "2", "undecodable_image"),
    }


def test_no_image_is_read_from_outside_the_folder(tmp_path):
    root = cub(tmp_path / "data")
    write(tmp_path, {"secret.jpg": b"secret"})
    listed = root / "CUB_200_2011" / "images.txt"
    link = root / "CUB_200_2011" / "images" / "link.jpg"
    link.symlink_to(tmp_path / "secret.jpg")
    listed.write_text(f"1 ../../../secret.jpg\n2 {tmp_path}/secret.jpg\n3 link.jpg\n")
    data = load_concepts(str(root), seed=0, image_side=8, min_classes=None, code=None, one_in=1)
    assert len(data.items) == 0
    outside = data.quarantine.filter(data.quarantine["source_file"] == "images.txt")
    assert outside["reason"].to_list() == ["image_outside_folder", "missing_image_file", "image_outside_folder"]


def test_broken_lines_of_the_lists_are_refused_and_their_images_with_them(tmp_path):
    root = cub(tmp_path)
    base = root / "CUB_200_2011"
    write(base, {"image_class_labels.txt": lines(["1 1", "2", "3 9", "4 1", "4 2"])})
    data = load(root)
    assert list(splits_of(data)) == [images()[0][1], images()[3][1]]
    assert refusals(data, "source_file", "source_line", "reason") >= {
        ("image_class_labels.txt", 2, "short_line"),
        ("image_class_labels.txt", 5, "repeated_entry"),
        ("images.txt", 2, "no_label"),
        ("images.txt", 3, "no_label"),
    }


def annotated(votes):
    """Lines for attribute 1: votes[class] is the value and certainty given to all images of the class in turn."""
    rows = []
    for number, _, bird in images():
        for attribute in (1, 2, 3):
            value, certainty = votes[attribute][bird - 1][(number - 1) % PER_CLASS % len(votes[attribute][bird - 1])]
            rows.append(f"{number} {attribute} {value} {certainty} 1")
    return rows


def test_denoising_takes_the_majority_of_the_class_without_what_is_not_visible(tmp_path):
    """Attribute 1 is true by majority in class 1 only; 2: absent but never visible, no vote, so true; 3: never true."""
    votes = {1: [[(1, 4)], [(0, 4)]], 2: [[(0, 1)], [(0, 1)]], 3: [[(0, 3)], [(0, 3)]]}
    data = load(cub(tmp_path, annotated(votes)), min_classes=1)
    assert data.concepts["concept"].to_list() == [ATTRIBUTES[0], ATTRIBUTES[1]]
    assert data.concepts["level"].unique().to_list() == ["class"]
    values = stated(data)
    assert {value for (name, concept), value in values.items() if concept == ATTRIBUTES[1]} == {True}
    first = {(name.split("/")[0], value) for (name, concept), value in values.items() if concept == ATTRIBUTES[0]}
    assert first == {(BIRDS[0], True), (BIRDS[1], False)}
    assert data.left_out == 20
    assert load(tmp_path, min_classes=2).concepts["concept"].to_list() == [ATTRIBUTES[1]]


def test_a_tie_is_true_and_a_minority_is_corrected(tmp_path):
    """Of the four voters of each class, two present (tie), then one present and three absent."""
    root = cub(tmp_path)
    splits = splits_of(load(root))
    voters = {bird: [n for n, name, b in images() if b == bird and splits[name] == "train"] for bird in (1, 2)}
    assert [len(voters[bird]) for bird in (1, 2)] == [4, 4]
    present = {1: set(voters[1][:2]), 2: set(voters[2][:1])}
    rows = [f"{n} 1 {int(n in present[bird])} 4 1" for n, _, bird in images()]
    data = load(cub(root, rows), min_classes=1)
    assert {(name.split("/")[0], value) for (name, _), value in stated(data).items()} == {
        (BIRDS[0], True), (BIRDS[1], False)
    }  # fmt: skip


def test_validation_and_test_images_have_no_vote(tmp_path):
    root = cub(tmp_path)
    splits = splits_of(load(root))
    rows = [f"{n} 1 {int(splits[name] != 'train')} 4 1" for n, name, _ in images()]
    with_votes = load(cub(root, rows), min_classes=0)
    assert set(stated(with_votes).values()) == {False}


def test_the_same_folder_and_seed_give_the_same_tables(tmp_path):
    first, again = (load(cub(tmp_path), min_classes=1) for _ in range(2))
    for name in ("items", "labels", "concepts", "quarantine"):
        assert getattr(first, name).equals(getattr(again, name))


def test_the_loader_takes_the_names_it_is_given(tmp_path):
    root = cub(tmp_path)
    data = load_cub(root / "CUB_200_2011", root / "attributes.txt", seed=1, image_side=8, min_classes=None)
    assert len(data.labels) == 60


def test_validation_is_carved_out_of_train_alone():
    labels = pl.Series([f"{row % 5}" for row in range(100)])
    given = pl.Series(["train" if row < 50 else "test" for row in range(100)])
    carved = with_validation(given, labels, seed=0)
    assert carved[50:].to_list() == ["test"] * 50
    held_out = labels.filter(carved == "validation").value_counts()
    assert held_out["count"].to_list() == [2] * 5
