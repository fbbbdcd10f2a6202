"""Public trainings that are known before any score is: they may be done anywhere, in any order, by anyone.

The candidates of a grid, of a Sobol subset, and every candidate of a private path are known from the study alone.
A trajectory's are not: each follows from the releases before it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from dpbo_core.advice import choose
from dpbo_core.halves import PublicHalf, planning_problem, public_half
from dpbo_core.methods.private_grid import PrivateGrid
from dpbo_core.models.trainer import Model
from dpbo_core.problem import Problem, Score, Trainer
from dpbo_core.space.search_space import Value
from dpbo_core.spec import StudySpec


def known_candidates(spec: StudySpec) -> tuple[int, ...]:
    """Indices of the candidates that the study will train whatever the data says; opens no file.

    None where the training set is sensitive: its models are trained inside one private step alone.
    """
    if spec.data.trains_privately:
        return ()
    problem = planning_problem(spec)
    method, _ = choose(spec, problem)
    if isinstance(method, PrivateGrid) and method.evaluate != "public_shortlist":
        return method.subset(problem)
    return () if method.public_path else tuple(range(len(problem.candidates)))


def train_candidate(spec: StudySpec, folder: str | Path, index: int) -> Model:
    """The model of one candidate; a process that trains many reads the training set once."""
    return _read(json.dumps(spec.to_dict(), sort_keys=True), str(folder)).problem.train(index)


@dataclass(frozen=True)
class Remembering:
    """A trainer that was given some models; it trains the others itself."""

    trainer: Trainer
    models: Mapping[str, Model]

    @property
    def n_records(self) -> int:
        """n."""
        return self.trainer.n_records

    def train(self, point: Mapping[str, Value]) -> Model:
        """The model given for `point`, or one trained now."""
        given = self.models.get(repr(sorted(point.items())))
        return self.trainer.train(point) if given is None else given

    def public_score(self, point: Mapping[str, Value], score: Score, *, seed: int) -> float:
        """The trainer's own."""
        return self.trainer.public_score(point, score, seed=seed)


def remembering(public: PublicHalf, models: Mapping[int, Model]) -> PublicHalf:
    """The public half with `models`, by candidate, already trained."""
    problem: Problem = public.problem
    if not models or problem.trainer is None:
        return public
    named = {repr(sorted(problem.candidates.points[index].items())): model for index, model in models.items()}
    return replace(public, problem=replace(problem, trainer=Remembering(problem.trainer, named)))


@lru_cache(maxsize=2)
def _read(text: str, folder: str) -> PublicHalf:
    return public_half(StudySpec.from_dict(json.loads(text)), folder)
