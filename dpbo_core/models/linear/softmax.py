"""The softmax (multinomial logistic) model: one column of weights a class.

| symbol | name here | meaning | shape |
|---|---|---|---|
| W | `weights` | one column a class | (d, K) |
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbo_core.models.linear.losses import row_blocks


@dataclass(frozen=True, eq=False, repr=False)
class SoftmaxModel:
    """W. It predicts the class of the largest score, the first of equals. Its repr gives the shape alone."""

    weights: NDArray[np.float64]

    def __post_init__(self) -> None:
        weights = np.array(self.weights, dtype=np.float64)
        weights.flags.writeable = False
        object.__setattr__(self, "weights", weights)

    def __repr__(self) -> str:
        d, K = self.weights.shape
        return f"SoftmaxModel(d={d}, K={K})"

    def correct(self, X: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each row's predicted class equals its label, (m,)."""
        return np.asarray(self.predicted(X) == labels)

    def predicted(self, X: NDArray[np.float64]) -> NDArray[np.int64]:
        """The index of each row's class, (m,).

        Each answer is a function of its own row and W alone, to the last bit: sums run feature by feature.
        """
        classes = np.empty(len(X), dtype=np.int64)
        K = self.weights.shape[1]
        with np.errstate(all="ignore"):
            for block in row_blocks(*X.shape):
                scores = np.zeros((K, len(X[block])))
                for j, row in enumerate(self.weights):
                    scores += row[:, None] * X[block, j]
                classes[block] = np.argmax(scores, axis=0)
        return classes
