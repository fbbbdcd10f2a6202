"""Framework 1 of Wang et al. (2023) as it runs: the trials of `dp_hypo`.

| symbol | name here | meaning | shape |
|---|---|---|---|
| K | — | number of trials, drawn here and never stored | integer |
| π_j | `sampler.density()` | density that trial j draws λ from | (N,) |
| x, q | `trained`, `quality` | a trial's model, and its private quality in integer steps | — |
| (ε, δ) | `epsilon`, `delta` | of the whole; δ without what a hidden duration pays | scalars |
| c, C | `lower`, `upper` | bounds on the densities | scalars |

Appendix D of Wang et al. (2023): a prior law π₀ over Λ other than the uniform one, from what a study says.

| symbol | name here | meaning | shape |
|---|---|---|---|
| π₀ | result | probabilities, each positive | (N,) |
| μ | — | posterior mean on a public study's scores, standardised over Λ | (N,) |

Two forms: a weight for every candidate in Λ's order, which is the study's word as Λ is; or what a public study
found, a table of hyperparameters and `score` each, to which a Gaussian process is fitted: π₀ = (1 − w)·softmax(βμ)
+ w/N, so that every candidate can still be chosen. A guarantee holds for every π₀ that is fixed whatever the
records are: of the protected records' own scores, tried beforehand, it would not. Nothing in a table says whose
scores they are, so the study says it (`public_prior`).
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpbo.features.private_training.base import Trial, TrialFacts, largest, model_json, within
from dpbo.features.private_training.union import base_named
from dpbo_core.errors import StudyInvalid
from dpbo_core.mechanisms.noise import Noise, NoiseSource
from dpbo_core.mechanisms.random_stopping import (
    NegativeBinomialStopping,
    OneTrial,
    PoissonStopping,
    Stopping,
    bounded_weights,
    draw_index,
    prior_weights,
)
from dpbo_core.mechanisms.repeat_and_select import Procedure, RepeatAndSelect, selection_epsilon, trial_epsilon
from dpbo_core.methods.contract import Method, make_release
from dpbo_core.methods.problem import Problem
from dpbo_core.models.scoring.in_memory import ScorableModel, Scorer
from dpbo_core.models.scoring.persons import absent_steps
from dpbo_core.privacy.guarantee import DISJOINT_PEOPLE, PUBLIC_PRIOR
from dpbo_core.privacy.release import PrivacyPlan, Release
from dpbo_core.privacy.sensitive import Opaque, Sensitive, attempted
from dpbo_core.search.adaptive_sampling import Sampler
from dpbo_core.search.gp import Posterior, kernel_named
from dpbo_core.search.likelihood import fit
from dpbo_core.theorems.trial_counts import TrialCount
from dpbo_core.theorems.wang_2023 import Calibration

Law = Literal["negative_binomial", "poisson", "one"]


def law_of(name: Law, shape: float, mean: int) -> Stopping:
    """The law of the number of trials K of this η and mean ("one": always 1); refused if it cannot be drawn."""
    if name == "one":
        return OneTrial()
    law = _law(name, shape, mean)
    if law is None:
        raise StudyInvalid(
            f"search.steps = {mean} with method.shape = {shape:g}",
            cause="steps is the mean of a random number, above 1 and not beyond what the shape allows",
            remedy='ask for at least 2 steps, and a shape of 0 or 1; or for one training: stopping = "one"',
        )
    if not law.drawable:
        raise _too_long(name, shape, mean)
    return law


def _law(name: Law, shape: float, mean: int) -> Stopping | None:
    try:
        return PoissonStopping(float(mean)) if name == "poisson" else NegativeBinomialStopping(shape, float(mean))
    except ValueError:
        return None


def _too_long(name: Law, shape: float, mean: int) -> StudyInvalid:
    """Return the error for a number of trials K that is too often huge, with a mean or shape that would do."""

    def drawable(eta: float, steps: int) -> bool:
        law = _law(name, eta, steps)
        return law is not None and law.drawable

    most = bisect_left(range(2, mean), x=True, key=lambda steps: not drawable(shape, steps)) + 1
    hundredths = range(math.ceil(100.0 * shape), 1001)
    least = bisect_left(hundredths, x=True, key=lambda eta: drawable(eta / 100.0, mean))
    ways = [f"at most {most:,} steps at shape = {shape:g}"] if most >= 2 else []
    if least < len(hundredths):
        ways.append(f"a shape of {hundredths[least] / 100.0:g} or more at {mean:,} steps")
    return StudyInvalid(
        f"search.steps = {mean} with method.shape = {shape:g} runs more than ten million trials too often",
        cause="the chance of that is above 2^-100, and such a number of trials cannot be run",
        remedy="ask for " + ", or ".join(ways or ["fewer steps and a shape of 1"]),
    )


SCORE = "score"
SHARPNESS, FLOOR = 2.0, 0.2  # β and w
MAX_WEIGHT_RATIO = 1e6  # largest ratio of two weights: beyond it a candidate may as well be left out of [space]
NOISE_VARIANCE = 1e-2  # of a public study's standardised score


def informed(prior: Sequence[Any], problem: Problem) -> NDArray[np.float64]:
    """Return the prior π₀ that a study states, (N,), refused if unusable; the uniform one where it states none."""
    if not prior:
        return np.full(len(problem.candidates), 1.0 / len(problem.candidates))
    if all(isinstance(one, Mapping) for one in prior):
        return _of_public_study(prior, problem)
    numbers = all(type(one) in (int, float) and 0.0 < one < np.inf for one in prior)
    if not numbers or len(prior) != len(problem.candidates) or max(prior) > MAX_WEIGHT_RATIO * min(prior):
        raise StudyInvalid(
            f"method.prior has {len(prior)} entries, and there are {len(problem.candidates)} candidates",
            cause=f"a weight for each, in their order, is positive and at most {MAX_WEIGHT_RATIO:g} times another",
            remedy="give so many numbers, or a public study's tables of hyperparameters and score",
        )
    positive = np.array(prior, dtype=np.float64)
    return np.asarray(positive / positive.sum())


def assumed_of(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return names of the assumptions that [method] options rest on: a prior made of scores, disjoint people."""
    informed = any(isinstance(one, Mapping) for one in options.get("prior", ()))
    return (PUBLIC_PRIOR.name,) * informed + (DISJOINT_PEOPLE.name,) * (options.get("people") == "disjoint")


def _of_public_study(tables: Sequence[Mapping[str, Any]], problem: Problem) -> NDArray[np.float64]:
    """Return the prior π₀ (N,) that a Gaussian process makes of a public study's scores."""
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
    posterior = Posterior(np.vstack([problem.candidates.encoded, X]), kernel, NOISE_VARIANCE, fitted.mean, len(y))
    N = len(problem.candidates)
    for place, value in enumerate(standard, start=N):
        posterior.observe(place, float(value))
    mean = posterior.mean[:N]
    z = (mean - mean.mean()) / (float(mean.std()) or 1.0)
    weights = np.exp(SHARPNESS * (z - z.max()))
    return np.asarray((1.0 - FLOOR) * weights / weights.sum() + FLOOR / N)


def _place(point: Mapping[str, Any], problem: Problem) -> NDArray[np.float64] | None:
    if set(point) != set(problem.candidates.space.axes):
        return None
    try:
        encoded = problem.candidates.space.encode(point)
    except (TypeError, ValueError, KeyError):
        return None
    return encoded if np.isfinite(encoded).all() else None


WORST_SCORE = -(2**60)  # below every quality: a trial that failed


class HypoSearch(Opaque):
    """The trials of one running study: they run in memory; the best is recorded, and the others are forgotten."""

    __slots__ = ("_make_sampler", "_mechanism", "_method", "_only", "_plan", "_prior", "_problem", "_trial")

    def __init__(
        self,
        method: Method,
        problem: Problem,
        plan: PrivacyPlan,
        *,
        calibrated: tuple[Trial, RepeatAndSelect],
        prior: NDArray[np.float64],
        sampler: Callable[[], Sampler],
        only: int | None,
    ) -> None:
        """Begin a search; `sampler` makes the first density, and `only` is the candidate of a single training."""
        self._method, self._problem, self._plan = method, problem, plan
        self._trial, self._mechanism = calibrated
        self._prior, self._make_sampler, self._only = prior_weights(prior.tolist()), sampler, only

    def step(self, objective: Scorer, noise: Noise) -> None:
        """Run every trial, and show nothing; the best one is recorded by `finish`."""
        procedure = Sensitive(lambda source: self._select(objective, source))
        noise.rehearse(self._plan.spends[0], self._mechanism, procedure)

    def finish(self, noise: Noise) -> Release:
        """Record the best trial, found in `step`, and return its release."""
        never: Sensitive[Procedure] = Sensitive(_not_rehearsed)
        done = noise.release(self._plan.spends[0], self._mechanism, never)["draw"]
        value = {
            "hyperparameters": dict(self._problem.candidates.points[done["candidate"]]),
            "score": done["quality"] * self._problem.score_per_step,
        }
        if done["model"] is not None or self._problem.training is not None:
            value["model"] = done["model"]  # left out, the public set trains it at what was released
        return make_release(self._method, self._problem, self._plan, noise, value)

    def _select(self, objective: Scorer, source: NoiseSource) -> dict[str, Any]:
        """Run a drawn number K of trials: candidate, noised quality in steps, model of the best, ties at random."""
        sampler = self._make_sampler()  # Framework 1, line 1: nothing was tried, it knows nothing of any record
        K = self._mechanism.stopping.draw(source)  # Framework 1, line 3
        runs = K if self._mechanism.cap is None else self._mechanism.cap
        best, model, ties = (WORST_SCORE, 0), None, 0  # line 2: of the result set, the best alone
        for j in range(runs):  # line 4
            i = self._draw_candidate(sampler, source)
            quality, trained = self._try(i, objective, source)  # line 5
            share = min(max(quality / self._problem.range_steps, 0.0), 1.0)  # of the range of qualities
            attempted(partial(sampler.tell, i, share), None)  # line 7
            if j >= K:
                continue  # run for its duration alone
            if quality > best[0]:  # line 6
                best, model, ties = (quality, i), trained, 1
            elif quality == best[0]:
                ties += 1
                if draw_index([ties - 1, 1], source) == 1:  # each of the equal best alike
                    best, model = (quality, i), trained
        if best[0] == WORST_SCORE:  # no trial, or none that worked: a fixed default
            return {"candidate": 0, "quality": 0, "model": None}
        return {"candidate": best[1], "quality": best[0], "model": model_json(model, self._problem)}  # line 8

    def _try(self, index: int, objective: Scorer, source: NoiseSource) -> tuple[int, ScorableModel | None]:
        """Return the noised score of one trial, in integer steps, and its model.

        A trial that fails gets the worst score and no model and still counts, because a failure may depend on a
        record.
        """

        def trial() -> tuple[int, ScorableModel | None]:
            with np.errstate(all="ignore"):  # a warning that depends on a record must not be seen either
                training, score = self._trial.training, self._trial.score
                if training is None:
                    model: ScorableModel = self._problem.train(index)
                elif objective.training is None:
                    raise ValueError("the objective has no training records")
                else:
                    records = objective.training.expose()
                    model = training.train(records, self._problem.candidates.points[index], source)
                noised = score.prepare(score.spend("quality"), source)(objective.evaluate(model))
                return noised - self._uncounted_steps, model

        return attempted(trial, (WORST_SCORE, None))  # an error that depends on a record must not be seen

    @property
    def _uncounted_steps(self) -> int:
        """The PUBLIC sum of what records score that count for nobody, where one of each person counts."""
        problem = self._problem
        if problem.training is None or not problem.training.scored:
            return 0
        return (problem.training.n_records - problem.n_averaged) * absent_steps(problem.score)

    def _draw_candidate(self, sampler: Sampler, source: NoiseSource) -> int:
        """Return the index of a trial's candidate, drawn exactly by the prior or by the sampler's integer weights.

        If the sampler's density cannot be computed, the prior is used: every density within the bounds is equally
        private.
        """
        if self._only is not None:
            return self._only
        if 1.0 in (self._mechanism.lower, self._mechanism.upper):  # the prior is the only density in the box
            return draw_index(self._prior, source)
        whole = sum(self._prior)
        density = attempted(lambda: sampler.density().tolist(), [weight / whole for weight in self._prior])
        return draw_index(
            bounded_weights(density, lower=self._mechanism.lower, upper=self._mechanism.upper, prior=self._prior),
            source,
        )


def _not_rehearsed(source: NoiseSource) -> Any:
    del source
    raise ValueError("the trials were not run")


@dataclass(frozen=True)
class Terms:
    """The price and the kind of a selection: (ε, δ), the law of K, the base algorithm, the densities' bounds."""

    base: str
    law: TrialCount
    lower: float
    upper: float
    epsilon: float
    delta: float
    score_share: float
    batch_size: int
    calibration: Calibration = "corrected"
    base_epsilon: float | None = None


def calibrate(problem: Problem, terms: Terms) -> Trial | None:
    """Return the trial that costs most, so is noised least, within the terms' budget; None if none fits."""
    base = base_named(terms.base)
    facts = base.facts(problem, score_share=terms.score_share, batch_size=terms.batch_size)
    cost = _largest_trial_cost(terms, facts)
    return None if cost is None else base.trial(cost, facts)


@lru_cache(maxsize=64)  # a study is planned several times, and a calibration may take a good part of a second
def _largest_trial_cost(terms: Terms, facts: TrialFacts) -> float | None:
    base = base_named(terms.base)

    def price(cost: float) -> float:
        return selection_epsilon(
            terms.law,
            base.trial(cost, facts).costs,
            lower=terms.lower,
            upper=terms.upper,
            delta=terms.delta,
            calibration=terms.calibration,
        )

    if terms.base_epsilon is None:
        return largest(price, terms.epsilon)
    fixed = largest(lambda cost: trial_epsilon(base.trial(cost, facts).costs, terms.delta), terms.base_epsilon)
    return fixed if fixed is not None and within(price(fixed), terms.epsilon) else None
