"""How soon a fall of .02 is found at a small hospital: 1,000 new people a day, ε = 1, alone or pooled.

    python -m benchmarks.watch [RUNS]

Every record is right or wrong; for years nothing fell, then the accuracy falls by .02. Each watch looks every day
at the last w tables as one, with the threshold at which a plan expects one false alarm in twenty years, so that all
are comparable. `found` is the share of runs that alarm in the days after the fall; `false` that of years with a
false alarm. Scores are binomial, the noise is the geometric law that the mechanism draws. ± two standard errors.
"""

import math
import sys

import numpy as np

from dpbo.features.watch.power import YEAR, Noise, alarms
from dpbo.features.watch.terms import MeanMeasure, Terms
from dpbo_core.models.integer_sums import GRID

SEED, PEOPLE, FALL, EPSILON, FALSE = 47, 1_000, 0.02, 1.0, 0.05
WATCHES = (  # name, tables, records of one person in a pool, within how many days
    ("one table", 1, 1, 7),
    ("week", 7, 1, 7),
    ("week, who may be in all", 7, 7, 7),
    ("month", 30, 1, 7),
    ("month", 30, 1, 30),
)


def threshold_of(noise: Noise) -> float:
    """θ at which a plan expects the share FALSE of years to have a false alarm."""
    low, high = 0.0, 1.0
    while high - low > 1e-7:
        middle = (low + high) / 2.0
        low, high = (middle, high) if alarms(middle, noise, fallen=0.0, looks=YEAR) > FALSE else (low, middle)
    return high


def of_watch(accuracy: float, pool: int, rows: int, days: int, runs: int) -> tuple[float, float]:
    """The shares of runs that find the fall in so many days, and that alarm falsely in a year."""
    least, measure, rng = pool * PEOPLE, MeanMeasure(rows, 1.0), np.random.default_rng(SEED)
    terms = Terms(FALL, EPSILON, least, accuracy, rows, pool)
    noise = terms.noise(measure, least, math.sqrt(accuracy * (1.0 - accuracy)))
    made, theta = terms.mechanism(measure), threshold_of(noise)

    def alarmed(fallen: int, looks: int) -> float:
        rates = np.full(looks + pool - 1, accuracy)
        rates[len(rates) - fallen :] -= FALL
        right = np.cumsum(rng.binomial(PEOPLE, rates, size=(runs, len(rates))), axis=1)
        pools = right[:, pool - 1 :] - np.pad(right, ((0, 0), (1, 0)))[:, :looks]
        u = accuracy - pools / least
        z, nu = (
            (rng.geometric(-math.expm1(-1.0 / part.scale), size=size) - 1) / GRID
            for part, size in ((made.of_threshold, (runs, 1)), (made.of_comparison, u.shape))
        )
        return float((u + nu >= theta + z).any(axis=1).mean())

    return alarmed(days, days), alarmed(0, YEAR)


def main() -> None:
    """Print a row for every watch and accuracy."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 4_000
    for accuracy in (0.9, 0.86, 0.8):
        for name, pool, rows, days in WATCHES:
            sighted, false = of_watch(accuracy, pool, rows, days, runs)
            spread = [2.0 * math.sqrt(share * (1.0 - share) / runs) for share in (sighted, false)]
            print(
                f"accuracy {accuracy}  {name:<24} within {days:>2} days: found {sighted:.3f} ± {spread[0]:.3f}"
                f"  false {false:.3f} ± {spread[1]:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
