"""Data sets that come with dpbo by name, split into a public and a sensitive half without randomness.

| symbol | name here | meaning |
|---|---|---|
| n | `n_records(name)` | records of the whole set |
| s | `share` | the validation half's share, taken as the decimal that was typed (0.1 is one tenth) |
| m | `validation_size(name, share)` | ⌈n·s⌉, known without scikit-learn and before any data is opened |

Record i (from 0) is a validation record exactly if ⌈(i+1)·s⌉ > ⌈i·s⌉, in rational arithmetic: the halves
interleave, so that a set sorted by class gives two halves of the same kind. Those of "two_scanners" are of two
kinds: it is the digits, and whatever scanned the validation half saw `FADED_INK_SHARE` of the ink.

"screening" is simulated, by a generator whose numbers NumPy keeps for ever: blood tests of `MARKERS` markers, of
which the first `TELLING` speak for a disease. The others are noise, so a model of few records needs the right
regulariser. The seed is the one of 39 whose best λ stands out most. All other sets are scikit-learn's.
"""

import math
from collections.abc import Mapping
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data.table import Table, table_of
from dpbo_core.errors import StudyInvalid, suggestion

TARGET = "target"
FADED_INK_SHARE = 0.4
MARKERS, TELLING, SEED = 80, 12, 9


class BundledSet(NamedTuple):
    """What is known of a set before it is opened."""

    n_records: int
    n_classes: int
    columns: tuple[str, ...]  # of features
    csv: str = ""  # scikit-learn's file; "" where the set is simulated
    bounds: tuple[float, float] | None = None  # of every column, where they are documented


MEASUREMENTS = (
    "radius", "texture", "perimeter", "area", "smoothness", "compactness", "concavity", "concave points",
    "symmetry", "fractal dimension",
)  # fmt: skip
CELL_COLUMNS = tuple(form.format(what) for form in ("mean {}", "{} error", "worst {}") for what in MEASUREMENTS)
PIXEL_COLUMNS = tuple(f"pixel_{row}_{column}" for row in range(8) for column in range(8))
WINE_COLUMNS = (
    "alcohol", "malic_acid", "ash", "alcalinity_of_ash", "magnesium", "total_phenols", "flavanoids",
    "nonflavanoid_phenols", "proanthocyanins", "color_intensity", "hue", "od280/od315_of_diluted_wines", "proline",
)  # fmt: skip
IRIS_COLUMNS = ("sepal length (cm)", "sepal width (cm)", "petal length (cm)", "petal width (cm)")
SETS = {
    "breast_cancer": BundledSet(569, 2, CELL_COLUMNS, "breast_cancer.csv"),
    "digits": BundledSet(1797, 10, PIXEL_COLUMNS, "digits.csv.gz", (0.0, 16.0)),
    "iris": BundledSet(150, 3, IRIS_COLUMNS, "iris.csv"),
    "screening": BundledSet(40_150, 2, tuple(f"marker_{j}" for j in range(MARKERS))),
    "two_scanners": BundledSet(1797, 10, PIXEL_COLUMNS, "digits.csv.gz", (0.0, 16.0)),
    "wine": BundledSet(178, 3, WINE_COLUMNS, "wine_data.csv"),
}


def n_records(name: str) -> int:
    """Return the number of records of the bundled data set `name`; any other name is refused."""
    if name not in SETS:
        raise StudyInvalid(
            f"there is no bundled data set {name!r}{suggestion(name, SETS)}",
            cause="the name is misspelt, or a file was meant",
            remedy=f"use one of {', '.join(SETS)}, or give files with training = and validation =",
        )
    return SETS[name].n_records


def public_facts(name: str) -> tuple[tuple[float, ...], Mapping[str, tuple[float, ...]]]:
    """Return the class labels of a bundled data set, and under "*" the bounds of all its columns, if documented."""
    n_records(name)
    bounds = SETS[name].bounds
    return tuple(map(float, range(SETS[name].n_classes))), {} if bounds is None else {"*": bounds}


def validation_size(name: str, share: float) -> int:
    """Return the number m = ⌈n·s⌉ of validation records of a bundled set at share s; refused if a half is empty."""
    n = n_records(name)
    size = math.ceil(n * _exact_fraction(share)) if math.isfinite(share) else 0
    if not 0 < size < n:
        raise StudyInvalid(
            f"validation_share = {share:g} leaves one half of {name} empty",
            cause="a share lies above 0 and below 1",
            remedy="give 0.5",
        )
    return size


def load(name: str, share: float) -> tuple[Table, Table]:
    """Return a bundled set's training and validation tables; the latter has a fixed `share` of the records."""
    validation_size(name, share)
    values = _values_of(name)
    chosen = _validation_records(len(values), share)
    if name == "two_scanners":
        values[chosen, :-1] *= FADED_INK_SHARE
    columns = {feature: values[:, j] for j, feature in enumerate((*SETS[name].columns, TARGET))}
    training, validation = (
        table_of({column: array[half] for column, array in columns.items()}, source=name)
        for half in (~chosen, chosen)
    )
    return training, validation


def _validation_records(n: int, share: float) -> NDArray[np.bool_]:
    p, q = _exact_fraction(share).as_integer_ratio()
    steps = [-(-i * p // q) for i in range(n + 1)]  # ⌈i·s⌉
    return np.diff(np.array(steps)) > 0


def _exact_fraction(share: float) -> Fraction:
    return Fraction(repr(float(share)))


def _values_of(name: str) -> NDArray[np.float64]:
    """Return the features and then the class of each record of a bundled data set, (n, d + 1)."""
    if name == "screening":
        return _simulate_screening()
    spec = find_spec("sklearn")
    place = Path((spec and spec.origin) or "").parent / "datasets" / "data" / SETS[name].csv
    try:
        return np.loadtxt(place, delimiter=",", skiprows=int(place.suffix == ".csv"))  # the digits have no header
    except OSError:
        pass
    raise StudyInvalid(
        f"the bundled data set {name!r} is not in scikit-learn's own folder",
        cause="an installation without its data files",
        remedy="install scikit-learn again",
    )


def _simulate_screening() -> NDArray[np.float64]:
    """Return the simulated records, (n, d + 1): standard normal markers; their first twelve sum to the log-odds."""
    drawn = np.random.RandomState(SEED)
    markers = drawn.normal(size=(n_records("screening"), MARKERS)).round(3)
    odds = np.exp(markers[:, :TELLING].sum(axis=1))
    ill = drawn.uniform(size=len(odds)) < odds / (1.0 + odds)
    return np.column_stack([markers, ill])
