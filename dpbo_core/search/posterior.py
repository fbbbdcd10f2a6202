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

Row t of L is V[:t−1, x_t] followed by its pivot, so L is part of V and no system is solved. A new observation costs
one product of a row with V, O(t·N). V is stored in stacks of rows, so that it grows without being copied. The first
stack has room for the expected number of observations; later ones are short, so that little memory stays unused.

The posterior over all N candidates, updated one observation at a time in O(t·N).

| symbol | name here | meaning | shape |
|---|---|---|---|
| Λ | `candidates` | candidates in the unit cube | (N, d) |
| k | `kernel` | prior covariance | — |
| m | `prior_mean` | prior mean, one for all candidates or one each | scalar or (N,) |
| σ² | `noise_variance` | variance of the noise in one observation | scalar ≥ 0 |
| y_t | `value` | observation t, on the prior's scale | scalar |
| V, L | `GrowingCholesky` | V = L⁻¹ k(X, Λ), L Lᵀ = K + σ²I | (t, N), (t, t) |
| z_t | `innovation` | entry t of L⁻¹(y − m) | scalar |
| μ, s² | `mean`, `variance` | posterior mean and variance of the score (not of a noisy observation) | (N,) |

μ = m + Vᵀz and s² = k(λ, λ) − Σ_t V_t², so each observation adds one row's share to both.
Source: Rasmussen and Williams (2006), Algorithm 2.1.
"""

import math

import numpy as np
from numpy.typing import NDArray

from dpbo_core.search.kernels import Kernel

JITTER = 1e-10  # noise variance of an observation called exact: what two equal rows of K need to stay apart
_STACK, _MAX_TALL_CANDIDATES = (
    4,
    4096,
)  # rows in one stack; up to _MAX_TALL_CANDIDATES candidates a stack holds 64 rows, 2 MB at the most
_TRUSTED_ROWS = 1024  # the most rows that the first stack has, however many observations are expected


class GrowingCholesky:
    """The Cholesky factor L of K + σ²I, and V = L⁻¹ k(X, Λ), grown by one row an observation.

    Memory: 8·N·(max(t, expected) + 3) bytes, or 2 MB more for a small N. One stack for all the rows halves the
    traffic: each further stack reads and writes the current row once more.
    """

    def __init__(self, n_candidates: int, noise_variance: float, expected: int = 0) -> None:
        self.noise_variance = max(noise_variance, JITTER)
        self.indices: list[int] = []
        self._n_candidates = n_candidates
        self._height = _STACK if n_candidates > _MAX_TALL_CANDIDATES else 64
        self._first = max(min(expected, _TRUSTED_ROWS), self._height)
        self._stacks: list[NDArray[np.float64]] = []
        self._starts: list[int] = []  # the observation that is the first row of each stack

    def __len__(self) -> int:
        return len(self.indices)

    def append(
        self, index: int, column: NDArray[np.float64], scratch: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], float]:
        """Observe a candidate, and return the new row of V = L⁻¹k, (N,), and the new pivot of L.

        Args:
            index: the candidate.
            column: (N,) its prior covariances with all candidates; it is not changed.
            scratch: (N,) memory that is overwritten.

        Returns:
            The row, which is part of V and must not be written to, and the pivot, at least σ.
        """
        if len(self._stacks) == 1:  # avoids building a list, which costs a tenth of an observation if N is small
            V_x = self._stacks[0][: len(self), index].copy()
        else:
            V_x = np.concatenate([stack[:, index] for stack in self._stacks] or [np.empty(0)])[: len(self)]
        # k(x, x) − ‖V_x‖² is never negative in exact arithmetic. Clamping it keeps the pivot at σ or above.
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
        t = len(self)
        if not self._stacks or t == self._starts[-1] + len(self._stacks[-1]):
            self._stacks.append(np.empty((self._height if self._stacks else self._first, self._n_candidates)))
            self._starts.append(t)
        row: NDArray[np.float64] = self._stacks[-1][t - self._starts[-1]]
        return row


class Posterior:
    """A Gaussian process given its observations: mean and variance at every candidate.

    Memory: 8·N·(t + 8) bytes (2 MB more for a small N), where t is not below what was expected.

    The arrays handed out are read-only, and later observations leave them as they are.
    """

    def __init__(
        self,
        candidates: NDArray[np.float64],
        kernel: Kernel,
        noise_variance: float,
        prior_mean: float | NDArray[np.float64] = 0.0,
        expected: int = 0,
    ) -> None:
        """A posterior without observations, which is the prior.

        Args:
            candidates: Λ, shape (N, d), N ≥ 1, finite.
            kernel: prior covariance.
            noise_variance: σ² ≥ 0 on the prior's scale; below `cholesky.JITTER` = 1e-10 it is raised to that.
            prior_mean: m, finite, a number or one for each candidate.
            expected: how many observations to make room for at once; there may be more or fewer.
        """
        self.candidates = np.asarray(candidates, dtype=np.float64)
        if self.candidates.ndim != 2 or len(self.candidates) == 0 or not np.isfinite(self.candidates).all():
            raise ValueError("candidates must be a finite array of shape (N, d) with N at least 1")
        if not 0.0 <= noise_variance < math.inf:
            raise ValueError("noise_variance must be finite and at least 0")
        N = len(self.candidates)
        if np.shape(prior_mean) not in ((), (N,)) or not np.isfinite(prior_mean).all():
            raise ValueError(f"prior_mean must be one finite number, or one for each of the {N} candidates")
        self.kernel = kernel
        self._cholesky = GrowingCholesky(N, noise_variance, expected)
        self._mean = _read_only(np.full(N, prior_mean, dtype=np.float64))
        self._variance = _read_only(np.full(N, kernel.variance))

    def __len__(self) -> int:
        """t, how many observations."""
        return len(self._cholesky)

    @property
    def mean(self) -> NDArray[np.float64]:
        """The posterior mean μ at every candidate, shape (N,), in the unit of the observed values."""
        return self._mean

    @property
    def variance(self) -> NDArray[np.float64]:
        """The posterior variance s² ≥ 0 at every candidate, shape (N,)."""
        return self._variance

    @property
    def std(self) -> NDArray[np.float64]:
        """The posterior standard deviation s at every candidate, shape (N,); a fresh array at each call."""
        return np.sqrt(self._variance)

    def observe(self, index: int, value: float) -> None:
        """Add one observation of candidate `index`, which may have been observed before; a value not finite raises.

        Raises:
            ValueError: no such candidate, or a value that is not finite (the message does not show it).
        """
        if not 0 <= index < len(self.candidates):
            raise ValueError(f"candidate {index} is not one of the {len(self.candidates)}")
        if not math.isfinite(value):
            raise ValueError("an observed value is not finite")
        column = self.kernel.column(self.candidates, self.candidates[index])
        scratch = np.empty_like(column)
        # Alg. 2.1, lines 2 and 5: row t of L = cholesky(K + σ²I), and of v = L\k∗ for every candidate
        row, pivot = self._cholesky.append(int(index), column, scratch)
        # Alg. 2.1, line 3: entry t of L\(y − m), the half of α that v needs
        innovation = (float(value) - float(self._mean[index])) / pivot
        mean = np.multiply(row, innovation, out=column)  # Alg. 2.1, line 4: f̄∗ = m + vᵀ(L\(y − m))
        mean += self._mean
        np.multiply(row, row, out=scratch)
        variance = np.subtract(self._variance, scratch, out=scratch)  # Alg. 2.1, line 6: k(x∗, x∗) − vᵀv
        np.maximum(variance, 0.0, out=variance)
        self._mean, self._variance = _read_only(mean), _read_only(variance)


def _read_only(array: NDArray[np.float64]) -> NDArray[np.float64]:
    array.flags.writeable = False
    return array
