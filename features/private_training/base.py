"""What a base algorithm's file declares of it: everything that the rest of the house asks about one by its name."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dpbo.features.private_training.algorithm import Axis, check_axes, value_of
from dpbo.features.private_training.trial import Trial, TrialFacts
from dpbo_core.errors import StudyInvalid
from dpbo_core.methods.problem import Problem


@dataclass(frozen=True)
class Base:
    """The declaration of one base algorithm: how it prices a trial, what it trains, which hyperparameters it has.

    Attributes:
        name: in a study.
        trial: its pricing: from the cost of one trial and the public facts to the trial; more always costs more.
        axes: the hyperparameters it understands; None where only its own code can judge them.
        pure: whether all its trials are pure ε-DP.
        private: whether it is for a sensitive training set; else for a public one.
        models: the estimators it can train; empty for any.
        why_models: why no others.
    """

    name: str
    trial: Callable[[float, TrialFacts], Trial]
    axes: Mapping[str, Axis] | None
    pure: bool
    private: bool = True
    models: tuple[str, ...] = ()
    why_models: str = ""

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
        """The public numbers that the price of a trial (a training and its noisy score) depends on."""
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
