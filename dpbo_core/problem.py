"""The public facts of a study. Nothing here depends on a validation record.

| symbol | name here | meaning | shape |
|---|---|---|---|
| Λ | `candidates` | the finite candidate set | N points |
| m | `n_validation` | validation records | scalar |
| k | `max_records_per_person` | records one person may own | scalar |
| G | `score.score_range` | range of one record's score | scalar |
| — | `score_per_step` | score of one integer step of the exact sum, G/(m·2²⁴) | scalar |
| — | `record_steps` | most one person moves the sum at a fixed model, k·2²⁴ (never above m·2²⁴) | integer |
| w_λ | `train(i)` | the model of candidate i, trained cold on the public training set | — |
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from dpbo_core.models.scores import GRID, MarginScore, score_named
from dpbo_core.privacy.unit import NeighboringRelation, PrivacyUnit
from dpbo_core.space import candidates as candidate_sets
from dpbo_core.space.candidates import CandidateSet
from dpbo_core.space.search_space import Axis, Categorical, Integer, Real, SearchSpace, Value
from dpbo_core.spec import AxisSection, ModelSection, SearchSection, StudySpec

if TYPE_CHECKING:
    from dpbo_core.models.trainer import Model

DEFAULT_DELTA = 1e-6
DEFAULT_POINTS = {1: 64, 2: 16, 3: 8}  # a numeric axis, by how many numeric axes there are


class Trainer(Protocol):
    """The public training set with what is trained on it."""

    def train(self, point: Mapping[str, Value]) -> "Model":
        """The model at `point`: a cold start, a function of the point, the training set and the seed alone."""
        ...


@dataclass(frozen=True)
class Problem:
    """Everything about a study that may be printed."""

    candidates: CandidateSet
    n_validation: int
    score: MarginScore
    model: ModelSection
    search: SearchSection
    epsilon: float
    delta: float = DEFAULT_DELTA
    max_records_per_person: int = 1
    unit: PrivacyUnit = PrivacyUnit.VALIDATION_RECORD
    relation: NeighboringRelation = NeighboringRelation.REPLACE_ONE
    study: str = ""
    edition: str = ""
    dataset: str = ""
    trainer: Trainer | None = field(default=None, repr=False, compare=False)

    @property
    def score_range(self) -> float:
        """G."""
        return self.score.score_range

    @property
    def rowwise(self) -> bool:
        """Whether a record's score is known to depend on that record alone: our models and scikit-learn's own."""
        return self.model.linear or self.model.estimator.startswith("sklearn.")

    @property
    def score_per_step(self) -> float:
        """Score of one integer step of the exact sum of all records."""
        return self.score_range / (self.n_validation * GRID)

    @property
    def record_steps(self) -> int:
        """Most one person's records move the exact sum at one fixed model."""
        return min(self.max_records_per_person, self.n_validation) * GRID

    @property
    def range_steps(self) -> int:
        """The whole range of the exact sum, m·2²⁴."""
        return self.n_validation * GRID

    def train(self, index: int) -> "Model":
        """The model of candidate `index`."""
        if self.trainer is None:
            raise ValueError("this problem was made for planning; it has no training set")
        return self.trainer.train(self.candidates.points[index])


def problem_of(spec: StudySpec, *, n_validation: int, trainer: Trainer | None = None) -> Problem:
    """The problem a study poses. Without a `trainer` it serves for planning alone and opens no file."""
    return Problem(
        candidates=_candidates(spec),
        n_validation=n_validation,
        score=score_named(spec.model.score_name, spec.model.steepness),
        model=spec.model,
        search=spec.search,
        epsilon=spec.privacy.epsilon,
        delta=DEFAULT_DELTA if spec.privacy.delta is None else spec.privacy.delta,
        max_records_per_person=spec.privacy.max_records_per_person,
        study=spec.name,
        edition=spec.edition,
        dataset=spec.privacy.dataset,
        trainer=trainer,
    )


def _candidates(spec: StudySpec) -> CandidateSet:
    conditions = {name: axis.condition for name, axis in spec.space.items() if axis.condition is not None}
    space = SearchSpace({name: _axis(axis) for name, axis in spec.space.items()}, conditions)
    if spec.search.candidates == "sobol":
        return candidate_sets.sobol(space, spec.search.n_candidates, seed=spec.search.seed)
    numeric = sum(axis.values is None for axis in spec.space.values())
    default = DEFAULT_POINTS.get(numeric, 4)
    points = {name: default if axis.points is None else axis.points for name, axis in spec.space.items()}
    return candidate_sets.grid(space, points)


def _axis(section: AxisSection) -> Axis:
    if section.values is not None:
        return Categorical(section.values)
    assert section.low is not None  # noqa: S101  the section was checked when it was made
    assert section.high is not None  # noqa: S101
    if section.integer:
        return Integer(section.low, section.high, log=section.log)
    return Real(section.low, section.high, log=section.log)
