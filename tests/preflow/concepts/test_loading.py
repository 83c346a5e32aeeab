import polars as pl
import pytest

from preflow.concepts.loading import load_concepts
from preflow.concepts.schemas import ConceptData, ConceptItems, ConceptQuarantine
from preflow.store import content_key
from tests.preflow.concepts.conftest import check, write

HOW = {"seed": 0, "image_side": 8, "min_classes": None, "code": None, "one_in": 1}


def test_the_embedded_digits_need_no_folder():
    data = check(load_concepts("digits_8x8", **HOW))
    assert data.items["source"].unique().to_list() == ["digits_8x8"]
    assert data.items["item_id"][0] == content_key("digits_8x8", "00000")


def test_an_unknown_name_names_what_is_known():
    with pytest.raises(ValueError, match="digits_8x8, digits_28x28"):
        load_concepts("no_such_folder", **HOW)


def test_a_folder_of_no_known_layout_names_the_layouts(tmp_path):
    write(tmp_path, {"readme.txt": "nothing"})
    with pytest.raises(ValueError, match=r"known layouts: CUB-200-2011 \(images.txt"):
        load_concepts(str(tmp_path), **HOW)


def test_lost_cells_are_an_error():
    data = load_concepts("digits_8x8", **HOW)
    with pytest.raises(ValueError, match="of 39535 cells 39534 are kept, 0 refused and 0 left out"):
        ConceptData(data.items, data.concepts, data.labels, ConceptQuarantine.create_empty(), "f", 39535, 0)


def test_an_item_is_seen_in_exactly_one_way():
    items = load_concepts("digits_8x8", **HOW).items.head(2)
    neither = items.with_columns(features=pl.lit(None, pl.List(pl.Float32)))
    assert ConceptItems.filter(neither)[1].counts() == {"features_or_image": 2}
    assert ConceptItems.filter(items.with_columns(image=pl.lit(b"png")))[1].counts() == {"features_or_image": 2}
