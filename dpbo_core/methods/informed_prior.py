"""Appendix D of Wang et al. (2023): a prior law π₀ over Λ other than the uniform one, from what a study says.

| symbol | name here | meaning | shape |
|---|---|---|---|
| π₀ | result | probabilities, each positive | (N,) |
| μ | — | posterior mean on a public study's scores, standardised over Λ | (N,) |

Two forms: a weight for every candidate in Λ's order, which is the study's word as Λ is; or what a public study
found, a table of hyperparameters and `score` each, to which a Gaussian process is fitted: π₀ = (1 − w)·softmax(βμ)
+ w/N, so that what misleads shuts nobody out. A guarantee holds for every π₀ that is fixed whatever the records
are: of the protected records' own scores, tried beforehand, it would not. Nothing in a table says whose scores they
are, so the study says it (`public_prior`).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import StudyInvalid
from dpbo_core.gp.kernels import kernel_named
from dpbo_core.gp.likelihood import fit
from dpbo_core.gp.posterior import Posterior
from dpbo_core.privacy.assumption import PUBLIC_PRIOR
from dpbo_core.problem import Problem

SCORE = "score"
SHARPNESS, FLOOR = 2.0, 0.2  # β and w
MOST = 1e6  # largest ratio of two weights: beyond it a candidate may as well be left out of [space]
NOISE_VARIANCE = 1e-2  # of a public study's standardised score


def uniform(problem: Problem) -> NDArray[np.float64]:
    """The prior that prefers no candidate: 1/N for each, (N,)."""
    N = len(problem.candidates)
    return np.full(N, 1.0 / N)


def informed(prior: Sequence[Any], problem: Problem) -> NDArray[np.float64]:
    """π₀ of what a study says; uniform where it says nothing.

    Raises:
        StudyInvalid: it is neither of the two forms.
    """
    if not prior:
        return uniform(problem)
    if all(isinstance(one, Mapping) for one in prior):
        return _of_public_study(prior, problem)
    return _of_weights(prior, problem)


def assumed_of(prior: Sequence[Any]) -> tuple[str, ...]:
    """What somebody must answer for where scores make the prior."""
    return (PUBLIC_PRIOR.name,) if any(isinstance(one, Mapping) for one in prior) else ()


def _of_weights(weights: Sequence[Any], problem: Problem) -> NDArray[np.float64]:
    N = len(problem.candidates)
    numbers = all(type(one) in (int, float) and 0.0 < one < np.inf for one in weights)
    if not numbers or len(weights) != N or max(weights) > MOST * min(weights):
        raise StudyInvalid(
            f"method.prior has {len(weights)} entries, and there are {N} candidates",
            cause=f"a weight for each, in their order, is positive and at most {MOST:g} times another",
            remedy="give so many numbers, or a public study's tables of hyperparameters and score",
        )
    found = np.array(weights, dtype=np.float64)
    return np.asarray(found / found.sum())


def _of_public_study(tables: Sequence[Mapping[str, Any]], problem: Problem) -> NDArray[np.float64]:
    points, scores = [], []
    for table in tables:
        point = {name: value for name, value in table.items() if name != SCORE}
        score, encoded = table.get(SCORE), _place(point, problem)
        if encoded is None or not isinstance(score, int | float) or not math.isfinite(score):
            raise StudyInvalid(
                f"method.prior names a point that is none: {sorted(table)}",
                cause=f"each has a value for every axis of [space], and its {SCORE!r}, a finite number",
                remedy="copy hyperparameters and score from the trajectory of a study on public data",
            )
        points.append(encoded)
        scores.append(float(score))
    y = np.array(scores)
    standard = (y - y.mean()) / (float(y.std()) or 1.0)
    X = np.array(points).reshape(len(y), -1)
    fitted = fit(X, standard, NOISE_VARIANCE, problem.search.kernel)
    kernel = kernel_named(problem.search.kernel, fitted.lengthscale, fitted.variance)
    known = Posterior(np.vstack([problem.candidates.encoded, X]), kernel, NOISE_VARIANCE, fitted.mean, len(y))
    N = len(problem.candidates)
    for place, value in enumerate(standard, start=N):
        known.observe(place, float(value))
    mean = known.mean[:N]
    z = (mean - mean.mean()) / (float(mean.std()) or 1.0)
    weights = np.exp(SHARPNESS * (z - z.max()))
    return np.asarray((1.0 - FLOOR) * weights / weights.sum() + FLOOR / N)


def _place(point: Mapping[str, Any], problem: Problem) -> NDArray[np.float64] | None:
    """The point in the unit cube; None for one that is none of the space."""
    if set(point) != set(problem.candidates.space.axes):
        return None
    try:
        found = problem.candidates.space.encode(point)
    except (TypeError, ValueError, KeyError):
        return None
    return found if np.isfinite(found).all() else None
