import struct
import zlib
from io import BytesIO

import polars as pl
import pytest
from PIL import Image

from preflow.concepts.dealing import dealt_splits
from preflow.concepts.loading import load_concepts
from preflow.concepts.reading import read_images, text_fields
from tests.preflow.concepts.conftest import IMAGE, check, lines, refusals, splits_of, stated, write

ITEMS = [f"i{row},{'ab'[row % 2]},{row / 10},{row}" for row in range(20)]
CONCEPTS = [f"i{row},{row % 2},{int(row > 9)}" for row in range(20)]


def table(root, items=None, concepts=None, header="name,label,x,y", wide="name,odd,large"):
    return write(
        root, {"items.csv": lines([header, *(items or ITEMS)]), "concepts.csv": lines([wide, *(concepts or CONCEPTS)])}
    )


def load(root):
    return check(load_concepts(str(root), seed=0, image_side=8, min_classes=None, code=None, one_in=1))


def test_a_table_of_features(tmp_path):
    data = load(table(tmp_path))
    assert (len(data.items), len(data.labels), len(data.quarantine)) == (20, 40, 0)
    assert data.items["features"].to_list()[3] == pytest.approx([0.3, 3.0])
    assert stated(data) == {
        (f"i{row}", c): v for row in range(20) for c, v in (("odd", row % 2 == 1), ("large", row > 9))
    }
    assert data.items["split"].value_counts().sort("count")["count"].to_list() == [2, 4, 14]


def test_parquet_gives_what_csv_gives(tmp_path):
    one, two = (table(tmp_path / name) for name in ("csv/set", "parquet/set"))
    for stem in ("items", "concepts"):
        pl.read_csv(two / f"{stem}.csv").write_parquet(two / f"{stem}.parquet")
        (two / f"{stem}.csv").unlink()
    first, second = load(one), load(two)
    assert first.items.equals(second.items)
    assert first.labels.equals(second.labels)


def test_splits_of_the_table_stay(tmp_path):
    split = ["train", "validation", "test", "train"]
    items = [f"i{row},a,{split[row % 4]},{row}" for row in range(20)]
    data = load(table(tmp_path, items, header="name,label,split,x"))
    assert splits_of(data) == {f"i{row}": split[row % 4] for row in range(20)}


def test_a_long_table_has_certainty_and_annotator(tmp_path):
    long = [
        "i0,odd,0,2,ann",
        "i1,odd,true,,bob",
        "i2,odd,1,9,bob",
        "i3,odd,maybe,1,bob",
        "i4,,1,1,bob",
        "i5,odd,,1,bob",
    ]
    data = load(table(tmp_path, concepts=long, wide="name,concept,value,certainty,annotator"))
    assert data.labels.select("value", "certainty", "probability", "annotator").rows() == [
        (False, 2, 0.5, "ann"),
        (True, None, 1.0, "bob"),
    ]
    assert data.cells == 5, "an empty value is no cell"
    assert refusals(data, "source_line", "item", "reason", "raw") == {
        (4, "i2", "certainty_not_1_to_4", "1"),
        (5, "i3", "value_not_binary", "maybe"),
        (6, "i4", "no_concept", "1"),
    }


def test_bad_items_are_refused_with_their_cells(tmp_path):
    items = [*ITEMS[:15], "i15,,1,1", "i16,a,nan,1", "i17,a,1,", "i3,b,1,1", ",a,1,1"]
    data = load(table(tmp_path, items, [*CONCEPTS[:18], "i3,0,0", "ghost,1,1"]))
    assert (len(data.items), len(data.labels)) == (15, 30)
    assert refusals(data, "source_file", "source_line", "reason") == {
        ("items.csv", 17, "no_label"),
        ("items.csv", 18, "feature_not_a_finite_number"),
        ("items.csv", 19, "feature_not_a_finite_number"),
        ("items.csv", 20, "repeated_entry"),
        ("items.csv", 21, "no_name"),
        ("concepts.csv", 17, "no_label"),
        ("concepts.csv", 18, "feature_not_a_finite_number"),
        ("concepts.csv", 19, "feature_not_a_finite_number"),
        ("concepts.csv", 20, "duplicate_cell"),
        ("concepts.csv", 21, "unknown_item"),
    }


def test_an_unknown_split_is_refused(tmp_path):
    items = [f"i{row},a,{'train' if row else 'dev'},{row}" for row in range(20)]
    assert ("i0", "unknown_split") in refusals(
        load(table(tmp_path, items, header="name,label,split,x")), "item", "reason"
    )


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"concepts.csv": "name,odd\ni,1\n"}, "must have items.csv or items.parquet"),
        ({"concepts.csv": "id,odd\ni,1\n", "items.csv": "name,label,x\ni,a,1\n"}, "no column name"),
        ({"concepts.csv": "name,odd\ni,1\n", "items.csv": "name,label\ni,a\n"}, "neither an image nor a column"),
        ({"concepts.csv": "name,odd\ni,1,1\n", "items.csv": "name,label,x\ni,a,1\n"}, "more fields than its header"),
    ],
)
def test_a_folder_that_is_no_table_says_what_is_missing(tmp_path, files, message):
    with pytest.raises(ValueError, match=message):
        load(write(tmp_path, files))


def test_a_folder_of_images(tmp_path):
    images = {f"images/{kind}/{row}.png": IMAGE for kind in ("cat", "dog") for row in range(5)}
    cells = [f"{kind}/{row}.png,{int(kind == 'dog')}" for kind in ("cat", "dog") for row in range(5)]
    data = load(
        write(tmp_path, images | {"images/dog/5.png": b"broken", "concepts.csv": lines(["name,barks", *cells])})
    )
    assert dict(data.items.select("name", "label").iter_rows()) == {name[7:]: name.split("/")[1] for name in images}
    assert {name[:3]: value for (name, _), value in stated(data).items()} == {"cat": False, "dog": True}
    assert refusals(data, "source_file", "item", "reason") == {("images", "dog/5.png", "undecodable_image")}


def test_images_named_in_a_table_stay_within_the_folder(tmp_path):
    root = write(tmp_path / "set", {"here.png": IMAGE})
    write(tmp_path, {"there.png": IMAGE})
    (root / "link.png").symlink_to(tmp_path / "there.png")
    names = ["here.png", "../there.png", f"{tmp_path}/there.png", "link.png", "none.png", "\0", "x" * 5000, ""]
    read = read_images(root, names, side=8)
    assert read["image"].is_not_null().to_list() == [True, *[False] * 7]
    assert read["reason"].to_list() == [None, *["image_outside_folder"] * 3, *["missing_image_file"] * 4]


def png(width, height, body):
    """A PNG whose header may say any size."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", body), (b"IEND", b""))
    parts = (struct.pack(">I", len(d)) + kind + d + struct.pack(">I", zlib.crc32(kind + d)) for kind, d in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def test_images_become_squares_of_one_size_and_bombs_and_rubbish_are_refused(tmp_path):
    Image.new("L", (40, 20), 255).save(tmp_path / "grey.png")
    Image.new("RGB", (20, 40), (255, 0, 0)).save(tmp_path / "red.jpg")
    Image.new("RGB", (20, 40), (255, 0, 0)).save(tmp_path / "whole.jpg")
    whole = (tmp_path / "whole.jpg").read_bytes()
    files = {
        "cut.jpg": whole[: len(whole) // 2],
        "rubbish.jpg": b"rubbish",
        "empty.png": b"",
        "bomb.png": png(50_000, 50_000, zlib.compress(b"")),
        "large.png": png(10_000, 10_000, zlib.compress(b"")),
    }
    write(tmp_path, files)
    read = read_images(tmp_path, ["grey.png", "red.jpg", *files], side=8)
    assert read["reason"].to_list() == [None, None, *["undecodable_image"] * 3, *["image_too_large"] * 2]
    for encoded, colour in zip(read["image"][:2], ((255, 255, 255), (254, 0, 0)), strict=True):
        decoded = Image.open(BytesIO(encoded))
        assert (decoded.format, decoded.mode, decoded.size) == ("PNG", "RGB", (8, 8))
        assert decoded.getpixel((4, 4)) == pytest.approx(colour, abs=2)


def test_lines_are_split_at_white_space_whatever_it_is(tmp_path):
    write(tmp_path, {"f.txt": "1 a b c\r\n\n2\tx  y\n   \n3\n"})
    assert text_fields(tmp_path / "f.txt", ("n", "v")).drop("raw").rows() == [
        (1, "1", "a"),
        (3, "2", "x"),
        (5, "3", None),
    ]


def test_a_byte_that_is_no_text_spoils_its_line_alone_and_a_byte_order_mark_none(tmp_path):
    write(tmp_path, {"f.txt": b"\xef\xbb\xbf1 a\n2 \xe9\n3 c\n", "empty.txt": ""})
    assert text_fields(tmp_path / "f.txt", ("n", "v"))["v"].to_list() == ["a", "\ufffd", "c"]
    assert text_fields(tmp_path / "empty.txt", ("n", "v")).rows() == []


def test_small_classes_are_dealt_70_10_20_overall():
    labels = pl.Series([f"{row // 3}" for row in range(300)])
    counts = dealt_splits(labels, seed=0).value_counts(name="n")
    assert dict(counts.iter_rows()) == {"train": 210, "validation": 30, "test": 60}


def test_splits_repeat_and_follow_the_seed():
    labels = pl.Series([f"{row % 7}" for row in range(100)])
    assert dealt_splits(labels, seed=0).equals(dealt_splits(labels, seed=0))
    assert not dealt_splits(labels, seed=0).equals(dealt_splits(labels, seed=1))


def test_a_table_of_nothing_usable_is_all_quarantine(tmp_path):
    data = load(table(tmp_path, ["i0,a,x,y", "i1,,1,1"], ["i0,1,0", "i1,1,0"]))
    assert (len(data.items), len(data.labels), data.refused_cells) == (0, 0, 4)
