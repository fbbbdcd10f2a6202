"""One trial (x, q) ~ M_λ: a model, trained privately or in public, and its private quality; and what it costs.

| symbol | name here | meaning | shape |
|---|---|---|---|
| x | — | the model | — |
| q | `score` | the exact sum of the records' scores plus noise | integer |
| s | `score_share` | share of a trial's cost that pays for q | scalar in (0, 1) |
| ε(α) | `curve` | cost of (x, q) together: the parts add up, so a person may own a record in each set | curve |

Where people are disjoint a replaced record is in one set: in the training set, q is computed from x and from
records that did not change, and costs nothing; in the validation set x does not change. Then the curve is the
larger of the two at each order, and each part takes the whole cost.

A base algorithm turns one number, the cost of a trial, into a calibrated trial; more of it always costs more.
`largest` finds how much of it a study can pay.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpbo.features.private_training.algorithm import PrivateTraining, Sizes
from dpbo.features.private_training.gradients import n_columns
from dpbo_core.mechanisms.gaussian import DiscreteGaussian
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.methods.problem import Problem
from dpbo_core.privacy.amounts import UNITS_PER_ONE, from_units
from dpbo_core.privacy.renyi import RenyiCurve

_HALVINGS = 50


@dataclass(frozen=True)
class Trial:
    """One trial M_λ, calibrated: its private training (None where models are public), and its quality's noise."""

    training: PrivateTraining | None
    score: DiscreteLaplace | DiscreteGaussian
    curve: RenyiCurve

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
    """The public numbers that a trial's noise and its cost depend on.

    Attributes:
        estimator: the model's name.
        n_records: of the training set; None where it is public.
        record_steps: most that one person moves the exact sum of scores.
        score_per_step: mean score per integer step of that sum.
        score_share: s; 1 where people are disjoint.
        batch_size: expected records a step of an algorithm that samples them.
        largest: each axis of the algorithm with its largest value over Λ.
    """

    estimator: str
    n_records: int | None
    record_steps: int
    score_per_step: float
    score_share: float
    batch_size: int
    largest: tuple[tuple[str, float], ...]

    def training_cost(self, cost: float, of_score: float) -> float:
        """The part of a trial's `cost` for its training: less `of_score`, but all where people are disjoint."""
        return cost if self.disjoint else cost - of_score

    @property
    def disjoint(self) -> bool:
        """Whether no person has records in both the training and the validation set."""
        return self.score_share == 1.0

    def laplace(self, epsilon: float) -> DiscreteLaplace:
        """The Laplace mechanism that makes a trial's score ε-DP."""
        return DiscreteLaplace(self.record_steps, _units(epsilon), self.score_per_step)

    def gaussian(self, rho: float) -> DiscreteGaussian:
        """The Gaussian mechanism that makes a trial's score ρ-zCDP."""
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
    """A trial from a training and its score's mechanism, at the sum of their costs; of disjoint sets the larger."""
    if isinstance(score, DiscreteLaplace):
        cost = RenyiCurve(epsilon=from_units(score.epsilon_units))
    else:
        cost = RenyiCurve(rho=from_units(score.rho_units))
    of_training = RenyiCurve() if training is None else training.curve
    return Trial(training, score, cost | of_training if facts.disjoint else cost + of_training)


def largest(affordable: Callable[[float], bool]) -> float | None:
    """The largest cost up to 1e4 that is `affordable`, by halving its logarithm; None if not even 1e-7 is.

    What is returned was itself found affordable, so an inexact end costs accuracy and never privacy.
    """
    low, high = math.log(1e-7), math.log(1e4)
    if not affordable(math.exp(low)):
        return None
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if affordable(math.exp(middle)):
            low = middle
        else:
            high = middle
    return math.exp(low)


def training_loss(trial: Trial, problem: Problem) -> float:
    """Roughly what a training loses to noise, as a share of the score's range: √(2dK/ρ)/n, at most 1; public: 0.

    The noise of all gradient steps over the most that n clipped gradients add. Digits and breast cancer lose within
    a factor of 2 of it, at ε = 1 and 4. Before a file's header is read d is taken for 30.
    """
    facts = problem.training
    if trial.training is None or facts is None:
        return 0.0
    size = (len(facts.feature_names) or 30) * n_columns(problem.model.estimator, len(facts.classes))
    return min(1.0, math.sqrt(4.0 * size / trial.training.curve.at(2.0)) / facts.n_records)


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
