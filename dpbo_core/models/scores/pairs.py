"""Scores that count correctly ranked pairs of records, from a histogram of decision values in public cells.

| symbol | name here | meaning | shape |
|---|---|---|---|
| s | `outcome` | what a model's verb gave for each record | (k,) or (k, 2) |
| c | `of(outcome, truth)` − 1 | the cell of s, from the lowest values to the highest | (k,) in 0 … B − 1 |
| B | `n_cells` | cells, public | scalar |
| h | `counts` | records of each class in each cell, the first class first | (2, B) int64 |
| C₂, D | `pairs_of(h)` | Σ 2·[s_i > s_j] + [s_i = s_j] over all pairs, and what it is if all are right | integers |

A cell is a function of the record's own row and of public facts, whatever the record: what is not finite, and what
a model cannot predict, is in the lowest. A record's CLASS is its label's alone, so that D is one for every model.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.scores.record import Jumps, RecordScore, Scores, Verb

Integers = NDArray[np.int64]
PAIR_SCORE_REFUSAL = "a score of pairs is no record's own"
Asked = Callable[[Verb], "NDArray[Any] | None"]  # what a fitted estimator gives for public rows


@dataclass(frozen=True)
class PairScore(Jumps, ABC):
    """A score that counts correctly ranked pairs; a subclass maps a model's values to histogram cells."""

    graded: ClassVar[bool] = False  # a record has no score of its own

    @property
    @abstractmethod
    def n_cells(self) -> int:
        """The number B of histogram cells."""

    @abstractmethod
    def cells(self, name: str, asked: Asked) -> RecordScore:
        """Return the map from predictions to 1 + a histogram cell, made from those of public rows."""

    @abstractmethod
    def of_margins(self, decisions: Scores, norm: float) -> Integers:
        """The histogram cell of each decision value ŵᵀx (k,) of a linear model whose weights have this norm."""


def check_two_classes(name: str, n_classes: int, *, instead: tuple[str, ...], also: str = "") -> None:
    """Refuse a score of pairs for other than two classes; the message names the scores `instead`, and `also`."""
    if n_classes != 2:
        raise StudyInvalid(
            f"the target has {n_classes} classes, and {name} ranks the records of one class above those of another",
            cause="between more classes there are several such numbers, and one record moves their mean too far",
            remedy=f"choose by {' or '.join(instead)}{also}, or make a study of one class against the rest",
        )


def counts(classes: NDArray[Any], usable: NDArray[np.bool_], cells: Integers, n_cells: int) -> Integers:
    """Return how many usable records of each class are in each cell, (2, B), as sensitive as the records.

    Args:
        classes: (m,) index of the class.
        usable: (m,) False for what is in neither class.
        cells: (m,) in 0 … B − 1.
        n_cells: B.
    """
    counted = usable & ((classes == 0) | (classes == 1))
    places = np.where(counted, classes * n_cells + cells, 2 * n_cells).astype(np.int64)
    table = np.bincount(places, minlength=2 * n_cells + 1)
    return table[: 2 * n_cells].reshape(2, n_cells).astype(np.int64)


def pairs_of(table: Integers) -> tuple[int, int]:
    """Return (C₂, D) of a table of counts (2, B): twice the pairs ranked right, a tie as half, and twice all pairs.

    O(B): each record of the second class in a cell beats all records of the first class in lower cells.
    """
    below = np.cumsum(table[0]) - table[0]
    ranked = int((table[1] * (2 * below + table[0])).sum(dtype=np.int64))
    return ranked, 2 * int(table[0].sum()) * int(table[1].sum())


def auc_of(tables: Integers) -> float:
    """Return the AUC of all PUBLIC tables (…, 2, B) together: pairs ranked right over all pairs; ½ if none."""
    pairs_by_table = [pairs_of(table) for table in tables.reshape(-1, *tables.shape[-2:])]
    pairs = sum(D for _, D in pairs_by_table)
    return sum(C for C, _ in pairs_by_table) / pairs if pairs else 0.5
