"""One table given as both halves is refused, by what is public of the call; what it holds is never compared."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression
from worlds import search_of

from dpbo_core import PrivacyLedger, Real
from dpbo_core.data import aliasing
from dpbo_core.data.aliasing import aliased
from dpbo_core.errors import StudyInvalid
from dpbo_core.study import StudySpec, data_split

RNG = np.random.default_rng(0)
A = RNG.normal(size=(200, 3))
Y = RNG.integers(0, 2, 200)
FRAME = pd.DataFrame(A, columns=list("abc")).assign(
    i=pd.array([None, *range(199)], dtype="Int64"),
    s=pd.array([f"text {i}" for i in range(200)], dtype="string"),
    k=pd.Categorical(["u", "v"] * 100),
    t=pd.date_range("2020", periods=200),
    o=pd.Series([1, "a"] * 100, dtype=object),
)
POLARS = pl.DataFrame(
    {
        "a": A[:, 0].copy(),
        "s": [f"a text longer than twelve characters {i}" for i in range(200)],
        "b": [True, False] * 100,
        "d": pl.Series(range(200)).cast(pl.Date),
        "k": pl.Series(["u", "v"] * 100, dtype=pl.Categorical),
    }
)
ARROW = pa.table(
    {
        "a": A[:, 0].copy(),
        "s": [f"{i}" for i in range(200)],
        "b": [True, False] * 100,
        "d": pa.array(range(200), pa.date32()),
        "k": pa.array(["u", "v"] * 100).dictionary_encode(),
        "l": pa.array([[i] for i in range(200)]),
    }
)
TABLES = {"numpy": A, "object": A.astype(object)}
TABLES |= {f"pandas {name}": FRAME[[name]] for name in FRAME}
TABLES |= {f"polars {name}": POLARS[[name]] for name in POLARS.columns}
TABLES |= {f"arrow {name}": ARROW.select([name]) for name in ARROW.column_names}


def again(table):
    """Another object on the same memory, or holding the same rows."""
    if isinstance(table, np.ndarray):
        return table[:]
    if isinstance(table, pd.DataFrame):
        return table.copy(deep=False)
    return table.clone() if isinstance(table, pl.DataFrame) else table.select(table.column_names)


@pytest.mark.parametrize("name", TABLES)
def test_the_same_memory_is_seen_and_a_split_is_none(name):
    table = TABLES[name]
    other = again(table)
    assert other is not table
    assert aliased((table,), (table,))
    assert aliased((table,), (other,))
    assert aliased((table[:100],), (table[60:],))
    assert aliased((table[40:160],), (other[:80],))
    assert not aliased((table[:100],), (table[100:],))
    assert not aliased((table[:101],), (table[101:],))
    if not name.startswith("arrow"):
        assert not aliased((table[::2],), (table[1::2],))


@pytest.mark.parametrize("copied", [A.copy(), pd.DataFrame(A.copy()), A + 0.0])
def test_equal_content_is_not_looked_for(copied):
    assert not aliased((A, Y), (copied, Y.copy()))


def test_one_record_in_common_is_enough_and_strides_are_exact():
    assert aliased((A[:101],), (A[100:],))
    assert aliased((A[::2],), (A[::3],))
    assert not aliased((A[:, :2],), (A[:, 2:],))
    assert aliased((A,), (A.T,))
    assert aliased((A,), (np.ma.masked_array(A, copy=False),))
    assert aliased((FRAME[["a"]],), (FRAME["a"].to_numpy()[3:5],))
    assert aliased((ARROW.select(["a"]),), (pl.from_arrow(ARROW.select(["a"])),))
    assert aliased((A, Y), (A.copy(), Y[150:]))
    assert aliased((A, pd.Series(Y, copy=False)), (A.copy(), Y)) == np.shares_memory(pd.Series(Y, copy=False), Y)
    labels = Y.tolist()
    assert aliased((A, labels), (A.copy(), labels))
    assert not aliased((A, labels), (A.copy(), list(labels)))


def test_where_it_cannot_be_decided_it_is_shared(monkeypatch):
    def hard(*_, **__):
        raise np.exceptions.TooHardError

    monkeypatch.setattr(aliasing.np, "shares_memory", hard)
    assert aliased((A[::2],), (A[1::2],))


def test_the_search_refuses_before_it_pays(tmp_path):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    search = search_of(url, LogisticRegression(), {"C": Real(0.01, 1.0)})
    frame = pd.DataFrame(A, columns=list("abc"))
    for X, y, V, z in (
        (A, Y, A, Y),
        (A, Y, A[50:], Y[50:]),
        (frame, Y, frame, Y),
        (frame, Y, frame.rename(columns=str), Y.copy()),
        (A, Y, A + 1.0, Y),
    ):
        with pytest.raises(StudyInvalid, match="shares its memory"):
            search.fit(X, y, X_validation=V, y_validation=z)
    assert PrivacyLedger(url).accounts() == ()
    split = search.fit(A[::2], Y[::2], X_validation=A[1::2], y_validation=Y[1::2])
    assert not split.replayed_


def test_no_record_is_looked_at():
    class Silent:
        def __getattribute__(self, name):
            pytest.fail(f"{name} of a record was asked for")

    records = np.empty((3, 1), dtype=object)
    for i in range(3):
        records[i, 0] = Silent()
    frame = pd.DataFrame({"a": pd.Series(records[:, 0], dtype=object)})
    for table in (records, frame):
        assert not aliased((A, Y), (table, [0, 1, 0]))


# --- files


def test_a_folder_that_holds_the_training_file_or_one_file_twice(tmp_path, tables):
    import pyarrow.parquet as pq

    def study(validation):
        files = {"training": "train.parquet", "validation": validation, "n_validation": 200, "target": "y"}
        return StudySpec.from_dict(tables | {"data": files})

    pq.write_table(pa.table({"a": A[:, 0], "y": Y}), tmp_path / "train.parquet")
    folder = tmp_path / "parts"
    folder.mkdir()
    pq.write_table(pa.table({"a": A[:100, 0], "y": Y[:100]}), folder / "one.parquet")
    pq.write_table(pa.table({"a": A[100:, 0], "y": Y[100:]}), folder / "two.parquet")
    spec = study("parts")
    public = data_split.public_half(spec, tmp_path)
    data_split.check_presence(spec, tmp_path, public)
    (folder / "three.parquet").symlink_to(folder / "one.parquet")
    with pytest.raises(StudyInvalid, match="one file under two names"):
        data_split.check_presence(spec, tmp_path, public)
    (folder / "three.parquet").unlink()
    (folder / "three.parquet").hardlink_to(tmp_path / "train.parquet")
    with pytest.raises(StudyInvalid, match="both the training file and the validation file"):
        data_split.check_presence(spec, tmp_path, public)
    (tmp_path / "copy.parquet").write_bytes((tmp_path / "train.parquet").read_bytes())
    data_split.check_presence(study("copy.parquet"), tmp_path, public)  # equal content is not looked for
