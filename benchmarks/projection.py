"""The projection of a density on {c·π₀ ≤ f ≤ C·π₀, Σf = 1} beside CVXOPT's quadratic program with sparse matrices.

    python -m benchmarks.projection [--json]

c = 0.75, C = 2, a uniform prior and a density from a Dirichlet draw. The error is the largest distance of an entry
from the projection in rational arithmetic, of the very doubles that were given.
"""

from collections.abc import Iterator
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers import installed
from benchmarks.rows import Row, main, missing, spread_row
from benchmarks.timing import in_turn, ratio
from dpbo_core.search.adaptive_sampling import project

LOWER, UPPER = 0.75, 2.0
SIZES = ((320, 40.0, 9), (2_500, 120.0, 5), (10_000, 300.0, 3))  # points, asked, repetitions
CALLS = 50  # of ours, as one lasts microseconds


def rows() -> Iterator[Row]:
    for n, asked, repetitions in SIZES:
        rng = np.random.default_rng(0)
        density, prior = rng.dirichlet(np.full(n, 0.3)), np.full(n, 1.0 / n)
        on = f"{n:,} points"
        if installed("cvxopt"):
            own, theirs = in_turn([partial(ours, density, prior), partial(cvxopt, density, prior)], repetitions)
            each = f"ours {min(own) / CALLS * 1e6:.3g} µs"
            yield spread_row(f"{on}: CVXOPT", ratio([CALLS * s for s in theirs], own), at_least=asked, note=each)
        else:
            yield missing(f"{on}: CVXOPT", "cvxopt", at_least=asked)
        exact = rational(density, prior)
        found = project(density, prior=prior, lower=LOWER, upper=UPPER)
        error = max(abs(Fraction(float(a)) - b) for a, b in zip(found, exact, strict=True))
        yield Row(f"{on}: error", float(error), unit="", at_most=1e-14)


def ours(density: NDArray[np.float64], prior: NDArray[np.float64]) -> None:
    for _ in range(CALLS):
        project(density, prior=prior, lower=LOWER, upper=UPPER)


def cvxopt(density: NDArray[np.float64], prior: NDArray[np.float64]) -> None:
    from cvxopt import matrix, solvers, spmatrix

    solvers.options["show_progress"] = False
    n = len(density)
    eye = spmatrix(1.0, range(n), range(n))
    box = spmatrix([1.0] * n + [-1.0] * n, range(2 * n), list(range(n)) * 2)
    ends = matrix(np.concatenate([UPPER * prior, -LOWER * prior]))
    solvers.qp(eye, matrix(-density), box, ends, matrix(1.0, (1, n)), matrix(1.0))


def rational(density: NDArray[np.float64], prior: NDArray[np.float64]) -> list[Fraction]:
    """clip(π − ν, c·π₀, C·π₀) with the one ν at which it sums to 1, found by halving among the breakpoints."""
    pi = [Fraction(float(p)) for p in density]
    low = [Fraction(LOWER * float(p)) for p in prior]  # the ends as doubles, as both contenders have them
    high = [Fraction(UPPER * float(p)) for p in prior]

    def clipped(nu: Fraction) -> list[Fraction]:
        return [min(max(p - nu, a), b) for p, a, b in zip(pi, low, high, strict=True)]

    points = sorted([p - b for p, b in zip(pi, high, strict=True)] + [p - a for p, a in zip(pi, low, strict=True)])
    first, last = 0, len(points) - 1  # the sum is at least 1 at the first, at most 1 at the last
    while last - first > 1:
        middle = (first + last) // 2
        if sum(clipped(points[middle])) >= 1:
            first = middle
        else:
            last = middle
    above, below = sum(clipped(points[first])), sum(clipped(points[last]))
    share = (above - 1) / (above - below) if above > below else Fraction(0)
    return clipped(points[first] + share * (points[last] - points[first]))


if __name__ == "__main__":
    main(rows)
