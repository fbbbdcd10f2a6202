"""One table that `validation_size` divides: one sensitive cell of every kind, in every container, for every door.

A world is the name of a column and of a kind of cell, which stands in the first row that is validated on. A
container gives a column one type for all of its rows, so the cell may change what the container makes of the public
rows. A kind that a container cannot hold at all, since whoever makes it raises, is no world of that container.
"""

import datetime as dt
import decimal
import io
import math
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from functools import cache, partial
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from of_features import merged
from sklearn.linear_model import Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from audit.enumerator import Door, Place, World
from dpbo_core import PrivateSearch
from dpbo_core.sklearn_api.split_by_position import halves, validated_on

N_ROWS, SHARE = 16, 0.4
PROTECTED = int(np.flatnonzero(validated_on(N_ROWS, SHARE))[0])
DAY = dt.datetime(2020, 1, 1)  # noqa: DTZ001  a time of no zone
TARGET = "y"


class Word(str):
    """A text of a class of its own."""

    __slots__ = ()


class Hostile:
    """An object of which every question raises, once it has printed."""

    def _raise(self, *_: object, **__: object) -> Any:
        print("asked")
        raise RuntimeError("asked")

    __eq__ = __hash__ = __str__ = __repr__ = __array__ = __len__ = __iter__ = __getitem__ = _raise
    __bool__ = __float__ = __int__ = __index__ = __lt__ = __gt__ = __format__ = __reduce_ex__ = _raise


class Silent(Hostile):
    """A hostile object that a container may print and compare."""

    __eq__, __hash__, __str__, __repr__ = object.__eq__, object.__hash__, object.__str__, object.__repr__
    __len__ = __iter__ = __getitem__ = __array__ = None  # type: ignore[assignment]


class Deceitful(float):
    """A number that says that it is no number."""

    def __float__(self) -> float:
        raise RuntimeError("asked")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("asked")

    __hash__ = None  # type: ignore[assignment]


SHORT_ROW = "short row"
KINDS: dict[str, Callable[[], object]] = {
    "honest": lambda: ...,  # as the public rows have it
    "text": lambda: "x",
    "text of a number": lambda: "7",
    "empty text": lambda: "",
    "half a character": lambda: "\ud800",
    "zero at the end": lambda: "x\0",
    "own text": lambda: Word("own"),
    "NumPy's text": lambda: np.str_("own"),
    "long text": lambda: "ab " * 300,
    "bytes": lambda: b"x",
    "bytes of no text": lambda: b"\xff\xfe",
    "true": lambda: True,
    "whole": lambda: 5,
    "negative": lambda: -1,
    "number": lambda: 2.5,
    "single": lambda: np.float32(1.1),
    "half": lambda: np.float16(0.1),
    "extended": lambda: np.longdouble(1) / 3,
    "own number": lambda: Deceitful(2.5),
    "complex": lambda: 1j,
    "missing": lambda: None,
    "NaN": lambda: math.nan,
    "infinite": lambda: math.inf,
    "pandas.NA": lambda: pd.NA,
    "pandas.NaT": lambda: pd.NaT,
    "2^53 + 1": lambda: 2**53 + 1,
    "2^63": lambda: 2**63,
    "2^70": lambda: 2**70,
    "400 digits": lambda: 10**400,
    "decimal": lambda: decimal.Decimal("1.5"),
    "long decimal": lambda: decimal.Decimal("1.00000000000000000000001"),
    "no decimal": lambda: decimal.Decimal("sNaN"),
    "time": lambda: DAY + dt.timedelta(1),
    "late time": lambda: dt.datetime(9999, 12, 31),  # noqa: DTZ001
    "zoned time": lambda: DAY.replace(tzinfo=dt.timezone(dt.timedelta(hours=2))),
    "nanosecond": lambda: np.datetime64("2020-01-01T00:00:00.000000001", "ns"),
    "timestamp": lambda: pd.Timestamp("2020-01-02T00:00:00.000000001"),
    "date": lambda: dt.date(2020, 1, 2),
    "clock": lambda: dt.time(1, 2),
    "duration": lambda: dt.timedelta(1),
    "period": lambda: pd.Period("2020-01"),
    "identifier": lambda: uuid.UUID(int=1),
    "list": lambda: [1],
    "tuple": lambda: (1, 2),
    "dict": lambda: {"a": 1},
    "set": lambda: {1},
    "array": lambda: np.array([1.0, 2.0]),
    "nothing": lambda: np.array([]),
    "frame": lambda: pd.DataFrame({"a": [1]}),
    "class": lambda: Hostile,
    "object": object,
    "silent object": Silent,
    "hostile object": Hostile,
    SHORT_ROW: lambda: ...,
}
N_KINDS = len(KINDS)
RARE = {  # kinds that the public half alone is asked about, and no whole door
    *(
        "empty text",
        "zero at the end",
        "NumPy's text",
        "long text",
        "bytes of no text",
        "negative",
        "single",
        "half",
    ),
    *("extended", "own number", "2^53 + 1", "2^63", "400 digits", "long decimal", "no decimal", "late time"),
    *(
        "nanosecond",
        "timestamp",
        "clock",
        "period",
        "identifier",
        "tuple",
        "set",
        "nothing",
        "frame",
        "class",
        "object",
    ),
}
COLUMNS: dict[str, tuple[object, object]] = {  # by the public class
    "number": (-0.25, 1.5),
    "whole": (3, 2**53 - 1),
    "text": ("red", "blue"),
    "truth": (True, False),
    "time": (DAY, DAY + dt.timedelta(40)),
}
LABELS: dict[str, tuple[object, object]] = {
    "texts": ("no", "yes"),
    "bytes": (b"no", b"yes"),
    "truths": (False, True),
    "wholes": (0, 1),
    "numbers": (-0.5, 0.25),
}
Rows = list[list[Any]]


def honest(names: tuple[str, ...]) -> Rows:
    """Rows of four kinds, (n, d), each many times: marks of rows say nothing of a table of few different ones."""
    first, second = zip(*(COLUMNS[name] for name in names), strict=True)
    rows = [list(first), list(second), [*first[:-1], second[-1]], [*second[:-1], first[-1]]]
    return [list(rows[i % 4]) for i in range(N_ROWS)]


def table(names: tuple[str, ...], column: str, kind: str) -> Rows:
    """The honest rows, of which the first sensitive one holds a cell of this kind."""
    rows = honest(names)
    if column in names and kind == SHORT_ROW:
        rows[PROTECTED].pop()
    elif column in names and (cell := KINDS[kind]()) is not ...:
        rows[PROTECTED][names.index(column)] = cell
    return rows


def labels(of: str, column: str, kind: str) -> list[Any]:
    """The classes or targets of the rows; the first sensitive one's may be of this kind."""
    listed = [LABELS[of][i % 2] for i in range(N_ROWS)]
    cell = KINDS[kind]()
    if column == TARGET and cell is not ...:
        listed[PROTECTED] = cell
    return listed


def by_column(rows: Rows, make: Callable[[list[Any]], Any]) -> dict[str, Any]:
    """Each column of the rows as `make` has it; a row that is too short has none."""
    return {f"c{j}": make(list(column)) for j, column in enumerate(zip(*rows, strict=True))}


def objects(values: list[Any]) -> Any:
    """Values as an array of objects, one each."""
    made = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        made[i] = value
    return made


def object_table(rows: Rows) -> Any:
    return np.stack([objects(list(column)) for column in zip(*rows, strict=True)], axis=1)


def category(values: list[Any]) -> Any:
    return pd.Categorical(pd.Series(objects(values), dtype=object))


ALL, MIXED, NUMBERS = ("number", "whole", "text", "truth", "time"), ("number", "text", "truth"), ("number", "whole")
TRUTHS, TEXTS = ("truth",), ("text",)
CONTAINERS: dict[str, tuple[tuple[str, ...], Callable[[Rows], Any]]] = {
    "NumPy": (MIXED, np.array),
    "NumPy, numbers": (NUMBERS, np.array),
    "NumPy, truths": (TRUTHS, np.array),
    "NumPy, objects": (MIXED, object_table),
    "NumPy, rows": (MIXED, lambda rows: np.array(rows, dtype=object)),
    "NumPy, single": (NUMBERS, lambda rows: np.array(rows, dtype=np.float32)),
    "NumPy, complex": (NUMBERS, lambda rows: np.array(rows, dtype=complex)),
    "NumPy, texts": (MIXED, lambda rows: np.array(rows, dtype=str)),
    "NumPy, masked": (NUMBERS, lambda rows: np.ma.masked_invalid(np.array(rows))),
    "NumPy, hidden": (MIXED, lambda rows: np.ma.masked_array(object_table(rows))),
    "pandas": (ALL, lambda rows: pd.DataFrame(by_column(rows, list))),
    "pandas, truths": (TRUTHS, lambda rows: pd.DataFrame(by_column(rows, np.array))),
    "pandas of an array": (MIXED, lambda rows: pd.DataFrame(np.array(rows), columns=["a", "b", "c"])),
    "pandas of arrays": (ALL, lambda rows: pd.DataFrame(by_column(rows, np.array))),
    "pandas of rows": (ALL, lambda rows: pd.DataFrame(rows, columns=list("abcde"))),
    "pandas, converted": (ALL, lambda rows: pd.DataFrame(by_column(rows, list)).convert_dtypes()),
    "pandas over Arrow": (
        ALL,
        lambda rows: pd.DataFrame(by_column(rows, list)).convert_dtypes(dtype_backend="pyarrow"),
    ),
    "pandas, objects": (ALL, lambda rows: pd.DataFrame(by_column(rows, objects), dtype=object)),
    "pandas, inferred": (ALL, lambda rows: pd.DataFrame(by_column(rows, objects)).infer_objects()),
    "pandas, categories": (ALL, lambda rows: pd.DataFrame(by_column(rows, category))),
    "polars": (ALL, lambda rows: pl.DataFrame(by_column(rows, list))),
    "polars, lenient": (ALL, lambda rows: pl.DataFrame(by_column(rows, list), strict=False)),
    "polars, objects": (
        ALL,
        lambda rows: pl.DataFrame([pl.Series(n, c, dtype=pl.Object) for n, c in by_column(rows, list).items()]),
    ),
    "Arrow": (ALL, lambda rows: pa.table(by_column(rows, pa.array))),
    "Arrow, dictionary": (TEXTS, lambda rows: pa.table(by_column(rows, lambda c: pa.array(c).dictionary_encode()))),
}
TARGETS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "rows": lambda values: [[value] for value in values],
    "NumPy": np.array,
    "NumPy, objects": objects,
    "NumPy, a column": lambda values: objects(values).reshape(-1, 1),
    "NumPy, masked": np.ma.array,
    "pandas": pd.Series,
    "pandas, objects": lambda values: pd.Series(objects(values), dtype=object),
    "pandas, converted": lambda values: pd.Series(values).convert_dtypes(),
    "pandas, categories": lambda values: pd.Series(category(values)),
    "pandas, an index": pd.Index,
    "pandas, a frame": lambda values: pd.DataFrame({"t": values}),
    "polars": lambda values: pl.Series("t", values),
    "polars, lenient": lambda values: pl.Series("t", values, strict=False),
    "Arrow": pa.array,
}


LOST = {("polars, lenient", "dict"), ("polars, lenient", "long decimal")}  # turns every other cell into a null


def given(container: str, target: str, of: str, column: str, kind: str, *, apart: bool = False) -> dict[str, Any]:
    """The arguments of `fit` in a world: one table, or `apart` two. Raises where it cannot be made."""
    names, make = CONTAINERS[container]
    rows, truth = table(names, column, kind), labels(of, column, kind)
    half = slice(PROTECTED, PROTECTED + 4)
    with ExitStack() as stack:
        for context in (warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO())):
            stack.enter_context(context)
        stack.enter_context(patch("sys.unraisablehook", lambda _: None))  # polars asks a hostile object
        warnings.simplefilter("ignore")  # what the container says is no word of ours
        if not apart:
            return {"X": make(rows), "y": TARGETS[target](truth), "validation_size": SHARE}
        public = {"X": make(honest(names)), "y": np.array(labels(of, column, "honest"))}
        return public | {"X_validation": make(rows[half]), "y_validation": TARGETS[target](truth[half])}


def _types(made: dict[str, Any]) -> list[str]:
    """The types of the columns and of the labels of a sensitive table of polars or Arrow."""
    X, y = made["X_validation"], made["y_validation"]
    labels = y.dtype if isinstance(y, pl.Series) else getattr(y, "type", "")
    return [str(getattr(X, "schema", "")), str(labels)]


@cache
def worlds(container: str, target: str, of: str, column: str, *, apart: bool = False) -> tuple[World, ...]:
    """The worlds of one column: its name and a kind of cell, for all kinds that the containers can hold."""
    possible = []
    for kind in KINDS:
        if (kind == SHORT_ROW and column == TARGET) or {(container, kind), (target, kind)} & LOST:
            continue
        try:
            made = given(container, target, of, column, kind, apart=apart)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            continue  # polars panics, which is no Exception
        alike = not apart or _types(made) == _types(given(container, target, of, column, "honest", apart=True))
        if not alike:
            continue  # of two tables neighbours have the types of typed columns (threat model, *Tables*)
        possible.append((((column, kind),),))
    return tuple(possible)


# --- the doors


def by_type(frame: pd.DataFrame) -> Any:
    """What a user's Pipeline makes of columns by the type that each has; raises where a cell is of none."""
    numbers = []
    for name in frame.columns:
        column = frame[name]
        if column.dtype.kind in "fiu":
            numbers.append([column.astype(float)])
        elif column.dtype.kind == "M":
            numbers.append([(column - DAY) / pd.Timedelta("1D"), np.zeros(len(column))])
        else:
            numbers.append([(column == text).astype(float) for text in ("red", "blue", str(column.dtype))])
    return np.column_stack([feature for features in numbers for feature in features])


def public_facts(search: Any) -> dict[str, str]:
    """All that a fitted search gives: its release, and what no sensitive cell may change."""
    encode, model = search.best_estimator_[0], search.best_estimator_[1]
    last = model[-1] if hasattr(model, "steps") else model
    fitted = {key: value for key, value in vars(last).items() if key.endswith("_")}
    return {
        "trained": repr({key: np.asarray(value).tolist() for key, value in fitted.items()}),
        "columns": repr(encode._fitted),
        "classes": repr(getattr(search, "classes_", None)),
        "names": f"{search.n_features_in_} {getattr(search, 'feature_names_in_', '')}",
        "rows": repr(getattr(search, "validation_rows_", None)),
        "release": shown(search.release_),
    }


def shown(release: Any) -> str:
    """A release but for its head in a fresh ledger, and its time."""
    return repr(release.to_json() | {"ledger": "", "released_at": ""})


Settings = dict[str, Any]
FIXED: Settings = {"epsilon": 1.0, "dataset": "clinic", "budget": (50.0, 1e-3)}
REGRESSION: Settings = {"scoring": "absolute_error", "error_bound": 1.0}


def public_half(world: World, *, held: Settings) -> dict[str, str]:
    """The public half alone, and what of the sensitive one is public."""
    tables = given(**held, column=str(world[0][0][0]), kind=str(world[0][0][1]))
    X, y, X_sensitive, y_sensitive, rows = halves(*tables.values())
    frame = isinstance(X, pd.DataFrame)
    return {
        "X": repr((X.to_dict("list"), X.index, X.columns) if frame else X.tolist()),
        "types": repr([getattr(kind, "categories", kind) for kind in X.dtypes] if frame else type(X)),
        "y": repr((y.tolist(), y.dtype.kind)),
        "shape": repr((X_sensitive.shape, len(y_sensitive), type(X_sensitive), type(y_sensitive), rows.tolist())),
    }


def searched(place: Place, world: World, *, held: Settings, piped: bool, apart: bool = False) -> dict[str, str]:
    """`PrivateSearch.fit`, then `evaluate` if it divided the table."""
    tables = given(**held, column=str(world[0][0][0]), kind=str(world[0][0][1]), apart=apart)
    regression = held["of"] == "numbers"
    model = Ridge() if regression else make_pipeline(FunctionTransformer(by_type), GaussianNB())
    axis = "alpha" if regression else "gaussiannb__var_smoothing"
    if not regression and not piped:
        model, axis = model[-1], "var_smoothing"
    settings = FIXED | (REGRESSION if regression else {}) | {"ledger": place.url, "method": "private_grid"}
    search = PrivateSearch(model, {axis: [1e-3, 1e-1]}, accepts=("rowwise_predictions",), **settings).fit(**tables)
    facts = public_facts(search)
    return facts if apart else facts | {"report": shown(search.evaluate(**tables, epsilon=1.0).release)}


def cell_doors(containers: Iterable[str] = CONTAINERS, targets: Iterable[str] = TARGETS) -> Iterator[Door]:
    """A cell of each feature in each container, then a label in each container of labels."""
    for container in containers:
        names, _ = CONTAINERS[container]
        held = {"container": container, "target": "list", "of": "texts"}
        named = container.startswith(("pandas", "polars", "Arrow"))
        for column in names:
            yield from _doors("a cell", f"{container}, {column}", column, held, named)
    for target in targets:
        for of in LABELS:
            held = {"container": "NumPy, numbers", "target": target, "of": of}
            yield from _doors("a label", f"{target}, {of}", TARGET, held, named=False)


def _doors(what: str, form: str, column: str, held: Settings, named: bool) -> Iterator[Door]:
    """The doors for the cells of one column."""
    every, two = worlds(column=column, **held), worlds(column=column, **held, apart=True)
    few, few_of_two = (tuple(world for world in some if world[0][0][1] not in RARE) for some in (every, two))
    search = partial(searched, held=held, piped=named)
    yield Door(
        f"{what} of one table, its public half", form, lambda place, world: public_half(world, held=held), every
    )
    yield Door(f"{what} of one table, PrivateSearch", form, search, few)
    yield Door(f"{what} of two tables, PrivateSearch", form, partial(search, apart=True), few_of_two)
    if held["of"] in ("texts", "truths") and column in ("number", TARGET):
        for who, asked in merged("cell_doors", held, named).items():
            yield Door(f"{what} of one table, {who}", form, asked, few)
