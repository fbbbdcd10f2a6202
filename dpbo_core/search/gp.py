"""A Gaussian process: its kernel, and its posterior over the candidates.

Stationary kernels on the unit cube.

| symbol | name here | meaning | shape |
|---|---|---|---|
| k(a, b) | `matrix`, `column` | prior covariance of the scores at a and b | (n, m), (n,) |
| r | — | Euclidean distance ‖a − b‖ | scalar ≥ 0 |
| ℓ | `lengthscale` | distance over which the score changes | scalar > 0 |
| s² | `variance` | k(a, a), the prior variance | scalar > 0 |

Source: Rasmussen and Williams (2006), equations 4.9 and 4.17. Differences are squared one dimension at a time:
‖a‖² + ‖b‖² − 2aᵀb would lose half the digits between near neighbours.

The posterior over all N candidates, updated one observation at a time in O(t·N): the Cholesky factor of K + σ²I is
grown by one row an observation and applied to every candidate as it grows.

| symbol | name here | meaning | shape |
|---|---|---|---|
| Λ | `candidates` | candidates in the unit cube | (N, d) |
| x_1 … x_t | `indices` | candidates observed, repeats allowed | t indices |
| K | — | prior covariance k(x_i, x_j) | (t, t) |
| σ² | `noise_variance` | noise of one observation, at least `JITTER` | scalar |
| V, L | `row` | V = L⁻¹ k(X, Λ), L Lᵀ = K + σ²I | (t, N), (t, t) |
| m | `prior_mean` | prior mean, one for all candidates or one each | scalar or (N,) |
| y_t | `value` | observation t, on the prior's scale | scalar |
| z_t | `innovation` | entry t of L⁻¹(y − m) | scalar |
| μ, s² | `mean`, `variance` | posterior mean and variance of the score (not of a noisy observation) | (N,) |

Row t of L is V[:t−1, x_t] followed by its pivot, so L is part of V and no system is solved. A new observation costs
one product of a row with V, O(t·N). V is stored in stacks of rows, so that it grows without being copied. The first
stack has room for the expected number of observations; later ones are short, so that little memory stays unused.

μ = m + Vᵀz and s² = k(λ, λ) − Σ_t V_t², so each observation adds one row's share to both.
Source: Rasmussen and Williams (2006), Algorithm 2.1.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import StudyInvalid

TYPICAL_LENGTHSCALE = 0.3  # of √d, where a lengthscale is looked for first
_MATRIX_BLOCK_ROWS = 65_536  # covariances that `matrix` computes at once, which bounds its temporaries
_COLUMN_BLOCK_ROWS = (
    32_768  # covariances that `column` computes at once, so that they stay in the processor's cache
)


@dataclass(frozen=True)
class StationaryKernel(ABC):
    """A prior covariance k(a, b) that depends on the distance of a and b alone."""

    lengthscale: float
    variance: float = 1.0

    def __post_init__(self) -> None:
        for name in ("lengthscale", "variance"):
            if not 1e-100 <= getattr(self, name) <= 1e100:  # squares stay finite; NaN fails too
                raise StudyInvalid(
                    f"kernel {name} = {getattr(self, name)}",
                    remedy="choose a lengthscale between 0.05 and 2 in the unit cube, and variance 1",
                )

    def column(self, candidates: NDArray[np.float64], point: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the covariances k(λ, point) of every candidate with a point: (N, d), (d,) → (N,)."""
        column = np.empty(len(candidates))
        for start in range(0, len(candidates), _COLUMN_BLOCK_ROWS):
            block = slice(start, start + _COLUMN_BLOCK_ROWS)
            self.at(squared_distance(candidates[block], point, column[block]))
        return column

    def matrix(self, A: NDArray[np.float64], B: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the covariances k(a, b) of every pair: (n, d), (m, d) → (n, m); each as `column` computes it."""
        K = np.empty((len(A), len(B)))
        rows = max(1, _MATRIX_BLOCK_ROWS // max(1, len(B)))
        for start in range(0, len(A), rows):
            K[start : start + rows] = self.at(squared_distance(A[start : start + rows, None, :], B))
        return K

    @abstractmethod
    def at(self, squared: NDArray[np.float64]) -> NDArray[np.float64]:
        """The covariances at squared distances r², of any shape; written into `squared`, which is returned."""


@dataclass(frozen=True)
class SquaredExponential(StationaryKernel):
    """k(a, b) = s² exp(−r²/(2ℓ²)): samples have derivatives of every order."""

    def at(self, squared: NDArray[np.float64]) -> NDArray[np.float64]:
        """The covariances at squared distances r², of any shape; written into `squared`, which is returned."""
        squared *= -0.5 / self.lengthscale**2
        np.exp(squared, out=squared)
        if self.variance != 1.0:
            squared *= self.variance
        return squared


@dataclass(frozen=True)
class Matern52(StationaryKernel):
    """k(a, b) = s² (1 + u + u²/3) exp(−u), u = √5·r/ℓ: samples have two derivatives."""

    def at(self, squared: NDArray[np.float64]) -> NDArray[np.float64]:
        """The covariances at squared distances r², of any shape; written into `squared`, which is returned."""
        minus_u = np.sqrt(squared, out=squared)
        minus_u *= -math.sqrt(5.0) / self.lengthscale
        polynomial = minus_u * (1.0 / 3.0)
        polynomial -= 1.0
        polynomial *= minus_u
        polynomial += 1.0
        np.exp(minus_u, out=squared)
        squared *= polynomial
        if self.variance != 1.0:
            squared *= self.variance
        return squared


@dataclass(frozen=True)
class BlurredSquaredExponential(StationaryKernel):
    """The squared exponential where each candidate's place is blurred by Gaussian noise of scale τ.

    A candidate that is known at the place z really lies at z + N(0, τ²I), independently of the others. The expected
    covariance is then, with q = ℓ²/(ℓ² + 2τ²),

        E k(a, b) = s² q^{d/2} exp(−‖z_a − z_b‖²/(2(ℓ² + 2τ²)))  for two candidates,   s² for one and itself.

    Two candidates at the very same place count as one. Source: the expectation of equation 4.14 of Rasmussen and
    Williams (2006) under a difference with variance 2τ²; as in Girard (2004), chapter 3. Matérn kernels have no
    such closed form, so there is none of them here.
    """

    blur: float = 0.0
    dimensions: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.blur <= 1e100:
            raise ValueError("a blur is a finite number of at least 0")

    @property
    def width(self) -> float:
        """The lengthscale √(ℓ² + 2τ²) once both candidates are blurred by a deviation τ."""
        return math.hypot(self.lengthscale, math.sqrt(2.0) * self.blur)

    @property
    def shared(self) -> float:
        """The limit (ℓ/width)^d ≤ 1 of the correlation of two different candidates as their distance goes to 0."""
        return (self.lengthscale / self.width) ** self.dimensions

    def at(self, squared: NDArray[np.float64]) -> NDArray[np.float64]:
        """The covariances at squared distances r², of any shape; written into `squared`, which is returned."""
        same = squared == 0.0  # one candidate and itself: its blur is the same, so the variance is not reduced
        squared *= -0.5 / self.width**2
        np.exp(squared, out=squared)
        squared *= self.variance * self.shared
        squared[same] = self.variance
        return squared


Kernel = SquaredExponential | Matern52 | BlurredSquaredExponential

KERNELS: dict[str, type[SquaredExponential] | type[Matern52]] = {"matern52": Matern52, "se": SquaredExponential}


def typical_lengthscale(dimensions: int) -> float:
    """Return the usual first lengthscale in the unit cube, 0.3√d, as distances grow like √d."""
    return TYPICAL_LENGTHSCALE * math.sqrt(max(1, dimensions))


def kernel_named(name: str, lengthscale: float, variance: float = 1.0) -> Kernel:
    """Return the kernel that a study calls `name`, one of KERNELS, with this lengthscale and variance."""
    return KERNELS[name](lengthscale, variance)


def squared_distance(
    A: NDArray[np.float64], B: NDArray[np.float64], out: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Return the squared distances over the last axis, the leading axes broadcast; into `out`, or a fresh array."""
    if A.shape[-1] == 0:
        total = np.empty(np.broadcast_shapes(A.shape[:-1], B.shape[:-1])) if out is None else out
        total[...] = 0.0
        return total
    total = np.subtract(A[..., 0], B[..., 0], out=out)
    total *= total
    difference = np.empty_like(total) if A.shape[-1] > 1 else total
    for j in range(1, A.shape[-1]):
        np.subtract(A[..., j], B[..., j], out=difference)
        difference *= difference
        total += difference
    return total


JITTER = 1e-10  # noise variance of an observation called exact: what two equal rows of K need to stay apart
# rows in one stack; up to _MAX_TALL_CANDIDATES candidates a stack holds 64 rows, 2 MB at the most
_STACK, _MAX_TALL_CANDIDATES = 4, 4096
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
        """Observe a candidate: the new row of V, (N,), which must not be written to, and the new pivot of L, ≥ σ.

        `column`, (N,), has its prior covariances with all candidates, and `scratch`, (N,), is overwritten.
        """
        if len(self._stacks) == 1:  # avoids building a list, which costs a tenth of an observation if N is small
            V_x = self._stacks[0][: len(self), index].copy()
        else:
            V_x = np.concatenate([stack[:, index] for stack in self._stacks] or [np.empty(0)])[: len(self)]
        # k(x, x) − ‖V_x‖² is never negative in exact arithmetic. Clamping it keeps the pivot at σ or above.
        pivot = math.sqrt(max(float(column[index]) - float(V_x.dot(V_x)), 0.0) + self.noise_variance)
        if not self._stacks or len(self) == self._starts[-1] + len(self._stacks[-1]):
            self._stacks.append(np.empty((self._height if self._stacks else self._first, self._n_candidates)))
            self._starts.append(len(self))
        row: NDArray[np.float64] = self._stacks[-1][len(self) - self._starts[-1]]
        before = column
        for start, stack in zip(self._starts, self._stacks, strict=True):
            part = V_x[start : start + len(stack)]
            if len(part) > 0:
                part.dot(stack[: len(part)], out=scratch)
                before = np.subtract(before, scratch, out=row)
        np.multiply(before, 1.0 / pivot, out=row)
        self.indices.append(index)
        return row, pivot


class Posterior:
    """A Gaussian process given its observations: mean and variance at every candidate.

    Memory: 8·N·(t + 8) bytes (2 MB more for a small N), where t is not below what was `expected`.

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
