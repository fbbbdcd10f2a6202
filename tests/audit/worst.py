"""The worst neighbours that are known of each method of a study, and the strongest adversary against them.

| symbol | name here | meaning | shape |
|---|---|---|---|
| A, B | candidates 0 and 1 | one record's scores go from 0 to 1, or from 1 to 0 | — |
| ℓ | the function beside a case | log Pr[transcript on V]/Pr[transcript on V′] with the planned noise | scalar |

Each function says why its pair is the worst: what it loses is `law`, computed and not run.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from worlds import Memory, problem

from audit.laws import Gaussian, GaussianAndChoice, Pure
from audit.runs import Case, Sums
from dpbo_core.mechanisms.noise import InjectedNoise, Noise
from dpbo_core.methods.kusner_gp import ExactGP, NoisyGP
from dpbo_core.methods.lipschitz import Lipschitz
from dpbo_core.methods.private_grid import PrivateGrid
from dpbo_core.methods.private_trajectory import PrivateTrajectory
from dpbo_core.methods.problem import Problem
from dpbo_core.models.integer_sums import GRID
from dpbo_core.models.linear.fit import LinearModel
from dpbo_core.privacy.amounts import from_units
from dpbo_core.search.search_space import CandidateSet, Real, SearchSpace, grid

DELTA = 1e-5
NO_RELEASE = -1e9  # ℓ of what no honest run can show; the planted fault shows it on V′


class Steep:
    """Linear models of one feature with w = 1/λ: what a single training row e₁ gives under the hinge loss."""

    def train(self, point: Mapping[str, Any]) -> LinearModel:
        return LinearModel(np.array([1.0 / point["lambda"]]), point["lambda"], 0.0)


def world(
    *, m: int, epsilon: float, n_candidates: int = 2, steps: int = 2, person: bool = False, **wanted: Any
) -> Problem:
    """A problem of m records; of persons who own two each."""
    made = problem(
        n_candidates=n_candidates, n_validation=m, epsilon=epsilon, delta=wanted.pop("delta", DELTA), steps=steps,
        k=2 if person else 1, **wanted,
    )  # fmt: skip
    return replace(made, person="person") if person else made


def sums(problem: Problem, low: tuple[float, ...], high: tuple[float, ...]) -> tuple[Sums, Sums]:
    """Tables from sums in units of what one person moves."""
    return tuple(Sums([round(value * problem.record_steps) for value in side]) for side in (low, high))


def laplace(drawn: float, low: float, high: float, scale: float) -> float:
    """ℓ of one draw of Laplace noise about `low` or about `high`."""
    return (abs(drawn - high) - abs(drawn - low)) / scale


def chosen(problem: Problem, shown: Mapping[str, Any]) -> int:
    return next(i for i, point in enumerate(problem.candidates.points) if point == shown["hyperparameters"])


def grid_case(
    name: str, method: PrivateGrid, epsilon: float, *, person: bool = False, runs: tuple[int, int]
) -> Case:
    """From a tie to A ahead by 2Δ: permute-and-flip then chooses B e^ε times more seldom, 1/2 against e^−ε/2, and
    B's score goes down by Δ. Both parts of ε are lost in full at one outcome of probability 1/4.
    """
    asked = world(m=4, epsilon=epsilon, person=person)
    low, high = sums(asked, (1.0, 1.0), (2.0, 0.0))
    selection, noise = (mechanism for _, mechanism in PrivateGrid().draws(asked))
    behind = 0.5 * math.exp(-from_units(selection.epsilon_units))

    def seen(value: Any, kept: Mapping[str, Any]) -> float:
        if not isinstance(value, Mapping):
            return NO_RELEASE
        i = chosen(asked, value)
        drawn = value["score"] / asked.score_per_step
        choice = math.log(0.5 / behind) if i == 1 else math.log(0.5 / (1.0 - behind))
        return choice + laplace(drawn, low.sums[i], high.sums[i], noise_scale)

    noise_scale = noise.scale
    return Case(name, method, asked, low, high, seen, Pure(lambda weaker: weaker * epsilon), runs)


def trajectory_case(
    name: str,
    method: PrivateTrajectory,
    epsilon: float,
    *,
    runs: tuple[int, int],
    crossed: bool = False,
    person: bool = False,
    steps: int = 2,
    **wanted: Any,
) -> Case:
    """One person moves every observation by Δ: the whole trajectory and the fresh look are Gaussians √(2ρ) apart.

    Crossed, A goes up and B down, so that the final choice between them goes from the one to the other.
    """
    asked = world(m=4, epsilon=epsilon, steps=steps, person=person, **wanted)
    low, high = sums(asked, *(((0.5, 1.5), (1.5, 0.5)) if crossed else ((0.5, 0.5), (1.5, 1.5))))
    own = PrivateTrajectory(final_share=method.shares[0], look_share=method.shares[1])
    variances = [m.scale**2 for m in own.observations(asked)]
    look, selection = own.look(asked), own.selection(asked)
    look_variance = math.inf if look is None else look.scale**2

    def observed(i: int, drawn: float, variance: float) -> float:
        middle = (low.sums[i] + high.sums[i]) / 2.0
        return (drawn - middle) * (low.sums[i] - high.sums[i]) / variance

    def seen(value: Any, kept: Mapping[str, Any]) -> float:
        total, at = 0.0, chosen(asked, value)
        for step, variance in zip(value["trajectory"], variances, strict=True):
            total += observed(chosen(asked, step), step["score"] / asked.score_per_step, variance)
        if look is not None:
            total += observed(at, kept["score of the choice"]["draw"], look_variance)
        return total + (odds if at == 1 else -odds)

    mu = asked.record_steps * math.sqrt(sum(1.0 / v for v in variances) + 1.0 / look_variance)
    law: Gaussian | GaussianAndChoice = Gaussian(mu, asked.delta)
    odds = 0.0
    if selection is not None:
        law = GaussianAndChoice(mu, from_units(selection.epsilon_units), asked.delta)
        odds = law.log_odds()
    return Case(name, method, asked, low, high, seen, law, runs)


def margin_case(
    name: str, method: Lipschitz, epsilon: float, *, runs: tuple[int, int], person: bool = False
) -> Case:
    """Scores φ(±w) of a person's records, at models w = 1/λ on [9.99, 10]: R is reached, and the path is short."""
    candidates = grid(SearchSpace({"lambda": Real(9.99, 10.0)}), {"lambda": 2})
    told = replace(world(m=2 if person else 1, epsilon=epsilon, person=person), candidates=candidates)
    asked = replace(told, trainer=type(told.trainer)([point["lambda"] for point in candidates.points]))
    weights = np.array([1.0 / point["lambda"] for point in candidates.points])
    k, phi = asked.max_records_per_person, told.score.phi
    low, high = (Sums([k * int(np.rint(s * GRID)) for s in phi(sign * weights)]) for sign in (-1.0, 1.0))
    planned = replace(told, trainer=Steep())
    ((_, noise),) = method.draws(planned)
    ends, scale = (max(low.sums), max(high.sums)), noise.scale

    def seen(value: Any, kept: Mapping[str, Any]) -> float:
        return laplace(value["score"] / asked.score_per_step, *ends, scale)

    loss = (ends[1] - ends[0]) / scale
    return Case(name, method, asked, low, high, seen, Pure(lambda weaker: weaker * loss), runs, planned)


def last_case(name: str, method: ExactGP, epsilon: float, *, runs: tuple[int, int]) -> Case:
    """One record is all of V: every score, and so that which is released, goes from 0 to the range that caps Δ."""
    asked = world(m=1, epsilon=epsilon)
    low, high = sums(asked, (0.0, 0.0), (1.0, 1.0))
    ((_, noise),) = method.draws(asked)
    scale = noise.scale

    def seen(value: Any, kept: Mapping[str, Any]) -> float:
        return laplace(value["score"] / asked.score_per_step, 0.0, float(GRID), scale)

    return Case(name, method, asked, low, high, seen, Pure(lambda weaker: weaker * epsilon), runs)


def draws_case(name: str, method: Any, epsilon: float, *, runs: tuple[int, int]) -> Case:
    """One record is all of V: every score goes from 0 to its range, and every Laplace draw tells."""
    asked = world(m=1, epsilon=epsilon)
    low, high = sums(asked, (0.0, 0.0), (1.0, 1.0))
    scales = {spend.what: noise.scale for spend, noise in method.draws(asked)}

    def seen(value: Any, kept: Mapping[str, Any]) -> float:
        return sum(laplace(kept[what]["draw"], 0.0, float(GRID), scale) for what, scale in scales.items())

    return Case(name, method, asked, low, high, seen, Pure(lambda weaker: weaker * epsilon), runs)


CROWD = 12


def noisy_case(name: str, method: NoisyGP, epsilon: float, *, runs: tuple[int, int]) -> Case:
    """A goes from the top to the bottom; what else moves is which candidates the search looks at, and so believes.

    A is asked first. A crowd beside it, hardly correlated with it, is asked next if A was good (V) and never if A
    was bad (V′), when the search goes far away. Every other score is 0. So on V the crowd is known to be worthless
    and A is at the top; on V′ A is at the bottom, the crowd is where the prior thinks it is, near the top, and no
    score was seen above 0: the choice and the best score lose nearly all that the cap allows them, at once.
    """
    positions = [0.6, 0.0, *(0.6 + 0.262 + 1e-4 * i for i in range(CROWD))]
    made = world(m=1, epsilon=epsilon, n_candidates=len(positions), lengthscale=0.1)
    points = [{"lambda": 0.5 * 16.0**at} for at in positions]
    encoded = np.array([made.candidates.space.encode(point) for point in points])
    candidates = CandidateSet(made.candidates.space, tuple(points), encoded)
    asked = replace(made, candidates=candidates, trainer=type(made.trainer)([point["lambda"] for point in points]))
    rest = (0.0,) * (CROWD + 1)
    low, high = sums(asked, (1.0, *rest), (0.0, *rest))
    selection, noise = (mechanism for _, mechanism in method.draws(asked))
    scale, s = noise.scale, selection.scale

    @cache
    def insides() -> list[tuple[Any, Any]]:
        return [_inside(method, asked, side, 200) for side in (low, high)]

    def chances(weaker: float = 1.0) -> list[Any]:
        """Pr[choice | what is inside] of each, (200, N)."""
        weights = [np.exp((u - u.max(axis=1, keepdims=True)) * weaker / s) for u, _ in insides()]
        return [w / w.sum(axis=1, keepdims=True) for w in weights]

    @cache
    def told() -> tuple[Any, list[float]]:
        """ℓ of each choice, and where the best score lies on V and on V′."""
        return np.log(np.divide(*(p.mean(axis=0) for p in chances()))), [
            float(best.mean()) for _, best in insides()
        ]

    def seen(value: Any, kept: Mapping[str, Any]) -> float:
        choice, ends = told()
        return float(choice[chosen(asked, value)]) + laplace(
            value["score"] / asked.score_range * GRID, *ends, scale
        )

    def loss(weaker: float) -> float:
        """At A and a score above the range: E[Pr[A]·e^(best/b)] on V over the same on V′."""
        parts = [
            (p[:, 0] * np.exp((best - GRID) * weaker / scale)).mean()
            for p, (_, best) in zip(chances(weaker), insides(), strict=True)
        ]
        return math.log(parts[0] / parts[1])

    return Case(name, method, asked, low, high, seen, Pure(loss), runs)


def _inside(method: NoisyGP, asked: Problem, table: Sums, n: int) -> tuple[Any, Any]:
    """Utilities (n, N) and best scores (n,) of n runs, in steps, with imitated observation noise."""
    utilities, best = [], []
    for seed in range(n):
        noise = Noise(InjectedNoise(np.random.default_rng(seed)), Memory())
        search = method.start(asked, method.plan(asked))
        for _ in range(method.n_steps(asked)):
            search.step(table, noise)
        utilities.append(method.scale.to_steps(search._bo.posterior.mean))
        best.append(method.scale.to_steps(np.array([max(search._values.expose())]))[0])
    return np.array(utilities, dtype=float), np.array(best, dtype=float)
