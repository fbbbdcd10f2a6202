"""Adaptive private selection (Wang et al. 2023): for when the TRAINING set is sensitive too.

| symbol | name here | meaning | shape |
|---|---|---|---|
| M_λ | `Trial` | one trial: a model and its quality, private together | (x, q) |
| K | `law` | number of trials: random, hidden | integer |
| π_j, c, C | `Sampler`, `lower`, `upper` | density that trial j draws λ from, c ≤ π_j/π₀ ≤ C | (N,) |
| η | `shape` | shape of K's truncated negative binomial | scalar > −1 |
| E[K] | `search.steps` | expected trials | scalar > 1 |
| τ, β | `exploration`, `inverse_temperature` | π ∝ exp(β(μ + τσ)), projected | scalars |

All trials run inside ONE step: nothing that can be counted from outside depends on K. What leaves is the best
(model, hyperparameters, quality) alone.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from dpbo_core.bo.adaptive_sampling import GaussianProcessSampler, Sampler, UniformSampler
from dpbo_core.errors import MechanismRefused, StudyInvalid
from dpbo_core.gp.kernels import kernel_named
from dpbo_core.mechanisms.noise import Noise, NoiseSource
from dpbo_core.mechanisms.random_stopping import (
    NegativeBinomialStopping,
    PoissonStopping,
    Stopping,
    draw_index,
    integer_weights,
)
from dpbo_core.mechanisms.repeat_and_select import Procedure, RepeatAndSelect, selection_epsilon
from dpbo_core.methods.contract import Draws, Outlook, guarantee, make_release, too_small
from dpbo_core.objective import Scorable, Scorer
from dpbo_core.privacy.amounts import allowed_units, from_units, spent_units
from dpbo_core.privacy.assumption import PRIVATE_TRAINING_FUNCTION
from dpbo_core.privacy.guarantee import Evidence, Standing
from dpbo_core.privacy.plan import PrivacyPlan
from dpbo_core.privacy.release import Release
from dpbo_core.privacy.sensitive import Opaque, Sensitive
from dpbo_core.private_training.trial import (
    PUBLIC,
    PURE,
    Trial,
    check_base,
    check_every_point,
    family,
    largest,
    model_json,
)
from dpbo_core.problem import Problem

UNIFORM_EVIDENCE = Evidence(
    Standing.STANDARD, "Papernot and Steinke 2022, Theorem 2 (Liu and Talwar 2019): K hidden, every trial alike"
)
ADAPTIVE_EVIDENCE = Evidence(
    Standing.CORRECTED, "Wang et al. 2023, Theorems 1 and 2, with the two sides of the densities' bounds kept apart"
)
POISSON_EVIDENCE = Evidence(
    Standing.CORRECTED,
    "Papernot and Steinke 2022, Theorem 6, with the outcome of K = 0 counted and bounded densities",
)
TAIL_SHARE = 0.5  # of δ, where the duration is hidden
PRIOR_MEAN, PRIOR_SCALE = 0.5, 0.25  # of the quality, in units of its range
INSIDE = 1e-9  # the densities stay this much inside their bounds, for the rounding of their weights
WORST = -(2**60)  # below every quality: a trial that failed


@dataclass(frozen=True)
class DpHypo:
    """Framework 1 with Algorithm 2 (uniform) or 3 (Gaussian process).

    Attributes:
        base: "public_training" where the training set is public, else "noisy_gradient_descent", "dp_sgd",
            "output_perturbation", "objective_perturbation", or the import path of a training function.
        sampler: "uniform", or "gaussian_process", which pays for adaptivity.
        lower: c, for the Gaussian process.
        upper: C, for the Gaussian process.
        stopping: law of K, with the study's `steps` as its mean.
        shape: η.
        exploration: τ.
        inverse_temperature: β.
        kl_penalty: weight of the KL term in the projection; 0 is the ℓ₂ projection.
        score_share: share of a trial's cost that pays for its quality.
        batch_size: expected batch of dp_sgd.
        hide_duration: always run the most trials, and pay the tail beyond in δ.
    """

    base: str = PUBLIC
    sampler: Literal["uniform", "gaussian_process"] = "uniform"
    lower: float = 0.75
    upper: float = 2.0
    stopping: Literal["negative_binomial", "poisson"] = "negative_binomial"
    shape: float = 1.0
    exploration: float = 0.1
    inverse_temperature: float = 1.0
    kl_penalty: float = 0.0
    score_share: float = 0.25
    batch_size: int = 64
    hide_duration: bool = False
    kind: Literal["dp_hypo"] = "dp_hypo"

    def __post_init__(self) -> None:
        for name, fine, remedy in (
            ("lower", 0.0 < self.lower <= 1.0, "choose c in (0, 1]; 0.75 is the paper's"),
            ("upper", 1.0 <= self.upper < math.inf, "choose C of at least 1; 2 is the paper's"),
            ("shape", -1.0 < self.shape < 100.0, "choose η above −1: 1 is geometric, 0 logarithmic"),
            ("exploration", 0.0 <= self.exploration < math.inf, "choose τ of at least 0; 0.1 is the paper's"),
            ("inverse_temperature", 0.0 <= self.inverse_temperature < 1e6, "choose β of at least 0"),
            ("kl_penalty", 0.0 <= self.kl_penalty < 1e6, "choose a weight of at least 0"),
            ("score_share", 0.0 < self.score_share < 1.0, "choose a share between 0 and 1; 0.25 is usual"),
            ("batch_size", self.batch_size >= 1, "choose at least 1 record"),
        ):
            if not fine:
                raise StudyInvalid(f"method.{name} = {getattr(self, name)}", remedy=remedy)

    @property
    def pure(self) -> bool:
        """Pure trials, a negative binomial K, no capped tail."""
        return self.base in PURE and self.stopping == "negative_binomial" and not self.hide_duration

    @property
    def public_path(self) -> bool:
        """Which candidates are tried, and how many, is private."""
        return False

    def n_steps(self, problem: Problem) -> int:  # noqa: ARG002  K is inside
        """One: all trials are one step, so that nothing shows how many there were."""
        return 1

    def plan(self, problem: Problem) -> PrivacyPlan:
        """One spend for the whole.

        Raises:
            StudyInvalid: the base algorithm does not fit the study, or the budget does not even pay for adaptivity.
        """
        spends = tuple(spend for spend, _ in self.draws(problem))
        adaptive = self.sampler == "gaussian_process"
        evidence = ADAPTIVE_EVIDENCE if adaptive else UNIFORM_EVIDENCE
        return PrivacyPlan(
            guarantee(
                problem,
                pure=self.pure,
                evidence=POISSON_EVIDENCE if self.stopping == "poisson" else evidence,
                trains_privately=self.base != PUBLIC,
                assumptions=(PRIVATE_TRAINING_FUNCTION.name,) if "." in self.base else (),
            ),
            spends,
        )

    def draws(self, problem: Problem) -> Draws:
        """The one draw of the plan, which is the whole search."""
        _, mechanism = self._calibrated(problem)
        return ((mechanism.spend("best trial"), mechanism),)

    def outlook(self, problem: Problem) -> Outlook:
        """The quality's noise at the best of K, and the share of Λ that E[K] trials leave unseen."""
        trial, _ = self._calibrated(problem)
        scale, mean = trial.score_scale * problem.score_per_step, float(problem.search.steps)
        # the best of K noisy qualities is too good by about b(1 + log K); a random K sees the top 1/(K+1)
        error = scale * (1.0 + math.log(mean)) + problem.score_range / (mean + 1.0)
        return Outlook(scale, min(problem.score_range, error), problem.search.steps, self._why(problem, trial))

    def start(self, problem: Problem, plan: PrivacyPlan) -> "HypoSearch":
        """A search with nothing tried."""
        return HypoSearch(self, problem, plan, *self._calibrated(problem))

    @property
    def bounds(self) -> tuple[float, float]:
        """C and c as they are paid for: 1 and 1 where nothing adapts."""
        return (self.lower, self.upper) if self.sampler == "gaussian_process" else (1.0, 1.0)

    def law(self, problem: Problem) -> Stopping:
        """The law of K.

        Raises:
            StudyInvalid: no such law has the study's `steps` as its mean.
        """
        mean = float(problem.search.steps)
        try:
            return (
                PoissonStopping(mean) if self.stopping == "poisson" else NegativeBinomialStopping(self.shape, mean)
            )
        except ValueError:
            pass
        raise StudyInvalid(
            f"search.steps = {problem.search.steps} with method.shape = {self.shape:g}",
            cause="the number of trials is random; steps is its mean, above 1 and not beyond what the shape allows",
            remedy="ask for at least 2 steps, and a shape of 0 or 1",
        )

    def _calibrated(
        self, problem: Problem, bounds: tuple[float, float] | None = None
    ) -> tuple[Trial, RepeatAndSelect]:
        """The dearest trial whose selection stays within the study's (ε, δ)."""
        check_base(self.base, problem)
        law, (lower, upper) = self.law(problem), bounds or self.bounds
        epsilon_units = allowed_units(problem.epsilon)
        delta_units = 0 if self.pure else allowed_units(problem.delta)
        if not self.pure and delta_units == 0:
            raise StudyInvalid(
                f"dp_hypo with {self.base} needs delta above 0",
                cause="Gaussian noise, a Poisson number of trials and a hidden duration have no pure ε",
                remedy="set delta = 1e-6 in [privacy], or use output_perturbation with a negative binomial",
            )
        if self.hide_duration and problem.training is None:
            raise StudyInvalid(
                "hide_duration needs δ, and a cap on validation records keeps none for it",
                cause="the longest runs are paid for in δ, and only promises about training records may spend it",
                remedy="leave hide_duration out; the threat model says who can see the duration",
            )
        cap = None
        delta = from_units(delta_units)
        if self.hide_duration:
            cap = _cap(law, problem.epsilon, TAIL_SHARE * delta)
            delta *= 1.0 - TAIL_SHARE
        make = family(self.base, problem, score_share=self.score_share, batch_size=self.batch_size)
        cost = _largest_cost(_Key(self, law, lower, upper, from_units(epsilon_units), delta), _Made(problem, make))
        if cost is None:
            raise self._too_dear(problem, lower, upper)
        trial = make(cost)
        check_every_point(trial, problem)
        if problem.training is not None and trial.training is not None:
            assert trial.training.relation is problem.relation  # noqa: S101  every base is replace-one in a study
        mechanism = RepeatAndSelect(
            law,
            lower,
            upper,
            trial.curve,
            epsilon_units,
            delta_units,
            cap,
            sensitivity=problem.record_steps * problem.score_per_step,
            noise_scale=trial.score_scale * problem.score_per_step,
        )
        return trial, mechanism

    def _too_dear(self, problem: Problem, lower: float, upper: float) -> StudyInvalid:
        if upper == lower:
            return too_small(problem)
        least = (2.0 + self.shape) * math.log(upper / lower)
        return StudyInvalid(
            f"ε = {problem.epsilon:g} does not pay for densities between {lower:g} and {upper:g} of the prior",
            cause=f"adaptivity alone costs about (2 + η) log(C/c) = {least:.3g}",
            remedy='use sampler = "uniform", bring upper and lower closer to 1, or raise epsilon',
        )

    def _why(self, problem: Problem, trial: Trial) -> str:
        law, mean = self.law(problem), problem.search.steps
        said = f"the best of a hidden random number of trials, {mean} on average; {_cost_of(trial)} a trial"
        try:
            other, _ = self._calibrated(
                problem, (1.0, 1.0) if self.bounds != (1.0, 1.0) else (self.lower, self.upper)
            )
            compared = _cost_of(other)
        except StudyInvalid:
            compared = "nothing left"
        wide = f"c = {self.lower:g}, C = {self.upper:g}"
        if self.bounds == (1.0, 1.0):
            said += f" (with adaptive densities, {wide}, {compared})"
        else:
            said += f" with {wide} (uniform: {compared})"
            if isinstance(law, NegativeBinomialStopping):
                published = selection_epsilon(
                    law,
                    trial.curve,
                    lower=self.lower,
                    upper=self.upper,
                    delta=0.0 if self.pure else problem.delta,
                    calibration="published",
                )
                said += f"; as published the same trials would cost ε = {published:.3g}"
        return said


def _cost_of(trial: Trial) -> str:
    curve = trial.curve
    if curve.pure:
        return f"ε = {curve.epsilon:.3g}"
    return f"ρ = {curve.rho:.3g}" if not curve.table else f"a Rényi cost of {curve.at(2.0):.3g} at order 2"


def _cap(law: Stopping, epsilon: float, delta: float) -> int:
    """K_max: the fewest trials whose tail costs at most δ.

    Raises:
        StudyInvalid: it would be millions.
    """
    try:
        return law.cap(delta / (1.0 + math.exp(min(epsilon, 700.0))) * (1.0 - 1e-12))
    except ValueError:
        pass
    raise StudyInvalid(
        "hide_duration would run millions of trials",
        cause="δ is tiny against e^ε, or the mean is large",
        remedy="lower epsilon or steps, or leave hide_duration out",
    )


@dataclass(frozen=True)
class _Key:
    """What the calibration depends on besides the problem."""

    method: DpHypo
    law: Stopping
    lower: float
    upper: float
    epsilon: float
    delta: float


class _Made:
    """A family of trials, equal to another where the problems are: a key for the cache below."""

    def __init__(self, problem: Problem, make: Any) -> None:
        self.make = make
        axes = sorted({float(point.get("epochs", 0.0)) for point in problem.candidates.points})
        self._key = (
            problem.training,
            problem.n_validation,
            problem.record_steps,
            problem.model.estimator,
            tuple(axes),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Made) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@lru_cache(maxsize=64)  # a study is planned several times, and each calibration takes a good part of a second
def _largest_cost(key: _Key, made: _Made) -> float | None:
    def affordable(cost: float) -> bool:
        price = selection_epsilon(key.law, made.make(cost).curve, lower=key.lower, upper=key.upper, delta=key.delta)
        return math.isfinite(price) and spent_units(price) <= allowed_units(key.epsilon)

    return largest(affordable)


class HypoSearch(Opaque):
    """The trials under way. They run in memory; the best one is recorded, and the others are forgotten."""

    __slots__ = ("_mechanism", "_method", "_plan", "_problem", "_trial")

    def __init__(
        self, method: DpHypo, problem: Problem, plan: PrivacyPlan, trial: Trial, mechanism: RepeatAndSelect
    ) -> None:
        self._method, self._problem, self._plan = method, problem, plan
        self._trial, self._mechanism = trial, mechanism

    def step(self, objective: Scorer, noise: Noise) -> None:
        """Every trial; nothing is shown before the best one is recorded."""
        procedure = Sensitive(lambda source: self._select(objective, source))
        noise.rehearse(self._plan.spends[0], self._mechanism, procedure)

    def finish(self, noise: Noise) -> Release:
        """Record the best trial, and state it."""
        never: Sensitive[Procedure] = Sensitive(_not_rehearsed)
        done = noise.release(self._plan.spends[0], self._mechanism, never)["draw"]
        value = {
            "hyperparameters": dict(self._problem.candidates.points[done["candidate"]]),
            "score": done["quality"] * self._problem.score_per_step,
            "model": done["model"],
        }
        return make_release(self._method, self._problem, self._plan, noise, value)

    def _select(self, objective: Scorer, source: NoiseSource) -> dict[str, Any]:
        """Framework 1: K trials, the best one."""
        sampler = self._sampler()
        K = self._mechanism.stopping.draw(source)  # Framework 1, line 3
        runs = K if self._mechanism.cap is None else self._mechanism.cap
        best, model, ties = (WORST, 0), None, 0
        for j in range(runs):  # line 4
            i = self._draw_candidate(sampler, source)
            quality, trained = self._try(i, objective, source)  # line 5
            self._tell(sampler, i, quality)  # line 7
            if j >= K:
                continue  # run for its duration alone
            if quality > best[0]:
                best, model, ties = (quality, i), trained, 1
            elif quality == best[0]:
                ties += 1
                if draw_index([ties - 1, 1], source) == 1:  # each of the equal best alike
                    best, model = (quality, i), trained
        if best[0] == WORST:  # no trial, or none that worked: a fixed default
            return {"candidate": 0, "quality": 0, "model": None}
        return {"candidate": best[1], "quality": best[0], "model": model_json(model, self._problem)}  # line 8

    def _try(self, index: int, objective: Scorer, source: NoiseSource) -> tuple[int, Scorable | None]:
        """(x, q) ~ M_λ; a failing trial is the worst, and counts."""
        try:
            model: Scorable
            if self._trial.training is None:
                model = self._problem.train(index)
            else:
                records = objective.training
                if records is None:
                    raise ValueError("the objective has no training records")
                model = self._trial.training.train(records.expose(), self._problem.candidates.points[index], source)
            score = self._trial.score
            return score.prepare(score.spend("quality"), source)(objective.evaluate(model)), model
        except MechanismRefused:
            raise  # a wrong calibration, whatever the records
        except Exception:  # noqa: BLE001  an error that depends on a record must not be seen
            return WORST, None

    def _sampler(self) -> Sampler:
        problem, method = self._problem, self._method
        N, G = len(problem.candidates), problem.score_range
        prior = np.full(N, 1.0 / N)
        lower, upper = method.bounds
        if lower == upper:
            return UniformSampler(prior)
        search = problem.search
        lengthscale = 0.3 if isinstance(search.lengthscale, str) else search.lengthscale
        deviation = min(1.0, self._trial.score_scale * problem.score_per_step / G) * G
        return GaussianProcessSampler(
            problem.candidates.encoded,
            kernel_named(search.kernel, lengthscale, (PRIOR_SCALE * G) ** 2),
            noise_variance=max(deviation**2, 1e-8 * G * G),
            prior_mean=PRIOR_MEAN * G,
            prior=prior,
            lower=min(1.0, lower * (1.0 + INSIDE)),
            upper=max(1.0, upper * (1.0 - INSIDE)),
            exploration=method.exploration,
            inverse_temperature=method.inverse_temperature,
            penalty=method.kl_penalty,
        )

    def _draw_candidate(self, sampler: Sampler, source: NoiseSource) -> int:
        """Exactly uniform, or by integer weights whose ratio to the prior was checked against c and C."""
        N, (lower, upper) = len(self._problem.candidates), self._method.bounds
        if isinstance(sampler, UniformSampler):
            return draw_index([1] * N, source)
        weights = integer_weights(sampler.density().tolist())
        ratios = _ratios(weights)
        if not all(lower <= ratio <= upper for ratio in ratios):
            raise MechanismRefused(
                "the noise door refused to draw", cause="a density left the bounds it was paid for"
            )
        return draw_index(weights, source)

    def _tell(self, sampler: Sampler, index: int, quality: int) -> None:
        sampler.tell(index, min(max(quality * self._problem.score_per_step, 0.0), self._problem.score_range))


def _ratios(weights: list[int]) -> Iterator[float]:
    total, N = sum(weights), len(weights)
    return (weight * N / total for weight in weights)


def _not_rehearsed(source: NoiseSource) -> Any:
    del source
    raise ValueError("the trials were not run")
