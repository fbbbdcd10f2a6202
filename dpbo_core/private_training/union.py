"""The closed union of base algorithms: one file each and one line here, private ones in the order of preference.

A training function of the user's own, as private as it says it is, is an object by import path. It has

    epsilon                 a number, if the training is ε-DP; or
    renyi(alpha)            its Rényi cost at an integer order, the supremum over Λ; and
    train(X, labels, n_classes, point) -> weights

where X is (n, d) with rows of norm at most 1 (the zero row where a record is broken), labels (n,) are class indices
or −1, and the weights are (d,) for a logistic model or (d, K) for a softmax. It draws its own noise. Nothing here
can check what it guarantees: that is the CALLER assumption `private_training_function`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from dpbo_core.data import Encoded
from dpbo_core.errors import StudyInvalid, suggestion
from dpbo_core.mechanisms.noise import NoiseSource
from dpbo_core.models.import_path import named_object
from dpbo_core.privacy.assumption import PRIVATE_TRAINING_FUNCTION
from dpbo_core.privacy.renyi import RenyiCurve
from dpbo_core.private_training.algorithm import PrivateModel, Sizes
from dpbo_core.private_training.base import Base
from dpbo_core.private_training.dp_sgd import DP_SGD
from dpbo_core.private_training.gradients import bounded, model_of, n_columns
from dpbo_core.private_training.noisy_gradient_descent import NOISY_GRADIENT_DESCENT
from dpbo_core.private_training.objective_perturbation import OBJECTIVE_PERTURBATION
from dpbo_core.private_training.output_perturbation import OUTPUT_PERTURBATION
from dpbo_core.private_training.trial import Trial, TrialFacts, with_score
from dpbo_core.problem.problem import Problem

ORDERS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 48, 64, 128, 256)


@dataclass(frozen=True)
class UserFunction:
    """Private training by a user's own function."""

    estimator: str
    path: str

    @property
    def curve(self) -> RenyiCurve:
        """The Rényi cost that the user's function states of itself.

        Raises:
            StudyInvalid: it says nothing usable.
        """
        return _stated_curve(self.path)

    def check(self, sizes: Sizes, point: Mapping[str, Any]) -> None:
        """Refuse nothing: a failure of the user's function is as private as the function states."""

    def train(self, records: Encoded, point: Mapping[str, Any], source: NoiseSource) -> PrivateModel:
        """The model of the weights that the function returns, made finite; another shape is a failed trial."""
        del source
        d, K = records.X.shape[1], n_columns(self.estimator, records.n_classes)
        weights = algorithm_named(self.path).train(records.X, records.labels, records.n_classes, dict(point))
        return model_of(bounded(np.array(weights, dtype=np.float64).reshape(d, K)))


@lru_cache(maxsize=16)  # looking through the installed packages takes a good part of a second
def algorithm_named(path: str) -> Any:
    """The object at the import path that a study names.

    Raises:
        StudyInvalid: there is none.
    """
    return named_object(path)


@lru_cache(maxsize=16)
def _stated_curve(path: str) -> RenyiCurve:
    algorithm = algorithm_named(path)
    try:
        if hasattr(algorithm, "epsilon"):
            return RenyiCurve(epsilon=float(algorithm.epsilon))
        return RenyiCurve(table=tuple((float(order), float(algorithm.renyi(order))) for order in ORDERS))
    except (AttributeError, TypeError, ValueError):
        pass
    raise StudyInvalid(
        f"{path} states no usable privacy cost",
        cause="it has neither a number epsilon ≥ 0 nor a function renyi(order) ≥ 0",
        remedy="add one of them; see the documentation of private_training_function",
    )


def user_function(path: str) -> Base:
    """The base algorithm of the function at an import path, imported only when it is checked or priced."""

    def trial(cost: float, facts: TrialFacts) -> Trial:
        """The trial whose training costs what it states, and whose quality costs `cost`."""
        training = UserFunction(facts.estimator, path)
        return with_score(training, facts.laplace(cost) if training.curve.pure else facts.gaussian(cost), facts)

    assumed = (PRIVATE_TRAINING_FUNCTION.name,)
    return Base(path, trial, axes=None, pure=False, fixed_cost=True, assumptions=assumed)


def _public_trial(cost: float, facts: TrialFacts) -> Trial:
    """A trial with a model of the public set, which costs nothing: all of `cost` pays for its quality."""
    return with_score(None, facts.laplace(cost), facts)


PUBLIC_TRAINING = Base("public_training", _public_trial, axes=None, pure=True, private=False)
BASES: Mapping[str, Base] = {
    base.name: base
    for base in (
        PUBLIC_TRAINING,
        NOISY_GRADIENT_DESCENT,
        DP_SGD,
        OUTPUT_PERTURBATION,
        OBJECTIVE_PERTURBATION,
    )
}


def base_named(name: str) -> Base:
    """The base algorithm that a study names; a dotted name is the import path of a user's function.

    Raises:
        StudyInvalid: there is none of this name.
    """
    if "." in name:
        return user_function(name)
    if name not in BASES:
        raise StudyInvalid(
            f"method.base = {name!r} is not known{suggestion(name, BASES)}",
            cause="a misspelt name",
            remedy=f"choose one of {', '.join(BASES)}, or the import path of a training function",
        )
    return BASES[name]


def check_base(base: Base, problem: Problem) -> None:
    """Refuse a base algorithm that does not fit the training set, model or hyperparameters.

    Raises:
        StudyInvalid: it is not so.
    """
    instead = next(other.name for other in BASES.values() if other.private and not other.models)
    if base.private != (problem.training is not None):
        raise StudyInvalid(
            f"method.base = {base.name!r}, and the training set is {'public' if base.private else 'sensitive'}",
            cause="private training would waste the budget on records that need no protection"
            if base.private
            else "models of a sensitive training set must be trained privately",
            remedy="leave base out of [method]" if base.private else f'add base = "{instead}" to [method]',
        )
    base.check(problem, instead)
