"""Preprocessing: fitted on the public table, total on every other, and each row its record's own business."""

import io
import math
import warnings
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from worlds import at_length

from dpbo_core.data import Encoded, Preprocessing, Table, read_table, table_of
from dpbo_core.data.csv_file import read_csv
from dpbo_core.data.features import clipped, clipped_rows, scaled_rows
from dpbo_core.data.header import PUBLIC_FILE, SENSITIVE_FILE
from dpbo_core.errors import StudyInvalid

NAN = float("nan")
QUIET = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
TRAINING = table_of(
    {"x": [1.0, 2.0, 3.0, 6.0], "c": ["red", "blue", "red", "7"], "z": [0.5, -1e3, 4.0, 0.0], "y": [0, 1, 1, 0]},
    source="train.csv",
)


def exact_square_norm(row: np.ndarray) -> Fraction:
    ratios = [float(value).as_integer_ratio() for value in row]
    bottom = max(denominator for _, denominator in ratios)  # a power of two, as all of them
    return Fraction(sum((top * (bottom // denominator)) ** 2 for top, denominator in ratios), bottom**2)


def equal_bits(left: np.ndarray, right: np.ndarray) -> bool:
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


def transform_strictly(fitted: Preprocessing, table: Table) -> Encoded:
    """With every warning, and every floating-point flag, turned into an error."""
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        return fitted.transform(table)


def message(caught: pytest.ExceptionInfo[StudyInvalid]) -> str:
    assert caught.value.exit_code == 2
    assert "What to do" in str(caught.value)
    return str(caught.value)


# -- values by hand and against scikit-learn


def test_standardised_columns_to_the_last_bit() -> None:
    fitted = Preprocessing.fit(TRAINING, "y", unit_ball=False)
    assert fitted.feature_names == ("x", "c=7", "c=blue", "c=red", "z")
    assert fitted.classes == (0.0, 1.0)
    assert fitted.n_features == 5
    encoded = fitted.transform(TRAINING)
    x, z = np.array([1.0, 2, 3, 6]), np.array([0.5, -1e3, 4.0, 0.0])
    assert equal_bits(encoded.X[:, 0], (x - 3.0) / math.sqrt(3.5))
    assert equal_bits(encoded.X[:, 4].copy(), (z - z.mean()) / z.std())
    assert encoded.X[:, 1:4].tolist() == [[0, 0, 1], [0, 1, 0], [0, 0, 1], [1, 0, 0]]
    assert encoded.labels.tolist() == [0, 1, 1, 0]
    assert encoded.X.flags.c_contiguous
    assert (encoded.X.dtype, encoded.labels.dtype) == (np.float64, np.int64)
    raw = Preprocessing.fit(TRAINING, "y", unit_ball=False, standardize=False).transform(TRAINING)
    assert raw.X[:, [0, 4]].tolist() == [[1, 0.5], [2, -1e3], [3, 4], [6, 0]]


def test_against_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(500, 3)) * [1e-3, 1.0, 1e9] + [5.0, 0.0, -3e9]
    colours = rng.choice(["red", "green", "blue"], 500)
    table = table_of(
        {"a": values[:, 0], "b": values[:, 1], "c": values[:, 2], "k": colours, "y": rng.integers(0, 3, 500)}
    )
    other = rng.normal(size=(200, 3)) * 10
    strange = rng.choice(["red", "green", "mauve"], 200)
    held = table_of({"k": strange, "y": [0] * 200, "c": other[:, 2], "b": other[:, 1], "a": other[:, 0]})
    expected = np.hstack(
        [
            StandardScaler().fit(values).transform(other),
            OneHotEncoder(handle_unknown="ignore", sparse_output=False)
            .fit(colours[:, None])
            .transform(strange[:, None]),
        ]
    )
    plain = Preprocessing.fit(table, "y", unit_ball=False).transform(held)
    np.testing.assert_allclose(plain.X, expected, rtol=1e-9)
    assert not plain.broken.any()

    own = np.hstack([StandardScaler().fit_transform(values), (colours[:, None] == ["blue", "green", "red"])])
    ball = Preprocessing.fit(table, "y", unit_ball=True, clip_quantile=0.8)
    assert ball.radius == pytest.approx(np.quantile(np.linalg.norm(own, axis=1), 0.8), rel=1e-12)
    lengths = np.linalg.norm(expected / ball.radius, axis=1, keepdims=True)
    np.testing.assert_allclose(
        ball.transform(held).X, expected / ball.radius / np.maximum(lengths, 1.0), rtol=1e-9, atol=1e-300
    )
    inside = np.linalg.norm(ball.transform(table).X, axis=1) < 1 - 1e-9
    assert abs(inside.mean() - 0.8) <= 1 / 500


def test_a_constant_column_is_zero_for_every_record() -> None:
    table = table_of({"k": [0.1, 0.1, 0.1], "x": [0, 1, 2], "y": [0, 1, 1]})
    for unit_ball in (True, False):
        fitted = Preprocessing.fit(table, "y", unit_ball=unit_ball)
        held = fitted.transform(table_of({"k": [7, 1e308, 0.1, NAN], "x": [0.0] * 4, "y": [0] * 4}))
        assert held.X[:, 0].tolist() == [0.0] * 4
        assert held.broken.tolist() == [False, False, False, True]
    alone = Preprocessing.fit(table_of({"k": [3, 3], "y": [0, 1]}), "y", unit_ball=True, bias=0.6)
    assert alone.radius == 1.0
    assert alone.transform(table_of({"k": [3, 1e308], "y": [0, 1]})).X.tolist() == [[0, 0.6], [0, 0.6]]


def test_training_values_at_the_ends_of_the_doubles() -> None:
    huge, tiny = 1.7e308, 5e-324
    table = table_of({"h": [huge, -huge, huge, -huge], "t": [tiny, 0, 1e-320, 3e-322], "y": [0, 1, 0, 1]})
    with np.errstate(all="raise", under="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = Preprocessing.fit(table, "y", unit_ball=False)
        encoded = fitted.transform(table)
    assert encoded.X[:, 0].tolist() == [1.0, -1.0, 1.0, -1.0]
    assert not encoded.broken.any()
    assert abs(encoded.X[:, 1].mean()) < 0.01
    assert encoded.X[:, 1].std() == pytest.approx(1.0, abs=0.01)


# -- the unit ball


def test_a_zero_beside_a_tiny_deviation_hides_nothing() -> None:
    table = table_of({"t": [1e-300, -1e-300, 0, 0], "x": [-2, 2, 2, -2], "y": [0, 1, 0, 1]})
    fitted = Preprocessing.fit(table, "y", unit_ball=True, clip_quantile=1.0)
    encoded = transform_strictly(fitted, table_of({"t": [0, 1e-300, 0], "x": [1, 0, 0], "y": [0, 1, 0]}))
    assert fitted.radius == pytest.approx(3**0.5, rel=1e-15)
    np.testing.assert_allclose(encoded.X, [[0, 0.5 / 3**0.5], [(2 / 3) ** 0.5, 0], [0, 0]], rtol=1e-14)


def test_a_subnormal_radius_still_measures() -> None:
    table = table_of({"x": [2.0**-1040, -(2.0**-1040)], "y": [0, 1]})
    fitted = Preprocessing.fit(table, "y", unit_ball=True, standardize=False)
    assert fitted.radius == 2.0**-1040
    encoded = transform_strictly(fitted, table_of({"x": [2.0**-1042, 0, 1e308], "y": [0, 0, 0]}))
    assert encoded.X[:2].tolist() == [[0.25], [0.0]]
    assert 1 - 2e-12 < encoded.X[2, 0] < 1


def test_huge_rows_become_unit_vectors_and_point_the_same_way() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(100, 3))
    table = table_of({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "y": [0, 1] * 50})
    scale = x.std(axis=0)
    fitted = Preprocessing.fit(table, "y", unit_ball=True)
    rows = [[1e308, 1e308, -1e308], [1.7e308, 0, 0], [-1e308, 1e-308, 0], [1e200, 1e199, 0], [1e16, -1e16, 3e15]]
    held = transform_strictly(
        fitted, table_of({n: [r[j] for r in rows] for j, n in enumerate("abc")} | {"y": [0] * 5})
    )
    assert not held.broken.any()
    for row, x_row in zip(rows, held.X, strict=True):
        direction = np.array(row) / max(map(abs, row)) / scale
        np.testing.assert_allclose(x_row, direction / np.linalg.norm(direction), atol=1e-11)
        assert 1 - Fraction(1, 10**11) < exact_square_norm(x_row) <= 1


@given(
    st.lists(
        st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=3, max_size=3), min_size=1, max_size=5
    ),
    st.sampled_from([0.0, 0.1, 0.5, 2**-0.5, 0.7, 0.9999999, 1 - 2**-53]),
    st.sampled_from([1e-300, 1e-3, 1.0, 1e300]),
    st.booleans(),
)
@settings(QUIET, max_examples=at_length(400))
def test_no_finite_row_leaves_the_unit_ball_in_exact_arithmetic(
    rows: list[list[float]], bias: float, size: float, standardize: bool
) -> None:
    base = np.random.default_rng(3).normal(size=(9, 3)) * size
    names = dict(zip("abc", base.T, strict=True))
    fitted = Preprocessing.fit(
        table_of(names | {"y": np.arange(9) % 2}), "y", unit_ball=True, bias=bias, standardize=standardize
    )
    held = table_of({n: [r[j] for r in rows] for j, n in enumerate("abc")} | {"y": np.zeros(len(rows))})
    encoded = transform_strictly(fitted, held)
    assert not encoded.broken.any()
    assert np.isfinite(encoded.X).all()
    for row in encoded.X:
        assert exact_square_norm(row) <= 1
        assert bias == 0.0 or row[-1] == bias


@pytest.mark.parametrize("d", [1, 2, 50, 6000])
def test_wide_rows_stay_inside_too(d: int) -> None:
    x = np.random.default_rng(4).normal(size=(6, d)) + np.arange(6)[:, None]
    columns = {f"c{j}": x[:, j] for j in range(d)}
    fitted = Preprocessing.fit(table_of(columns | {"y": np.arange(6) % 2}), "y", unit_ball=True, clip_quantile=0.01)
    encoded = fitted.transform(
        table_of({name: 3 * column for name, column in columns.items()} | {"y": np.zeros(6)})
    )
    squares = [exact_square_norm(row) for row in encoded.X]
    assert max(squares) <= 1
    assert sum(square > 1 - Fraction(1, 10**10) for square in squares) >= 4


def test_the_bias_is_appended_after_clipping() -> None:
    table = table_of({"x": [-1.0, 1.0], "y": [0, 1]})
    fitted = Preprocessing.fit(table, "y", unit_ball=True, bias=0.6)
    assert fitted.feature_names == ("x", "bias")
    encoded = fitted.transform(table_of({"x": [1e9, 0.25, 0.0, NAN], "y": [1, 0, 1, 1]}))
    assert encoded.X[0].tolist() == pytest.approx([0.8, 0.6], abs=1e-11)
    assert encoded.X[0, 0] < 0.8
    assert encoded.X[1:].tolist() == [[0.25, 0.6], [0.0, 0.6], [0.0, 0.0]]


# -- totality


def test_records_that_cannot_be_used_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_bytes(
        b"y,z,c,x\n"
        b"1,0,red,3\n"  # in another order of columns
        b"1,,red,3\n"  # no number
        b"0,0,red,inf\n"
        b"0,0,mauve,3\n"  # an unseen category is all zeros
        b"0,0,,3\n"  # so is none at all
        b"maybe,0,red,3\n"  # an unknown label
        b",0,red,3\n"  # none
        b"0,0,red\n"  # not a record
        b"1,1e999,7.0,3\n"
        b"True,-1000,7.00,3.0\n"
    )  # fmt: skip
    held = read_table(path, mode=SENSITIVE_FILE, display_name="v.csv")
    fitted = Preprocessing.fit(TRAINING, "y", unit_ball=False, standardize=False)
    encoded = transform_strictly(fitted, held)
    assert encoded.broken.tolist() == [False, True, True, False, False, False, False, True, True, False]
    assert encoded.labels.tolist() == [1, -1, -1, 0, 0, -1, -1, -1, -1, 1]
    assert encoded.signs.tolist() == [1, 1, 1, -1, -1, 1, 1, 1, 1, 1]
    usable = {0: [3, 0, 0, 1, 0], 3: [3, 0, 0, 0, 0], 4: [3, 0, 0, 0, 0], 9: [3, 1, 0, 0, -1000]}
    assert encoded.X.tolist() == [usable.get(i, [0] * 5) for i in range(10)]
    assert repr(encoded) == "<Encoded: 10 records, 5 features>"
    with pytest.raises(ValueError, match="read-only"):
        encoded.X[0, 0] = 1.0

    biased = Preprocessing.fit(TRAINING, "y", unit_ball=True, bias=0.5).transform(held)
    assert biased.X[:, -1].tolist() == [0.5 if i in usable else 0.0 for i in range(10)]
    assert all(not biased.X[i].any() for i in range(10) if i not in usable)


def test_a_broken_line_is_broken_even_where_every_column_is_a_category() -> None:
    fitted = Preprocessing.fit(table_of({"c": ["a", "b"], "y": [0, 1]}), "y", unit_ball=True)
    held = read_csv(io.BytesIO(b"c,y\na,1\nmauve,0\n\na\n"), mode=SENSITIVE_FILE, display_name="v.csv")
    encoded = transform_strictly(fitted, held)
    assert encoded.broken.tolist() == [False, False, True, True]
    assert encoded.labels.tolist() == [1, 0, -1, -1]
    np.testing.assert_allclose(encoded.X, [[1, 0], [0, 0], [0, 0], [0, 0]], rtol=2e-12)


def test_any_estimator_gets_only_what_float32_can_hold() -> None:
    fitted = Preprocessing.fit(TRAINING, "y", unit_ball=False, standardize=False)
    top = float(np.finfo(np.float32).max)
    edge = 2.0**128 - 2.0**103  # halfway to the next float32, and so rounded to infinity
    x = [top, edge, math.nextafter(edge, 0.0), 1e39, -1e308, 1e-300]
    held = table_of({"x": x, "c": ["red"] * 6, "z": [0.0] * 6, "y": [1] * 6})
    encoded = transform_strictly(fitted, held)
    assert encoded.broken.tolist() == [False, True, False, True, True, False]
    assert np.isfinite(encoded.X.astype(np.float32)).all()
    assert encoded.X[:, 0].tolist() == [top, 0.0, math.nextafter(edge, 0.0), 0.0, 0.0, 1e-300]


FITTED = [
    Preprocessing.fit(TRAINING, "y", unit_ball=True, bias=0.7),
    Preprocessing.fit(TRAINING, "y", unit_ball=True, standardize=False),
    Preprocessing.fit(TRAINING, "y", unit_ball=False),
]
GOOD = [b"1,red,0,1", b"2.5,blue,-7,0", b"6,7,1e5,true", b"-1e308,mauve,4,0", b"0,,1e-300,1"]
field = st.one_of(
    st.sampled_from(
        ["", "1", "red", "1e308", "-1e308", "1e999", "nan", "inf", "5e-324", "7", '"', '"a', "1_0", "\r", "true"]
    ),
    st.floats().map(repr),
    st.text(max_size=3),
)
hostile_line = st.one_of(
    st.lists(field, min_size=4, max_size=4).map(lambda row: ",".join(row).encode("utf-8", "surrogatepass")),
    st.lists(field, max_size=6).map(lambda row: ",".join(row).encode("utf-8", "surrogatepass")),
    st.binary(max_size=15),
).map(lambda line: line.replace(b"\n", b"\r"))


def check_rows(encoded: Encoded, neighbour: Encoded, changed: int, *, unit_ball: bool) -> None:
    others = np.arange(neighbour.n_records) != changed
    assert encoded.n_records == neighbour.n_records
    for left, right in (
        (encoded.X, neighbour.X),
        (encoded.labels, neighbour.labels),
        (encoded.broken, neighbour.broken),
    ):
        assert equal_bits(left[others], right[others])
    assert equal_bits(encoded.signs[others], neighbour.signs[others])
    row = neighbour.X[changed]
    assert np.isfinite(row.astype(np.float32)).all()
    assert not unit_ball or exact_square_norm(row) <= 1
    assert neighbour.labels[changed] in (-1, 0, 1)
    if neighbour.labels[changed] == -1:
        assert not row.any()
        assert neighbour.signs[changed] == 1.0
    assert not neighbour.broken[changed] or neighbour.labels[changed] == -1


@given(hostile_line, st.integers(0, len(GOOD) - 1))
@settings(QUIET, max_examples=at_length(700))
def test_one_hostile_line_changes_its_own_row_and_no_other_bit(line: bytes, changed: int) -> None:
    def encode(lines: list[bytes]) -> list[Encoded]:
        file = io.BytesIO(b"x,c,z,y\n" + b"\n".join(lines) + b"\n")
        table = read_csv(file, mode=SENSITIVE_FILE, display_name="v.csv")
        return [transform_strictly(fitted, table) for fitted in FITTED]

    replaced = [*GOOD[:changed], line, *GOOD[changed + 1 :]]
    for fitted, left, right in zip(FITTED, encode(GOOD), encode(replaced), strict=True):
        check_rows(left, right, changed, unit_ball=fitted.unit_ball)


@pytest.mark.parametrize("d", [1, 3, 17, 130])
@pytest.mark.parametrize("unit_ball", [True, False])
def test_a_record_alone_gives_the_same_bits_as_among_many(d: int, unit_ball: bool) -> None:
    rng = np.random.default_rng(5)
    m = 20_000 if d < 100 else 9_000  # beyond one block
    x = rng.normal(size=(m, d)) * 10.0 ** rng.integers(-3, 4, size=(m, d))
    columns = {f"c{j}": x[:, j] for j in range(d)}
    labels = np.arange(m) % 2
    part = {name: column[:50] for name, column in columns.items()}
    fitted = Preprocessing.fit(
        table_of(part | {"y": labels[:50]}), "y", unit_ball=unit_ball, bias=0.5 if unit_ball else 0.0
    )
    whole = fitted.transform(table_of(columns | {"y": labels}))
    for record in [0, 1, 7, 8191, 8192, m - 1]:
        alone = fitted.transform(
            table_of(
                {name: column[record : record + 1] for name, column in columns.items()} | {"y": labels[[record]]}
            )
        )
        assert equal_bits(alone.X[0], whole.X[record])
        assert alone.labels[0] == whole.labels[record]


# -- labels


LABELS = {
    "csv words": b"1,True\n2,False\n3,TRUE\n4,false\n5,\n6,2\n",
    "csv numbers": b"1,1\n2,0\n3,1.0\n4,-0\n5,nan\n6,2\n",
    "csv quoted": b'1,"1"\n2,"0"\n3," 1e0 "\n4,00\n5,""\n6,x\n',
}
COLUMNS = {
    "bool": pa.array([True, False, True, False, None, None]),
    "int": pa.array([1, 0, 1, 0, None, 2]),
    "float": pa.array([1.0, 0.0, 1.0, -0.0, NAN, math.inf]),
    "text": pa.array(["1", "0", "True", "false", "", "x"]),
    "category": pa.array(["1", "0.0", "1.0", "0", None, "x"]).dictionary_encode(),
}


@pytest.mark.parametrize(
    "training", ["csv words", "csv numbers", "csv quoted", "bool", "int", "float", "text", "category"]
)
def test_labels_agree_whatever_holds_them(training: str, tmp_path: Path) -> None:
    def table(kind: str, *, sensitive: bool, rows: int) -> Table:
        path = tmp_path / f"{kind.replace(' ', '_')}.{'csv' if kind in LABELS else 'parquet'}"
        if kind in LABELS:
            path.write_bytes(b"x,y\n" + b"\n".join(LABELS[kind].split(b"\n")[:rows]))
        else:
            pq.write_table(pa.table({"x": [1, 2, 3, 4, 5, 6][:rows], "y": COLUMNS[kind][:rows]}), path)
        return read_table(path, mode=SENSITIVE_FILE if sensitive else PUBLIC_FILE, display_name=path.name)

    fitted = Preprocessing.fit(table(training, sensitive=False, rows=4), "y", unit_ball=True)
    assert fitted.classes == (0.0, 1.0)
    for held in (*LABELS, *COLUMNS):
        encoded = fitted.transform(table(held, sensitive=True, rows=6))
        assert encoded.labels.tolist() == [1, 0, 1, 0, -1, -1]
        assert encoded.signs.tolist() == [1, -1, 1, -1, 1, 1]
        assert not encoded.broken.any()
        assert not encoded.X[4:].any()


def test_classes_are_sorted_numbers_then_texts_and_the_larger_is_positive() -> None:
    fitted = Preprocessing.fit(table_of({"x": [1, 2, 3], "y": ["no", "yes", "no"]}), "y", unit_ball=True)
    assert fitted.classes == ("no", "yes")
    assert fitted.transform(table_of({"x": [1, 1], "y": ["yes", "no"]})).signs.tolist() == [1.0, -1.0]
    fitted = Preprocessing.fit(table_of({"x": [1, 2, 3, 4], "y": ["b", "10", "9", "a"]}), "y", unit_ball=True)
    assert fitted.classes == (9.0, 10.0, "a", "b")
    encoded = fitted.transform(table_of({"x": [1, 1, 1], "y": ["a", 10, "9.0"]}))
    assert encoded.labels.tolist() == [2, 1, 0]
    with pytest.raises(StudyInvalid) as caught:
        encoded.signs  # noqa: B018
    assert message(caught).startswith("the target has 4 classes, a margin needs two.")


# -- messages about the public table


@pytest.mark.parametrize(
    ("columns", "arguments", "opening"),
    [
        ({"x": [1, 2], "y": [1, 1]}, {}, "the target 'y' of train.csv has one class, '1'."),
        ({"x": [1, NAN, None], "y": [0, 1, 1]}, {},
         "column 'x' of train.csv has no value at line 3 (2 such records)."),
        ({"x": ["a", "b", ""], "y": [0, 1, 1]}, {},
         "column 'x' of train.csv has no value at line 4 (1 such records)."),
        ({"x": [1, 2, -math.inf], "y": [0, 1, 1]}, {},
         "column 'x' of train.csv has an infinite value at line 4 (1"),
        ({"x": [1, 2, 3], "y": [0, 1, None]}, {},
         "column 'y' of train.csv has no value at line 4 (1 such records)."),
        ({"x": [*range(50), "?"], "y": [0, 1, 1] * 17}, {},
         "column 'x' of train.csv has 51 different values and is not numeric (the first text is '?', line 52)."),
        ({"x": [1, 2], "y": [0, 1]}, {"target": "t"}, "the training table has no column 't', the target."),
        ({"y": [0, 1]}, {}, "train.csv has no column but the target, no records, or"),
        ({"x": [], "y": []}, {}, "train.csv has no column but the target, no records, or"),
        ({"x": [1, 1e39], "y": [0, 1]}, {"unit_ball": False, "standardize": False},
         "line 3 of train.csv holds a value too"),
        ({"x": [1, 1.7e308], "z": [0, 1.7e308], "y": [0, 1]}, {"standardize": False},
         "line 3 of train.csv holds a value too"),
    ],
)  # fmt: skip
def test_what_a_training_table_may_not_be(columns: dict, arguments: dict, opening: str) -> None:
    options = {"target": "y", "unit_ball": True} | arguments
    with pytest.raises(StudyInvalid) as caught:
        Preprocessing.fit(replace(table_of(columns, source="train.csv"), csv=True), **options)
    assert message(caught).startswith(opening)
    fifty = table_of({"x": [*range(49), "?"], "y": [0, 1] * 25})
    assert Preprocessing.fit(fifty, "y", unit_ball=True).n_features == 50


def test_gaps_take_the_training_mean_where_the_study_says_so():
    table = table_of(
        {"x": [1.0, None, 3.0, 5.0], "c": ["a", None, "b", "a"], "y": [0, 1, 1, 0]}, source="train.csv"
    )
    with pytest.raises(StudyInvalid, match='missing = "mean"'):
        Preprocessing.fit(table, "y", unit_ball=False)
    fitted = Preprocessing.fit(table, "y", unit_ball=False, missing="mean")
    number, category = fitted.features
    assert (number.mean, number.stand_in, category.values) == (3.0, 3.0, ("a", "b"))
    raw = Preprocessing.fit(table, "y", unit_ball=False, missing="mean", standardize=False)
    found = raw.transform(
        table_of({"x": [NAN, "?", math.inf, 2.0], "c": ["b", None, "zz", "a"], "y": [0, 1, 0, None]})
    )
    assert not found.broken.any()
    assert found.labels.tolist() == [0, 1, 0, -1]
    assert found.X.tolist() == [[3.0, 0.0, 1.0], [3.0, 0.0, 0.0], [3.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    for gaps in ({"x": [None] * 4}, {"x": [math.inf, 1, 2, 3]}, {"y": [None, 0, 1, 1]}):
        columns = {"x": [1.0, 2.0, 3.0, 5.0], "y": [0, 1, 1, 0]} | gaps
        with pytest.raises(StudyInvalid):
            Preprocessing.fit(table_of(columns), "y", unit_ball=False, missing="mean")


def test_a_regression_keeps_its_targets_and_replaces_what_has_none():
    table = table_of({"x": [1.0, 2.0, 3.0], "y": [0.5, -2.0, 7.0]})
    fitted = Preprocessing.fit(table, "y", unit_ball=False, regression=True)
    found = fitted.transform(table_of({"x": [1.0, "a", 2.0, 2.0], "y": [9.0, 1.0, "z", math.inf]}))
    assert found.labels.tolist() == [0, -1, -1, -1]
    assert found.truth.tolist() == [9.0, 0.0, 0.0, 0.0]
    assert not found.X[1:].any()
    with pytest.raises(StudyInvalid, match="texts"):
        Preprocessing.fit(table_of({"x": [1.0, 2.0], "y": ["a", 1.0]}), "y", unit_ball=False, regression=True)


@settings(max_examples=at_length(300), deadline=None)
@given(
    st.integers(1, 6),
    st.integers(1, 40),
    st.integers(0, 2**32 - 1),
    st.sampled_from([1e-320, 1e-150, 1.0, 3.7, 1e9, 1e200]),
)
def test_rows_are_the_same_doubles_with_mantissas_apart_and_without(d, r, seed, radius):
    """Sizes from the smallest double to the largest, side by side in a record, more than there are places for."""
    rng = np.random.default_rng(seed)
    reach = rng.choice([0, 3, 150, 307], (d, r), p=[0.3, 0.3, 0.2, 0.2])
    raw = rng.normal(size=(d, r)) * 10.0 ** rng.integers(-reach, reach + 1) * (rng.random((d, r)) < 0.9)
    center, scale = rng.normal(size=d) * 10.0 ** rng.integers(-3, 4, d), 10.0 ** rng.integers(-5, 6, d)
    out = np.full((r, d), np.nan)

    def fill(records, rows):
        rows[:] = raw[:, records]
        yield slice(0, d)

    clipped_rows(fill, np.zeros(r, dtype=np.bool_), (center, scale), out, radius=radius, bound=0.8)
    with np.errstate(all="ignore"):
        by_mantissas = clipped(*scaled_rows(raw, center, scale), radius=radius, bound=0.8)
    normal = np.abs(by_mantissas.T) >= 2.0**-900
    assert (out[normal] == by_mantissas.T[normal]).all()
    assert (np.abs(out[~normal]) < 2.0**-899).all()  # what is this small moves no score
    assert (np.linalg.norm(out, axis=1) <= 0.8).all()


def test_broken_and_enormous_records_keep_their_bits_whoever_stands_beside_them() -> None:
    """More of each than places are kept for, over a border of blocks, with numbers where a column is constant."""
    rng = np.random.default_rng(4)
    x, border = rng.normal(size=(4100, 3)), np.arange(4080, 4100)
    x[border] = [[-1.7e308, 3.0, 1e200], [np.nan, 1.0, 1e300], [np.inf, 0.0, 5e-324], [1e-310, -0.0, 2.0]] * 5
    columns = {"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "y": np.arange(4100) % 2}
    training = {name: column[:50] for name, column in columns.items()} | {"b": np.full(50, 3.0)}
    fitted = Preprocessing.fit(table_of(training), "y", unit_ball=True, bias=0.6)
    whole = transform_strictly(fitted, table_of(columns))
    assert whole.broken[border].tolist() == [False, True, True, False] * 5
    for record in [0, 1, *border]:
        alone = fitted.transform(table_of({name: column[[record]] for name, column in columns.items()}))
        assert equal_bits(alone.X[0], whole.X[record])
        assert alone.X.any() != alone.broken[0]
