"""The posterior over a hyperparameter, from released facts alone: observations, noise, kernel, axes.

| symbol | name here | meaning | shape |
|---|---|---|---|
| x | `grid` | values along one numeric axis; the other axes stand at the released choice | (n,) |
| y_t | `trajectory` scores | what was released, noise included | (T,) |
| μ ± 1.645 s | `mean`, `half_width` | posterior mean and its 90% band, in score | (n,), (n,) |
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.gp.kernels import kernel_named
from dpbo_core.gp.likelihood import fit
from dpbo_core.gp.posterior import Posterior
from dpbo_core.methods.private_trajectory import PRIOR_MEAN, PRIOR_SCALE
from dpbo_core.privacy.release import Release
from dpbo_core.space.search_space import Axis, Categorical, Integer, Real, SearchSpace

POINTS = 200
INTERVAL = 1.6448536269514722  # a 90% normal interval
FIRST_FIT = 4  # observations before a lengthscale is fitted to them


@dataclass(frozen=True)
class Slice:
    """The posterior along one axis, through the released choice."""

    axis: str
    log: bool
    grid: NDArray[np.float64]
    mean: NDArray[np.float64]
    half_width: NDArray[np.float64]


def slice_through_choice(release: Release) -> Slice | None:
    """The posterior along the first numeric axis; None where the release holds no such facts."""
    facts, points = release.facts, release.value.get("trajectory")
    if not points or not {"space", "kernel", "lengthscale"} <= set(facts):
        return None
    space = SearchSpace({name: _axis(table) for name, table in facts["space"].items()})
    numeric = [(name, axis) for name, axis in space.axes.items() if not isinstance(axis, Categorical)]
    if not numeric:
        return None
    name, axis = numeric[0]
    chosen = release.value["hyperparameters"]
    values = [axis.at(u) for u in np.linspace(0.0, 1.0, POINTS)]
    seen = np.array([space.encode(point["hyperparameters"]) for point in points])
    along = np.array([space.encode({**chosen, name: value}) for value in values])
    y, noise, scale, middle = _mapped(release)
    posterior = _prior(np.vstack([along, seen]), seen, y, noise, facts)
    for t, value in enumerate(y):
        posterior.observe(POINTS + t, float(value))
    mean, std = posterior.mean[:POINTS], posterior.std[:POINTS]
    return Slice(name, axis.log, np.array(values, dtype=float), mean * scale + middle, INTERVAL * std * scale)


def band_by_step(release: Release) -> tuple[tuple[float, float], ...]:
    """(μ, 1.645 s) at λ_t given y_1 … y_t, one pair a step; empty where the release holds no such facts.

    Under lengthscale = "fit" the kernel is the one fitted to all T scores.
    """
    facts, points = release.facts, release.value.get("trajectory")
    if not points or not {"space", "kernel", "lengthscale"} <= set(facts):
        return ()
    space = SearchSpace({name: _axis(table) for name, table in facts["space"].items()})
    seen = np.array([space.encode(point["hyperparameters"]) for point in points])
    y, noise, scale, middle = _mapped(release)
    posterior = _prior(seen, seen, y, noise, facts)
    pairs = []
    for t, value in enumerate(y):
        posterior.observe(t, float(value))
        pairs.append((float(posterior.mean[t]) * scale + middle, INTERVAL * float(posterior.std[t]) * scale))
    return tuple(pairs)


def _mapped(release: Release) -> tuple[NDArray[np.float64], float, float, float]:
    """The scores on the prior's scale, their noise variance there, and the map back: score = y·scale + middle."""
    top = release.facts["score_range"]
    scale, middle = PRIOR_SCALE * top, PRIOR_MEAN * top
    y = np.array([(point["score"] - middle) / scale for point in release.value["trajectory"]])
    return y, max((release.spends[0].noise_scale / scale) ** 2, 1e-10), scale, middle


def _prior(
    where: NDArray[np.float64], seen: NDArray[np.float64], y: NDArray[np.float64], noise: float, facts: Any
) -> Posterior:
    """The study's kernel, or the one the method fits to the same observations; nothing observed yet."""
    lengthscale, variance, mean = facts["lengthscale"], 1.0, 0.0
    if lengthscale == "fit":
        lengthscale = 0.3
        if len(y) >= FIRST_FIT:
            fitted = fit(seen, y, noise, facts["kernel"])
            lengthscale, variance, mean = fitted.lengthscale, fitted.variance, fitted.mean
    return Posterior(where, kernel_named(facts["kernel"], lengthscale, variance), noise, mean)


def _axis(table: Any) -> Axis:
    if "values" in table:
        return Categorical(table["values"])
    kind = Integer if table["integer"] else Real
    return kind(table["low"], table["high"], log=table["log"])
