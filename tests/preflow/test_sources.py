import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflow.sources.folder import find_files
from preflow.sources.hub import HubDataset, read_hub
from preflow.sources.readers import read_file
from preflow.sources.records import FeedbackError, Record, Refusal
from preflow.sources.strict_json import StrictDecoder


def read(path, content):
    path.write_bytes(content)
    return list(read_file(path, path.name))


def values(items):
    return [item.value for item in items if isinstance(item, Record)]


def refusals(items):
    return [(item.line, item.reason) for item in items if isinstance(item, Refusal)]


def test_text_comes_byte_for_byte_and_ids_keep_their_digits(tmp_path):
    lines = b'{"a": " x\\r\\n\\t "}\r\n\n{"a": 9007199254740993, "b": 18446744073709551616}\n{"a": 7}\n{"a": 3.5}'
    items = read(tmp_path / "a.jsonl", b"\xef\xbb\xbf" + lines)
    assert values(items) == [{"a": " x\r\n\t "}, {"a": 2**53 + 1, "b": 2**64}, {"a": 7}, {"a": 3.5}]
    assert [item.line for item in items] == [1, 3, 4, 5]
    assert type(items[2].value["a"]) is int


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"a": 1, "a": 2}', "duplicate_keys"),
        (b'{"b": [{"a": 1, "a": 1}]}', "duplicate_keys"),
        (b'{"a": "\\ud800"}', "lone_surrogate"),
        (b'{"a": "\\uDC00x"}', "lone_surrogate"),
        (b'{"a": NaN}', "invalid_json"),
        (b'{"a": -Infinity}', "invalid_json"),
        (b'{"a": 1e999}', "not_finite"),
        (b'{"a": 1} {"a": 2}', "invalid_json"),
        (b'{"a": 1', "invalid_json"),
        (b"{'a': 1}", "invalid_json"),
        (b'{"a": "\xff"}', "invalid_utf8"),
        (b"[" * 100_000, "invalid_json"),
        (b'{"a": ' + b"9" * 5_000 + b"}", "invalid_json"),
    ],
)
def test_a_bad_line_is_named_and_the_others_are_read(tmp_path, line, reason):
    items = read(tmp_path / "a.jsonl", b'{"a": 1}\n' + line + b'\n{"a": "\\ud83d\\ude00"}\n')
    assert refusals(items) == [(2, reason)]
    assert values(items) == [{"a": 1}, {"a": "\U0001f600"}]
    if not line.startswith(b"["):
        array = read(tmp_path / "a.json", b'[{"a": 1},\n' + line + b"]")
        assert refusals(array)[0] in [(2, reason), (0, "invalid_json")]
        assert values(array)[0] == {"a": 1}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_every_valid_value_comes_back_as_it_was(value):
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        assert StrictDecoder().line(text) == (value, None)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"[]", []),
        (b' [ {"a": 1} , {"a": 2} ] \n', [{"a": 1}, {"a": 2}]),
        (b'{"data": [{"a": 1}, {"a": 2}]}', [{"a": 1}, {"a": 2}]),
        (b'{"a": 1}\n{"a": 2}\n', [{"a": 1}, {"a": 2}]),
    ],
)
def test_json_is_an_array_an_object_of_one_array_or_lines(tmp_path, content, expected):
    items = read(tmp_path / "a.json", content)
    assert values(items) == expected
    assert refusals(items) == []
    assert [item.line for item in items] == list(range(1, len(expected) + 1))


def test_an_array_that_breaks_off_gives_what_stands_before(tmp_path):
    for content in (b'[{"a": 1}, {"a"', b'[{"a": 1}', b'[{"a": 1}, ', b'{"data": [{"a": 1}]'):
        items = read(tmp_path / "a.json", content)
        assert values(items) == [{"a": 1}]
        assert refusals(items)


def test_csv_values_are_strings_as_they_stand(tmp_path):
    content = b'chosen,rejected\r\n01,"a ""b""\r\n,c"\n 1e5 ,\n'
    items = read(tmp_path / "a.csv", content)
    assert values(items) == [{"chosen": "01", "rejected": 'a "b"\r\n,c'}, {"chosen": " 1e5 ", "rejected": ""}]
    assert [item.line for item in items] == [2, 4]


def test_csv_refusals(tmp_path):
    items = read(tmp_path / "a.csv", b'a,b\n1\n1,2\n1,\xff\n"x"y,2\n3,4\n5,"open\n')
    assert refusals(items) == [(2, "wrong_column_count"), (4, "invalid_utf8"), (5, "invalid_csv"), (7, "invalid_csv")]
    assert values(items) == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]
    assert refusals(read(tmp_path / "b.csv", b"a,a\n1,2\n")) == [(0, "duplicate_keys")]
    long = "x" * 300_000
    assert values(read(tmp_path / "c.csv", f"a\n{long}\n".encode())) == [{"a": long}]


def test_parquet_keeps_the_types_it_declares(tmp_path):
    table = pa.table({"id": pa.array([2**53 + 1, None], pa.int64()), "turns": [[{"role": "user"}], None]})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path)
    expected = [{"id": 2**53 + 1, "turns": [{"role": "user"}]}, {"id": None, "turns": None}]
    assert values(read_file(path, "a")) == expected
    packed = tmp_path / "b.parquet.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert values(read_file(packed, "b")) == expected


def test_a_truncated_gzip_gives_the_rows_before_the_break_and_a_refusal(tmp_path):
    whole = gzip.compress(b"".join(b'{"a": %d}\n' % number for number in range(20_000)))
    items = read(tmp_path / "a.jsonl.gz", whole[: len(whole) // 2])
    found = values(items)
    assert 0 < len(found) < 20_000
    assert found == [{"a": number} for number in range(len(found))]
    assert refusals(items) == [(0, "unreadable_file")]


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.json.gz", "a.csv.gz", "a.parquet", "a.arrow"])
def test_a_file_that_is_no_such_thing_is_refused_as_a_whole(tmp_path, name):
    assert refusals(read(tmp_path / name, b"this is something else entirely")) == [(0, "unreadable_file")]


def test_a_saved_dataset_is_read_with_its_types(tmp_path):
    datasets = pytest.importorskip("datasets")
    rows = [{"chosen": "a", "rejected": "b", "n": 2**60}, {"chosen": "c", "rejected": "d", "n": None}]
    datasets.Dataset.from_list(rows).save_to_disk(tmp_path / "set")
    files, skipped = find_files(tmp_path)
    assert [file.source for file in files] == ["set"]
    assert skipped == ["set/dataset_info.json", "set/state.json"]
    assert values(read_file(files[0].path, files[0].name)) == rows


def test_a_folder_is_walked_in_order_and_the_rest_is_listed(tmp_path):
    for name in ("b.jsonl", "a.csv.gz", "sub/c-00000-of-00002.parquet", "sub/c-00001-of-00002.parquet", "README.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    files, skipped = find_files(tmp_path)
    assert [(file.name, file.source) for file in files] == [
        ("a.csv.gz", "a"),
        ("b.jsonl", "b"),
        ("sub/c-00000-of-00002.parquet", "sub/c"),
        ("sub/c-00001-of-00002.parquet", "sub/c"),
    ]
    assert skipped == ["README.md"]


def test_nothing_to_read_is_an_error_that_says_so(tmp_path):
    with pytest.raises(FeedbackError, match="does not exist"):
        find_files(tmp_path / "nowhere")
    assert find_files(tmp_path) == ([], [])  # the Hub may be the only source
    (tmp_path / "a.txt").touch()
    with pytest.raises(FeedbackError, match="no known type"):
        find_files(tmp_path / "a.txt")


def test_an_unreachable_hub_names_what_to_set():
    with pytest.raises(FeedbackError, match=r"(?s)hf://nobody/nothing@main/train.*HF_TOKEN.*HF_HUB_OFFLINE"):
        next(read_hub(HubDataset("nobody/nothing", "main", "train")))
