"""Coverage and power of the 90% interval of a comparison with a champion.

    python -m benchmarks.champion [--json]

Coverage is of 4,000 draws a row at ε = 1: n units of a population, two models' scores of each, and the noise.
Alike: both models are as good. Shifted: the challenger is better on one half of the population and worse on the
other. Persons: each of n persons has 1 to 6 records, which resemble each other, and counts once. Power is the least
difference in accuracy that is called better with 80% chance, from 2,000 records, beside that of two reports at ε/2
each, of four cells, whose interval must take the two samples as independent.
"""

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from benchmarks.rows import Row, main
from dpbo_core.report.difference import PairedSums, detectable

DRAWS, N, EPSILON, LEVELS = 4_000, 500, 1.0, 4096
SCORES = ("accuracy", "brier", "log loss")
AT_LEAST = 0.895


def scores(name, p, y):
    """Scores in [0, 1] of probabilities for classes, as a study has them."""
    if name == "accuracy":
        return ((p > 0.5) == y).astype(float)
    if name == "brier":
        return 1.0 - (p - y) ** 2
    return 1.0 - np.minimum(-np.log(np.clip(np.where(y, p, 1.0 - p), 1e-12, 1.0)), math.log(100)) / math.log(100)


def population(kind, rng, size):
    """Classes and both models' probabilities of `size` units, and persons' numbers of records."""
    wide = (size, 6) if kind == "persons" else (size,)
    x = rng.normal(size=wide)
    if kind == "persons":
        x += 2.0 * rng.normal(size=(size, 1))
    y = x + rng.normal(size=wide) > 0
    better = np.where(x > 0, 1.6, 0.7) if kind == "shifted" else 1.0
    challenger = 1.0 / (1.0 + np.exp(-2.0 * better * (x + 0.25 * rng.normal(size=wide))))
    champion = 1.0 / (1.0 + np.exp(-2.0 * (x + 0.25 * rng.normal(size=wide))))
    return y, challenger, champion, rng.integers(1, 7, size=size)


def differences(name, kind, rng, size):
    """d and |d| of each unit, a person's as means over the records, rounded as a comparison rounds them."""
    y, challenger, champion, owned = population(kind, rng, size)
    d = scores(name, challenger, y) - scores(name, champion, y)
    d = d if name == "accuracy" else np.floor(d * LEVELS + 0.5) / LEVELS
    if kind != "persons":
        return d, np.abs(d)
    there = np.arange(6) < owned[:, None]
    return tuple((np.where(there, one, 0.0)).sum(axis=1) / owned for one in (d, np.abs(d)))


def covered(name, kind):
    """The share of draws whose interval holds the population's difference, and the intervals' mean width."""
    rng, exact, b = np.random.default_rng(64), name == "accuracy" and kind != "persons", 2.0 / EPSILON
    truth = float(np.mean(differences(name, kind, rng, 2_000_000)[0]))
    grid = 1 if exact else LEVELS
    a, inside, width = math.exp(-1.0 / (b * grid)), 0, 0.0

    @lru_cache(None)
    def interval(total, absolute):
        return PairedSums(N, b, total, absolute, exact).interval

    for _ in range(DRAWS):
        d, size = differences(name, kind, rng, N)
        z = rng.geometric(1.0 - a, size=4)
        low, high = interval(d.sum() + (z[0] - z[1]) / grid, size.sum() + (z[2] - z[3]) / grid)
        inside += low - 1e-12 <= truth <= high + 1e-12
        width += high - low
    return inside / DRAWS, width / DRAWS


def unpaired(n, epsilon, psi, accuracy=0.85):
    """The least difference that two reports at ε/2 each show with 80% chance."""
    noise = 2.0 * 2.0 * 2.0 * (4.0 / epsilon) ** 2  # of each report two cells with Laplace noise of scale 2/(ε/2)
    assumed = math.sqrt(2.0 * n * accuracy * (1.0 - accuracy) + noise)
    return (1.6449 * assumed + 0.8416 * math.sqrt(n * psi + noise)) / n


def rows() -> Iterator[Row]:
    for psi in (0.05, 0.1, 0.2, 0.4):
        for epsilon in (0.25, 1.0):
            least = detectable(2_000, 2.0 / epsilon, psi, exact=True)
            apart = unpaired(2_000, epsilon, psi)
            what = f"least difference, 2,000 records, ε = {epsilon:g}, models agree on {1 - psi:.0%}"
            yield Row(what, least, unit="", at_most=apart if psi <= 0.2 else None, note=f"unpaired: {apart:.3f}")
    for name in SCORES:
        for kind in ("alike", "shifted", "persons"):
            share, width = covered(name, kind)
            yield Row(
                f"coverage, {name}, {kind}, n = {N}", share, unit="", at_least=AT_LEAST, note=f"width {width:.3f}"
            )


if __name__ == "__main__":
    main(rows)
