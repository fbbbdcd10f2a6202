"""Nothing that a record holds ends a study, is told to anybody, or says what another record means."""

import gc
import io
import logging
import math
import traceback
import warnings
from contextlib import redirect_stderr, redirect_stdout, suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hostile_values import CANARY, RAN, zoo
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption
from sklearn.linear_model import LogisticRegression
from worlds import at_length, mostly_slow, search_of

from dpbo_core import PrivacyLedger, Real
from dpbo_core.data import Preprocessing
from dpbo_core.data.frames import frame_of
from dpbo_core.data.table import Table, table_of
from dpbo_core.data.values import canonical_text
from dpbo_core.errors import Sealed, StudyInvalid
from dpbo_core.models.integer_sums import GRID
from dpbo_core.sklearn_api import tables_in_memory
from dpbo_core.sklearn_api.search_study import study_of
from dpbo_core.study.resolve import planning_problem

N = 40
ZOO = zoo()
X = np.column_stack([np.linspace(-1.0, 1.0, N), np.cos(np.arange(N))])
Y = (X[:, 0] > 0).astype(int)


# --- tables of every kind that holds objects: rows of cells → (X, y)


def _objects(column):
    array = np.empty(len(column), dtype=object)
    for i, value in enumerate(column):
        array[i] = value
    return array


def _array(columns):
    array = np.empty((len(columns[0]), len(columns)), dtype=object)
    for j, column in enumerate(columns):
        array[:, j] = _objects(column)
    return array


def _pandas(columns):
    return pd.DataFrame({f"x{j}": pd.Series(_objects(column), dtype=object) for j, column in enumerate(columns)})


def _polars(columns):
    """(Making them, polars asks the first value of a column whether it is a dataclass: a harmless one here.)"""
    return pl.DataFrame([pl.Series(f"x{j}", list(column), dtype=pl.Object) for j, column in enumerate(columns)])


TABLES = {
    "array": (_array, list),
    "array of rows": (lambda columns: _objects([list(row) for row in zip(*columns, strict=True)]), tuple),
    "array of objects": (_array, _objects),
    "masked": (lambda columns: np.ma.MaskedArray(_array(columns), mask=False), _objects),
    "pandas": (_pandas, lambda y: pd.Series(_objects(y), dtype=object)),
    "polars": (_polars, lambda y: pl.Series("y", list(y), dtype=pl.Object)),
}


def public(table):
    """The same kind of table, of the public records: names must agree."""
    if table in ("pandas", "polars"):
        made = {f"x{j}": X[:, j] for j in range(2)}
        return pd.DataFrame(made) if table == "pandas" else pl.DataFrame(made)
    return X


def search(folder, **changes):
    return search_of(f"sqlite:///{folder}/ledger.db", LogisticRegression(), {"C": Real(0.01, 1.0)}, **changes)


def told(columns, y, table, *, person=None, k=1):
    """What the study makes of the records: (encoded X, labels, exact sum), as after a reservation."""
    make, make_y = TABLES[table]
    V = make(columns)
    it = search("nowhere", person=person, max_records_per_person=k)
    training = frame_of(public(table), Y, display_name="X")
    width = len({*training.names} | ({person} if person else set()))
    validation = frame_of(V, make_y(y), display_name="X_validation", width=width)
    spec, prototype = study_of(it, training, validation.n_records)
    halves = tables_in_memory.FrameSplit(spec, training, validation, prototype, str(spec.data.target))
    half = halves.public(planning_problem(spec, unlisted=prototype.unlisted()))
    halves.check(half)
    objective = halves.sensitive(half)
    encoded = objective._records.expose()
    exact = objective.evaluate(half.problem.train(0)).expose()
    return encoded.X, encoded.labels, exact


def honest(m):
    columns = [[float(v) for v in np.linspace(-0.9, 0.9, m)], [0.1 * i for i in range(m)]]
    return columns, [int(v > 0) for v in columns[0]]


def test_the_zoo_is_large():
    assert len(ZOO) >= 200
    assert len({item.name for item in ZOO}) == len(ZOO)


@pytest.mark.parametrize("place", ["feature", "target", "person"])
@pytest.mark.parametrize("table", TABLES)
def test_each_is_its_plain_value_or_nothing_and_no_code_of_it_runs(table, place):
    """Record 3 holds the object; the same study with what it means, or nothing, in its place is the oracle. (One
    table of all of them against one of what they mean, and each record's row compared: the rest of the records are
    honest, so that nobody's row may differ.)"""
    m = 2 * len(ZOO)
    columns, y = honest(m)
    meant_columns, meant_y = honest(m)
    person, k = None, 1
    if place == "person":
        person, k = "x2", 2
        columns.append([f"p{i // 3}" for i in range(m)])
        meant_columns.append(list(columns[2]))
    for i, item in enumerate(ZOO):
        if place == "target":
            y[2 * i + 1], meant_y[2 * i + 1] = item.value, item.means
        else:
            j = 0 if place == "feature" else 2
            columns[j][2 * i + 1], meant_columns[j][2 * i + 1] = item.value, item.means
    if place == "person":  # these two are said in two ways, of which neither is the other's text
        for i, item in enumerate(ZOO):
            if isinstance(item.means, float) and math.isinf(item.means):
                meant_columns[2][2 * i + 1] = item.value
    RAN.clear()
    got = told(columns, y, table, person=person, k=k)
    assert RAN == []
    wanted = told(meant_columns, meant_y, "array", person=person, k=k)
    assert got[0].tobytes() == wanted[0].tobytes()
    assert got[1].tolist() == wanted[1].tolist()
    assert got[2] == wanted[2]
    assert got[2] % GRID == 0
    if place == "target":
        constant = [2 * i + 1 for i, item in enumerate(ZOO) if item.means is None]
        assert len(constant) >= 100
        assert (got[1][constant] == -1).all()
        assert not got[0][constant].any()


def test_one_at_a_time_the_others_stand_still():
    """In an array of rows, where a whole row may be hostile: a table for each of them, beside the honest one."""
    columns, y = honest(9)
    before = told(columns, y, "array of rows")
    training = frame_of(X, Y, display_name="X")
    spec, prototype = study_of(search("nowhere"), training, 9)
    problem = planning_problem(spec, unlisted=prototype.unlisted())
    half = tables_in_memory.FrameSplit(spec, training, training, prototype, "y").public(problem)
    model = half.problem.train(0)
    others = [i for i in range(9) if i != 4]
    for item in ZOO:
        rows = [list(row) for row in zip(*columns, strict=True)]
        rows[4] = item.value
        validation = frame_of(_objects(rows), y, display_name="X_validation", width=2)
        halves = tables_in_memory.FrameSplit(spec, training, validation, prototype, "y")
        halves.check(half)
        objective = halves.sensitive(half)
        encoded = objective._records.expose()
        assert encoded.n_records == 9
        assert encoded.X[others].tobytes() == before[0][others].tobytes(), item
        assert encoded.labels[others].tolist() == before[1][others].tolist()
        assert abs(objective.evaluate(model).expose() - before[2]) in (0, GRID)
    assert RAN == []


# --- whole studies


def everything_a_study_says(run):
    """(its result, all that was printed, logged or warned)."""
    gc.collect()  # what other tests left open warns now, and not while this one is heard
    out, records = io.StringIO(), []
    handler = logging.Handler()
    handler.emit = records.append
    logging.getLogger().addHandler(handler)
    try:
        with warnings.catch_warnings(record=True) as warned, redirect_stdout(out), redirect_stderr(out):
            warnings.simplefilter("always")
            result = run()
    finally:
        logging.getLogger().removeHandler(handler)
    return result, [out.getvalue(), *(r.getMessage() for r in records), *(str(w.message) for w in warned)]


@pytest.mark.parametrize("table", mostly_slow(TABLES, *list(TABLES)[:2]))
def test_a_study_of_nothing_but_them_ends_as_any_other(table, tmp_path, capfd):
    """Every object stands in a feature, in the target and in the column of persons of one validation set."""
    make, make_y = TABLES[table]
    values = ["0", *(item.value for item in ZOO)]
    m = len(values)
    plain_columns, plain_y = honest(m)
    plain_columns.append([f"p{i}" for i in range(m)])
    said, releases = [], []
    for edition, columns, y in (
        ("plain", plain_columns, plain_y),
        ("hostile", [values, plain_columns[1], values], values),
    ):
        it = search(tmp_path, edition=edition, person="x2", max_records_per_person=2)
        given_ = {"X_validation": make(columns), "y_validation": make_y(y)}
        found, lines = everything_a_study_says(partial(it.fit, public(table), Y, **given_))
        said.append(lines)
        releases.append(found.release_)
    assert said[0] == said[1]
    assert capfd.readouterr() == ("", "")
    assert releases[0].guarantee == releases[1].guarantee
    assert [str(spend) for spend in releases[0].spends] == [str(spend) for spend in releases[1].spends]
    assert releases[0].value.keys() == releases[1].value.keys()
    assert RAN == []


def chained(error):
    """`error` and all that can be reached from it: causes, contexts and groups; their arguments and notes."""
    seen, texts, waiting = set(), [], [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        waiting += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]
        texts += [*map(str, one.args), *getattr(one, "__notes__", ())]
    return texts


@pytest.mark.parametrize("ending", [RuntimeError, KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("table", TABLES)
def test_nothing_of_a_record_travels_with_a_failure_that_is_nobodys_doing(table, ending, tmp_path, monkeypatch):
    """The study fails right after the records were read; what leaves says nothing, nor does what it came from."""
    make, make_y = TABLES[table]
    values = ["0", *(item.value for item in ZOO)]
    columns, _ = honest(len(values))

    def failing(*_):
        raise ending

    monkeypatch.setattr(tables_in_memory, "sealed_half", failing)
    with pytest.raises((Sealed, KeyboardInterrupt)) as caught:
        search(tmp_path).fit(public(table), Y, X_validation=make([values, columns[1]]), y_validation=make_y(values))
    assert not any(CANARY in text or "hostile" in text for text in chained(caught.value))
    assert CANARY not in "".join(traceback.format_exception(caught.value))
    assert RAN == []


def test_ctrl_c_of_a_person_still_ends_the_study(tmp_path, monkeypatch):
    def pressed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("dpbo_core.data.raw_cells.native_kind", pressed)
    with pytest.raises(KeyboardInterrupt):
        search(tmp_path).fit(public("pandas"), Y, X_validation=public("pandas").copy() + 0.1, y_validation=list(Y))


# --- shapes and masks


def test_a_target_of_two_columns_is_refused_before_anything_is_paid(tmp_path):
    own = Y.copy()
    for two in (np.column_stack([Y, Y]), pd.DataFrame({"a": own, "b": 1}), pl.DataFrame({"a": own, "b": own})):
        with pytest.raises(StudyInvalid, match="target of X_validation has 2 columns"):
            search(tmp_path).fit(X, Y, X_validation=X + 0.1, y_validation=two)
    assert PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}").accounts() == ()
    one = search(tmp_path).fit(X, Y, X_validation=X + 0.1, y_validation=Y.copy()[:, None])
    assert np.isfinite(one.best_score_)


@pytest.mark.parametrize("dtype", [float, np.float32, int, bool, object, "U4", "S4"])
def test_a_masked_cell_is_a_missing_one(dtype):
    """And says nothing of the others: their meaning is that of the unmasked array, person for person."""
    data = np.array([[1, 0], [0, 1], [1, 1]]).astype(dtype)
    bare = frame_of(data, data[:, 0], display_name="V")
    masked = np.ma.MaskedArray(data, mask=[[False, False], [True, False], [False, False]])
    seen = frame_of(masked, masked[:, 0], display_name="V")
    for name in ("x0", "x1", "y"):
        table, wanted = (frame.table(target_name="y", source="V").columns[name] for frame in (seen, bare))
        hidden = name != "x1"
        assert [repr(v) for v in table.tolist()] == [
            "nan" if hidden and i == 1 else repr(v) for i, v in enumerate(wanted.tolist())
        ]
        if name != "y":
            people = [[tables_in_memory.person_in_memory(v) for v in frame.values(name)] for frame in (seen, bare)]
            assert [people[0][i] for i in (0, 2)] == [people[1][i] for i in (0, 2)]
            assert people[0][1] is None or not hidden


def test_rows_are_not_looked_at_before_they_are_paid_for():
    class Watched(list):
        def __iter__(self):
            pytest.fail("it was read")

        __getitem__ = __len__ = __iter__

    frame = frame_of(_objects([Watched([1.0, 2.0]), [3.0, 4.0]]), [0, 1], display_name="X_validation", width=2)
    assert (frame.n_records, frame.names) == (2, ("x0", "x1"))
    assert frame.values("x0") == [1.0, 3.0]


def test_a_sequence_of_ones_own_is_a_target_taken_value_by_value_and_no_table():
    """NumPy would have made texts of all its values."""

    class Rows:
        def __init__(self, rows):
            self.rows = rows

        def __len__(self):
            return len(self.rows)

        def __getitem__(self, i):
            return self.rows[i]

    frame = frame_of(np.zeros((2, 1)), Rows([1, "b"]), display_name="V", width=1)
    for rows in (Rows([[7.5], ["a"]]), [[7.5], ["a"]], ((7.5,), ("a",)), []):
        for width in (1, None):
            with pytest.raises(StudyInvalid, match="V is a list of rows, and a table is an array"):
                frame_of(rows, [1, 0], display_name="V", width=width)
    assert frame.table(target_name="y", source="V").columns["y"].tolist() == [1.0, "b"]


# --- a library's own types


ARROW = {
    "text that is not UTF-8": (pa.array([b"\xff", b"1", b"b"]).view(pa.string()), [None, 1.0, "b"]),
    "a long one": (pa.array([b"\xff", b"1", b"b"], pa.large_binary()).view(pa.large_string()), [None, 1.0, "b"]),
    "dictionary of such": (
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 1]), pa.array([b"\xff", b"2"]).view(pa.string())),
        [None, 2.0, 2.0],
    ),
    "timestamps out of range": (pa.array([2**62, 0, 1], pa.timestamp("s")), [None] * 3),
    "dates out of range": (pa.array([2**31 - 1, 0, 1], pa.date32()), [None] * 3),
    "times": (pa.array([2**40, 0, 1], pa.time64("us")), [None] * 3),
    "durations": (pa.array([2**62, 0, 1], pa.duration("s")), [None] * 3),
    "lists of timestamps": (pa.array([[2**62], [0], None], pa.list_(pa.timestamp("s"))), [None] * 3),
    "structures": (pa.array([{"a": 1}, {"a": 2}, None]), [None] * 3),
    "a map": (pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int64())), [None] * 3),
    "null": (pa.nulls(3), [None] * 3),
    "decimals": (pa.array([Decimal("1.5"), None, Decimal("2")]), [1.5, None, 2.0]),
    "decimals of 76 digits": (pa.array([Decimal(10**75), None, Decimal(2)], pa.decimal256(76)), [1e75, None, 2.0]),
    "half": (pa.array(np.array([1.5, 2, 3], np.float16)), [1.5, 2.0, 3.0]),
    "unsigned": (pa.array([2**64 - 1, 1, None], pa.uint64()), [float(2**64 - 1), 1.0, None]),
    "view": (pa.array(["1", "b", None], pa.string_view()), [1.0, "b", None]),
    "bytes": (pa.array([b"1", b"\xff", None]), [1.0, None, None]),
    "bytes of one size": (pa.array([b"1", b"\xff", None], pa.binary(1)), [1.0, None, None]),
    "runs": (pa.RunEndEncodedArray.from_arrays([2, 3], ["1", "b"]), [1.0, 1.0, "b"]),
    "uuid": (pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"1" * 16] * 3, pa.binary(16))), [None] * 3),
    "union": (pa.UnionArray.from_dense(pa.array([0, 1, 0], pa.int8()), pa.array([0, 0, 1], pa.int32()),
        [pa.array([1.0, 2.0]), pa.array([2**62], pa.timestamp("s"))]), [1.0, None, 2.0]),
}  # fmt: skip


@pytest.mark.parametrize("name", ARROW)
def test_arrow_of_every_type(name, capfd):
    array, wanted = ARROW[name]
    wanted = [repr(math.nan if value is None else value) for value in wanted]
    table = pa.table({"a": array})
    frame = frame_of(table, table["a"], display_name="V").table(target_name="y", source="V")
    assert [repr(v) for v in frame.columns["a"].tolist()] == wanted
    assert [repr(v) for v in frame.columns["y"].tolist()] == wanted
    bare = frame_of(np.zeros((3, 1)), array, display_name="V").table(target_name="y", source="V")
    assert [repr(v) for v in bare.columns["y"].tolist()] == wanted
    with suppress(Exception):  # those that pandas takes
        series = pd.Series(array, dtype=pd.ArrowDtype(array.type))
        held = frame_of(pd.DataFrame({"a": series}), series, display_name="V").table(target_name="y", source="V")
        assert [repr(v) for v in held.columns["a"].tolist()] == wanted, "pandas"
    assert capfd.readouterr().err == ""


POLARS = {
    "dates out of range": pl.Series([2**31 - 1, 0]).cast(pl.Int32).cast(pl.Date),
    "times out of range": pl.Series([2**62, 0]).cast(pl.Datetime("ms")),
    "lists of dates": pl.Series([[2**31 - 1], [0]]).cast(pl.List(pl.Int32)).cast(pl.List(pl.Date)),
    "structures of dates": pl.DataFrame({"a": pl.Series([2**31 - 1, 0]).cast(pl.Int32).cast(pl.Date)}).to_struct(),
    "arrays": pl.Series([[1.0], [2.0]], dtype=pl.Array(pl.Float64, 1)),
}


@pytest.mark.parametrize("name", POLARS)
def test_polars_does_not_panic(name, capfd):
    series = POLARS[name]
    frame = frame_of(pl.DataFrame({"a": series}), series, display_name="V")
    assert list(frame.values("a")) == [None, None]
    assert np.isnan(frame.table(target_name="y", source="V").columns["y"]).all()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("series", "wanted"),
    [
        (pd.Series([1, None, 2**60 + 1], dtype="Int64"), [1.0, math.nan, float(2**60)]),
        (pd.Series([1.5, None, 2], dtype="Float32"), [1.5, math.nan, 2.0]),
        (pd.Series([True, None, False], dtype="boolean"), [1.0, math.nan, 0.0]),
        (pd.Series(["1", None, "b"], dtype="string"), [1.0, math.nan, "b"]),
        (pd.Series(["1", None, "b"], dtype="category"), [1.0, math.nan, "b"]),
        (pd.Series([1.5, None, 2], dtype="category"), [1.5, math.nan, 2.0]),
        (pd.Series([1.5, 0, 2], dtype=pd.SparseDtype(np.float32)), [1.5, 0.0, 2.0]),
        (pd.Series(pd.period_range("2020", periods=3)), [math.nan] * 3),
        (pd.Series(pd.interval_range(0, 3)), [math.nan] * 3),
        (pd.Series(pd.to_datetime(["2020", None, "2021"])), [math.nan] * 3),
        (pd.Series(pd.to_datetime(["2020", None, "2021"]), dtype="category"), [math.nan] * 3),
        (pd.Series([1j, 2, 3]), [math.nan, 2.0, 3.0]),
    ],
    ids=lambda item: str(item.dtype)[:20] if isinstance(item, pd.Series) else "",
)
def test_pandas_of_every_type(series, wanted):
    for y in (series, series.array, pd.Index(series)):
        frame = frame_of(pd.DataFrame({"a": series}), y, display_name="V").table(target_name="y", source="V")
        assert [repr(v) for v in frame.columns["a"].tolist()] == [repr(v) for v in wanted]
        assert [repr(v) for v in frame.columns["y"].tolist()] == [repr(v) for v in wanted]


# --- one record does not say how the others are read, whatever a library infers from the column

NUMBERS = st.one_of(st.integers(-(2**70), 2**70), st.floats(), st.booleans(), st.sampled_from([2**53 + 1, -0.0]))
ODD = st.one_of(
    NUMBERS,
    st.none(),
    st.text(max_size=20),
    st.sampled_from(["1e5", "007", "nan", "true", "12 ", "\ud800", "1" * 400]),
    st.binary(max_size=3),
    st.sampled_from(
        [date(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC), Decimal("1.1"), Decimal("sNaN"), 10**400, -(10**400)]
    ),
    st.sampled_from([pd.NA, pd.NaT, np.float32(0.1), np.int8(-3), np.datetime64("2020"), [1], {}, 1j, object()]),
)


def _typed(columns):
    """What a column of a declared type can hold of each: Arrow and polars drop or refuse the rest."""
    numbers = [v if isinstance(v, float) and v == v else None for v in map(canonical_text, columns["x0"])]
    texts = [v if isinstance(v, str) and v.isprintable() else None for v in map(str, columns["x1"])]
    return pa.table({"x0": pa.array(numbers, pa.float64()), "x1": pa.array(texts, pa.string())})


INFERRING = {
    "array": lambda columns: np.array(list(zip(*columns.values(), strict=True))),
    "pandas": pd.DataFrame,
    "categories": lambda columns: pd.DataFrame(columns).astype("category"),
    "nullable": lambda columns: pd.DataFrame(columns).convert_dtypes(),
    "polars": lambda columns: pl.from_arrow(_typed(columns)),
    "polars of objects": lambda columns: pl.DataFrame(
        {n: pl.Series(c, dtype=pl.Object) for n, c in columns.items()}
    ),
    "arrow": _typed,
}


def read_as(table, targets, m):
    """The columns x0 and x1 of one table, and the first of another as the target."""
    features, labels = (
        frame_of(one, [0] * m, display_name="V", width=2).table(target_name="t", source="V").columns
        for one in (table, targets)
    )
    return {"x0": features["x0"], "x1": features["x1"], "y": labels["x0"]}


FITTED = Preprocessing.fit(
    table_of({"x0": [0.0, 1.0, 2.5], "x1": ["a", 1.0, "b"], "y": [0, 1, "c"]}), "y", unit_ball=False, missing="mean"
)
BALL = Preprocessing.fit(
    table_of({"x0": [0.0, 1.0, 2.5], "x1": ["a", 1.0, "b"], "y": [0, 1, "c"]}), "y", unit_ball=True, bias=0.5
)


@pytest.mark.parametrize("kind", INFERRING)
@settings(max_examples=at_length(30), deadline=None)
@given(st.data())
def test_what_a_library_infers_from_one_cell_moves_no_other_record(kind, data):
    """V and V′ differ in one record; each is built by the library from Python values, with its own inference."""
    m = data.draw(st.integers(2, 6))
    usual = st.one_of(NUMBERS, st.floats(-1e3, 1e3), st.sampled_from([1, 0, 1.5, True]))
    words = st.sampled_from(["a", "b", "1", "true", "longer than the others"])
    columns = [[data.draw(usual) for _ in range(m)], [data.draw(st.one_of(words)) for _ in range(m)]]
    target = [data.draw(st.sampled_from([0, 1])) for _ in range(m)]
    place = data.draw(st.integers(0, m - 1))
    changed = [[data.draw(ODD) if i == place else v for i, v in enumerate(c)] for c in (*columns, target)]
    make = INFERRING[kind]
    seen = []
    for features, labels in ((columns, target), (changed[:2], changed[2])):
        made = False
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tables = make({"x0": features[0], "x1": features[1]}), make({"x0": labels, "x1": labels})
                made = True
                read = read_as(*tables, m)
        except BaseException as error:  # the library makes no such table at all
            if isinstance(error, UnsatisfiedAssumption | KeyboardInterrupt) or made:
                raise
            assume(False)
        broken = np.zeros(m, dtype=bool)
        rows = []
        for fitted in (FITTED, BALL):
            out = fitted.transform(Table(read, broken))
            rows.append([(out.X[i].tobytes(), out.labels[i], out.broken[i]) for i in range(m)])
        seen.append(rows)
    for before, after in zip(*seen, strict=True):
        assert [row for i, row in enumerate(before) if i != place] == [
            row for i, row in enumerate(after) if i != place
        ]
