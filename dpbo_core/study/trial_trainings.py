"""Trial trainings before the charge: what cannot be trained costs nothing.

A candidate's structure is which axes it has, their texts, truth values and objects, and the types of its numbers.
One candidate of each structure is trained on the public rows, and of every candidate scikit-learn's own check of
parameters is asked. What fails later than that, at some number alone, scores as the constant answer would.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from dpbo_core.data.content import key_of
from dpbo_core.errors import StudyInvalid
from dpbo_core.methods.contract import Method
from dpbo_core.methods.problem import Problem, Trainer

MAX_CHECKED = 4096  # candidates whose parameters are checked one by one, and structures that are tried out

T = TypeVar("T")


def to_try_out(method: Method, problem: Problem) -> tuple[int, ...]:
    """Indices of the candidates to train as trials: the first of each structure that the method may train."""
    indices = _may_be_trained(method, problem)
    if problem.model.ours or not problem.model.trained:
        return indices[:1]
    first: dict[str, int] = {}
    for index in indices:
        first.setdefault(_structure(problem.candidates.points[index]), index)
    return _spread(tuple(first.values()))


def check_parameters(method: Method, problem: Problem, trainer: Trainer | None) -> None:
    """Refuse a candidate whose parameters scikit-learn refuses, before any is trained."""
    if problem.model.ours:
        return
    from dpbo_core.models.estimator_trainer import EstimatorTrainer

    if isinstance(trainer, EstimatorTrainer):
        points = [problem.candidates.points[index] for index in _spread(_may_be_trained(method, problem))]
        uncharged(lambda: trainer.check(points))


def check_trainable(method: Method, problem: Problem, trainer: Trainer | None) -> None:
    """Refuse a study with a candidate that cannot be trained: parameters are checked, structures are tried out."""
    check_parameters(method, problem, trainer)
    for index in to_try_out(method, problem):
        uncharged(lambda index=index: problem.train(index))  # type: ignore[misc]


def uncharged(work: Callable[[], T]) -> T:
    """The result of public work before the charge; an error of it says that nothing was charged."""
    try:
        return work()
    except StudyInvalid as error:
        refused = error
    raise StudyInvalid(refused.what, cause=refused.cause, remedy=f"{refused.remedy}; nothing was charged")


def _may_be_trained(method: Method, problem: Problem) -> tuple[int, ...]:
    """Indices of the candidates that the method may have to train, in the order of its steps if that is fixed."""
    return tuple(dict.fromkeys(method.fixed_path(problem))) or tuple(range(len(problem.candidates)))


def _structure(point: Mapping[str, Any]) -> str:
    """The key of a point's structure: of a number its type alone."""
    return repr([(name, type(v).__name__ if type(v) in (int, float) else key_of(v)) for name, v in point.items()])


def _spread(indices: Sequence[int]) -> tuple[int, ...]:
    """The indices, or where there are too many as many as are looked at, evenly spread."""
    if len(indices) <= MAX_CHECKED:
        return tuple(indices)
    return tuple(indices[int(place)] for place in np.linspace(0, len(indices) - 1, MAX_CHECKED))
