"""How closely regularised logistic regression is solved inside a private training, and where that cannot be done.

| symbol | name here | meaning | shape |
|---|---|---|---|
| n, d | `n_records`, `n_features` | training records and features, public | scalars |
| λ | `regularization` | strength of the penalty | scalar > 0 |
| ‖b‖ | `tilt_norm` | bound on the tilt of the objective, from public numbers | scalar ≥ 0 |
| τ | `tolerance(...)` | asked bound on the distance to the minimiser | scalar > 0 |

τ is a part of the sensitivity, so it is a function of public numbers alone: 10⁻⁴ of 1/(nλ), and never below twice
what doubles are sure to certify for EVERY data set of that size. Where not even τ = 1/(nλ), half the sensitivity,
can be had, or where the descent that never fails would take more than `MAX_STEPS`, the study is refused.

Discrete Laplace noise on the weights of a linear model, for the algorithms that are pure.

| symbol | name here | meaning | shape |
|---|---|---|---|
| w | `w` | weights | (d,) |
| Δ₂ | `sensitivity` | most they move in ℓ₂ between neighbours | scalar > 0 |
| h | — | the grid they are rounded to, a power of two near Δ₂·2⁻²⁰ | scalar |
"""

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import StudyInvalid
from dpbo_core.mechanisms.noise import NoiseSource
from dpbo_core.mechanisms.vectors import DiscreteLaplaceVector
from dpbo_core.models.linear.losses import certifiable
from dpbo_core.models.linear.tilted import descent_steps


def noise_of(sensitivity: float, epsilon: float, size: int) -> tuple[DiscreteLaplaceVector, float]:
    """The Laplace mechanism to make `size` weights of that ℓ₂ sensitivity ε-DP, and its grid h, a power of two."""
    h = 2.0 ** (math.floor(math.log2(sensitivity)) - 20)
    steps = math.ceil(math.sqrt(size) * sensitivity / h * (1.0 + 1e-12)) + size
    return DiscreteLaplaceVector(steps, epsilon, size), h


def noised(
    w: NDArray[np.float64], *, sensitivity: float, epsilon: float, source: NoiseSource
) -> NDArray[np.float64]:
    """Weights of ℓ₂ sensitivity `sensitivity`, rounded to a grid, plus discrete Laplace noise: ε-DP."""
    noise, h = noise_of(sensitivity, epsilon, len(w))
    rounded = np.clip(np.rint(w / h), -(2.0**61), 2.0**61).astype(np.int64)
    return np.asarray((rounded + noise.draw(source)).astype(np.float64) * h, dtype=np.float64)


TOLERANCE = 1e-4  # of 1/(nλ): far below the noise
MAX_STEPS = 1_000_000
LOGISTIC_ONLY_MESSAGE = "its proof is for regularised logistic regression on two classes"
MAX_REGULARIZATION = 1e100  # of λ: squares of the weights stay numbers


def tolerance(*, n_records: int, n_features: int, regularization: float, tilt_norm: float = 0.0) -> float:
    """Return the distance τ to the minimiser that a solver must reach; infinite if doubles cannot certify any."""
    least = certifiable(
        n_records=n_records, n_features=n_features, regularization=regularization, tilt_norm=tilt_norm
    )
    return max(TOLERANCE / (n_records * regularization), 2.0 * least)


def solvable(*, n_records: int, n_features: int, regularization: float, tilt_norm: float = 0.0) -> bool:
    """Return whether a solver can come within `tolerance(…)` of the minimiser on every data set of that size."""
    if not regularization <= MAX_REGULARIZATION:
        return False
    tau = tolerance(n_records=n_records, n_features=n_features, regularization=regularization, tilt_norm=tilt_norm)
    if not tau * n_records * regularization <= 1.0:
        return False
    return descent_steps(regularization, tilt_norm, n_records, tau) <= MAX_STEPS


def check_solvable(
    algorithm: str, *, n_records: int, n_features: int, regularization: float, tilt_norm: float = 0.0
) -> None:
    """Refuse a λ at which some data set of that size cannot be solved to within `tolerance(…)`."""
    solvable_at = partial(solvable, n_records=n_records, n_features=n_features, tilt_norm=tilt_norm)
    if solvable_at(regularization=regularization):
        return
    problem = f"lambda = {regularization:g} cannot be solved by {algorithm} on {n_records:,} records"
    if regularization > MAX_REGULARIZATION:
        raise StudyInvalid(problem, cause="its square is no number", remedy="lower the high end of lambda")
    low, high = math.log(1e-300), math.log(0.99 * MAX_REGULARIZATION)
    if not solvable_at(regularization=math.exp(high)):
        raise StudyInvalid(
            problem,
            cause="the sum of so many gradients cannot be certified in double precision at any lambda",
            remedy="use a base that noises gradients",
        )
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if solvable_at(regularization=math.exp(middle)) else (middle, high)
    raise StudyInvalid(
        problem,
        cause="double precision cannot guarantee its distance to the minimiser for every data set",
        remedy=f"raise the low end of lambda to {1.05 * math.exp(high):.1e} or more",
    )
