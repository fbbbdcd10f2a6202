"""What methods share that learn from earlier editions: what a release says of candidates, and a law of choices.

| symbol | name here | meaning | shape |
|---|---|---|---|
| c_e, n | `choices` | what edition e chose privately, oldest first; None where it chose nothing | n of them |
| π₀ | `measure` | the law over the listed candidates that a choice begins from without the past | (n,) |
| γ | `FADING` | each edition back counts γ times as much | scalar |
| K(·, c) | — | a narrow law about c: equal ones and neighbours were nearly as good | (n,) |

π = (1 − w)·π₀ + w·Σ γ^age K(·, c_e)/Σ γ^age, with w = Σ γ^age/(1 + Σ γ^age). A choice of the exponential mechanism
is a draw from the law that its scores make, so the draws of earlier editions tell where that law had its weight. At
γ = 0.8 Σ γ^age < 5, so everybody keeps more than a sixth of what π₀ gave: what misleads costs at most log 6 noise
scales.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpbo_core.bo.score_map import NORMAL_90
from dpbo_core.gp.kernels import SquaredExponential
from dpbo_core.methods.contract import ReleasedScores
from dpbo_core.privacy.plan import step_score
from dpbo_core.privacy.release import Release
from dpbo_core.problem.problem import Problem

FADING, NEARBY = 0.8, 0.05  # and how far a neighbour is, times √d
EQUAL = 1e-9  # relative: two numbers that were computed alike


def chosen_and_scored(release: Release, *, choice: str, score: str) -> ReleasedScores:
    """A release's one candidate and score, whose noise is the draw `score`; choice None without a draw `choice`."""
    point, spends = release.value["hyperparameters"], {spend.what: spend for spend in release.spends}
    chosen = point if choice in spends else None
    if release.value["score"] is None:
        return ReleasedScores(chosen, ())
    deviation = 2.0**0.5 * spends[score].noise_scale * release.score_per_unit
    return ReleasedScores(chosen, ((point, float(release.value["score"]), deviation),))


def steps_and_look(release: Release, look: str) -> ReleasedScores:
    """A released path's choice and scores: each step's and, if its interval is that of the draw named `look` alone,
    the interval's middle.
    """
    value, unit = release.value, release.score_per_unit
    if value["score"] is None:
        return ReleasedScores(value["hyperparameters"], ())
    scales = {spend.what: spend.noise_scale * unit for spend in release.spends}
    scores = [
        (step["hyperparameters"], float(step["score"]), scales[step_score(step["step"])])
        for step in value["trajectory"]
    ]
    if look in scales:
        low, high = value["interval"]
        if abs((high - low) / 2.0 - NORMAL_90 * scales[look]) <= EQUAL * (high - low):
            scores.append((value["hyperparameters"], (low + high) / 2.0, scales[look]))
    return ReleasedScores(value["hyperparameters"], tuple(scores))


def followed(
    problem: Problem, listed: Sequence[int], choices: Sequence[int | None], measure: NDArray[np.float64]
) -> NDArray[np.float64]:
    """A prior over the listed candidates: `measure` moved towards earlier runs' choices, None for a run without.

    Args:
        problem: whose candidates are listed.
        listed: indices into Λ, (n,).
        choices: of earlier editions, indices into Λ, oldest first.
        measure: π₀, (n,), adding up to 1.
    """
    encoded = problem.candidates.encoded
    kernel = SquaredExponential(NEARBY * max(1, encoded.shape[1]) ** 0.5)
    law, counted = np.zeros(len(listed)), 0.0
    for age, choice in enumerate(reversed(choices)):
        if choice is None:
            continue
        near = measure * kernel.column(encoded[list(listed)], encoded[choice])
        law += FADING**age * near / near.sum()
        counted += FADING**age
    return (measure + law) / (1.0 + counted)
