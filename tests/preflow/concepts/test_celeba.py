import pytest

from preflow.concepts.celeba import Code, celeba_files, coded_attributes, face_attributes
from preflow.concepts.loading import load_concepts
from tests.preflow.concepts.conftest import IMAGE, check, lines, refusals, splits_of, stated, write

NAMES = ("Bald", "Bangs", "Smiling", "Young")
FACES = 20


def face(row):
    return f"{1 + row:06d}.jpg"


def values(row):
    """Young: always; Smiling: every second; Bangs: every third; Bald: every fifth."""
    return [row % 5 == 0, row % 3 == 0, row % 2 == 0, True]


def attribute_lines():
    return [f"{face(row)} " + " ".join(f"{1 if value else -1:2d}" for value in values(row)) for row in range(FACES)]


def celeba(root, rows=None, count=None, where=("", "", "")):
    rows = attribute_lines() if rows is None else rows
    anno, parts, images = where
    return write(
        root,
        {
            anno + "list_attr_celeba.txt": lines([len(rows) if count is None else count, " ".join(NAMES) + " ", *rows]),
            parts + "list_eval_partition.txt": lines(f"{face(row)} {(0, 0, 0, 1, 2)[row % 5]}" for row in range(FACES)),
            anno + "identity_CelebA.txt": lines(f"{face(row)} {100 + row % 4}" for row in range(FACES)),
        }
        | {f"{images}img_align_celeba/{face(row)}": IMAGE for row in range(FACES)},
    )


def load(root, code=None, one_in=1):
    return check(load_concepts(str(root), seed=0, image_side=8, min_classes=None, code=code, one_in=one_in))


@pytest.mark.parametrize("where", [("", "", ""), ("Anno/", "Eval/", "Img/")])
def test_the_published_files_with_double_spaces(tmp_path, where):
    data = load(celeba(tmp_path, where=where))
    assert (len(data.items), len(data.labels), len(data.quarantine)) == (FACES, FACES * len(NAMES), 0)
    assert stated(data) == {
        (face(row), name): v for row in range(FACES) for name, v in zip(NAMES, values(row), strict=True)
    }
    assert splits_of(data) == {
        face(row): ("train", "train", "train", "validation", "test")[row % 5] for row in range(FACES)
    }
    assert set(data.items["label"]) == {"100", "101", "102", "103"}
    assert data.labels["certainty"].is_null().all()


def test_the_code_makes_classes_of_the_attributes_nearest_one_half(tmp_path):
    data = load(celeba(tmp_path), code=Code(concepts=2, hidden=1))
    assert data.concepts["concept"].to_list() == ["Bangs", "Smiling"], "in the file's order; Bald is hidden"
    wanted = {
        face(row): "".join(str(int(v)) for v in (values(row)[1], values(row)[2], values(row)[0]))
        for row in range(FACES)
    }
    assert dict(data.items.select("name", "label").iter_rows()) == wanted
    assert data.left_out == FACES * 2


def test_attributes_of_equal_distance_are_taken_in_the_order_of_the_file(tmp_path):
    rows = [f"{face(row)} {1 if row < 15 else -1} {1 if row < 5 else -1} 1 1" for row in range(FACES)]
    cells, names, _ = face_attributes(celeba_files(celeba(tmp_path, rows)))
    assert coded_attributes(cells, names, Code(concepts=1, hidden=2)) == (["Bald"], ["Bangs", "Smiling"])


def test_one_image_in_so_many_is_drawn_and_the_rest_left_out(tmp_path):
    data = load(celeba(tmp_path), one_in=4)
    assert (len(data.items), data.left_out) == (5, 15 * len(NAMES))
    assert splits_of(data) == splits_of(load(tmp_path, one_in=4))


def test_a_wrong_value_costs_its_cell_and_a_short_line_all_of_its(tmp_path):
    rows = attribute_lines()
    rows[0] = f"{face(0)}  1 -1  2  1"
    rows[1] = f"{face(1)}  1 -1  1"
    rows[2] = f"{face(2)}  1 -1  1  1 -1"
    rows[3] = "nobody.jpg  1 -1  1  1"
    data = load(celeba(tmp_path, rows))
    assert data.refused_cells == 1 + 4 + 4 + 4
    assert refusals(data, "source_line", "item", "concept", "reason", "raw") >= {
        (3, face(0), "Smiling", "value_not_binary", "2"),
        (4, face(1), "Bald", "wrong_number_of_values", rows[1]),
        (5, face(2), "Young", "wrong_number_of_values", rows[2]),
        (6, "nobody.jpg", "Bangs", "unknown_item", "-1"),
    }


def test_an_image_without_an_attribute_of_the_code_has_no_class(tmp_path):
    rows = attribute_lines()
    rows[0] = f"{face(0)}  0 -1  1  1"
    data = load(celeba(tmp_path, rows), code=Code(concepts=2, hidden=1))
    assert face(0) not in splits_of(data)
    assert ("list_eval_partition.txt", face(0), "no_label") in refusals(data, "source_file", "item", "reason")


def test_missing_images_and_odd_parts_are_refused_with_their_cells(tmp_path):
    root = celeba(tmp_path)
    (root / "img_align_celeba" / face(0)).unlink()
    part = (root / "list_eval_partition.txt").read_text().replace(f"{face(1)} 0", f"{face(1)} 7")
    (root / "list_eval_partition.txt").write_text(part)
    data = load(root)
    assert (len(data.items), data.refused_cells) == (FACES - 2, 2 * len(NAMES))
    assert refusals(data, "item", "reason") == {(face(0), "missing_image_file"), (face(1), "unknown_split")}


def test_a_wrong_count_is_noted(tmp_path):
    data = load(celeba(tmp_path, count=999))
    assert refusals(data, "source_line", "reason", "raw") == {(1, "wrong_count_of_images", "999")}
    assert data.refused_cells == 0


def test_a_file_without_names_is_no_celeba(tmp_path):
    write(tmp_path, {"list_attr_celeba.txt": "2\n"})
    with pytest.raises(ValueError, match="name the attributes in its second line"):
        load(tmp_path)
