"""One trial (x, q) ~ M_λ: a model, trained privately or in public, and its private quality; and what it costs.

| symbol | name here | meaning | shape |
|---|---|---|---|
| x | — | the model | — |
| q | `score` | the exact sum of the records' scores plus noise | integer |
| s | `score_share` | share of a trial's cost that pays for q | scalar in (0, 1) |
| ε(α) | `curve` | cost of (x, q) together: the parts add up, so a person may own a record in each set | curve |

A family turns one number, the cost of a trial, into a calibrated trial; more of it always costs more. `largest`
finds how much of it a study can pay.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dpbo_core.errors import StudyInvalid, suggestion
from dpbo_core.mechanisms.gaussian import DiscreteGaussian
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.privacy.amounts import UNITS_PER_ONE, from_units
from dpbo_core.privacy.renyi import RenyiCurve
from dpbo_core.private_training import dp_sgd, noisy_gradient_descent, objective_perturbation, output_perturbation
from dpbo_core.private_training.contract import Axis, PrivateTraining, Sizes, check_axes
from dpbo_core.private_training.dp_sgd import DpSgd
from dpbo_core.private_training.noisy_gradient_descent import NoisyGradientDescent
from dpbo_core.private_training.objective_perturbation import ObjectivePerturbation
from dpbo_core.private_training.output_perturbation import OutputPerturbation
from dpbo_core.private_training.user_function import UserFunction, algorithm_named
from dpbo_core.problem import Problem

PUBLIC = "public_training"
AXES: Mapping[str, Mapping[str, Axis]] = {
    "noisy_gradient_descent": noisy_gradient_descent.AXES,
    "dp_sgd": dp_sgd.AXES,
    "output_perturbation": output_perturbation.AXES,
    "objective_perturbation": objective_perturbation.AXES,
}
PURE = (PUBLIC, "output_perturbation", "objective_perturbation")
LOGISTIC_ONLY = ("output_perturbation", "objective_perturbation")
_HALVINGS = 50


@dataclass(frozen=True)
class Trial:
    """M_λ, calibrated. `training` is None where models are public."""

    training: PrivateTraining | None
    score: DiscreteLaplace | DiscreteGaussian
    curve: RenyiCurve

    @property
    def score_scale(self) -> float:
        """Noise of q, in integer steps of the sum."""
        return self.score.scale

    @property
    def described(self) -> str:
        """What it costs, in a few words."""
        if self.curve.pure:
            return f"ε = {self.curve.epsilon:.3g}"
        if self.curve.table:
            return f"a Rényi cost of {self.curve.at(2.0):.3g} at order 2"
        return f"ρ = {self.curve.rho:.3g}"


Family = Callable[[float], Trial]


def check_base(base: str, problem: Problem) -> None:
    """The base algorithm exists, fits the study's model and knows its hyperparameters.

    Raises:
        StudyInvalid: it is not so.
    """
    if "." not in base and base != PUBLIC and base not in AXES:
        raise StudyInvalid(
            f"method.base = {base!r} is not known{suggestion(base, (PUBLIC, *AXES))}",
            cause="a misspelt name",
            remedy=f"choose one of {', '.join((PUBLIC, *AXES))}, or the import path of a training function",
        )
    if (base == PUBLIC) != (problem.training is None):
        sensitive = problem.training is not None
        raise StudyInvalid(
            f"method.base = {base!r}, and the training set is {'sensitive' if sensitive else 'public'}",
            cause="models of a sensitive training set must be trained privately"
            if sensitive
            else "private training would waste the budget on records that need no protection",
            remedy='add base = "noisy_gradient_descent" to [method]' if sensitive else "leave base out of [method]",
        )
    if base in LOGISTIC_ONLY and problem.model.estimator != "logistic":
        raise StudyInvalid(
            f"{base} cannot train {problem.model.estimator}",
            cause="its proof is for regularised logistic regression on two classes",
            remedy='use estimator = "logistic", or base = "noisy_gradient_descent"',
        )
    if base in AXES:
        check_axes(base, AXES[base], problem.candidates.points)
    if "." in base:
        algorithm_named(base)


def family(base: str, problem: Problem, *, score_share: float, batch_size: int) -> Family:
    """From the cost of one trial to the trial; ε for a pure one, else ρ (for DP-SGD 1/2σ² and ρ of q)."""
    steps, per_step = problem.record_steps, problem.score_per_step
    estimator, share = problem.model.estimator, 1.0 if base == PUBLIC else score_share

    def laplace(epsilon: float) -> DiscreteLaplace:
        return DiscreteLaplace(steps, _units(epsilon), per_step)

    def gaussian(rho: float) -> DiscreteGaussian:
        return DiscreteGaussian(steps, _units(rho), per_step)

    def pure(epsilon: float) -> Trial:
        score = laplace(share * epsilon)
        left = (epsilon - from_units(score.epsilon_units)) * (1.0 - 1e-15)
        training: PrivateTraining | None = None
        if base == "output_perturbation":
            training = OutputPerturbation(left)
        elif base == "objective_perturbation":
            training = ObjectivePerturbation(left)
        trained = RenyiCurve() if training is None else training.curve
        return Trial(training, score, RenyiCurve(epsilon=from_units(score.epsilon_units)) + trained)

    def descent(rho: float) -> Trial:
        score = gaussian(share * rho)
        training = NoisyGradientDescent(estimator, rho - from_units(score.rho_units))
        return Trial(training, score, RenyiCurve(rho=from_units(score.rho_units)) + training.curve)

    def sgd(cost: float) -> Trial:
        most = max(float(point.get("epochs", dp_sgd.AXES["epochs"].default)) for point in problem.candidates.points)  # type: ignore[arg-type]
        rate = min(1.0, batch_size / problem.n_training)
        full = cost * (1.0 - share)
        # a full-batch training of ρ has σ = √(T/2ρ); a sampled one with the same σ costs less
        sigma = math.sqrt(math.ceil(most / rate) / (2.0 * full))
        training = DpSgd(estimator, sigma, rate, most)
        score = gaussian(share * cost * rate**2)
        return Trial(training, score, RenyiCurve(rho=from_units(score.rho_units)) + training.curve)

    def users(cost: float) -> Trial:
        training = UserFunction(estimator, base)
        if training.curve.pure:
            score = laplace(cost)
            return Trial(training, score, RenyiCurve(epsilon=from_units(score.epsilon_units)) + training.curve)
        noised = gaussian(cost)
        return Trial(training, noised, RenyiCurve(rho=from_units(noised.rho_units)) + training.curve)

    if base in PURE:
        return pure
    if "." in base:
        return users
    return descent if base == "noisy_gradient_descent" else sgd


def largest(affordable: Callable[[float], bool]) -> float | None:
    """The most of a cost that can be paid, by halving on a logarithmic scale; None if not even 1e-7 can.

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


def check_every_point(trial: Trial, problem: Problem) -> None:
    """At every point of Λ every data set of the study's sizes can be trained on.

    Before the training file's header was read the features are not counted: one is the least there is.

    Raises:
        StudyInvalid: it is not so somewhere.
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
    """A linear or softmax model as plain JSON, with what is public of its features; None for any other."""
    weights = getattr(model, "weights", None)
    if weights is None:
        return None
    facts = problem.training
    table: dict[str, Any] = {"estimator": problem.model.estimator, "weights": weights.tolist()}
    if facts is not None:
        table |= {"features": list(facts.feature_names), "classes": list(facts.classes)}
    return table
