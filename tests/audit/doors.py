"""The doors that the enumerator tries, and the small tables that it tries them on.

A row is a tuple of cells under `COLUMNS`: a number, a colour, a truth value, a day, whose row it is, and the class.
One cell of an honest row is replaced by whatever may stand there: values of other types, values that no public row
has, and everything that some library reads or writes as a missing one.
"""

import datetime as dt
import itertools
import math
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from of_features import parts
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from audit.enumerator import Door, Place, Row, Unit, World
from dpbo_core import PrivateSearch, PrivateSelection, StudySpec
from dpbo_core.ledger.charge import Caller
from dpbo_core.report.evaluation import OpenEvaluation, open_evaluation
from dpbo_core.sklearn_api.split_by_position import validated_on
from dpbo_core.study.preconditions import approve_study
from dpbo_core.study.query import QueryContext
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import open_study

COLUMNS = ("a", "colour", "flag", "when", "who", "y")
A, COLOUR, FLAG, WHEN, WHO, Y = range(6)
DAY, LAST = (pd.Timestamp(day).to_pydatetime() for day in ("2020-01-01", "9999-12-31"))
MISSING = (None, math.nan, "", "NA", "NULL", "nan", "None", "#N/A")
ODD: dict[int, tuple[object, ...]] = {
    A: (-1.0, 7, 1e308, math.inf, -math.inf, True, "x", "1_000", 10**400, DAY, b"\xff"),
    COLOUR: ("no such", 7, 2.5, True, "é" * 300, b"\xff", DAY),
    FLAG: (False, "maybe", "True", 2),
    WHEN: ("2020-99-99", "2020-01-02", "x", 5, LAST, pd.Timestamp("2020-01-01", tz="UTC")),
    WHO: (12, 12.5, True, "  ann ", b"\xff", 10**400),
    Y: ("no", "no such", 1, True, 0.5, b"\xff", DAY),
}
HONEST: Row = (0.5, "red", True, DAY, "ann", "yes")
OTHER: Row = (-0.5, "blue", False, DAY + dt.timedelta(300), "bob", "no")
CLASSES = {"text": {"yes": "yes", "no": "no"}, "numbers": {"yes": 1, "no": 0}, "truth": {"yes": True, "no": False}}


def public_rows(n: int = 8) -> list[Row]:
    """PUBLIC rows, each twice: marks of rows say nothing of a table of few different ones."""
    days = [DAY + dt.timedelta(100 * (i % 4)) for i in range(n)]
    return [
        ((i % 4 - 1.5) / 2.0, ("red", "blue")[i // 2 % 2], i % 4 > 1, days[i], "", ("no", "yes")[i % 4 > 1])
        for i in range(n)
    ]


def but(row: Row, column: int, cell: object) -> Row:
    """The row with another cell."""
    return (*row[:column], cell, *row[column + 1 :])


def rows_of(columns: Iterable[int], base: Row = HONEST) -> list[Row]:
    """The honest row, another one, and the honest one with one cell replaced by each value that may stand there."""
    changed = [but(base, column, cell) for column in columns for cell in (*ODD[column], *MISSING)]
    rows = {repr(row): row for row in (base, OTHER, *changed)}
    return list(rows.values())


FEATURES = (A, COLOUR, FLAG, WHEN, Y)


def counted(sizes: Iterable[int] = (1, 2, 3), columns: Iterable[int] = FEATURES) -> tuple[World, ...]:
    """Tables of a public number of records: one of them is anything, at each place; the others are honest."""
    worlds: dict[str, World] = {}
    rows = rows_of(columns)
    for m in sizes:
        for place, row in itertools.product(range(m), rows):
            world = tuple((row,) if i == place else ((OTHER, HONEST)[i % 2],) for i in range(m))
            worlds.setdefault(repr(world), world)
    return tuple(worlds.values())


def in_places(k: int = 2) -> tuple[World, ...]:
    """Tables of two people with k records each, in the same places whoever they are."""
    rows = [*rows_of((A, WHO, Y)), *(but(HONEST, WHO, name) for name in ("eve", "bob"))]
    units = [(HONEST,) * k, *((row, *(HONEST,) * (k - 1)) for row in rows[1:]), *((row,) * k for row in rows[1:])]
    units += [(but(HONEST, WHO, "NA"), HONEST), (HONEST, but(OTHER, WHO, "NA"))]
    return tuple((unit, (but(OTHER, WHO, "dan"),) * k) for unit in {repr(unit): unit for unit in units}.values())


def persons() -> tuple[World, ...]:
    """Tables of at most two people, each with 0 to 3 records, whose number is private: the empty table too.

    A person may leave the key out of some records: nobody's then, whatever text stands there.
    """
    rows = rows_of((A, WHEN, WHO, Y))
    wrong = but(HONEST, Y, "no")
    units: list[Unit] = [(), (HONEST,)]
    for marker in ("NA", *MISSING):
        units += [(HONEST, but(HONEST, WHO, marker)), (wrong, but(wrong, WHO, marker))]
    units += [*((row,) for row in rows), (HONEST, HONEST), (HONEST, wrong), (HONEST, HONEST, wrong)]
    second: tuple[Unit, ...] = ((), (but(OTHER, WHO, "dan"),))
    seen = {repr(world): world for world in ((unit, other) for other in second for unit in units)}
    return tuple(seen.values())


# --- a world as a table of some library, or as a file


def typed(world: World) -> World:
    """A world in a library whose columns have one type each: another value may have turned all to texts."""
    rows = flat(world)
    columns = [arrow_of([row[j] for row in rows]).to_pylist() for j in range(len(COLUMNS))]
    kept = iter(zip(*columns, strict=True))
    return tuple(tuple(next(kept) for _ in unit) for unit in world)


def flat(world: World) -> list[Row]:
    return [row for unit in world for row in unit]


def text_of(cell: object) -> str:
    """A cell as a CSV file has it."""
    if cell is None:
        return ""
    if isinstance(cell, bytes):
        return cell.decode("latin-1")
    if isinstance(cell, dt.datetime):
        return cell.isoformat(sep=" ")
    return hex(cell) if isinstance(cell, int) and cell > 2**63 else str(cell)


def arrow_of(cells: list[object]) -> pa.Array:
    """A column in the type of its values; of texts where they have several."""
    kinds = {cell.tzinfo if isinstance(cell, dt.datetime) else "no time" for cell in cells if cell is not None}
    try:
        if len(kinds) > 1:  # Arrow would give all the zone of one, and take numbers for times
            raise ValueError
        return pa.array(cells)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return pa.array([None if cell is None else text_of(cell) for cell in cells])


def pandas_of(names: tuple[str, ...], rows: list[Row]) -> Any:
    return pd.DataFrame({name: [row[j] for row in rows] for j, name in enumerate(names)}, columns=list(names))


def category_of(names: tuple[str, ...], rows: list[Row]) -> Any:
    made = {n: [None if isinstance(row[j], bytes) else row[j] for row in rows] for j, n in enumerate(names)}
    return pd.DataFrame({name: pd.Categorical(pd.Series(cells, dtype=object)) for name, cells in made.items()})


def polars_of(names: tuple[str, ...], rows: list[Row]) -> Any:
    columns = [pl.from_arrow(arrow_of([row[j] for row in rows])) for j in range(len(names))]
    return pl.DataFrame([pl.Series(name, column) for name, column in zip(names, columns, strict=True)])


def table_of(names: tuple[str, ...], rows: list[Row]) -> pa.Table:
    return pa.table({name: arrow_of([row[j] for row in rows]) for j, name in enumerate(names)})


def objects_of(names: tuple[str, ...], rows: list[Row]) -> Any:
    made = np.empty((len(rows), len(names)), dtype=object)
    for i, row in enumerate(rows):
        made[i, :] = row
    return made


LIBRARIES = {
    "pandas": pandas_of,
    "categories": category_of,
    "polars": polars_of,
    "Arrow": table_of,
    "NumPy": objects_of,
}


def as_csv(path: Path, names: tuple[str, ...], rows: list[Row]) -> str:
    lines = [",".join(names), *(",".join(map(text_of, row)) for row in rows)]
    path.with_suffix(".csv").write_bytes(b"".join(line.encode("latin-1", "replace") + b"\n" for line in lines))
    return f"{path.name}.csv"


def as_parquet(path: Path, names: tuple[str, ...], rows: list[Row]) -> str:
    pq.write_table(table_of(names, rows), path.with_suffix(".parquet"))
    return f"{path.name}.parquet"


# --- the doors


def shown_release(release: Any) -> str:
    """A release but for its head in a fresh ledger, and its time."""
    return repr(replace(release, ledger=None, released_at="").to_json())


def columns_as_numbers(frame: Any) -> Any:
    """What a user's Pipeline makes of its columns; raises where a cell is none of the public type."""
    return np.column_stack([frame["a"].astype(float), (frame["when"] - DAY) / pd.Timedelta("1D")])


def numbers() -> Any:
    return GaussianNB()


def pipeline() -> Any:
    return make_pipeline(FunctionTransformer(columns_as_numbers), GaussianNB())


def settings(place: Place, **changes: Any) -> dict[str, Any]:
    fixed = {"epsilon": 1.0, "delta": 1e-6, "dataset": "clinic", "budget": (50.0, 1e-3), "ledger": place.url}
    return fixed | changes


def search(place: Place, model: Callable[[], Any], **changes: Any) -> PrivateSearch:
    estimator = model()
    axis = "var_smoothing" if isinstance(estimator, GaussianNB) else "gaussiannb__var_smoothing"
    given = settings(place, method="private_grid", accepts=("rowwise_predictions",), **changes)
    return PrivateSearch(estimator, {axis: [1e-3, 1e-1]}, **given)


def trained(searched: PrivateSearch) -> str:
    """What a search trained in public: its model's numbers, and its columns."""
    encode, model = searched.best_estimator_[0], searched.best_estimator_[1]
    last = model[-1] if hasattr(model, "steps") else model
    fitted = getattr(encode, "_fitted", encode)
    return f"{last.theta_.tolist()} {last.var_.tolist()} {getattr(fitted, 'columns', '')}"


def labelled(rows: list[Row], kind: str) -> list[Row]:
    """The rows with their two classes as texts, numbers or truth values."""
    named = CLASSES[kind]
    return [but(row, Y, named.get(row[Y], row[Y]) if isinstance(row[Y], str) else row[Y]) for row in rows]


def split_rows(rows: list[Row], columns: Iterable[int]) -> tuple[tuple[str, ...], list[Row], list[object]]:
    """Names, records of some columns, and their classes."""
    places = tuple(columns)
    names = tuple(COLUMNS[j] for j in places)
    return names, [tuple(row[j] for j in places) for row in rows], [row[Y] for row in rows]


def tuned_in_memory(
    place: Place, world: World, *, library: str, model: Callable[[], Any], kind: str = "text", **changes: Any
) -> dict[str, str]:
    """`PrivateSearch.fit`, then `evaluate`."""
    columns = [A, COLUMN_OF[model], *([WHO] if "person" in changes else [])]
    names, public, classes = split_rows(labelled(public_rows(), kind), columns[:2])
    _, sensitive, truth = split_rows(labelled(flat(world), kind), columns)
    names_v = tuple(COLUMNS[j] for j in columns)
    make = LIBRARIES[library]
    if "person" in changes and library == "NumPy":
        changes["person"] = f"x{len(columns) - 1}"
    X, V = make(names, public), make(names_v, sensitive)
    given = {"X_validation": V, "y_validation": truth}
    asked = search(place, model, **changes).fit(X, np.array(classes), **given)
    report = asked.evaluate(X, np.array(classes), **given, epsilon=1.0)
    return {
        "release": shown_release(asked.release_),
        "trained": trained(asked),
        "report": shown_release(report.release),
        "again": repr(asked),
    }


COLUMN_OF = {numbers: COLOUR, pipeline: WHEN}


def chosen_in_memory(
    place: Place, world: World, *, library: str, functions: bool, **changes: Any
) -> dict[str, str]:
    """`PrivateSelection` among columns of predictions, or functions of the records."""
    columns = [A, COLOUR, *([WHO] if "person" in changes else [])]
    _, sensitive, truth = split_rows(flat(world), columns)
    table = LIBRARIES[library](tuple(COLUMNS[j] for j in columns), sensitive)
    candidates: Any = ["a", "colour"]
    if functions:
        candidates = {"half": lambda X: [0.5] * len(X), "fails": first_of}
    given = settings(place, method="private_grid", accepts=("rowwise_predictions",), **changes) | {"delta": 0.0}
    asked = PrivateSelection(candidates, labels=("no", "yes"), scoring="brier", **given).fit(table, truth)
    return {"release": shown_release(asked.release_), "best": f"{asked.best_candidate_} {asked.best_score_}"}


def first_of(X: Any) -> list[float]:
    """A vendor's function, which fails on what is no number."""
    return [float(value) for value in X["a"]]


SHARE, SMALLER, LENGTH = 0.5, 0.22, 14
PROTECTED = tuple(int(i) for i in np.flatnonzero(validated_on(LENGTH, SHARE)))


def divided_table(world: World, library: str, columns: Iterable[int]) -> tuple[Any, Any]:
    """One table, of which the world's row stands where `validation_size` protects it, the first such row."""
    rows = [*public_rows(8), *public_rows(8)][:LENGTH]
    for place, row in zip(PROTECTED[:: max(1, len(PROTECTED) - 1)], flat(world), strict=False):
        rows[place] = row
    names, records, classes = split_rows(rows, columns)
    return LIBRARIES[library](names, records), pd.Series(classes) if library == "pandas" else classes


def divided_in_memory(
    place: Place, world: World, *, library: str, model: Callable[[], Any], shares: tuple[float, ...]
) -> dict[str, str]:
    """`PrivateSearch.fit` with `validation_size`; a second edition may say another share, and is refused then."""
    X, y = divided_table(world, library, (A, COLUMN_OF[model]))
    shown: dict[str, str] = {}
    for edition, share in enumerate(shares, 1):
        try:
            asked = search(place, model, edition=str(edition)).fit(X, y, validation_size=share)
        except Exception as error:  # noqa: BLE001  its words are compared, and what came before it
            shown[f"{edition}: refused"] = f"{type(error).__name__}: {error}"
            continue
        shown |= {f"{edition}: release": shown_release(asked.release_), f"{edition}: trained": trained(asked)}
    return shown


def turned_in_memory(place: Place, world: World, *, library: str) -> dict[str, str]:
    """What was validated on in one study is the public table of the next, by mistake."""
    columns = (A, COLOUR)
    names, records, classes = split_rows(public_rows(), columns)
    sensitive = [but(but(row, A, 0.125 * i), Y, ("no", "yes")[i % 2]) for i, row in enumerate(public_rows(6))]
    _, rows, truth = split_rows([*flat(world), *sensitive], columns)
    make = LIBRARIES[library]
    given = {"X_validation": make(names, rows), "y_validation": truth}
    first = search(place, numbers).fit(make(names, records), np.array(classes), **given)
    shown = {"first": shown_release(first.release_)}
    again = search(place, numbers, edition="2")
    second = again.fit(make(names, rows), truth, X_validation=make(names, records), y_validation=classes)
    return shown | {"second": shown_release(second.release_), "trained": trained(second)}


STUDY: dict[str, Any] = {
    "study": {"name": "trial", "method": "private_grid"},
    "privacy": {"dataset": "clinic", "epsilon": 1.0, "anyway": True},
    "budget": {"epsilon": 50.0, "delta": 1e-3},
    "data": {"training": "train.csv", "target": "y"},
    "model": {"estimator": "sklearn.naive_bayes.GaussianNB", "score": "accuracy"},
    "space": {"var_smoothing": {"values": [1e-3, 1e-1]}},
    "evaluation": {"epsilon": 1.0},
}


def written(place: Place, world: World, form: str, *, person: bool) -> tuple[Path, str]:
    """The study's folder, with the public file, and the name of the sensitive one."""
    folder = place.folder / "given"
    folder.mkdir(exist_ok=True)
    columns = [A, COLOUR, WHEN, *([WHO] if person else []), Y]
    names = tuple(COLUMNS[j] for j in columns)

    def cut(rows: Iterable[Row]) -> list[Row]:
        return [tuple(row[j] for j in columns) for row in rows]

    shown = tuple(COLUMNS[j] for j in (A, COLOUR, WHEN, Y))
    as_csv(folder / "train", shown, [tuple(row[j] for j in (A, COLOUR, WHEN, Y)) for row in public_rows()])
    if form == "folder":
        (folder / "parts").mkdir(exist_ok=True)
        for i, unit in enumerate(world):
            as_parquet(folder / "parts" / str(i), names, cut(unit))
        return folder, "parts"
    write = as_csv if form == "CSV" else as_parquet
    return folder, write(folder / "sensitive", names, cut(flat(world)))


def study_of(world: World, validation: str, n_persons: int | None = None, **changes: Any) -> StudySpec:
    tables = {heading: dict(section) for heading, section in STUDY.items()}
    for heading, section in changes.items():
        tables[heading] = section if heading == "space" else tables.get(heading, {}) | section
    size = {"n_validation": len(flat(world))} if n_persons is None else {"n_persons": n_persons}
    tables["data"] |= {"validation": validation, **size}
    return StudySpec.from_dict(tables)


def asked_by_file(
    place: Place,
    world: World,
    *,
    form: str,
    caller: Caller = Caller.OWNER,
    n_persons: int | None = None,
    then: Callable[..., dict[str, str]] | None = None,
    **changes: Any,
) -> dict[str, str]:
    """A study, its evaluation, and what a feature asks of its model `then`."""
    folder, validation = written(place, world, form, person="person" in changes.get("privacy", {}))
    spec = study_of(world, validation, n_persons, **changes)
    if caller is Caller.OPERATOR:
        approve_study(spec, ledger=place.ledger, folder=folder)
    run = QueryContext(place.ledger, folder, caller=caller)
    shown = {"release": shown_release(open_study(Run.of(spec, run)).run().release)}
    opened = open_evaluation(Run.of(spec, run))
    report = opened.finish(run) if isinstance(opened, OpenEvaluation) else opened
    shown["report"] = shown_release(report.release)
    if then is not None:
        shown |= then(place, world, spec, run, validation, n_persons)
    return shown


def turned_by_file(place: Place, world: World, *, form: str) -> dict[str, str]:
    """What one dataset is scored on is named as the public training file of another."""
    folder, validation = written(place, world, form, person=False)
    run = QueryContext(place.ledger, folder)
    shown = {"first": shown_release(open_study(Run.of(study_of(world, validation), run)).run().release)}
    shutil.copy(folder / "train.csv", folder / "other.csv")
    turned = {"data": {"training": validation}, "privacy": {"dataset": "ward"}}
    spec = study_of(tuple((row,) for row in public_rows()), "other.csv", **turned)
    second = open_study(Run.of(spec, run)).run()
    return shown | {"second": shown_release(second.release)}


def doors() -> tuple[Door, ...]:
    """All of them."""
    every = (*in_memory(), *by_file(), *itertools.chain(*(of_feature() for of_feature in parts("doors"))))
    return tuple(
        replace(door, held=typed) if re.search("polars|Arrow|Parquet", door.form) else door for door in every
    )


def in_memory() -> Iterator[Door]:
    """The doors of tables in memory, in each library."""
    few, people = counted((1, 2), (A, COLOUR, Y)), persons()
    means = {"person": "who", "n_persons": 2}
    for library in LIBRARIES:
        tuned = partial(tuned_in_memory, library=library)
        yield Door("PrivateSearch", library, partial(tuned, model=numbers), few)
        yield Door("PrivateSearch, persons' means", library, partial(tuned, model=numbers, **means), people)
        if library in ("pandas", "NumPy"):
            yield Door("PrivateSearch, AUC", library, partial(tuned, model=numbers, scoring="roc_auc"), few)
    for library in ("pandas", "polars", "Arrow"):
        tuned, chosen = partial(tuned_in_memory, library=library), partial(chosen_in_memory, library=library)
        divided, days = partial(divided_in_memory, library=library), counted((1, 2), (WHEN, A, Y))
        yield Door("PrivateSearch, a Pipeline", library, partial(tuned, model=pipeline), days)
        yield Door("PrivateSelection, columns", library, partial(chosen, functions=False), few)
        yield Door("PrivateSelection, functions", library, partial(chosen, functions=True), few)
        yield Door("validation_size", library, partial(divided, model=pipeline, shares=(SHARE,)), days)
        shares = SHARE, SMALLER
        yield Door("validation_size, then a smaller", library, partial(divided, model=numbers, shares=shares), few)
        turned = partial(turned_in_memory, library=library)
        yield Door("validated on, then public", library, turned, counted((1,), (A,)))
        capped = partial(tuned, model=numbers, person="who", max_records_per_person=2)
        yield Door("PrivateSearch, two records a person", library, capped, in_places())
    for kind in ("numbers", "truth"):
        asked = partial(tuned_in_memory, library="pandas", model=numbers, kind=kind)
        yield Door("PrivateSearch, other classes", f"pandas, {kind}", asked, counted((1, 2), (Y,)))


def by_file() -> Iterator[Door]:
    """The doors of study files, for the owner and for what Prefect starts."""
    people = persons()
    for form in ("CSV", "Parquet", "folder"):
        for caller in Caller:
            who, asked = f"{form}, {caller.value}", partial(asked_by_file, form=form, caller=caller)
            yield Door("study and evaluation", who, asked, counted((1, 2, 3)))
            means = partial(asked, n_persons=2, privacy={"person": "who"})
            yield Door("study and evaluation, persons' means", who, means, people)
        capped = partial(asked_by_file, form=form, privacy={"person": "who", "max_records_per_person": 2})
        yield Door("study, two records a person", form, capped, in_places())
        turned = partial(turned_by_file, form=form)
        yield Door("a file validated on, then public", form, turned, counted((4,), (A, Y)))
