"""A private training algorithm: what it is, what a trial of it costs, and what its file declares of it.

A trial (x, q) ~ M_λ is a model, trained privately or in public, and its private quality.

| symbol | name here | meaning | shape |
|---|---|---|---|
| x | — | the model | — |
| q | `score` | the exact sum of the records' scores plus noise | integer |
| s | `score_share` | share of a trial's cost that pays for q | scalar in (0, 1) |
| — | `costs` | cost of (x, q) together: the parts compose, so a person may own a record in each set | costs |

Where people are disjoint a replaced record is in one set: in the training set, q is computed from x and from
records that did not change, and costs nothing; in the validation set x does not change. Then there are two costs,
the larger price of the whole counts, and each part takes the whole cost.

A base algorithm turns one number, the cost of a trial, into a calibrated trial; more of it always costs more.
`largest` finds how much of it a study can pay.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, Protocol

from dpbo_core.data import Encoded
from dpbo_core.errors import StudyInvalid, suggestion
from dpbo_core.mechanisms.gaussian import DiscreteGaussian
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.mechanisms.noise import NoiseSource
from dpbo_core.mechanisms.trial_cost import TrialCost, gaussian_cost
from dpbo_core.methods.problem import Problem
from dpbo_core.models.linear.fit import LinearModel, SoftmaxModel
from dpbo_core.privacy.amounts import UNITS_PER_ONE, allowed_units, from_units, spent_units
from dpbo_core.privacy.renyi import RenyiCurve
from dpbo_core.theorems.event_price import least_noise

PrivateModel = LinearModel | SoftmaxModel


@dataclass(frozen=True)
class Sizes:
    """The public sizes of a sensitive training set: n, d and the number of classes."""

    n_records: int
    n_features: int
    n_classes: int


class PrivateTraining(Protocol):
    """A private training algorithm, calibrated to its price."""

    @property
    def cost(self) -> TrialCost:
        """The cost of one training under replace-one, the supremum over Λ and over all neighbours."""

    def check(self, sizes: Sizes, point: Mapping[str, Any]) -> None:
        """Refuse, before the charge, a `point` at which some data set of these sizes cannot be trained on."""

    def train(self, records: Encoded, point: Mapping[str, Any], source: NoiseSource) -> PrivateModel:
        """The private model at `point`; all randomness is `source`'s, and nothing raises whatever the records."""


@dataclass(frozen=True)
class Axis:
    """A hyperparameter that a training algorithm understands: its default, and whether it is a whole number."""

    default: float | None
    integer: bool = False


def check_axes(algorithm: str, axes: Mapping[str, Axis], points: tuple[Mapping[str, Any], ...]) -> None:
    """Refuse hyperparameters that the algorithm lacks, that are not positive, or missing without a default."""
    names = set(points[0])
    for name in names - set(axes):
        raise StudyInvalid(
            f"{algorithm} has no hyperparameter {name!r}{suggestion(name, axes)}",
            cause="a misspelt axis, or one of another algorithm",
            remedy=f"its axes in [space] are {', '.join(axes)}",
        )
    for name, axis in axes.items():
        if axis.default is None and name not in names:
            raise StudyInvalid(f"[space] lacks {name}, which {algorithm} needs", remedy=f"add the axis {name}")
        for point in points:
            value = point.get(name, axis.default)
            whole = not axis.integer or float(value).is_integer() if isinstance(value, int | float) else False
            if not whole or not (math.isfinite(value) and value > 0):
                raise StudyInvalid(
                    f"{name} takes the value {value!r}",
                    cause="it must be a positive number" + (", and a whole one" if axis.integer else ""),
                    remedy="correct the axis in [space]",
                )


def check_moderate(what: str, value: float) -> None:
    """Refuse a hyperparameter outside [1e-100, 1e100], where its square or quotient overflows; `what` names it."""
    if not 1e-100 <= value <= 1e100:
        raise StudyInvalid(
            f"{what} takes the value {value:g}",
            cause="its square or its quotient would be no number in double precision",
            remedy="correct the axis in [space]: between 1e-100 and 1e100",
        )


def value_of(name: str, axes: Mapping[str, Axis], point: Mapping[str, Any]) -> float:
    """Return the point's value of a hyperparameter, or the hyperparameter's default."""
    default = axes[name].default
    return float(point[name]) if name in point or default is None else default


def n_columns(estimator: str, n_classes: int) -> int:
    """Return the number K of weight columns: one for a logistic model, one a class for softmax."""
    return 1 if estimator == "logistic" else n_classes


@dataclass(frozen=True)
class Trial:
    """One trial M_λ, calibrated: its private training (None if models are public), and its quality's noise."""

    training: PrivateTraining | None
    score: DiscreteLaplace | DiscreteGaussian
    costs: tuple[TrialCost, ...]

    @property
    def curve(self) -> RenyiCurve:
        """The Rényi cost, at each order the larger of the `costs`."""
        return reduce(or_, (cost.curve for cost in self.costs))

    @property
    def described(self) -> str:
        """The cost of one trial (a training and its noisy score) in a few words."""
        if self.curve.pure:
            return f"ε = {self.curve.epsilon:.3g}"
        if self.curve.table:
            return f"a Rényi cost of {self.curve.at(2.0):.3g} at order 2"
        return f"ρ = {self.curve.rho:.3g}"


@dataclass(frozen=True)
class TrialFacts:
    """The public numbers that a trial's noise and its cost depend on."""

    estimator: str  # the model's name
    n_records: int | None  # of the training set; None if it is public
    record_steps: int  # most that one person moves the exact sum of scores
    score_per_step: float  # mean score per integer step of that sum
    score_share: float  # s; 1 where people are disjoint
    batch_size: int  # expected records a step of an algorithm that samples them
    largest: tuple[tuple[str, float], ...]  # each axis of the algorithm with its largest value over Λ

    def training_cost(self, cost: float, of_score: float) -> float:
        """Return the part of a trial's `cost` for its training: all if people are disjoint."""
        return cost if self.disjoint else cost - of_score

    @property
    def disjoint(self) -> bool:
        """Whether no person has records in both the training and the validation set."""
        return self.score_share == 1.0

    def laplace(self, epsilon: float) -> DiscreteLaplace:
        """Return the Laplace mechanism that makes a trial's score ε-DP."""
        return DiscreteLaplace(self.record_steps, _units(epsilon), self.score_per_step)

    def gaussian(self, rho: float) -> DiscreteGaussian:
        """Return the Gaussian mechanism that makes a trial's score ρ-zCDP."""
        return DiscreteGaussian(self.record_steps, _units(rho), self.score_per_step)


def pure_trial(make: Callable[[float], PrivateTraining], cost: float, facts: TrialFacts) -> Trial:
    """A trial of pure ε = `cost`, split between `make`'s training and its score, or spent on each if disjoint."""
    score = facts.laplace(facts.score_share * cost)
    return with_score(
        make(facts.training_cost(cost, from_units(score.epsilon_units)) * (1.0 - 1e-15)), score, facts
    )


def with_score(
    training: PrivateTraining | None, score: DiscreteLaplace | DiscreteGaussian, facts: TrialFacts
) -> Trial:
    """Return a trial from a training and its score's mechanism, which compose; disjoint sets have a cost each."""
    if isinstance(score, DiscreteLaplace):
        cost = TrialCost(RenyiCurve(epsilon=from_units(score.epsilon_units)))
    else:
        rho = from_units(score.rho_units)
        cost = gaussian_cost(rho=rho, sensitivity=score.sensitivity, scale=score.scale)
    if training is None:
        return Trial(training, score, (cost,))
    return Trial(training, score, (cost, training.cost) if facts.disjoint else (cost + training.cost,))


def largest(price: Callable[[float], float], epsilon: float) -> float | None:
    """Return the largest cost up to 1e4, within 10⁻⁷, whose `price` is at most ε; None if not even 1e-7 is.

    The returned cost itself was checked, so an inexact search costs accuracy and never privacy.
    """

    def stated(noise: float) -> float:
        value = price(1.0 / noise)
        return value if within(value, epsilon) else max(value, epsilon * (1.0 + 1e-12))

    try:
        return 1.0 / least_noise(stated, epsilon, lowest=1e-4, highest=1e7, precision=1e-7)
    except ValueError:
        return None


def within(price: float, epsilon: float) -> bool:
    """Return whether a price, rounded up to the ledger's units, is at most ε."""
    return math.isfinite(price) and spent_units(price) <= allowed_units(epsilon)


def training_loss(trial: Trial, problem: Problem) -> float:
    """Roughly what a training loses to noise, as a share of the score's range: √(2dK/ρ)/n, at most 1; public: 0.

    The noise of all gradient steps over the most that n clipped gradients add. Digits and breast cancer lose within
    a factor of 2 of it, at ε = 1 and 4. Before a file's header is read d is taken for 30.
    """
    facts = problem.training
    if trial.training is None or facts is None:
        return 0.0
    size = (len(facts.feature_names) or 30) * n_columns(problem.model.estimator, len(facts.classes))
    return min(1.0, math.sqrt(4.0 * size / trial.training.cost.curve.at(2.0)) / facts.n_records)


def check_every_point(trial: Trial, problem: Problem) -> None:
    """Refuse a study where data of its sizes cannot be trained on at some hyperparameters in Λ.

    Before the training file's header was read the features are not counted: one is the least there is.
    """
    if trial.training is None or problem.training is None:
        return
    facts = problem.training
    sizes = Sizes(facts.n_records, max(1, len(facts.feature_names)), len(facts.classes))
    for point in problem.candidates.points:
        trial.training.check(sizes, point)


def _units(amount: float) -> int:
    return max(1, math.floor(amount * UNITS_PER_ONE))


def model_json(model: Any, problem: Problem) -> dict[str, Any] | None:
    """Weights as plain JSON, with names if the training set is sensitive; None for a model without weights."""
    weights = getattr(model, "weights", None)
    if weights is None:
        return None
    facts = problem.training
    table: dict[str, Any] = {"estimator": problem.model.estimator, "weights": weights.tolist()}
    if facts is not None:
        table |= {"features": list(facts.feature_names), "classes": list(facts.classes)}
    return table


@dataclass(frozen=True)
class Base:
    """The declaration of one base algorithm: how it prices a trial, what it trains, its hyperparameters."""

    name: str  # in a study
    # its pricing: from the cost of one trial and the public facts to the trial; more always costs more
    trial: Callable[[float, TrialFacts], Trial]
    axes: Mapping[str, Axis] | None  # the hyperparameters it understands; None if only its own code can judge them
    pure: bool  # whether all its trials are pure ε-DP
    private: bool = True  # whether it is for a sensitive training set; else for a public one
    models: tuple[str, ...] = ()  # the estimators it can train; empty for any
    why_models: str = ""  # why no others

    def check(self, problem: Problem, instead: str) -> None:
        """Refuse a study whose model or hyperparameters the algorithm cannot use; `instead` names one that can."""
        if self.models and problem.model.estimator not in self.models:
            raise StudyInvalid(
                f"{self.name} cannot train {problem.model.estimator}",
                cause=self.why_models,
                remedy=f'use estimator = "{self.models[0]}", or base = "{instead}"',
            )
        if self.axes is not None:
            check_axes(self.name, self.axes, problem.candidates.points)

    def nearest_to_defaults(self, problem: Problem) -> int:
        """The index of the candidate nearest in ratio to the defaults; several without defaults are refused."""
        points, defaults = (
            problem.candidates.points,
            {name: axis.default for name, axis in (self.axes or {}).items() if axis.default is not None},
        )
        if not defaults and len(points) > 1:
            raise StudyInvalid(
                f'method.stopping = "one" with {len(points)} candidates',
                cause=f"{self.name} has no usual hyperparameters, and one training cannot choose among several",
                remedy="leave one candidate in [space], or weigh them in method.prior",
            )

        def distance(point: Mapping[str, Any]) -> float:
            return sum(math.log(point.get(name, usual) / usual) ** 2 for name, usual in defaults.items())

        return min(range(len(points)), key=lambda index: distance(points[index]))

    def facts(self, problem: Problem, *, score_share: float, batch_size: int) -> TrialFacts:
        """Return the public numbers that the price of a trial (a training and its noisy score) depends on."""
        points, axes = problem.candidates.points, self.axes or {}
        return TrialFacts(
            estimator=problem.model.estimator,
            n_records=None if problem.training is None else problem.training.n_records,
            record_steps=problem.record_steps,
            score_per_step=problem.score_per_step,
            score_share=score_share,
            batch_size=batch_size,
            largest=tuple((name, max(value_of(name, axes, point) for point in points)) for name in axes),
        )
