"""Public models that are trained before the charge: where they are kept, and which of them are tried out."""

import pickle
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from dpbo_core.data.content import content_key
from dpbo_core.errors import StudyInvalid
from dpbo_core.methods.contract import Method
from dpbo_core.methods.problem import Problem, Trainer
from dpbo_core.models.scoring.partitioned import CACHE_GIGABYTES
from dpbo_core.study import StudySpec

if TYPE_CHECKING:
    from dpbo_core.models.estimators import Model


class TrainedModels:
    """A cache of models by point, of `limit` bytes at most, pickled before they score a record.

    Each `get` unpickles a fresh copy, so that nothing which a model stores while it scores is kept. Which models
    are kept depends on the order of trainings and on sizes, all public; beyond the limit a model is trained again.
    """

    def __init__(self, limit: int = int(CACHE_GIGABYTES * 1e9)) -> None:
        self._pickled: dict[str, bytes] = {}
        self._left = limit

    def keep(self, name: str, model: "Model") -> None:
        """Cache a model, if pickle can and it fits, by its point's `name`; it has scored no sensitive record."""
        if name in self._pickled:
            return
        with suppress(Exception):  # whatever a foreign estimator raises: it is trained again
            pickled = pickle.dumps(model, protocol=5)
            if len(pickled) <= self._left:
                self._left -= len(pickled)
                self._pickled[name] = pickled

    def get(self, name: str) -> "Model | None":
        """Return a copy of the model of a point's `name`; None if it is not kept."""
        if name not in self._pickled:
            return None
        model: Model = pickle.loads(self._pickled[name])  # noqa: S301  pickled above, and held in memory since
        return model


def memory_limit(spec: StudySpec) -> int:
    """Return the bytes that each of encoded records, public rows and models may take in memory."""
    files = spec.data.divided
    stated = None if files is None else files.memory_limit
    return int((CACHE_GIGABYTES if stated is None else stated) * 1e9)


MAX_CHECKED = 4096  # candidates whose parameters are checked one by one, and structures that are tried out

T = TypeVar("T")


def to_try_out(method: Method, problem: Problem) -> tuple[int, ...]:
    """Return the indices of the candidates to train as trials, one for each structure that the method may train.

    Candidates have the same structure if they differ in the values of numbers only.
    """
    indices = _may_be_trained(method, problem)
    if problem.model.ours or not problem.model.trained:
        return indices[:1]
    first: dict[str, int] = {}
    for index in indices:
        point = problem.candidates.points[index].items()
        kinds = [(name, type(v).__name__ if type(v) in (int, float) else content_key(v)) for name, v in point]
        first.setdefault(repr(kinds), index)
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
    """Return the result of public work before the charge; an error of it says that nothing was charged."""
    try:
        return work()
    except StudyInvalid as error:
        refused = error
    raise StudyInvalid(refused.what, cause=refused.cause, remedy=f"{refused.remedy}; nothing was charged")


def _may_be_trained(method: Method, problem: Problem) -> tuple[int, ...]:
    """Return the indices of the candidates that the method may train, in the order of its steps if fixed."""
    return tuple(dict.fromkeys(method.fixed_path(problem))) or tuple(range(len(problem.candidates)))


def _spread(indices: Sequence[int]) -> tuple[int, ...]:
    if len(indices) <= MAX_CHECKED:
        return tuple(indices)
    return tuple(indices[int(place)] for place in np.linspace(0, len(indices) - 1, MAX_CHECKED))
