"""Stationary kernels on the unit cube.

| symbol | name here | meaning | shape |
|---|---|---|---|
| k(a, b) | `matrix`, `column` | prior covariance of the scores at a and b | (n, m), (n,) |
| r | — | Euclidean distance ‖a − b‖ | scalar ≥ 0 |
| ℓ | `lengthscale` | distance over which the score changes | scalar > 0 |
| s² | `variance` | k(a, a), the prior variance | scalar > 0 |

Source: Rasmussen and Williams (2006), equations 4.9 and 4.17. Differences are squared one dimension at a time:
‖a‖² + ‖b‖² − 2aᵀb would lose half the digits between near neighbours.
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
