"""Public work that does not depend on a private score, so that it can be done before the charge, in any process.

The candidates of a grid, of a Sobol subset, and all candidates of a private path are trained in any case. A public
shortlist and a public prior cross-validate all of Λ, or first an evenly spread half of their trials. The trainings
of a trajectory, and the other half of a public search, are not known in advance: each depends on the results before
it.

It is done in pieces, so that it can be watched (`PublicWork`), the trials first, so that what cannot be trained is
refused. It is a function of the study and its public training set: a piece that fails says so in full, and nothing
was charged. What it trained no step trains again, and nobody who publishes it (`TrainedModels`).
"""

import json
import time
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data.content import point_key
from dpbo_core.errors import StudyInvalid
from dpbo_core.methods.contract import Method
from dpbo_core.methods.problem import Problem, Trainer, check_lengthscale
from dpbo_core.models.linear.fit import LinearTrainer
from dpbo_core.models.scoring.processes import Processes
from dpbo_core.privacy.sensitive import attempted
from dpbo_core.search.search_space import Value
from dpbo_core.study import StudySpec
from dpbo_core.study.data_split import allowed_score, public_half
from dpbo_core.study.preconditions import check_accepted
from dpbo_core.study.public_half import PublicHalf
from dpbo_core.study.resolve import ResolvedStudy
from dpbo_core.study.run import Run
from dpbo_core.study.trained_models import TrainedModels, check_parameters, memory_limit, to_try_out, uncharged

if TYPE_CHECKING:
    from dpbo_core.models.estimators import Model

T = TypeVar("T")
MIN_PARALLEL_SECONDS = 3.0  # seconds of public work, after which processes that are requested are worth their start
Scored = tuple[str, int]  # a point, the seed that deals out the folds
MAX_TRAINED_FIRST = 4096


@dataclass(frozen=True)
class Precomputed:
    """Public work done before: by candidate the models, the cross-validated scores in [0, G], and those by record.

    `tried`: trainings were tried, so that a study whose models cannot be trained is refused before the charge. The
    resulting models are in `trained`.
    """

    models: Mapping[int, "Model"] = field(default_factory=dict)
    scores: Mapping[int, float] = field(default_factory=dict)
    steps: Mapping[int, NDArray[np.int64]] = field(default_factory=dict)
    tried: bool = False
    trained: TrainedModels = field(default_factory=TrainedModels)


def required_trainings(study: ResolvedStudy) -> tuple[int, ...]:
    """Return the indices of the candidates that are trained in any case; none with a sensitive training set."""
    problem, method = study.problem, study.method
    if problem.training is not None:  # its models are trained inside one private step alone
        return ()
    return method.fixed_path(problem) or trained_first(method, problem)


def trained_first(method: Method, problem: Problem) -> tuple[int, ...]:
    """Return the indices of the candidates to train before the charge: all if the path is private and no step
    trains, since a training during a step would reveal the path by its duration (more than 4,096 are refused).
    """
    if problem.training is not None or method.public_path or method.trains_in_steps:
        return ()
    N = len(problem.candidates)
    if N > MAX_TRAINED_FIRST:
        raise StudyInvalid(
            f"{method.kind} trains every candidate before it starts, and there are {N:,}",
            cause="no step may show by its time or its failure which model a private path needs",
            remedy=f"lower the points of the axis to {MAX_TRAINED_FIRST:,} or fewer",
        )
    return tuple(range(N))


def required_public_scores(study: ResolvedStudy) -> tuple[int, ...]:
    """Return indices of the candidates that are cross-validated in any case; none with a sensitive training set."""
    problem, method = study.problem, study.method
    if problem.training is not None:  # a score on it is a sensitive number
        return ()
    return method.cross_validated(problem)


def train_candidates(
    spec: StudySpec, folder: str | Path, indices: Sequence[int], allowed_score: str | None = None
) -> dict[int, "Model"]:
    """Train the candidates `indices`: their models, by index; the training set is read once a process."""
    problem = _problem_read_once(spec, folder, allowed_score)
    return {index: problem.train(index) for index in indices}


def cross_validate_candidates(
    spec: StudySpec, folder: str | Path, indices: Sequence[int], allowed_score: str | None = None
) -> dict[int, float]:
    """Cross-validate the candidates `indices`: their public scores p(λ), by index, under the study's seed."""
    problem = _problem_read_once(spec, folder, allowed_score)
    return {index: problem.public_score(index) for index in indices}


def _problem_read_once(spec: StudySpec, folder: str | Path, allowed_score: str | None) -> Problem:
    return _read_public_half(json.dumps(spec.to_dict(), sort_keys=True), str(folder), allowed_score).problem


@dataclass(eq=False)
class CachedTrainer:
    """A trainer that has some models and public scores; it works out the others, and keeps the scores."""

    trainer: Trainer
    models: Mapping[str, "Model"]
    scores: dict[Scored, float]
    steps: dict[Scored, NDArray[np.int64]]
    trained: TrainedModels
    charged: bool = False  # from then on a candidate that cannot be trained scores as the constant answer
    untrained: dict[str, Mapping[str, Value]] = field(default_factory=dict)
    _asked: set[str] = field(default_factory=set)

    @property
    def n_records(self) -> int:
        """The number n of public training records."""
        return self.trainer.n_records

    def train(self, point: Mapping[str, Value]) -> "Model":
        """Return the model of a point's hyperparameters: precomputed, a cached copy, or trained now."""
        name = point_key(point)
        self._asked.add(name)
        model = self.models.get(name) or self.trained.get(name)
        if model is None:
            try:
                model = self.trainer.train(point)
            except StudyInvalid:
                from dpbo_core.models.estimator_trainer import EstimatorTrainer

                if not (self.charged and isinstance(self.trainer, EstimatorTrainer)):
                    raise
                self.untrained[name] = point
                return self.trainer.constant()
        self.trained.keep(name, model)
        return model

    def could_not_train(self, points: Sequence[Mapping[str, Value]]) -> list[Mapping[str, Value]]:
        """Return the points that could not be trained; `points` of an earlier run are trained to find out."""
        for point in points:
            if point_key(point) not in self._asked:
                self.train(point)
        return list(self.untrained.values())

    def public_score(self, point: Mapping[str, Value], *, seed: int) -> float:
        """Return the cross-validated public score of a point's hyperparameters under this seed, computed once."""
        key = point_key(point), seed
        if key not in self.scores:
            self.scores[key] = self.trainer.public_score(point, seed=seed)
        return self.scores[key]

    def public_steps(self, point: Mapping[str, Value], *, seed: int) -> NDArray[np.int64]:
        """Return each public record's cross-validated score at a point, (n,), in grid steps; cached by seed."""
        key = point_key(point), seed
        if key not in self.steps:
            self.steps[key] = self.trainer.public_steps(point, seed=seed)
        return self.steps[key]


@dataclass(eq=False)
class RetrainingTrainer:
    """A trainer for steps whose λ is private: each call trains exactly once, caches nothing and cannot fail.

    So the duration of a step does not reveal whether its λ was tried before. A model that misses its tolerance is
    replaced by w = 0, under which every record scores φ(0).
    """

    trainer: LinearTrainer

    @property
    def n_records(self) -> int:
        """The number n of public training records."""
        return self.trainer.n_records

    def train(self, point: Mapping[str, Value]) -> "Model":
        """Return the model at a point's λ, trained now whether or not it was before; w = 0 if that fails."""
        regularization = float(point["lambda"])
        otherwise = self.trainer.without_answer(regularization)
        return attempted(lambda: self.trainer.retrain(regularization), otherwise)

    def public_score(self, point: Mapping[str, Value], *, seed: int) -> float:
        """Return the cross-validated public score at a point, as the trainer gives it."""
        return self.trainer.public_score(point, seed=seed)

    def public_steps(self, point: Mapping[str, Value], *, seed: int) -> NDArray[np.int64]:
        """Return each public record's cross-validated score at a point, as the trainer gives it."""
        return self.trainer.public_steps(point, seed=seed)


def retrained_each_step(problem: Problem, trainer: Trainer | None) -> Problem:
    """Return the problem with a trainer that trains anew at each call; what all trainings share is computed now."""
    if not isinstance(trainer, LinearTrainer):
        raise TypeError("steps train linear models alone")
    trainer.prepare(min(float(point["lambda"]) for point in problem.candidates.points))
    return replace(problem, trainer=RetrainingTrainer(trainer))


def remembering(problem: Problem, precomputed: Precomputed) -> Problem:
    """Return the problem with a trainer that looks up models and public scores, and computes missing ones.

    Models of an estimator that is not on the allowlist are not cached for publication, since such a model may have
    stored records that it scored. An `enforced` one is: it scores records in other processes only.
    """
    if problem.trainer is None:
        return problem
    names = [point_key(point) for point in problem.candidates.points]
    models = {names[index]: model for index, model in precomputed.models.items()}
    seed = problem.search.seed
    scores = {(names[index], seed): p for index, p in precomputed.scores.items()}
    steps = {(names[index], seed): records for index, records in precomputed.steps.items()}
    trained = TrainedModels(0) if problem.unlisted and not problem.model.enforced else precomputed.trained
    for name, model in models.items():
        trained.keep(name, model)
    return replace(problem, trainer=CachedTrainer(problem.trainer, models, scores, steps, trained))


@lru_cache(maxsize=2)
def _read_public_half(text: str, folder: str, allowed_score: str | None) -> PublicHalf:
    return public_half(StudySpec.from_dict(json.loads(text)), folder, allowed_score=allowed_score)


MAX_CHUNKS = 32  # pieces of each kind at most: enough to watch, few beside the work
Chunks = tuple[tuple[int, ...], ...]


class PublicWork:
    """The running public work of one study."""

    def __init__(self, run: Run, processes: Processes | None = None) -> None:
        """Nothing done, and refused what would be whatever it came to; `processes` share it once it takes long."""
        study, half = run.study, run.public
        check_lengthscale(study.method, study.problem)
        trained_first(study.method, study.problem)
        check_accepted(study.spec.accepts, study.plan, half.problem.unlisted)
        self._study, self._trained = study, TrainedModels(memory_limit(study.spec))
        self._problem = remembering(half.problem, Precomputed(trained=self._trained))
        self._half_trainer, self._checked = half.problem.trainer, False
        self._models: dict[int, Model] = {}
        self._scores: dict[int, float] = {}
        self._steps: dict[int, NDArray[np.int64]] = {}
        self._processes, self._seconds = processes, 0.0
        self._elsewhere = study.spec, Path(run.folder).resolve(), allowed_score(study.spec, run.ledger)

    @property
    def to_cross_validate(self) -> Chunks:
        """Indices of the candidates still to be cross-validated, in chunks, one for a task."""
        return chunks([index for index in required_public_scores(self._study) if index not in self._scores])

    @property
    def searches(self) -> bool:
        """Whether the study cross-validates candidates on public data."""
        return bool(required_public_scores(self._study))

    @property
    def to_train(self) -> Chunks:
        """Indices of the candidates to train before any step, one of each structure first, in chunks."""
        method, problem = self._study.method, self._problem
        everyone = trained_first(method, problem) if problem.model.trained else ()
        ordered = dict.fromkeys((*to_try_out(method, problem), *everyone)) if everyone else ()
        return chunks([index for index in ordered if index not in self._models])

    @property
    def to_try(self) -> Chunks:
        """Indices of the candidates that are trained first as mere trials, in chunks, where the steps train."""
        method, problem = self._study.method, self._problem
        if problem.training is not None or not problem.model.trained or trained_first(method, problem):
            return ()
        return chunks(to_try_out(method, problem))

    def cross_validate(self, indices: Sequence[int]) -> int:
        """Cross-validate the candidates `indices` and store their scores; returns how many there are by now."""
        one, many = self._problem.public_score, cross_validate_candidates
        self._scores |= uncharged(lambda: self._shared(one, many, indices))
        return len(self._scores)

    def search(self) -> int:
        """Do the search on public data, if any, with the scores there are; returns how many there are by now."""
        done, method = Precomputed(scores=self._scores, trained=self._trained), self._study.method
        problem = remembering(self._problem, done)
        trainer = problem.trainer
        if not isinstance(trainer, CachedTrainer) or (prepared := method.prepare(problem)) is problem:
            return len(self._scores)
        method.start(prepared, self._study.plan)  # pairs look at single records
        places = {point_key(point): index for index, point in enumerate(problem.candidates.points)}
        self._scores |= {places[name]: score for (name, _), score in trainer.scores.items()}
        self._steps |= {places[name]: steps for (name, _), steps in trainer.steps.items()}
        return len(self._scores)

    def train(self, indices: Sequence[int]) -> int:
        """Train the candidates `indices` and store their models; returns how many models there are by now."""
        self._check_parameters()
        self._models |= uncharged(lambda: self._shared(self._problem.train, train_candidates, indices))
        return len(self._models)

    def try_out(self, indices: Sequence[int]) -> int:
        """Train the candidates `indices` as trials, after a check of all: how many, or what a training raises."""
        self._check_parameters()
        return len([uncharged(lambda index=index: self._problem.train(index)) for index in indices])  # type: ignore[misc]

    def _check_parameters(self) -> None:
        if not self._checked:
            check_parameters(self._study.method, self._problem, self._half_trainer)
            self._checked = True

    def _shared(
        self, one: Callable[[int], T], many: Callable[..., dict[int, T]], indices: Sequence[int]
    ) -> dict[int, T]:
        """Return `one(index)` by candidate, computed here or, if it takes long, in other processes by `many`."""
        begun = time.monotonic()
        if self._processes is None or self._seconds < MIN_PARALLEL_SECONDS:
            done = {index: one(index) for index in indices}
        else:
            spec, folder, allowed = self._elsewhere
            work = partial(many, spec, folder, allowed_score=allowed)
            pieces = [(index,) for index in indices]
            here = lambda piece: {index: one(index) for index in piece}  # noqa: E731
            done = dict(ChainMap(*self._processes.each(work, pieces, here)))
        self._seconds += time.monotonic() - begun
        return done

    def done(self) -> Precomputed:
        """Return the models and public scores so far, for the study to reuse; it then skips trial trainings."""
        return Precomputed(self._models, self._scores, self._steps, tried=True, trained=self._trained)


def chunks(indices: Sequence[int]) -> Chunks:
    """Return the indices in their order, cut into at most 32 (`MAX_CHUNKS`) pieces; none for none."""
    parts = np.array_split(np.array(indices, dtype=np.int64), min(MAX_CHUNKS, max(1, len(indices))))
    return tuple(tuple(int(index) for index in part) for part in parts if len(part))
