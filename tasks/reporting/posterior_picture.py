"""The posterior over a hyperparameter, from released facts alone: observations, noise, kernel, axes.

| symbol | name here | meaning | shape |
|---|---|---|---|
| x | `grid` | values along one numeric axis; the other axes stand at the released choice | (n,) |
| y_t | `trajectory` scores | what was released, noise included | (T,) |
| μ ± 1.645 s | `mean`, `half_width` | the method's own posterior, kernels averaged: mean, 90% band | (n,), (n,) |
| f̂, [low, high] | `score`, `interval` | what the release says of the choice, its fresh look included | scalars |
| v, c | `variance`, `covariance` | of the posterior along the axis, and with the choice | (n,), (n,) |

The picture says of the choice what the release says: the posterior along the axis is brought to f̂ and the width of
its interval there, and follows elsewhere by its covariance (Jeffrey's rule): the band cannot contradict the number.
With prior = "public" the method also believes scores of the public training set, which no release holds: then there
is nothing to draw.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.privacy.release import LEARNED_FROM, NO_SCORE, Release
from dpbo_core.search.averaged import prior_of
from dpbo_core.search.mixture import KernelMixture, average
from dpbo_core.search.score_map import CENTRE, NORMAL_90, SPREAD
from dpbo_core.search.search_space import Axis, Categorical, Integer, Real, SearchSpace

N_POINTS = 200
Moments = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True)
class Slice:
    """The posterior along one axis, through the released choice."""

    axis: str
    log: bool
    grid: NDArray[np.float64]
    mean: NDArray[np.float64]
    half_width: NDArray[np.float64]


def slice_through_choice(release: Release) -> Slice | None:
    """Return the posterior score along the first numeric axis, all other hyperparameters as chosen.

    None if there is no numeric axis, or if the posterior cannot be computed from the release alone.
    """
    if not _drawable(release):
        return None
    space = _space(release)
    numeric = [(name, axis) for name, axis in space.axes.items() if not isinstance(axis, Categorical)]
    if not numeric:
        return None
    name, axis = numeric[0]
    chosen = release.value["hyperparameters"]
    values = [axis.at(u) for u in np.linspace(0.0, 1.0, N_POINTS)]
    along = np.array([space.encode({**chosen, name: value}) for value in values])
    mean, half_width = _with_the_release(release, space, along)
    return Slice(name, axis.log, np.array(values, dtype=float), mean, half_width)


def _with_the_release(release: Release, space: SearchSpace, along: NDArray[np.float64]) -> Moments:
    """Return the posterior (mean, half width) at the encoded points `along`, given the released score of the choice
    too.

    μ′ = μ + (c/v₀)(f̂ − μ₀) and v′ = v − (c²/v₀)(1 − w/v₀): c is the covariance with the choice, v₀ its variance,
    f̂ its stated score, and w the variance that its interval's width implies.
    """
    scale, centre = SPREAD * release.facts["score_range"], CENTRE * release.facts["score_range"]
    chosen = space.encode(release.value["hyperparameters"])[None, :]
    where = np.concatenate([along, chosen])
    mixture = _mixture(release, space, len(release.value["trajectory"]))
    mean, whole = mixture.joint(where, np.zeros(len(where)))
    variance, covariance = np.diagonal(whole), whole[:, -1]
    low, high = release.value["interval"]
    released, width = (release.value["score"] - centre) / scale, ((high - low) / (2.0 * NORMAL_90 * scale)) ** 2
    prior = max(float(variance[-1]), 1e-12)
    gain = covariance[:-1] / prior
    after = np.maximum(variance[:-1] - gain * covariance[:-1] * (1.0 - width / prior), 0.0)
    return centre + scale * (mean[:-1] + gain * (released - mean[-1])), NORMAL_90 * scale * np.sqrt(after)


def band_by_step(release: Release) -> tuple[tuple[float, float], ...]:
    """The posterior (μ, 1.645 s) of each step's candidate, once observed; () if the release does not fix it."""
    if not _drawable(release):
        return ()
    scale, centre = SPREAD * release.facts["score_range"], CENTRE * release.facts["score_range"]
    space, pairs = _space(release), []
    for t, point in enumerate(release.value["trajectory"], start=1):
        here = space.encode(point["hyperparameters"])[None, :]
        (mean,), ((variance,),) = _mixture(release, space, t).joint(here, np.zeros(1))
        pairs.append((float(centre + scale * mean), float(NORMAL_90 * scale * np.sqrt(variance))))
    return tuple(pairs)


def _drawable(release: Release) -> bool:
    """Whether the posterior follows from this release alone: scores, a flat prior, no earlier runs' scores."""
    facts = release.facts
    complete = bool(release.value.get("trajectory")) and {"space", "kernel", "lengthscale"} <= set(facts)
    alone = facts.get("options", {}).get("prior", "flat") == "flat" and not facts.get(LEARNED_FROM)
    return complete and alone and NO_SCORE not in release.value


def _mixture(release: Release, space: SearchSpace, t: int) -> KernelMixture:
    """The posterior over kernels, in the search's units, given a release's first t scores, repeats averaged."""
    facts, points = release.facts, release.value["trajectory"][:t]
    scale, centre = SPREAD * facts["score_range"], CENTRE * facts["score_range"]
    observed = np.array([space.encode(point["hyperparameters"]) for point in points])
    visited, place = np.unique(observed, axis=0, return_inverse=True)
    times = np.bincount(place.reshape(-1)).astype(np.float64)
    y = np.array([(point["score"] - centre) / scale for point in points])
    values = np.bincount(place.reshape(-1), weights=y) / times
    noise = max((release.noise_of_one / scale) ** 2, 1e-10)
    prior = prior_of(
        kernel=facts["kernel"], lengthscale=facts["lengthscale"], dimensions=space.dimensions, guessed=False
    )
    return average(visited, values, noise / times, np.zeros(len(visited)), prior)


def _space(release: Release) -> SearchSpace:
    return SearchSpace({name: _axis(table) for name, table in release.facts["space"].items()})


def _axis(table: Any) -> Axis:
    if "values" in table:
        return Categorical(table["values"])
    kind = Integer if table["integer"] else Real
    return kind(table["low"], table["high"], log=table["log"])
