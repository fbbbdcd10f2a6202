"""Branch and bound on exact observations (de Freitas, Smola, Zoghi 2012), on a finite Λ of any dimension.

| symbol | name here | meaning | shape |
|---|---|---|---|
| Λ | `encoded` | candidates in the unit cube | (N, d) |
| R | `_region` | candidates that may still be the maximiser | mask (N,) |
| ℓ | `_level` | the lattice in use, of spacing h = 2^−ℓ | integer ≥ 0 |
| L_ℓ | `dyadic_levels` | first level whose lattice holds a candidate | (N,) |
| μ ± √β·σ | — | confidence bounds of the noise-free Gaussian process | (N,) |

repeat: evaluate every candidate of R on the lattice of spacing h; drop from R each λ with UCB(λ) < max LCB; halve
h.

The lattices are nested subsets of Λ. When one candidate is left the search has finished: it keeps asking for that
one, so that nobody can count its evaluations.
"""

import math

import numpy as np
from numpy.typing import NDArray

from dpbo_core.search.gp import Kernel, Posterior

JITTER = 1e-10  # added to the diagonal of exact observations; declared, not hidden
FAILURE_PROBABILITY = 0.01  # probability that some bound of some step fails, if the prior is true
MAX_DEPTH = 26  # cells of side 2^−26; candidates closer than that count as one


def dyadic_levels(encoded: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the first level ℓ at which each candidate represents a cell of side 2^−ℓ, shape (N,).

    Level 0 holds the candidate nearest to the centre of the cube. At level ℓ every occupied cell that no earlier
    candidate lies in is given the candidate nearest to its own centre (the lowest index of equals).
    """
    N = len(encoded)
    levels = np.full(N, MAX_DEPTH + 1, dtype=np.int64)
    for level in range(MAX_DEPTH + 1):
        side = 2**level
        cells = np.minimum((encoded * side).astype(np.int64), side - 1)
        distance = ((encoded * side - (cells + 0.5)) ** 2).sum(axis=1)
        # groups cells; in a cell, candidates of earlier levels come first, then the nearest to its centre
        order = np.lexsort((np.arange(N), distance, levels > level, *cells.T))
        first = np.ones(N, dtype=bool)
        first[1:] = (cells[order[1:]] != cells[order[:-1]]).any(axis=1)
        chosen = order[first]
        levels[chosen] = np.minimum(levels[chosen], level)
        if (levels <= level).all():
            break
    return levels


class BranchAndBound:
    """Branch and bound by ask and tell: ask which candidate to evaluate, tell its exact score."""

    def __init__(self, encoded: NDArray[np.float64], kernel: Kernel) -> None:
        self._posterior = Posterior(encoded, kernel, JITTER)
        self._levels = dyadic_levels(encoded)
        self._region = np.ones(len(encoded), dtype=bool)
        self._evaluated = np.zeros(len(encoded), dtype=bool)
        self._level, self._n_evaluated = 0, 0

    @property
    def region(self) -> NDArray[np.int64]:
        """The region R of candidates that may still be the maximiser, ascending."""
        return np.flatnonzero(self._region)

    @property
    def mean(self) -> NDArray[np.float64]:
        """The posterior mean μ of every candidate, (N,)."""
        return self._posterior.mean

    def ask(self) -> int:
        """Return the next candidate of R to evaluate, coarse lattice first; of those the one of largest UCB.

        R is shrunk first. Once all of R is evaluated, return the candidate of R with the largest posterior mean.
        """
        if self._n_evaluated:  # R ← {λ ∈ R: UCB(λ) ≥ max LCB}
            width = self._deviation_bound()
            lower, upper = self._posterior.mean - width, self._posterior.mean + width
            self._region &= upper >= lower[self._region].max()
        while True:
            waiting = np.flatnonzero(self._region & ~self._evaluated & (self._levels <= self._level))
            if waiting.size:
                return int(waiting[np.argmax((self._posterior.mean + self._deviation_bound())[waiting])])
            if not (self._region & ~self._evaluated).any():
                region = self.region
                return int(region[np.argmax(self._posterior.mean[region])])
            self._level += 1

    def tell(self, index: int, value: float) -> None:
        """Add the exact value at `index`; a second value of one candidate adds nothing."""
        if not self._evaluated[index]:
            self._posterior.observe(index, value)
            self._evaluated[index] = True
            self._n_evaluated += 1

    def _deviation_bound(self) -> NDArray[np.float64]:
        """Return √β_t·σ, (N,), half the width of the confidence bounds, with β_t of Srinivas et al. (2010)."""
        t, N = max(1, self._n_evaluated), len(self._region)
        beta = 2.0 * math.log(N * t**2 * math.pi**2 / (6.0 * FAILURE_PROBABILITY))
        return np.asarray(math.sqrt(beta) * self._posterior.std)
