"""The Cholesky factor of K + σ²I, grown by one row an observation and applied to every candidate as it grows.

| symbol | name here | meaning | shape |
|---|---|---|---|
| N | `n_candidates` | candidates | scalar |
| t | `len(factor)` | observations so far | scalar |
| x_1 … x_t | `indices` | candidates observed, repeats allowed | t indices |
| K | — | prior covariance k(x_i, x_j) | (t, t) |
| σ² | `noise_variance` | noise of one observation, at least `JITTER` | scalar |
| L | — | L Lᵀ = K + σ²I | (t, t) |
| V | `row` | V = L⁻¹ k(X, Λ) | (t, N) |

Row t of L is V[:t−1, x_t] followed by its pivot, so V holds L: nothing is solved for, and one product of a row
with V is all that a new observation costs, O(t·N). V is kept in stacks of rows: the first has room for the
observations that are expected, later ones are short, so it grows without being copied and without much idle room.
"""

import math

import numpy as np
from numpy.typing import NDArray

JITTER = 1e-10  # noise variance of an observation called exact: what two equal rows of K need to stay apart
_STACK, _SMALL = 4, 4096  # rows in one stack; up to _SMALL candidates a stack holds 64 rows, 2 MB at the most
_EXPECTED = 1024  # rows that are believed at once


class GrowingCholesky:
    """The Cholesky factor L of K + σ²I, and V = L⁻¹ k(X, Λ), grown by one row an observation.

    Memory: 8·N·(max(t, expected) + 3) bytes, or 2 MB more for a small N. One stack for all the rows halves the
    traffic: each further stack reads and writes the row under way once more.
    """

    def __init__(self, n_candidates: int, noise_variance: float, expected: int = 0) -> None:
        self.noise_variance = max(noise_variance, JITTER)
        self.indices: list[int] = []
        self._n_candidates = n_candidates
        self._height = _STACK if n_candidates > _SMALL else 64
        self._first = max(min(expected, _EXPECTED), self._height)
        self._stacks: list[NDArray[np.float64]] = []
        self._starts: list[int] = []  # the observation that is the first row of each stack

    def __len__(self) -> int:
        return len(self.indices)

    def append(
        self, index: int, column: NDArray[np.float64], scratch: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], float]:
        """Observe candidate `index`, whose covariances with all are `column`, (N,): the new row of V = L⁻¹k, (N,),
        not to be written to, and the new pivot of L; `scratch`, (N,), is overwritten.
        """
        if len(self._stacks) == 1:  # no list of parts: on few candidates that is a tenth of an observation
            V_x = self._stacks[0][: len(self), index].copy()
        else:
            V_x = np.concatenate([stack[:, index] for stack in self._stacks] or [np.empty(0)])[: len(self)]
        # The exact difference k(x, x) − ‖V_x‖² is never negative: the pivot is never below σ.
        pivot = math.sqrt(max(float(column[index]) - float(V_x.dot(V_x)), 0.0) + self.noise_variance)
        row = self._new_row()
        before = column
        for start, stack in zip(self._starts, self._stacks, strict=True):
            part = V_x[start : start + len(stack)]
            if len(part) > 0:
                part.dot(stack[: len(part)], out=scratch)
                before = np.subtract(before, scratch, out=row)
        np.multiply(before, 1.0 / pivot, out=row)
        self.indices.append(index)
        return row, pivot

    def _new_row(self) -> NDArray[np.float64]:
        """An uninitialised array, (N,), that will hold the next row of V = L⁻¹k."""
        t = len(self)
        if not self._stacks or t == self._starts[-1] + len(self._stacks[-1]):
            self._stacks.append(np.empty((self._height if self._stacks else self._first, self._n_candidates)))
            self._starts.append(t)
        row: NDArray[np.float64] = self._stacks[-1][t - self._starts[-1]]
        return row
