"""What a search with a trainer supplied by the user costs, and the noise of its trainings.

| symbol | name here | meaning | shape |
|---|---|---|---|
| E[K], n | `trials`, `run` | expected trials that count, before the cap; trainings that always run | scalars |
| min(K, n) | `count` | trials that count: hidden, a truncated negative binomial law, capped | law |
| L | `level` | ε at the study's δ of one training alone, the same for every candidate | scalar |
| q | `score` | noise on the exact sum of the records' scores | mechanism |
| (ε, δ) | `epsilon`, `delta` | of the whole search | scalars |

Each candidate's noise is solved for the level L, and the mean of their profiles is priced. A person may have a
record in both sets, so a training's profile and its score's are composed. Of disjoint people each is priced alone,
and the larger counts. A score of public records is a function of the model alone: it is exact and costs nothing.
Trainings are priced as they were solved: an inexact solution costs accuracy, not privacy.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

from dpbo.features.private_training.trial_families import Declared, Family, PureDp
from dpbo_core.errors import StudyInvalid
from dpbo_core.mechanisms.drawing import check_cost, check_price
from dpbo_core.mechanisms.gaussian import DiscreteGaussian
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.mechanisms.noise import NoiseSource
from dpbo_core.mechanisms.random_stopping import NegativeBinomialStopping
from dpbo_core.mechanisms.repeat_and_select import Procedure, RepeatAndSelect
from dpbo_core.models.integer_sums import GRID
from dpbo_core.privacy.amounts import UNITS_PER_ONE, allowed_units, from_units, spent_units
from dpbo_core.privacy.certified import CertificateRules, one_record_moves
from dpbo_core.privacy.guarantee import (
    DECLARED_COST,
    DISJOINT_PEOPLE,
    PUBLIC_VALIDATION,
    NeighboringRelation,
    PrivacyUnit,
)
from dpbo_core.privacy.release import Release, Spend
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.theorems.loss_profile import LossProfile
from dpbo_core.theorems.selection_price import SMALLEST_DELTA, pure_selection_epsilon, selection_epsilon
from dpbo_core.theorems.trial_counts import CappedCount, Fixed, TrialCount, TruncatedNegativeBinomial

PURE_SHAPE, SHAPE = 1.0, 2.0  # η of a pure base, and of all others
SCORE_SHARE = 0.25  # of a training's level (of a pure trial: of its ε), for a score that is composed with it
RELATIVE_PRECISION = 2e-3  # of what is solved for
SMALLEST_LEVEL = 1e-4
MAX_GRID = 64  # candidates of a grid whose ε a plan works out


@dataclass(frozen=True)
class TrialTerms:
    """What the owner states of a search: its price, its law, its candidates and what one training costs."""

    family: Family  # the declared cost of one training
    points: tuple[Mapping[str, Any], ...]  # the candidates, each as likely as the others in every trial
    n_training: int  # public number of training records
    n_validation: int  # public number of records that each model is scored on
    neighbours: str  # "add_or_remove", "replace_one" or "zero_out"
    epsilon: float
    delta: float
    trials: float  # E[K], before the cap
    run: int  # n
    disjoint: bool  # whether no person has records in both sets
    public_validation: bool = False  # whether the validation records are public, so that scores are exact

    @property
    def pure(self) -> bool:
        """Whether every trial is pure ε-DP, so that the search is too."""
        declared = isinstance(self.family, Declared) and self.family.delta == 0.0 and self.delta == 0.0
        return isinstance(self.family, PureDp) or declared

    @property
    def shape(self) -> float:
        """Return η of the law of K."""
        return PURE_SHAPE if self.pure else SHAPE

    @property
    def count(self) -> TrialCount:
        """Return the law of the number of trials that count, min(K, n)."""
        return (
            Fixed(1) if self.run == 1 else CappedCount(TruncatedNegativeBinomial(self.shape, self.trials), self.run)
        )

    @property
    def keys(self) -> tuple[Hashable, ...]:
        """Return what each candidate's cost depends on beside its noise."""
        return tuple(self.family.key(point, self.n_training) for point in self.points)

    def draw_count(self, source: NoiseSource) -> int:
        """Return a drawn number of trials that count."""
        if self.run == 1:
            return 1
        return min(NegativeBinomialStopping(self.shape, self.trials).draw(source), self.run)

    def price_of(self, profile: LossProfile) -> float:
        """Return ε at the search's δ of the best of trials that each have this profile."""
        return selection_epsilon(profile, self.count, self.delta)


@dataclass(frozen=True, eq=False)
class TrialPrice:
    """The solved noise of a search, and its price."""

    terms: TrialTerms  # as stated
    noises: tuple[float, ...]  # the noise of each candidate's training
    score: DiscreteLaplace | DiscreteGaussian | None  # the mechanism of a trial's score; None if it is exact
    level: float  # L, or ε of one training of a pure family
    epsilon: float  # ε of the whole, rounded up, at most the terms' ε

    @classmethod
    def of(cls, terms: TrialTerms) -> "TrialPrice":
        """Solve the noise of a search's trainings."""
        if terms.pure:
            return _pure_price(terms)
        if terms.delta < SMALLEST_DELTA:
            raise StudyInvalid(
                f"delta = {terms.delta:g} for a training that is not pure",
                cause="only PureDp, or Declared with delta = 0, has a price without δ",
                remedy=f"set delta to at least {SMALLEST_DELTA:g}, far below 1/(number of records)",
            )
        return _Solver(terms).price()

    @property
    def score_unit(self) -> float:
        """The mean score that one step of a record's score is worth."""
        return 1.0 / (GRID * self.terms.n_validation)

    @property
    def score_noise(self) -> float:
        """The scale of the noise on a mean score in [0, 1]; 0 if it is exact."""
        return 0.0 if self.score is None else self.score.scale * self.score_unit

    @cached_property
    def grid_epsilon(self) -> float | None:
        """Return the ε of training every candidate at this search's ε each; None if that is not worked out.

        It leaves out the scores by which one of them is then chosen.
        """
        terms = self.terms
        if terms.pure:
            return terms.epsilon * len(terms.points)
        if isinstance(terms.family, Declared) or len(terms.points) > MAX_GRID:
            return None
        solver, total = _Solver(terms), LossProfile.of_epsilon_delta(0.0)
        for key, count in solver.weights.items():
            noise, _ = solver.solved(key, terms.epsilon)
            point = solver.points[key]
            total = total.compose(
                terms.family.profile(noise, point, terms.n_training, terms.neighbours, times=count)
            )
        return total.epsilon(terms.delta)


def _score(units: int, n_validation: int, *, pure: bool) -> DiscreteLaplace | DiscreteGaussian:
    """Return the mechanism of a mean of m scores in [0, 1], of which one record moves the sum by at most 1."""
    kind = DiscreteLaplace if pure else DiscreteGaussian
    return kind(GRID, max(1, units), 1.0 / (GRID * n_validation))


def _pure_price(terms: TrialTerms) -> TrialPrice:
    declared = None if isinstance(terms.family, PureDp) else max(map(_number, terms.keys))
    total = partial(pure_selection_epsilon, trials=terms.count)
    most = _largest(lambda trial: total(trial), terms.epsilon, start=terms.epsilon / 3.0)
    if most is None or (declared is not None and most <= declared):
        raise _too_dear(terms)
    if terms.public_validation:
        training = declared or most * (1.0 - 1e-12)
        return TrialPrice(terms, (1.0 / training,) * len(terms.points), None, training, total(training))
    of_score = most if terms.disjoint else SCORE_SHARE * most if declared is None else most - declared
    score = _score(allowed_units(of_score), terms.n_validation, pure=True)
    spent = from_units(score.epsilon_units)  # type: ignore[union-attr]
    training = declared or (most if terms.disjoint else most - spent) * (1.0 - 1e-12)
    trial = max(training, spent) if terms.disjoint else training + spent
    return TrialPrice(terms, (1.0 / training,) * len(terms.points), score, training, total(trial * (1.0 + 1e-12)))


def _number(key: Hashable) -> float:
    return float(key) if isinstance(key, float) else math.inf


class _Solver:
    """Finds the noise of approximate-DP trials, and caches each evaluated profile for the levels tried later."""

    def __init__(self, terms: TrialTerms) -> None:
        self.terms, self.weights = terms, Counter(terms.keys)
        self.points = dict(zip(terms.keys, terms.points, strict=True))
        self.tried: dict[Hashable, dict[float, tuple[float, LossProfile]]] = {key: {} for key in self.weights}

    def price(self) -> TrialPrice:
        """Return the noise at the largest level that the search's ε pays for."""
        terms = self.terms
        alone = terms.epsilon if terms.public_validation else None
        if terms.disjoint and not terms.public_validation:
            # the score has a level of its own, whatever the trainings cost
            alone = _largest(
                lambda level: terms.price_of(self._score_profile(level)), terms.epsilon, terms.epsilon / 2.0
            )
            if alone is None:
                raise _too_dear(terms)

        def total(level: float) -> float:
            training = self._mean(level)
            if terms.disjoint or terms.public_validation:
                return terms.price_of(training)
            return terms.price_of(training.compose(self._score_profile(level)))

        if alone is not None and isinstance(terms.family, Declared):  # what it costs is no matter of the level
            level = alone if total(alone) <= terms.epsilon else None
        else:
            level = _largest(total, terms.epsilon, terms.epsilon / 2.0)
        if level is None:
            raise _too_dear(terms)
        while (price := total(level)) > terms.epsilon:  # another noise of this level may be nearer to it by now
            level *= 1.0 - RELATIVE_PRECISION
        noises = tuple(self.solved(key, level)[0] for key in terms.keys)
        if terms.public_validation:
            return TrialPrice(terms, noises, None, level, price)
        score = _score(self._gaussian_units(alone or level), terms.n_validation, pure=False)
        if terms.disjoint:
            price = max(price, terms.price_of(_gaussian_profile(score, terms.neighbours)))
        return TrialPrice(terms, noises, score, level, price)

    def _mean(self, level: float) -> LossProfile:
        """Return the mean of the candidates' profiles at this level: the price if λ is released too."""
        profiles = [self.solved(key, level)[1] for key in self.weights]
        n = len(self.terms.points)
        if len(profiles) == 1:
            return profiles[0]
        return LossProfile.mean(profiles, [count / n for count in self.weights.values()])

    def solved(self, key: Hashable, level: float) -> tuple[float, LossProfile]:
        """Return the noise at which one training costs about ε = `level` alone, and its profile."""
        if isinstance(self.terms.family, Declared):
            return 1.0, self._tried(key, 1.0)[1]
        target, log_noise = math.log(level), 0.0
        for _ in range(60):
            trial = self._tried(key, math.exp(log_noise))
            if abs(trial[0] - target) <= RELATIVE_PRECISION:
                return math.exp(log_noise), trial[1]
            log_noise = _next(self.tried[key], target)
        raise StudyInvalid(
            "the noise of one training cannot be solved for",
            cause="its cost does not fall steadily as its noise rises",
            remedy="correct the function that Event was given",
        )

    def _tried(self, key: Hashable, noise: float) -> tuple[float, LossProfile]:
        """Return the logarithm of one training's ε at this noise, and its profile."""
        tried, terms = self.tried[key], self.terms
        if math.log(noise) not in tried:
            profile = terms.family.profile(noise, self.points[key], terms.n_training, terms.neighbours)
            epsilon = min(max(profile.epsilon(terms.delta), 1e-9), 1e9)
            tried[math.log(noise)] = math.log(epsilon), profile
        return tried[math.log(noise)]

    def _gaussian_units(self, level: float) -> int:
        """Return ρ, in 10⁻¹², of a score whose zCDP cost is what a Gaussian of ε ≈ `level` has."""
        share = level if self.terms.disjoint else SCORE_SHARE * level
        log = math.log(1.0 / self.terms.delta)
        return max(1, math.floor((math.sqrt(log + share) - math.sqrt(log)) ** 2 * UNITS_PER_ONE))

    def _score_profile(self, level: float) -> LossProfile:
        score = _score(self._gaussian_units(level), self.terms.n_validation, pure=False)
        return _gaussian_profile(score, self.terms.neighbours)


def _gaussian_profile(score: DiscreteLaplace | DiscreteGaussian, neighbours: str) -> LossProfile:
    """Return the profile of a score's discrete Gaussian: as σ ≫ 1, of a continuous one with 10⁻⁹ less noise."""
    import dp_accounting as dp

    multiplier = score.scale / score.sensitivity * (1.0 - 1e-9)
    return LossProfile.of_event(dp.GaussianDpEvent(multiplier), neighbours=neighbours, replaced_moves=1.0)


def _next(tried: Mapping[float, tuple[float, Any]], target: float) -> float:
    """Return the log noise to try next for log ε = `target`, by the secant through the two nearest tried."""
    points = sorted(((x, trial[0]) for x, trial in tried.items()), key=lambda point: abs(point[1] - target))
    (x0, y0), *others = points
    slope = -1.0
    if others and others[0][1] != y0:
        slope = min(-0.2, max(-5.0, (others[0][1] - y0) / (others[0][0] - x0)))
    step = (target - y0) / slope
    return x0 + min(max(step, -2.0), 2.0)


def _largest(price: Callable[[float], float], limit: float, start: float) -> float | None:
    """Return a level whose price is at most `limit` and within 0.2% of it, or of the level; None if none is."""
    low, high, level = (0.0, 0.0), (math.inf, math.inf), start  # a level with its price
    while high[0] / max(low[0], 1e-300) > 1.0 + RELATIVE_PRECISION:
        cost = max(price(level), 1e-12)
        if cost <= limit:
            low = (level, cost)
            if cost >= limit * (1.0 - RELATIVE_PRECISION):
                break
        else:
            high = (level, cost)
        if low[0] == 0.0 or math.isinf(high[0]):  # the price is about in proportion to the level
            level *= min(4.0, max(0.25, (limit / cost) ** 1.1 * (1.0 - 0.5 * RELATIVE_PRECISION)))
            if level < SMALLEST_LEVEL:
                return None
            continue
        share = math.log(limit / low[1]) / math.log(high[1] / low[1]) if math.isfinite(high[1]) else 0.5
        level = low[0] * (high[0] / low[0]) ** min(0.95, max(0.05, share - 0.02))
    return low[0]


def _too_dear(terms: TrialTerms) -> StudyInvalid:
    declared = isinstance(terms.family, Declared)
    return StudyInvalid(
        f"ε = {terms.epsilon:g} does not pay for the best of so many trainings",
        cause="each training alone costs too much of it" if declared else "ε or δ is very small",
        remedy="raise epsilon, or run fewer trials",
    )


def own_trainer_rules(release: Release) -> CertificateRules:
    """Return what the certificate of a search with a trainer supplied by the user must state."""
    relations = (
        NeighboringRelation.REPLACE_ONE,
        NeighboringRelation.ADD_OR_REMOVE_ONE,
        NeighboringRelation.ZERO_OUT,
    )
    stated = {"any": (), "disjoint": (DISJOINT_PEOPLE.name,), "public validation": (PUBLIC_VALIDATION.name,)}
    assumed = stated[release.facts["options"]["people"]]
    public = PUBLIC_VALIDATION.name in assumed
    if any((spend.noise_scale == 0.0) != public for spend in release.spends):
        raise ValueError("noise_scale")
    return CertificateRules(
        {"best trial": (BestTrial.NAME,)},
        0.0 if public else one_record_moves(release),
        (DECLARED_COST.name, *assumed),
        (PrivacyUnit.TRAINING_RECORD,),
        relations,
    )


@dataclass(frozen=True)
class BestTrial:
    """The release of the best of min(K, n) trials alone; what it draws, it draws through the procedure."""

    price: TrialPrice

    NAME: ClassVar[str] = next(iter(RepeatAndSelect.WORTH))

    def spend(self, what: str) -> Spend:
        """Return the price (ε, δ) of the whole; its ρ = ε²/2 is only ever used together with its δ."""
        terms = self.price.terms
        return Spend(
            what=what,
            mechanism=self.NAME,
            epsilon_units=allowed_units(terms.epsilon),
            delta_units=0 if terms.pure else allowed_units(terms.delta),
            rho_units=spent_units(0.5 * terms.epsilon**2 * (1.0 + 1e-12)),
            sensitivity=0.0 if terms.public_validation else 1.0 / terms.n_validation,
            noise_scale=self.price.score_noise,
        )

    def prepare(self, spend: Spend, source: NoiseSource) -> Callable[[Sensitive[Procedure]], Any]:
        """Check the price: a function that runs a sensitive procedure, all trials, for its best one."""
        check_price(self.price.epsilon, spend.epsilon_units)
        check_cost(0 if self.price.terms.pure else allowed_units(self.price.terms.delta), spend.delta_units)
        return lambda value: value.expose()(source)
