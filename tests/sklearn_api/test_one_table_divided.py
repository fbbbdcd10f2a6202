"""What the public half of one divided table is: its own cells, whatever a container made of them."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from test_estimator import X, Y, search

from dpbo_core.data.frames import frame_of
from dpbo_core.errors import StudyInvalid
from dpbo_core.sklearn_api.split_by_position import halves, validated_on

N, SHARE = 12, 0.5
CHOSEN = validated_on(N, SHARE)
FIRST = int(np.flatnonzero(CHOSEN)[0])
PUBLIC = np.flatnonzero(~CHOSEN)
HALF = np.arange(N) % 2


def replaced(values, cell):
    """The values as a list, the first sensitive one replaced by `cell`."""
    listed = list(values)
    listed[FIRST] = cell
    return listed


def public_column(values):
    return halves(pd.DataFrame({"a": values}), HALF, SHARE)[0]["a"]


DAYS = [dt.datetime(2020, 1, 1 + i) for i in range(N)]  # noqa: DTZ001  of no zone
SAME = {  # what a container may hold of one column, and its type
    "float64": [
        list(range(N)),
        np.arange(N, dtype=np.int8),
        np.arange(N, dtype=np.float32),
        np.arange(N) + 0j,
        replaced(map(str, range(N)), "x"),
        replaced(map(float, range(N)), None),
        [Decimal(i) for i in range(N)],
        pd.array(replaced(range(N), None), dtype="Int64"),
    ],
    "datetime64[us]": [
        DAYS,
        pd.Series(DAYS).astype("datetime64[ns]"),
        replaced(map(str, DAYS), 5),
        replaced(DAYS, "x"),
    ],
    "str": [["a", "b"] * 6, replaced(["a", "b"] * 6, 5), np.array(["a", "b"] * 6, dtype=object), [b"a", b"b"] * 6],
}


@pytest.mark.parametrize("kind", SAME)
def test_what_a_container_may_make_of_a_public_column_is_one_column(kind):
    columns = [public_column(values) for values in SAME[kind]]
    assert str(columns[0].dtype).replace("object", "str") == kind  # before pandas 3 a text is an object
    for column in columns[1:]:
        pd.testing.assert_series_equal(column, columns[0])


def test_truth_values_are_numbers_and_texts_of_numbers_stay_texts_among_others():
    truths = HALF.astype(bool)
    for values in (truths, replaced(truths, 5), np.array(replaced(truths, 5)), replaced(map(str, truths), "x")):
        assert public_column(values).tolist() == HALF[PUBLIC].tolist()
        assert public_column(values).dtype == np.float64
    mixed = [("u", 7.0, "007", True, "x\0")[i % 5] for i in range(N)]
    coerced = np.array(mixed)  # "7.0" and "True", and no zero at the end
    assert public_column(mixed).tolist() == public_column(coerced).tolist()
    assert {"7", "007", "True", "x"} <= {*public_column(mixed), *public_column(coerced)}


TARGETS = {
    "truths": [
        HALF == 1,
        HALF,
        HALF * 1.0,
        HALF + 0j,
        [str(one == 1) for one in HALF],
        pd.array(HALF == 1, "boolean"),
    ],
    "texts": [["no", "yes"] * 6, [b"no", b"yes"] * 6, [["no"], ["yes"]] * 6, pd.Categorical(["no", "yes"] * 6)],
}


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize(
    "cell", [None, 1j, b"\xff", "x", [1], [], 2**70, pd.NA, object()], ids=lambda cell: type(cell).__name__
)
def test_a_public_target_has_one_form(kind, cell):
    expected = HALF[PUBLIC].tolist() if kind == "truths" else [("no", "yes")[i] for i in HALF[PUBLIC]]
    for target in TARGETS[kind]:
        for y in (target, replaced(target, cell)):
            public, sensitive = halves(X[:N], y, SHARE)[1::2]
            assert (public.tolist(), public.dtype.kind) == (expected, "U" if kind == "texts" else "i")
            assert len(sensitive) == CHOSEN.sum()


def test_a_short_sensitive_row_is_no_record_and_a_short_public_one_no_table():
    rows = [[float(i), "u"] for i in range(N)]
    public, _, sensitive, _, taken = halves(np.array(replaced(rows, [1.0]), dtype=object), HALF, SHARE)
    assert public.tolist() == [rows[i] for i in PUBLIC]
    assert pd.isna(sensitive[0]).all()
    assert sensitive[1:].tolist() == [rows[i] for i in taken[1:]]
    rows[PUBLIC[0]] = [1.0]
    with pytest.raises(StudyInvalid, match="not a table of records"):
        halves(np.array(rows, dtype=object), HALF, SHARE)
    with pytest.raises(StudyInvalid, match="X is a list of rows"):
        halves(rows, HALF, SHARE)


def test_public_labels_in_several_columns_are_refused_whatever_a_sensitive_row_holds():
    wide = [[0, 1, 2]] * N
    for target in (np.array(wide), wide, replaced(wide, []), replaced(wide, 5)):
        with pytest.raises(StudyInvalid, match="the target of X has 3 columns"):
            halves(X[:N], target, SHARE)


def test_a_weight_is_read_by_itself(url):
    weights = np.ones(len(X)) + 0j
    weights[int(np.flatnonzero(validated_on(len(X), 0.5))[0])] = 1j
    assert search(url).fit(X, Y, validation_size=0.5, sample_weight=weights).best_score_ is not None
    with pytest.raises(StudyInvalid, match="weight of a public row"):
        search(url, edition="2").fit(X, Y, validation_size=0.5, sample_weight=weights * 1j)


def test_a_table_of_its_own_is_refused_for_no_cell_either():
    """Two tables: a short row made an array of rows, and one imaginary number the whole column complex."""
    short = np.array([[1.0, 2.0], [3.0]], dtype=object)
    assert frame_of(short, None, display_name="X_validation", width=2).values("x1") == [2.0, None]
    table = frame_of(pd.DataFrame({"a": [1.0, 2.0, 1j]}), None, display_name="X_validation")
    assert table.table_with_cells(target_name="y", source="X").cells["a"].tolist() == [1.0, 2.0, np.inf]


def test_the_public_half_of_any_library_is_that_of_pandas():
    table = pd.DataFrame({"a": np.arange(N), "b": ["u", "v"] * 6, "c": DAYS})
    expected = halves(table, HALF, SHARE)[0]
    for other in (pl.from_pandas(table), pl.from_pandas(table).to_arrow(), table.set_index("a", drop=False)):
        pd.testing.assert_frame_equal(halves(other, HALF, SHARE)[0], expected)
