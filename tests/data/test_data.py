"""Readers: whatever the bytes, one record a line, and nothing but the header or the count is refused."""

import csv
import hashlib
import io
import math
import struct
import traceback
import warnings
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from worlds import at_length

from dpbo_core.data import Table, check_columns, check_target, fingerprint, read_header, read_table, table_of
from dpbo_core.data.csv_file import read_csv, split_csv_line
from dpbo_core.data.header import PUBLIC_FILE, SENSITIVE_FILE
from dpbo_core.data.parquet_file import read_parquet
from dpbo_core.data.raw_cells import FIELD_LIMIT
from dpbo_core.data.values import canonical_text, numbers, text_column, value_column
from dpbo_core.errors import StudyInvalid

NAN = float("nan")
SECRET = "s3cr3t-4711"
QUIET = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))

NASTY_FIELDS = [
    "", " ", "1", "-0.0", "1e308", "-1e308", "1e999", "nan", "inf", "-Infinity", "1_0", "x", '"', '""',
    '"a""b"', '"a,b"',
    'a"b', "True", "false", "NULL", "\x00", "1\x00", "٣", "\u2028", "\x85", "\r", "\x0b", "\x1c", "0x10",
    "9" * 400, "é",
]  # fmt: skip
NASTY_LINES = [
    b"", b"\r", b"\r\r", b",", b",,", b",,,", b'"', b'"""', b'"a', b'1,"2', b'1,2,"', b'","', b'"1","2","a"',
    b'"1"x,2,a',
    b"\xff\xfe", b"\x00", b"1,2,a", b"1,2,a\r", b"1,2,a,", b"1\t2\ta", b"1;2;a", b"\xef\xbb\xbf1,2,a",
    b"\xed\xa0\x80,2,a",
    b"1,2,\xc3\xa9", b"1,2,\xc3", b"1,2," + b"z" * (FIELD_LIMIT + 1), b'1,2,"' + b"z" * (FIELD_LIMIT + 1) + b'"',
]  # fmt: skip
lines = st.lists(
    st.one_of(
        st.sampled_from(NASTY_LINES),
        st.binary(max_size=12).map(lambda raw: raw.replace(b"\n", b"\r")),
        st.lists(st.sampled_from(NASTY_FIELDS), min_size=2, max_size=4).map(lambda row: ",".join(row).encode()),
    ),
    max_size=7,
)


def same(left: object, right: object) -> bool:
    """Equal to the last bit; NaN is NaN."""
    if isinstance(left, float) and isinstance(right, float):
        return struct.pack("<d", left) == struct.pack("<d", right) or (math.isnan(left) and math.isnan(right))
    return type(left) is type(right) and left == right


def row(table: Table, record: int) -> list[object]:
    values = [column[record] for column in table.columns.values()]
    return [float(v) if isinstance(v, float) else v for v in values] + [bool(table.broken[record])]


def of_bytes(data: bytes, *, sensitive: bool = True) -> Table:
    return read_csv(
        io.BytesIO(data), mode=SENSITIVE_FILE if sensitive else PUBLIC_FILE, display_name="validation.csv"
    )


def table_or_letter(read: Callable[[], Table]) -> Table | StudyInvalid:
    try:
        return read()
    except StudyInvalid as error:
        refused = error
    assert refused.__context__ is None
    return refused


def message(caught: pytest.ExceptionInfo[StudyInvalid]) -> str:
    error = caught.value
    assert error.exit_code == 2
    assert "Usual cause" in str(error) or "What to do" in str(error)
    return str(error)


# -- one value


@pytest.mark.parametrize(
    ("value", "meaning"),
    [
        (1, 1.0), ("1", 1.0), (1.0, 1.0), (True, 1.0), ("True", 1.0), ("true", 1.0), ("TRUE", 1.0), ("1.0", 1.0),
        (" 1 ", 1.0), ("+1", 1.0), ("01", 1.0), ("1e0", 1.0), (Decimal("1.0"), 1.0), (np.int8(1), 1.0), (b"1", 1.0),
        (np.bool_(True), 1.0), (np.float32(1), 1.0), (False, 0.0), ("false", 0.0), ("0", 0.0), (0, 0.0),
        (0.1, 0.1), ("0.1", 0.1), (Decimal("0.1"), 0.1), (np.float32(0.1), 0.10000000149011612),
        ("1e308", 1e308), ("1e309", math.inf), ("-1e309", -math.inf), (10**400, math.inf), (-(10**400), -math.inf),
        (Decimal("1e400"), math.inf), ("inf", math.inf), ("-Infinity", -math.inf), ("5e-324", 5e-324),
        ("1e-400", 0.0),
        ("yes", "yes"), (" yes ", "yes"), (b"yes", "yes"), (np.str_("yes"), "yes"), ("1_000", "1_000"),
        ("0x10", "0x10"),
        ("1,5", "1,5"), ("NA", NAN), ("1\x00", "1\x00"), ("\ud800", NAN),
        ("", NAN), ("  ", NAN), ("nan", NAN), ("-NaN", NAN), (None, NAN), (b"\xff", NAN), ([1], NAN), ({}, NAN),
        (1j, NAN), (date(2020, 1, 1), NAN), (object(), NAN), (Decimal("sNaN"), NAN), (np.datetime64("NaT"), NAN),
    ],
)  # fmt: skip
def test_the_meaning_of_a_value(value: object, meaning: object) -> None:
    assert same(canonical_text(value), meaning)


@given(st.lists(st.one_of(st.sampled_from(NASTY_FIELDS), st.text(max_size=4), st.floats().map(repr)), max_size=8))
@settings(QUIET, max_examples=at_length(300))
def test_a_column_of_texts_is_its_values_one_by_one(texts: list[str]) -> None:
    fast, slow = text_column(texts), value_column(texts)
    assert fast.dtype == slow.dtype
    assert all(
        same(f if isinstance(f, str) else float(f), canonical_text(t)) for f, t in zip(fast, texts, strict=True)
    )
    assert all(same(f if isinstance(f, str) else float(f), s if isinstance(s, str) else float(s))
               for f, s in zip(fast, slow, strict=True))  # fmt: skip


# -- one line


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        (b"1,2,3\n", ["1", "2", "3"]), (b"1,2,3\r\n", ["1", "2", "3"]), (b"1,2,3", ["1", "2", "3"]),
        (b"\n", None), (b"\r\n", None), (b"", None), (b",\n", ["", ""]), (b" \n", [" "]),
        (b'"a,b",c\n', ["a,b", "c"]), (b'"a""b",c', ['a"b', "c"]), (b'a"b,c', ['a"b', "c"]), (b'"",""', ["", ""]),
        (b'"a\n', None), (b'"a"b,c\n', None), (b'1,"\n', None), (b"a\rb,c\n", None), (b'"a\rb",c\n', ["a\rb", "c"]),
        (b"\xff,1\n", None), (b"\xed\xa0\x80,1\n", None), (b"\xc3\xa9,1\n", ["é", "1"]),
        (b"a\x00b,c\n", ["a\x00b", "c"]),
        (b"a\xe2\x80\xa8b,c\n", ["a\u2028b", "c"]), (b"a\x0cb,c\n", ["a\x0cb", "c"]),
        (b"x" * FIELD_LIMIT + b",y\n", ["x" * FIELD_LIMIT, "y"]), (b"x" * (FIELD_LIMIT + 1) + b",y\n", None),
        (b",".join([b"x" * 1000] * 200), ["x" * 1000] * 200),
    ],
    ids=repr,
)  # fmt: skip
def test_the_fields_of_a_line(line: bytes, fields: list[str] | None) -> None:
    assert split_csv_line(line) == fields


@given(st.lists(st.sampled_from(NASTY_FIELDS), min_size=1, max_size=5).map(",".join))
@settings(QUIET, max_examples=at_length(300))
def test_the_short_way_through_a_line_is_the_csv_modules(text: str) -> None:
    try:
        (expected,) = csv.reader([text.removesuffix("\r")], strict=True)
    except (csv.Error, ValueError):
        expected = []
    assert (split_csv_line(text.encode()) or []) == expected


# -- whole files


COMMAS = 'id,age,note\n7,29.4,a b\n8,-0.5,"c;d"\n9,1,2,3\n,,\n'
SEMICOLONS = 'id;age;note\n7;29,4;a b\n8; -0,5 ;"c;d"\n9;1;2;3\n;;\n'


@pytest.mark.parametrize("mode", [SENSITIVE_FILE, SENSITIVE_FILE.with_cells()])
def test_a_file_of_semicolons_and_decimal_commas_holds_the_same_table(mode):
    """What separates is the header's word, which is public: no record can change how another is read."""
    one, other = (read_csv(io.BytesIO(text.encode()), mode=mode, display_name="v") for text in (COMMAS, SEMICOLONS))
    assert one.broken.tolist() == other.broken.tolist() == [False, False, True, False]
    for name in ("id", "age", "note"):
        assert [str(value) for value in one.columns[name]] == [str(value) for value in other.columns[name]]
    tabs = read_csv(io.BytesIO(b'\xef\xbb\xbf"a,b"\t c;d \n1\t2,5\n'), mode=mode, display_name="v")
    assert {name: values.tolist() for name, values in tabs.columns.items()} == {"a,b": [1.0], "c;d": ["2,5"]}
    header_decides = read_csv(io.BytesIO(b"a,b\n1;5,2\n"), mode=mode, display_name="v")
    assert header_decides.columns["a"].tolist() == ["1;5"]


@given(lines, st.sampled_from([b"", b"\n"]), st.sampled_from([b"a,b,y", b"\xef\xbb\xbfa,b,y\r", b'"a","b","y"']))
@settings(QUIET, max_examples=at_length(900))
def test_hostile_csv_gives_one_record_a_line_and_each_by_itself(
    body: list[bytes], end: bytes, header: bytes
) -> None:
    data = b"\n".join([header, *body]) + end
    expected = data.count(b"\n") + (not data.endswith(b"\n")) - 1
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        table = of_bytes(data)
    assert tuple(table.columns) == ("a", "b", "y")
    assert table.n_records == expected
    physical = data.split(b"\n")[1:][:expected]
    for record, line in enumerate(physical):
        alone = of_bytes(b"a,b,y\n" + line + b"\n")
        assert alone.n_records == 1
        assert all(same(x, y) for x, y in zip(row(table, record), row(alone, 0), strict=True))
        if table.broken[record]:
            assert all(math.isnan(value) for value in row(table, record)[:-1])  # type: ignore[arg-type]


@given(st.binary(max_size=60))
@settings(QUIET, max_examples=at_length(300))
def test_any_bytes_are_a_table_or_a_letter_about_the_header(data: bytes) -> None:
    table = table_or_letter(lambda: of_bytes(data))
    if isinstance(table, StudyInvalid):
        assert "validation.csv" in str(table)
        return
    assert table.n_records == data.count(b"\n") + (not data.endswith(b"\n")) - 1


def test_long_files_are_read_in_pieces_without_a_seam(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=20_000)
    body = [f"{value!r},{i % 3}" for i, value in enumerate(values.tolist())]
    body[9_000] = "word,0"
    path = tmp_path / "long.csv"
    path.write_text("x,y\n" + "\n".join(body))
    table = read_table(path, mode=SENSITIVE_FILE, display_name="long.csv")
    assert read_header(path, mode=SENSITIVE_FILE, display_name="v").n_records == table.n_records == 20_000
    assert table.columns["x"][9_000] == "word"
    read = numbers(table.columns["x"])
    assert np.array_equal(np.delete(read, 9_000), np.delete(values, 9_000))
    assert np.array_equal(table.columns["y"], np.arange(20_000) % 3)


# -- parquet


def text_of_bytes(values: list[bytes]) -> pa.Array:
    """A string array that holds bytes Arrow never checked."""
    plain = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(plain), plain.buffers())


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([1.5, None, math.inf]), [1.5, NAN, math.inf]),
        (pa.array(np.array([1, 2, math.inf], np.float16)), [1.0, 2.0, math.inf]),
        (pa.array([2**64 - 1, 0, None], pa.uint64()), [2.0**64, 0.0, NAN]),
        (pa.array([True, False, None]), [1.0, 0.0, NAN]),
        (pa.array([Decimal("0.1"), None, Decimal("-2.0")], pa.decimal128(9, 1)), [0.1, NAN, -2.0]),
        (pa.array(["1", "true", ""]), [1.0, 1.0, NAN]),
        (pa.array(["1", "yes", None], pa.string_view()), [1.0, "yes", NAN]),
        (pa.array([b"1", b"\xff", b"yes"]), [1.0, NAN, "yes"]),
        (text_of_bytes([b"1", b"\xff\xfe", b"yes"]), [1.0, NAN, "yes"]),
        (pa.DictionaryArray.from_arrays([1, 0, 2], text_of_bytes([b"1", b"\xff", b"yes"])), [NAN, 1.0, "yes"]),
        (pa.array([7, None, 8]).dictionary_encode(), [7.0, NAN, 8.0]),
        (pa.array([None, None, None]), [NAN, NAN, NAN]),
        (pa.array([2**62, 0, None], pa.timestamp("us")), [NAN, NAN, NAN]),
        (pa.array([{"x": 1}, None, {"x": 2}]), [NAN, NAN, NAN]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_a_parquet_column_of_any_type(array: pa.Array, expected: list[object], tmp_path: Path) -> None:
    path = tmp_path / "v.parquet"
    pq.write_table(pa.table({"x": array, "y": [1, 2, 3]}), path)
    table = read_table(path, mode=SENSITIVE_FILE, display_name="v.parquet")
    got = [value if isinstance(value, str) else float(value) for value in table.columns["x"]]
    assert all(map(same, got, expected))
    assert table.columns["y"].tolist() == [1.0, 2.0, 3.0]
    assert not table.broken.any()


def test_decimals_of_any_length_are_refused_by_their_type(tmp_path: Path) -> None:
    """pyarrow refuses the whole row group for one value of 20 bytes, so nothing of such a file is read."""
    path, flat = tmp_path / "v.parquet", {"store_schema": False, "use_dictionary": False, "write_statistics": False}
    column = pa.array([b"\x01", b"\x01" * 20, b"\x02"], pa.binary())
    pq.write_table(pa.table({"d": column, "a": [1.0, 2.0, 3.0]}), path, **flat)
    raw = path.read_bytes()
    size = int.from_bytes(raw[-8:-4], "little")
    plain = b"\x15\x0c%\x02\x18\x01d"  # a byte array, optional, named d; then: decimal, scale 0, precision 10
    footer = raw[-8 - size : -8].replace(plain, plain + b"%\x0a\x15\x00\x15\x14", 1)
    assert read_header(path, mode=SENSITIVE_FILE, display_name="v").n_records == 3
    path.write_bytes(raw[: -8 - size] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    assert read_table(
        path, mode=SENSITIVE_FILE, display_name="v"
    ).broken.all()  # what one record would do to the others
    with pytest.raises(StudyInvalid, match="decimals in byte arrays"):
        read_header(path, mode=SENSITIVE_FILE, display_name="v")


def test_names_with_dots_and_the_row_index_of_pandas(tmp_path: Path) -> None:
    import pandas as pd

    frame = pd.DataFrame({"a": [1.0, 2, 3], "a.b": [4.0, 5, 6], "y": [0, 1, 0]}).iloc[[2, 0, 1]]
    frame.to_parquet(tmp_path / "v.parquet")
    assert "__index_level_0__" in pq.read_schema(tmp_path / "v.parquet").names
    table = read_table(tmp_path / "v.parquet", mode=SENSITIVE_FILE, display_name="v.parquet")
    got = {name: column.tolist() for name, column in table.columns.items()}
    assert got == {"a": [3.0, 1.0, 2.0], "a.b": [6.0, 4.0, 5.0], "y": [0.0, 0.0, 1.0]}
    assert read_header(tmp_path / "v.parquet", mode=SENSITIVE_FILE, display_name="").columns == ("a", "a.b", "y")


def test_a_page_that_cannot_be_decoded_breaks_its_row_group_only(tmp_path: Path) -> None:
    path = tmp_path / "v.parquet"
    values = np.arange(12.0)
    pq.write_table(
        pa.table({"x": values, "y": values}), path, row_group_size=4, compression="zstd", use_dictionary=False
    )
    chunk = pq.ParquetFile(path).metadata.row_group(1).column(0)
    data = bytearray(path.read_bytes())
    data[chunk.data_page_offset : chunk.data_page_offset + chunk.total_compressed_size] = (
        b"\xff" * chunk.total_compressed_size
    )
    path.write_bytes(data)
    table = read_table(path, mode=SENSITIVE_FILE, display_name="v.parquet")
    assert table.broken.tolist() == [False] * 4 + [True] * 4 + [False] * 4
    assert np.array_equal(table.columns["x"], [0, 1, 2, 3, NAN, NAN, NAN, NAN, 8, 9, 10, 11], equal_nan=True)
    assert read_header(path, mode=SENSITIVE_FILE, display_name="v").n_records == 12
    with pytest.raises(StudyInvalid) as caught:
        read_table(path, mode=PUBLIC_FILE, display_name="data/v.parquet")
    assert message(caught).startswith("records 5 to 8 of v.parquet cannot be decoded.")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile") / "v.parquet"


cells = st.one_of(st.none(), st.floats(), st.sampled_from(NASTY_FIELDS))


@given(
    st.lists(st.tuples(cells, cells), min_size=1, max_size=6),
    st.sampled_from(["none", "snappy", "zstd"]),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=3),
)
@settings(QUIET, max_examples=at_length(500))
def test_hostile_parquet_gives_what_its_footer_says(
    scratch: Path, records: list[tuple[object, object]], compression: str, damage: list[tuple[float, int]]
) -> None:
    texts = [None if right is None else str(right) for _, right in records]
    floats = [left if isinstance(left, float) else None for left, _ in records]
    sink = io.BytesIO()
    pq.write_table(pa.table({"x": floats, "t": texts}), sink, compression=compression, row_group_size=2)
    data = bytearray(sink.getvalue())
    pages = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    for share, byte in damage:  # the footer stays whole: it is the header, and may be refused
        data[4 + int(share * (pages - 5))] = byte
    scratch.write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = read_table(scratch, mode=SENSITIVE_FILE, display_name="v.parquet")
    assert table.n_records == len(records) == read_header(scratch, mode=SENSITIVE_FILE, display_name="v").n_records
    if not damage:
        assert all(map(same, map(float, table.columns["x"]), [NAN if x is None else x for x in floats]))
        got = [value if isinstance(value, str) else float(value) for value in table.columns["t"]]
        assert all(map(same, got, map(canonical_text, texts)))


@given(st.integers(0, 10**6), st.integers(0, 255))
@settings(QUIET, max_examples=at_length(300))
def test_a_damaged_footer_is_a_letter_or_a_table(scratch: Path, where: int, byte: int) -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"x": [1.0, 2.0], "t": [SECRET, "b"]}), sink)
    data = bytearray(sink.getvalue())
    pages = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    data[pages + where % (len(data) - pages)] = byte
    scratch.write_bytes(data)
    table = table_or_letter(lambda: read_parquet(scratch, mode=SENSITIVE_FILE, display_name="v.parquet"))
    if isinstance(table, StudyInvalid):
        assert SECRET not in "".join(traceback.format_exception(table))
        return
    assert table.n_records == read_header(scratch, mode=SENSITIVE_FILE, display_name="v").n_records


def test_a_footer_at_odds_with_itself_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "v.parquet"
    pq.write_table(pa.table({"x": [1.0, 2.0, 3.0]}), path)
    data = bytearray(path.read_bytes())
    pages = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    where = data.index(b"\x16\x06", pages)  # Thrift: the next field, a 64-bit integer, 3
    data[where + 1] = 0x0A  # 5
    path.write_bytes(data)
    found = pq.read_metadata(path)
    assert (found.num_rows, found.row_group(0).num_rows) == (5, 3)
    with pytest.raises(StudyInvalid, match=r"v\.parquet is not a readable Parquet file"):
        read_header(path, mode=SENSITIVE_FILE, display_name="v.parquet")


# -- messages


@pytest.mark.parametrize(
    ("name", "data", "opening"),
    [
        ("v.csv", b"", "in/v.csv is not a CSV file with a header line."),
        ("v.csv", b"\xff\xfea\x00,\x00b\x00\n\x00", "in/v.csv is not a CSV file with a header line."),
        ("v.csv", b"a,b\rs3cr3t-4711,2\r", "in/v.csv is not a CSV file with a header line."),
        ("v.csv", b"PK\x03\x04\x00,b\n", "a column of in/v.csv has no readable name."),
        ("v.csv", b"s3cr3t-4711,s3cr3t-4711,1\n", "two columns of in/v.csv share one name."),
        ("v.parquet", b"", "in/v.parquet is not a readable Parquet file."),
        ("v.parquet", b"PAR1s3cr3t-4711PARE", "in/v.parquet is not a readable Parquet file."),
        ("v.pkl", b"s3cr3t-4711", "in/v.pkl is neither .csv nor .parquet."),
    ],
)
def test_what_may_be_refused_in_a_sensitive_file(name: str, data: bytes, opening: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    for read in (read_table, read_header):
        with pytest.raises(StudyInvalid) as caught:
            read(path, mode=SENSITIVE_FILE, display_name=f"in/{name}")
        assert message(caught).startswith(opening)
        text = "".join(traceback.format_exception(caught.value))
        assert SECRET not in text.replace(repr(data), "")
        assert caught.value.__context__ is None


def test_a_missing_file_is_named_as_the_study_wrote_it(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    for name in ("gone.csv", "gone.parquet", "folder.csv"):
        with pytest.raises(StudyInvalid, match=f"there is no file ../in/{name}") as caught:
            read_header(tmp_path / name, mode=SENSITIVE_FILE, display_name=f"../in/{name}")
        assert str(tmp_path) not in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "v.csv"
    path.write_bytes(b"a\n1\n")

    def fails(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", fails)
    with pytest.raises(StudyInvalid, match=r"in/v\.csv cannot be read") as caught:
        read_table(path, mode=SENSITIVE_FILE, display_name="in/v.csv")
    assert str(tmp_path) not in "".join(traceback.format_exception_only(caught.value))


@pytest.mark.parametrize(
    ("data", "opening"),
    [
        (b"a,y\n1,2\n3\n", "line 3 of train.csv has 1 fields, its header has 2."),
        (b"a,y\n1,2\n\n3,4\n", "line 3 of train.csv is not a CSV record."),
        (b'a,y\n1,2\n3,4\n5,"6\n', "line 4 of train.csv is not a CSV record."),
        (b"a,y\n\xff,2\n", "line 2 of train.csv is not a CSV record."),
        (b"a,y\n" + b"1,2\n" * 10_000 + b"1,2,3\n", "line 10002 of train.csv has 3 fields, its header has 2."),
        (b"a,a\n", "two columns of train.csv share one name, 'a'."),
    ],
)
def test_problems_of_a_public_file_are_loud(data: bytes, opening: str, tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    path.write_bytes(data)
    with pytest.raises(StudyInvalid) as caught:
        read_table(path, mode=PUBLIC_FILE, display_name="some/where/train.csv")
    assert message(caught).startswith(opening)


def test_a_public_column_of_dates_is_refused_by_name(tmp_path: Path) -> None:
    pq.write_table(pa.table({"day": [date(2020, 1, 1)], "y": [1]}), tmp_path / "t.parquet")
    with pytest.raises(StudyInvalid) as caught:
        read_table(tmp_path / "t.parquet", mode=PUBLIC_FILE, display_name="x/t.parquet")
    assert message(caught).startswith("column 'day' of t.parquet is of type date32[day].")
    assert read_table(tmp_path / "t.parquet", mode=SENSITIVE_FILE, display_name="x/t.parquet").n_records == 1


@pytest.mark.parametrize(
    ("training", "validation", "expected"),
    [
        ("age sex y", "age sex z", "v.csv lacks 'y' and has 1 column unknown to the training table."),
        ("age height y", "age s3cr3t-4711 y",
         "v.csv lacks 'height' and has 1 column unknown to the training table."),
        ("age y", "age id s3cr3t-4711 y", "v.csv has 2 columns unknown to the training table."),
        ("a b c d e f g h i j k l m n o p y", "a b c d e f g h i y",
         "v.csv lacks 'j', 'k', 'l', 'm', 'n' and 2 more."),
        ("age sex y", "1 s3cr3t-4711 0",
         "v.csv lacks most of the training columns, 'age', 'sex', 'y' among them."),
    ],
)  # fmt: skip
def test_columns_that_differ(training: str, validation: str, expected: str) -> None:
    with pytest.raises(StudyInvalid) as caught:
        check_columns(training.split(), validation.split(), display_name="v.csv")
    assert expected in message(caught)
    assert SECRET not in str(caught.value)


def test_a_wrong_target_is_answered_by_the_nearest_name_of_a_public_header_alone() -> None:
    for mode, said in (
        (PUBLIC_FILE, "the target (the nearest name is 'smoker')."),
        (SENSITIVE_FILE, "the target."),
    ):
        with pytest.raises(StudyInvalid) as caught:
            check_target(("61", "27.1", "smoker"), "smoking", mode=mode)
        assert message(caught).startswith(f"the training table has no column 'smoking', {said}")


# -- tables in memory, and the fingerprint


def test_a_table_is_read_only_and_of_one_length() -> None:
    table = table_of({"a": np.array([1, 2], np.int8), "b": ["x", None], "c": np.array([True, False])})
    assert [column.dtype.kind for column in table.columns.values()] == ["f", "O", "f"]
    assert table.columns["c"].tolist() == [1.0, 0.0]
    assert repr(table) == "<Table: 3 columns, 2 records>"
    with pytest.raises(ValueError, match="read-only"):
        table.columns["a"][0] = 3.0
    with pytest.raises(TypeError):
        table.columns["d"] = table.columns["a"]  # type: ignore[index]
    with pytest.raises(ValueError, match="one length"):
        table_of({"a": [1, 2], "b": [1]})
    with pytest.raises(ValueError, match="at least one column"):
        table_of({})


def test_the_fingerprint_is_the_documented_byte_form() -> None:
    table = table_of({"a": [1, NAN, -0.0], "é": ["x", 2, None]})
    nan = struct.pack("<d", NAN)
    expected = (
        b"dpbo table 1\0" + struct.pack(">QQ", 2, 3)
        + struct.pack(">Q", 1) + b"a" + b"N" + struct.pack("<d", 1) + nan + struct.pack("<d", 0)
        + struct.pack(">Q", 2) + "é".encode() + b"O"
        + b"s" + struct.pack(">Q", 1) + b"x" + b"n" + struct.pack("<d", 2) + b"n" + nan
    )  # fmt: skip
    assert fingerprint(table) == hashlib.sha256(expected).hexdigest()
    assert fingerprint(table) == "f8f93a69bc1f283576ab06be176732495ae2a59a4e8be78633660a9ac8df36f2"


def test_the_fingerprint_sees_every_value_and_no_format(tmp_path: Path) -> None:
    columns = {"a": [1.5, 2.0], "b": ["u", "1"], "y": [0, 1]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_bytes(b'a,b,y\r\n1.50,u,False\r\n2,"1",True\r\n')
    prints = [
        fingerprint(read_table(tmp_path / f"t.{kind}", mode=PUBLIC_FILE, display_name="t"))
        for kind in ("parquet", "csv")
    ]
    assert prints[0] == prints[1] == fingerprint(table_of(columns, texts=None))
    others = [
        {"a": [1.5, 2.0], "b": ["u", "1"], "z": [0, 1]},
        {"a": [1.5, 2.0], "b": ["u", "1"], "y": [1, 0]},
        {"a": [1.5, 2.5], "b": ["u", "1"], "y": [0, 1]},
        {"a": [1.5, 2.0], "b": ["v", "1"], "y": [0, 1]},
        {"a": [1.5, 2.0], "b": ["u", "u1"], "y": [0, 1]},
        {"b": ["u", "1"], "a": [1.5, 2.0], "y": [0, 1]},
        {"a": [1.5], "b": ["u"], "y": [0]},
        {"a": [1.5, 2.0], "b": ["u", "1"]},
    ]
    assert len({prints[0], *(fingerprint(table_of(other, texts=None)) for other in others)}) == 9
