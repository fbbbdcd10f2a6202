"""Records ready for a model; the ones that cannot be used are replaced, never dropped.

| symbol | name here | meaning | shape |
|---|---|---|---|
| X | `X` | features, C-contiguous float64; the zero row where `labels` is −1. | (m, d) |
| | `labels` | class index into `Preprocessing.classes`, −1 for a broken record or an unknown label | (m,) |
| y | `signs` | +1 for class 1 and for replaced records, −1 for class 0 | (m,) |

Where the estimator takes the table's own columns (`named_columns`), X holds objects, and `CANNOT` in replaced rows.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import StudyInvalid


@dataclass(frozen=True, eq=False, repr=False)
class Encoded:
    """What MATH §1 (Totality) scores. Its repr says the size and nothing else.

    Attributes:
        X: (m, d) float64, or objects.
        labels: (m,) int64; −1 wherever the record is replaced, so that no prediction equals it.
        broken: (m,) the features could not be used.
        n_classes: of the training table; 0 for a regression, whose `labels` are 0 where the target is usable.
        targets: (m,) float64 of a regression, 0 where the record is replaced.
    """

    X: NDArray[np.float64]
    labels: NDArray[np.int64]
    broken: NDArray[np.bool_]
    n_classes: int
    targets: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        for array in (self.X, self.labels, self.broken, *(() if self.targets is None else (self.targets,))):
            array.setflags(write=False)

    def __repr__(self) -> str:
        return f"<Encoded: {self.X.shape[0]} records, {self.X.shape[1]} features>"

    @property
    def n_records(self) -> int:
        """m: how many records the table holds."""
        return len(self.labels)

    def part(self, records: slice | NDArray[np.intp]) -> "Encoded":
        """Some of the records; of a slice, not copied."""
        targets = None if self.targets is None else self.targets[records]
        return Encoded(self.X[records], self.labels[records], self.broken[records], self.n_classes, targets)

    @property
    def truth(self) -> NDArray[np.int64] | NDArray[np.float64]:
        """What predictions are compared with, (m,): class indices, or the targets of a regression."""
        return self.labels if self.targets is None else self.targets

    @property
    def signs(self) -> NDArray[np.float64]:
        """Y (m,) in {−1, +1} for margin scores; a replaced record is (x = 0, y = +1).

        Raises:
            StudyInvalid: the training table has other than two classes.
        """
        if self.n_classes != 2:
            raise StudyInvalid(
                f"the target has {self.n_classes} classes, a margin needs two",
                cause="the linear models and the scores of their margin are binary",
                remedy="use a scikit-learn estimator with a score of classes, or two classes",
            )
        # By arithmetic: the duration of a masked copy depends on the mask, and is five times as long.
        signs: NDArray[np.float64] = (self.labels != 0).astype(np.float64)
        signs *= 2.0
        signs -= 1.0
        return signs
