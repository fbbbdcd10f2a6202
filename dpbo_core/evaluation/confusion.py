"""The confusion matrix of several classes, and every figure that follows from it.

| symbol | name here | meaning | shape |
|---|---|---|---|
| C | `classes` | public classes | scalar ≥ 3 |
| M | `split(counts)` | records of true class y that are predicted as ŷ: [group, y, ŷ] | (…, G, C, C) |
| — | first cell | what cannot be read, or has or is given a class that is none of them | scalar |

A figure that needs records of a class is NaN where it has none; so is a mean over classes if one of them is. A
class that is never predicted has no precision; its F1 is 0.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbo_core.evaluation.figures import CLASSES_OF_A_GROUP, OF_WHOM_OF_CLASSES, of_matrix
from dpbo_core.evaluation.intervals import wilson
from dpbo_core.evaluation.noised_table import Reals, in_units
from dpbo_core.evaluation.simulation import Estimates, Figures, shifted, simulate, table_json

KIND = "classes"


@dataclass(frozen=True)
class ConfusionTable:
    """A released confusion matrix with the public facts it is read by.

    Attributes:
        n_records: m.
        scale: b.
        classes: their names, in the order of the cells.
        groups: names of the groups, the last for all other values; empty where there is the whole alone.
        drawn: (1 + G·C²,): what cannot be read, then group by group the rows of M.
        weight: W of one person in `drawn`; 1 where records are counted.
    """

    n_records: int
    scale: float
    classes: tuple[str, ...]
    groups: tuple[str, ...]
    drawn: tuple[int, ...]
    weight: int = 1

    @property
    def n_cells(self) -> int:
        """Of one group, C²."""
        return len(self.classes) ** 2

    def split(self, counts: Reals) -> Reals:
        """The cells that could be read, (…, G, C, C)."""
        C = len(self.classes)
        return counts[..., 1:].reshape(*counts.shape[:-1], max(1, len(self.groups)), C, C)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, with every public fact."""
        return table_json(KIND, self)


def figures(table: ConfusionTable, counts: Reals) -> Figures:
    """By name, for counts (…, 1 + G·C²): scalars (…); "class …" one a class, "of …" and "gap …" one a group."""
    with np.errstate(all="ignore"):
        split = table.split(counts)
        M = split.sum(axis=-3)
        found = of_matrix(M) | {"unread_share": counts[..., 0] / table.n_records, "cell": M[..., 0, 0]}
        if table.groups:
            one, rest = of_matrix(split), of_matrix(M[..., None, :, :] - split)
            found["of records_share"] = split.sum(axis=(-2, -1)) / table.n_records
            found["of read"] = one["read"]
            found |= {f"of {name}": one[name] for name in CLASSES_OF_A_GROUP}
            found |= {f"gap {name}": one[name] - rest[name] for name in CLASSES_OF_A_GROUP}
        return found


def estimates(table: ConfusionTable) -> Estimates:
    """Every figure with both intervals; of a share of records the sampling interval is Wilson's."""
    found = simulate(lambda counts: figures(table, counts), table, _limits, beside={})
    v, every = found.values, np.asarray(float(table.n_records))
    wholes = {name: v[whole] for name, whole in OF_WHOM_OF_CLASSES.items() if name in v}
    wholes |= {name: every for name in ("unread_share", "of records_share") if name in v}
    sampling = dict(found.sampling) | {name: wilson(v[name], whole) for name, whole in wholes.items()}
    return Estimates(v, found.noise, sampling)


def shifted_counts(table: ConfusionTable) -> Reals:
    """The released counts, shifted to sum to m."""
    return shifted(in_units(table.drawn, table.weight), table.n_records)


def _limits(name: str) -> tuple[float, float]:
    if name == "cell":  # whose law is every cell's
        return -np.inf, np.inf
    if name in ("read", "of read", "class records", "class predicted"):
        return 0.0, np.inf
    return (-1.0 if name == "cohen_kappa" or name.startswith("gap ") else 0.0), 1.0
