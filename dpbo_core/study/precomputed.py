"""Public work that is known before any score is: it may be done anywhere, in any order, by anyone.

The candidates of a grid, of a Sobol subset, and every candidate of a private path are trained whatever the data
says; a public shortlist and a public prior cross-validate all of Λ, or first a half of their trials, spread evenly.
A trajectory's trainings are not known, nor is a public search's other half: each follows from what was before.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpbo_core.methods.contract import FixedPath, SearchesPublic
from dpbo_core.models.trainer import Model
from dpbo_core.problem import Problem, Trainer
from dpbo_core.space.search_space import Value
from dpbo_core.spec import StudySpec
from dpbo_core.study.data_split import public_half
from dpbo_core.study.public_half import PublicHalf
from dpbo_core.study.resolve import ResolvedStudy

Scored = tuple[str, int]  # a point, the seed that deals out the folds


@dataclass(frozen=True)
class Precomputed:
    """Public work done elsewhere: models, and cross-validated scores in [0, G], by candidate."""

    models: Mapping[int, Model] = field(default_factory=dict)
    scores: Mapping[int, float] = field(default_factory=dict)


def known_candidates(study: ResolvedStudy) -> tuple[int, ...]:
    """Indices of the candidates that the study will train whatever the data says; opens no file.

    None where the training set is sensitive: its models are trained inside one private step alone.
    """
    problem, method = study.problem, study.method
    if problem.training is not None:
        return ()
    if isinstance(method, FixedPath):
        return method.fixed_path(problem)
    return () if method.public_path else tuple(range(len(problem.candidates)))


def known_public(study: ResolvedStudy) -> tuple[int, ...]:
    """Indices of the candidates that the study will cross-validate in public whatever comes out; opens no file.

    None where the training set is sensitive: a score on it is a sensitive number.
    """
    problem, method = study.problem, study.method
    if problem.training is not None:
        return ()
    return method.cross_validated(problem) if isinstance(method, SearchesPublic) else ()


def train_candidate(spec: StudySpec, folder: str | Path, index: int) -> Model:
    """The model of one candidate; a process that trains many reads the training set once."""
    return _read(json.dumps(spec.to_dict(), sort_keys=True), str(folder)).problem.train(index)


def cross_validate_candidate(spec: StudySpec, folder: str | Path, index: int) -> float:
    """p(λ) of one candidate, under the study's own score and seed."""
    return _read(json.dumps(spec.to_dict(), sort_keys=True), str(folder)).problem.public_score(index)


@dataclass(frozen=True)
class Remembering:
    """A trainer that was given some models and scores; it works out the others itself."""

    trainer: Trainer
    models: Mapping[str, Model]
    scores: Mapping[Scored, float]

    @property
    def n_records(self) -> int:
        """n: how many public training records there are."""
        return self.trainer.n_records

    def train(self, point: Mapping[str, Value]) -> Model:
        """The model given for `point`, or one trained now."""
        given = self.models.get(_named(point))
        return self.trainer.train(point) if given is None else given

    def public_score(self, point: Mapping[str, Value], *, seed: int) -> float:
        """The score given for `point` under this seed, or one worked out now."""
        given = self.scores.get((_named(point), seed))
        return self.trainer.public_score(point, seed=seed) if given is None else given

    def public_steps(self, point: Mapping[str, Value], *, seed: int) -> NDArray[np.int64]:
        """Each public record's score, worked out now: only a few candidates are asked about."""
        return self.trainer.public_steps(point, seed=seed)


def remembering(problem: Problem, precomputed: Precomputed | None) -> Problem:
    """The problem with the work of `precomputed` already done.

    Its models are for scoring: some of scikit-learn's count what they were asked (nearest neighbours do), so none
    that has seen a sensitive record is ever published. What is published is trained by the plain problem.
    """
    if precomputed is None or problem.trainer is None:
        return problem
    names = [_named(point) for point in problem.candidates.points]
    models = {names[index]: model for index, model in precomputed.models.items()}
    scores = {(names[index], problem.search.seed): p for index, p in precomputed.scores.items()}
    return replace(problem, trainer=Remembering(problem.trainer, models, scores))


def _named(point: Mapping[str, Value]) -> str:
    return repr(sorted(point.items()))


@lru_cache(maxsize=2)
def _read(text: str, folder: str) -> PublicHalf:
    return public_half(StudySpec.from_dict(json.loads(text)), folder)
