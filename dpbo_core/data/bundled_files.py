"""scikit-learn's bundled files, read where they lie: importing it takes longer than all else here."""

import csv
import gzip
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import StudyInvalid

MEASURED = (
    "radius", "texture", "perimeter", "area", "smoothness", "compactness", "concavity", "concave points",
    "symmetry", "fractal dimension",
)  # fmt: skip
FILES = {
    "breast_cancer": "breast_cancer.csv",
    "digits": "digits.csv.gz",
    "iris": "iris.csv",
    "two_scanners": "digits.csv.gz",
    "wine": "wine_data.csv",
}
PIXELS = tuple(f"pixel_{row}_{column}" for row in range(8) for column in range(8))
FEATURES = {
    "breast_cancer": (
        *(f"mean {what}" for what in MEASURED),
        *(f"{what} error" for what in MEASURED),
        *(f"worst {what}" for what in MEASURED),
    ),
    "digits": PIXELS,
    "two_scanners": PIXELS,
    "iris": ("sepal length (cm)", "sepal width (cm)", "petal length (cm)", "petal width (cm)"),
    "wine": (
        "alcohol", "malic_acid", "ash", "alcalinity_of_ash", "magnesium", "total_phenols", "flavanoids",
        "nonflavanoid_phenols", "proanthocyanins", "color_intensity", "hue", "od280/od315_of_diluted_wines",
        "proline",
    ),
}  # fmt: skip


def values_of(name: str) -> NDArray[np.float64]:
    """The bundled set `name`: (n, d + 1), its features in the order of FEATURES and then its class.

    Raises:
        StudyInvalid: scikit-learn is not installed with its data.
    """
    found = find_spec("sklearn")
    place = Path((found and found.origin) or "").parent / "datasets" / "data" / FILES[name]
    try:
        return np.array([[float(cell) for cell in row] for row in _rows(place)], dtype=np.float64)
    except OSError:
        pass
    raise StudyInvalid(
        f"the bundled data set {name!r} is not in scikit-learn's own folder",
        cause="an installation without its data files",
        remedy="install scikit-learn again",
    )


def _rows(place: Path) -> Iterator[list[str]]:
    """The digits are packed, and have no header."""
    if place.suffix == ".gz":
        with gzip.open(place, "rt", encoding="ascii", newline="") as packed:
            yield from csv.reader(packed)
    else:
        with place.open(encoding="ascii", newline="") as file:
            yield from islice(csv.reader(file), 1, None)
