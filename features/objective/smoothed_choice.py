"""The best of what was asked, by the posterior mean of a Gaussian process on the released scores: post-processing.

| symbol | name here | meaning | shape |
|---|---|---|---|
| x_t | `_encoded` | hyperparameters in the unit cube | (u, d) |
| y_t, σ | `scores`, `deviation` | released scores and the known deviation of their noise | (u,), scalar |
| μ, s | `Smoothed` | posterior mean and deviation of the score at every x_t, averaged over kernels | (n,) |

The largest single noisy score is biased upwards, and choosing by it chooses noise; the posterior mean, which knows
σ, gives way to its neighbours. It costs nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo.features.objective.parameters import Parameters
from dpbo_core.search.bo import prior_of
from dpbo_core.search.estimates import CENTRE, NORMAL_90, SPREAD, average
from dpbo_core.search.gp import kernel_named

LOG_AXIS_RATIO = 20.0  # a positive axis whose largest value is so many times its smallest is taken by its logarithm
MAX_AVERAGED_POINTS = (
    200  # different points up to which all kernels are averaged over; with more the most probable one serves
)


@dataclass(frozen=True, eq=False)
class Smoothed:
    """What the released scores say of every point that was asked about, in units of the score."""

    mean: NDArray[np.float64]  # μ, (n,)
    deviation: NDArray[np.float64]  # s, (n,)

    def interval(self, place: int, score_range: float) -> tuple[float, float]:
        """The central 90% posterior interval of the score at point number `place`, within [0, `score_range`]."""
        reach = NORMAL_90 * self.deviation[place]
        low, high = np.clip([self.mean[place] - reach, self.mean[place] + reach], 0.0, score_range)
        return float(low), float(high)


def smoothed(
    points: Sequence[Parameters], scores: Sequence[float], *, deviation: float, score_range: float
) -> Smoothed:
    """Return the posterior mean and deviation of the score at each scored point; `deviation` is of the noise, σ."""
    places, index = np.unique(_encoded(points), axis=0, return_inverse=True)
    index = index.reshape(-1)
    times, scale = np.bincount(index), SPREAD * score_range
    values = np.bincount(index, weights=(np.array(scores) - CENTRE * score_range) / scale) / times
    noise = np.maximum((deviation / scale) ** 2 / times, 1e-10)
    prior = prior_of(kernel="matern52", lengthscale="fit", dimensions=max(1, places.shape[1]), guessed=False)
    some = np.unique(np.linspace(0, len(places) - 1, min(len(places), MAX_AVERAGED_POINTS)).round().astype(int))
    mixture = average(places[some], values[some], noise[some], np.zeros(len(some)), prior)
    if len(places) <= MAX_AVERAGED_POINTS:
        means, deviations = mixture.moments(places, np.zeros(len(places)))
        mean = mixture.weights @ means
        variance = mixture.weights @ (deviations**2 + means**2) - mean**2
    else:
        kernel = kernel_named(prior.kernel, float(mixture.lengthscales[0]), float(mixture.variances[0]))
        K = kernel.matrix(places, places) + prior.offset_deviation**2
        gain = np.linalg.solve(K + np.diag(noise), K).T
        mean, variance = gain @ values, np.diag(K) - np.einsum("ij,ij->i", gain, K)
    spread = scale * np.sqrt(np.maximum(variance, 0.0))
    return Smoothed(CENTRE * score_range + scale * mean[index], spread[index])


def _encoded(points: Sequence[Parameters]) -> NDArray[np.float64]:
    """Return the points in the unit cube, (n, d): numbers scaled, by logarithm if far apart, others one-hot."""
    columns: list[NDArray[np.float64]] = []
    for name in sorted({name for point in points for name in point}):
        values: list[Any] = [point.get(name) for point in points]
        if all(type(value) in (int, float) for value in values):
            axis = np.array(values, dtype=np.float64)
            if axis.min() > 0.0 and axis.max() >= LOG_AXIS_RATIO * axis.min():
                axis = np.log(axis)
            if np.ptp(axis) > 0.0:
                columns.append((axis - axis.min()) / np.ptp(axis))
        elif len(categories := sorted({repr(value) for value in values})) > 1:
            columns += [np.array([float(repr(value) == each) for value in values]) for each in categories]
    return np.stack(columns, axis=1) if columns else np.zeros((len(points), 1))
