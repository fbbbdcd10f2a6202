"""Gaussian noise that a method draws onto what it sees and does not release.

| symbol | name here | meaning | shape |
|---|---|---|---|
| σ | `sigma` | standard deviation, on the prior's scale | scalar > 0 |
| h | `GRID` | draws are whole multiples of 2⁻²⁴ of the prior's scale | scalar |

Kusner et al. (2015), Theorem 3, assumes that N(0, σ²) is really drawn onto each observation. The draws cost
nothing, guarantee nothing by themselves, and stay in the curator's process; all of a run's are made at once, before
the first observation, so that no step's duration holds one of them.
"""

from dpbo_core.mechanisms.additive import rounded
from dpbo_core.mechanisms.checks import check_scale
from dpbo_core.mechanisms.noise import NoiseSource
from dpbo_core.mechanisms.opendp_library import discrete_gaussian
from dpbo_core.models.scores.grid import GRID
from dpbo_core.privacy.sensitive import Sensitive


def observation_noise(sigma: float, n: int, source: NoiseSource) -> Sensitive[tuple[float, ...]]:
    """n independent draws of N(0, σ²), discrete on a grid of 2⁻²⁴, from the operating system's entropy.

    Raises:
        ValueError: σ is not positive and finite.
        StudyInvalid: σ is beyond what 64-bit integers hold on that grid.
    """
    if not 0.0 < sigma < float("inf"):
        raise ValueError("sigma must be positive and finite")
    scale = sigma * GRID
    check_scale(scale, 1)
    measurement = discrete_gaussian(scale, moves="i64")
    drawn = source.draw_many(measurement, n, rounded(lambda rng, size: rng.normal(scale=scale, size=size)))
    return Sensitive(tuple((drawn / GRID).tolist()))
