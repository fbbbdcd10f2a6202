"""The four searches that are timed: candidates uniform in the cube, a fixed sequence of indices, smooth values."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbo_core.search.bo import UCB, BayesianSearch
from dpbo_core.search.gp import Kernel, Matern52, Posterior, SquaredExponential

NOISE = 1e-2
LENGTHSCALE = 0.3
BETA = 4.0
KERNELS: tuple[Kernel, ...] = (SquaredExponential(LENGTHSCALE), Matern52(LENGTHSCALE))


@dataclass(frozen=True)
class Workload:
    """N candidates in d dimensions, T steps."""

    name: str
    N: int
    d: int
    T: int

    @property
    def candidates(self) -> NDArray[np.float64]:
        return np.random.default_rng(0).random((self.N, self.d))

    @property
    def indices(self) -> NDArray[np.int64]:
        return np.random.default_rng(1).integers(0, self.N, self.T)

    @property
    def values(self) -> NDArray[np.float64]:
        shape = np.sin(5 * self.candidates[self.indices].sum(axis=1))
        return shape + 0.1 * np.random.default_rng(2).normal(size=self.T)

    @property
    def data(self) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
        return self.candidates, self.indices, self.values


W1 = Workload("W1", 1_000, 1, 50)
W2 = Workload("W2", 10_000, 2, 50)
W3 = Workload("W3", 36_000, 3, 50)
W4 = Workload("W4", 100_000, 4, 200)
ALL = (W1, W2, W3, W4)


def ours(
    kernel: Kernel, candidates: NDArray[np.float64], indices: NDArray[np.int64], values: NDArray[np.float64]
) -> Posterior:
    """The product's own loop, told a fixed sequence: ask (the answer is not used), tell."""
    search = BayesianSearch(Posterior(candidates, kernel, NOISE, expected=len(indices)), UCB(BETA))
    for index, value in zip(indices, values, strict=True):
        search.ask()
        search.tell(int(index), float(value))
    return search.posterior
