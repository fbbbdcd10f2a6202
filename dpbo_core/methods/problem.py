"""The public facts of a study. Nothing here depends on a validation record.

| symbol | name here | meaning | shape |
|---|---|---|---|
| Λ | `candidates` | the finite candidate set | N points |
| m | `n_validation` | validation records; None if persons are averaged | scalar |
| k | `max_records_per_person` | records one person may own | scalar |
| n_p | `n_persons` | persons, each of whom counts once, by the mean; None if records are averaged | scalar |
| n | `n_averaged` | m or n_p, what the exact sum is divided by | scalar |
| G | `score.score_range` | range of one record's score | scalar |
| — | `aggregate` | how records' outcomes become one number: its sensitivity, range and unit | — |
| p(λ) | `public_score(i)` | cross-validated score of candidate i on the public training set | scalar |
| w_λ | `train(i)` | the model of candidate i, a function of it, the public training set and the seed | — |
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.integer_sums import Aggregate, MeanOfRecords, PairCount
from dpbo_core.models.scores.kinds import PairScore
from dpbo_core.models.scores.union import Score
from dpbo_core.privacy.guarantee import NeighboringRelation, PrivacyUnit
from dpbo_core.search.gp import Kernel, kernel_named
from dpbo_core.search.search_space import CandidateSet, EarlierEdition, Value

if TYPE_CHECKING:
    from dpbo_core.methods.contract import Method
    from dpbo_core.models.estimators import Model


T = TypeVar("T")
DEFAULT_DELTA = 1e-6
DEFAULT_LENGTHSCALE = 0.3  # in the unit cube, where a study names no lengthscale


class ModelFacts(Protocol):
    """What a method may ask of the study's [model]: which kind of model it is, never how it is written."""

    @property
    def estimator(self) -> str:
        """The estimator's name or import path."""

    @property
    def score_name(self) -> str:
        """The name of the score, or the import path of a user's function."""

    @property
    def linear(self) -> bool:
        """Whether it is a binary linear model of ours, trained with a certificate."""

    @property
    def ours(self) -> bool:
        """Whether dpbo itself trains it."""

    @property
    def trained(self) -> bool:
        """Whether a model is trained at all: not where predictions were made elsewhere."""

    @property
    def regression(self) -> bool:
        """Whether the target is a number, not a class."""

    @property
    def enforced(self) -> bool:
        """Whether each record is predicted in a process of its own."""

    @property
    def own_score(self) -> bool:
        """Whether its score is a user's function."""

    @property
    def tolerance(self) -> float | None:
        """The certified distance from the optimum at which training ends, as written; None if it is left out."""


class SearchSettings(Protocol):
    """What a method may ask of the study's [search]."""

    @property
    def steps(self) -> int | None:
        """The number of steps as written; None if it is left out."""

    @property
    def n_steps(self) -> int:
        """The number of steps, or the usual one."""

    @property
    def acquisition(self) -> str:
        """The acquisition function's name, "ucb" or "ei"."""

    @property
    def beta(self) -> float | None:
        """The UCB's β; None for the theoretical one."""

    @property
    def kernel(self) -> str:
        """The kernel's name, "matern52" or "se"."""

    @property
    def lengthscale(self) -> float | str:
        """The kernel's length-scale in the unit cube, or "fit"."""

    @property
    def seed(self) -> int:
        """The seed of the search; noise is never seeded."""

    def replace(self, **changes: Any) -> Self:
        """Return the settings with some changed, checked."""

    @property
    def one_pass(self) -> bool | None:
        """Whether all candidates are scored in one pass over the records; None for the usual way."""


class Trainer(Protocol):
    """The public training set with what is trained on it. It keeps what it worked out."""

    @property
    def n_records(self) -> int:
        """The number n of public training records."""

    def train(self, point: Mapping[str, Value]) -> "Model":
        """Return the model at a point of the search space: a function of point, training set and seed alone."""

    def public_score(self, point: Mapping[str, Value], *, seed: int) -> float:
        """The cross-validated score of the model at `point` on the training set; `seed` deals out the folds."""

    def public_steps(self, point: Mapping[str, Value], *, seed: int) -> NDArray[np.int64]:
        """Return each public record's cross-validated score at `point`, (n,), as integers of the score's grid."""


@dataclass(frozen=True)
class TrainingFacts:
    """What is public of a SENSITIVE training set."""

    n_records: int
    classes: tuple[Value, ...]  # the labels, sorted
    feature_names: tuple[str, ...] = ()  # the features of the model, known once the file's header was read
    scored: bool = False  # whether models are scored on these very records, for want of a validation set


@dataclass(frozen=True, eq=False)
class PublicSearch:
    """What a search on public data says of every candidate."""

    search: SearchSettings  # the settings it was made under
    tried: tuple[int, ...]  # the candidates that were cross-validated, in order, (R,)
    scores: NDArray[np.float64] = field(repr=False)  # their public scores, (R,)
    # the public score where it is known, the Gaussian process's mean of it elsewhere, (N,)
    mean: NDArray[np.float64] = field(repr=False)


@dataclass(frozen=True)
class Problem:
    """Everything about a study that may be printed. Where the training set is sensitive there is no `trainer`."""

    candidates: CandidateSet
    n_validation: int | None
    score: Score
    model: ModelFacts
    search: SearchSettings
    epsilon: float
    delta: float = DEFAULT_DELTA
    max_records_per_person: int = 1
    person: str | None = None
    n_persons: int | None = None
    neighbours: NeighboringRelation = NeighboringRelation.REPLACE_ONE
    study: str = ""
    edition: str = ""
    dataset: str = ""
    advice: str = ""  # why a study that leaves its method to the advice got this one
    unlisted: str = ""  # what in the estimator is not known to predict each row alone; "" for nothing
    trainer: Trainer | None = field(default=None, repr=False, compare=False)
    training: TrainingFacts | None = None
    editions: int = 1  # releases that the cap is planned for
    n_public: int | None = None  # n where nothing else of the PUBLIC training set was read: for advice, in no cost
    baseline: float | None = None  # score of the best constant prediction, by the public training set
    baseline_by: Literal["records", "persons"] = "records"  # what counts once in it
    public_search: PublicSearch | None = field(default=None, repr=False, compare=False)  # once searched
    earlier: tuple[EarlierEdition, ...] | None = None  # what the search begins with, oldest first; None: afresh
    scored_in_public: bool = True  # whether there are public records to score candidates on
    positives: float | None = None  # PUBLIC share of the second class, where pairs are counted and it is known

    @property
    def unit(self) -> PrivacyUnit:
        """Whom the study protects: a sensitive training record; else a person or, without `person`, a record."""
        if self.training is not None:
            return PrivacyUnit.TRAINING_RECORD
        return PrivacyUnit.VALIDATION_RECORD if self.person is None else PrivacyUnit.PERSON

    @property
    def relation(self) -> NeighboringRelation:
        """Which data sets are neighbours: with one person replaced, where persons are averaged; else as stated."""
        return self.neighbours if self.n_persons is None else NeighboringRelation.REPLACE_ONE_PERSON

    @property
    def score_range(self) -> float:
        """The range G of one record's score, which lies in [0, G]."""
        return self.score.score_range

    @property
    def n_averaged(self) -> int:
        """What the exact sum is divided by: n_p persons where each counts once, else m records."""
        number = self.n_validation if self.n_persons is None else self.n_persons
        if number is None:
            raise ValueError("a problem averages over records or over persons")
        return number

    @property
    def counted(self) -> str:
        """The word "records" or "persons": what the score averages over."""
        return "records" if self.n_persons is None else "persons"

    @property
    def rowwise(self) -> bool:
        """Return whether each record's score surely depends on that record alone.

        It does for models of dpbo, under `enforced`, and for allowlisted estimators with a named score. A user's
        function gets one record at a time but may remember earlier ones.
        """
        return self.model.ours or self.model.enforced or not (self.unlisted or self.model.own_score)

    @property
    def aggregate(self) -> Aggregate:
        """How records' scores become one integer, and that a score: as a mean, or as a count of pairs."""
        if isinstance(self.score, PairScore):
            return PairCount(self.n_averaged, self.max_records_per_person, self.positives)
        return MeanOfRecords(self.n_averaged, self.max_records_per_person, self.score.score_range)

    @property
    def score_per_step(self) -> float:
        """The mean score per step of the exact sum; of pairs, the AUC per step if half are positive."""
        return self.aggregate.score_per_step

    @property
    def metric_per_step(self) -> float:
        """The metric per step of the exact sum; of pairs, the AUC at the public share of positives."""
        return self.aggregate.metric_per_step

    @property
    def record_steps(self) -> int:
        """By how much one person's records change the exact integer sum at a fixed model, at most."""
        return self.aggregate.record_steps

    @property
    def range_steps(self) -> int:
        """The width of the range of the exact integer sum of scores."""
        return self.aggregate.range_steps

    @property
    def scored_together(self) -> int:
        """Return how many models are scored in one pass over the records: as many as memory allows.

        Linear weights are small; an estimator may be large, and so is a model's table of pairs. It is one if each
        record is scored in its own process, beside which reading the records costs nothing.
        """
        if self.model.enforced:
            return 1
        return 1024 if self.model.linear and not isinstance(self.score, PairScore) else 16

    def train(self, index: int) -> "Model":
        """Train now, and return, the model at candidate `index`; ValueError if made for planning."""
        return self.train_at(self.candidates.points[index])

    def train_at(self, point: Mapping[str, Any]) -> "Model":
        """Train now, and return, the model at any point of the search space; ValueError if made for planning."""
        return _at(point, self._required_trainer().train)

    def public_score(self, index: int) -> float:
        """Return the cross-validated public score p(λ) of candidate `index`, in [0, G]; it costs no privacy."""
        score = partial(self._required_trainer().public_score, seed=self.search.seed)
        return _at(self.candidates.points[index], score)

    def public_steps(self, index: int) -> NDArray[np.int64]:
        """Each public record's cross-validated score of candidate `index`, (n,), as whole steps of its grid."""
        return self._required_trainer().public_steps(self.candidates.points[index], seed=self.search.seed)

    @property
    def n_training(self) -> int:
        """The number n of training records, which is public; ValueError if made for planning with a public set."""
        return self._required_trainer().n_records if self.training is None else self.training.n_records

    def _required_trainer(self) -> Trainer:
        """Return the problem's trainer; ValueError where it has none, as one that was made for planning."""
        if self.trainer is None:
            raise ValueError("this problem was made for planning; it has no training set")
        return self.trainer


def _at(point: Mapping[str, Any], work: Callable[[Mapping[str, Any]], T]) -> T:
    """Return the result of public work at a point of the search space, which an error of it names."""
    try:
        return work(point)
    except StudyInvalid as error:
        refused = error
    at = ", ".join(f"{name} = {value}" for name, value in point.items())
    raise StudyInvalid(f"{refused.what}: {at}" if at else refused.what, cause=refused.cause, remedy=refused.remedy)


def stated_kernel(problem: Problem, variance: float = 1.0) -> Kernel:
    """Return the study's kernel at its own lengthscale, or at `DEFAULT_LENGTHSCALE` until one can be fitted."""
    search = problem.search
    return kernel_named(
        search.kernel, DEFAULT_LENGTHSCALE if isinstance(search.lengthscale, str) else search.lengthscale, variance
    )


def check_lengthscale(method: "Method", problem: Problem) -> None:
    """Refuse a study that asks a method with a fixed lengthscale for a fitted one."""
    fitted = isinstance(problem.search.lengthscale, str)
    if fitted and not method.fits_lengthscale:
        raise StudyInvalid(
            f'{method.kind} fits no kernel, and the study has search.lengthscale = "fit"',
            cause="what it could be fitted to is private, and its price holds for a kernel fixed in advance",
            remedy=f"give a length in the unit cube, {DEFAULT_LENGTHSCALE:g} say",
        )
