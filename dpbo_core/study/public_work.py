"""What is worked out on the public training set before anything is charged, in pieces, so that it can be watched.

cross-validate   the candidates whose public scores the study needs whatever they are, by chunks
search           the rest of a public search, each trial of which follows from those before
train            all of Λ where a step must not (`precomputed.trained_first`), by chunks in a public order
try out          else one training, so that a model that cannot be trained at all costs nothing

A function of the study and its public training set: a piece that fails says so in full, and nothing was charged.
It has a public half of its own, so that a step that trains still trains.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpbo_core.methods.contract import SearchesPublic
from dpbo_core.methods.stated_search import check_lengthscale
from dpbo_core.models.estimators import Model
from dpbo_core.problem import Trainer
from dpbo_core.space.search_space import Value
from dpbo_core.study.consent import check_accepted
from dpbo_core.study.data_split import public_half
from dpbo_core.study.precomputed import Precomputed, known_public, named, remembering, trained_first
from dpbo_core.study.resolve import ResolvedStudy

CHUNKS = 16  # pieces of each kind at most: enough to watch, few beside the work
Chunks = tuple[tuple[int, ...], ...]


class PublicWork:
    """The public work of one study, under way."""

    def __init__(
        self, study: ResolvedStudy, folder: str | Path, given: Precomputed | None, *, own_score: bool = False
    ) -> None:
        """Nothing done but what was `given`; `own_score` as `public_half` has it.

        Raises:
            StudyInvalid, BudgetRefused, AssumptionNotAccepted: it would be refused whatever the work came to.
        """
        given = Precomputed() if given is None else given
        check_lengthscale(study.method, study.problem)
        trained_first(study.method, study.problem)
        half = public_half(study.spec, folder, study.problem, own_score=own_score)
        check_accepted(study.spec, study.plan, half.problem.unlisted)
        self._study = study
        self._problem = remembering(half.problem, given)
        self._models, self._scores = dict(given.models), dict(given.scores)
        self._steps: dict[int, NDArray[np.int64]] = {}

    @property
    def to_cross_validate(self) -> Chunks:
        """Candidates to cross-validate, by chunks."""
        return _chunks([index for index in known_public(self._study) if index not in self._scores])

    @property
    def searches(self) -> bool:
        """Whether there is a public search."""
        return bool(known_public(self._study))

    @property
    def to_train(self) -> Chunks:
        """Candidates by chunks; none where the steps train."""
        first = trained_first(self._study.method, self._problem) if self._problem.model.trained else ()
        return _chunks([index for index in first if index not in self._models])

    @property
    def tries_out(self) -> bool:
        """Whether one training is tried out: the steps train."""
        if self._problem.training is not None or not self._problem.model.trained:
            return False
        return not trained_first(self._study.method, self._problem)

    def cross_validate(self, indices: Sequence[int]) -> int:
        """p(λ) of a chunk; how many are known now."""
        self._scores |= {index: self._problem.public_score(index) for index in indices}
        return len(self._scores)

    def search(self) -> int:
        """All that the public search looks at, once what is known of it is there; how many scores are known now."""
        problem = remembering(self._problem, Precomputed(scores=self._scores))
        if problem.trainer is None or not isinstance(self._study.method, SearchesPublic):
            return len(self._scores)
        noting = _Noting(problem.trainer)
        found = self._study.method.prepare(replace(problem, trainer=noting))
        self._study.method.start(found, self._study.plan)  # pairs look at single records
        places = {named(point): index for index, point in enumerate(problem.candidates.points)}
        self._scores |= {places[name]: score for name, score in noting.scores.items()}
        self._steps |= {places[name]: steps for name, steps in noting.steps.items()}
        return len(self._scores)

    def train(self, indices: Sequence[int]) -> int:
        """The models of a chunk; how many there are now."""
        self._models |= {index: self._problem.train(index) for index in indices}
        return len(self._models)

    def try_out(self) -> bool:
        """Train the first candidate, for nothing but that it can be; whether the study has any."""
        return self._problem.train(0) is not None

    def done(self) -> Precomputed:
        """What a study is opened with."""
        return Precomputed(self._models, self._scores, self._steps, tried=True)


class _Noting:
    """A trainer that notes what was looked at of public records."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer, self.n_records = trainer, trainer.n_records
        self.scores: dict[str, float] = {}
        self.steps: dict[str, NDArray[np.int64]] = {}

    def train(self, point: Mapping[str, Value]) -> Model:
        """As the trainer does."""
        return self._trainer.train(point)

    def public_score(self, point: Mapping[str, Value], *, seed: int) -> float:
        """As the trainer does, noted."""
        self.scores[named(point)] = self._trainer.public_score(point, seed=seed)
        return self.scores[named(point)]

    def public_steps(self, point: Mapping[str, Value], *, seed: int) -> NDArray[np.int64]:
        """As the trainer does, noted."""
        self.steps[named(point)] = self._trainer.public_steps(point, seed=seed)
        return self.steps[named(point)]


def _chunks(indices: Sequence[int]) -> Chunks:
    parts = np.array_split(np.array(indices, dtype=np.int64), min(CHUNKS, max(1, len(indices))))
    return tuple(tuple(int(index) for index in part) for part in parts if len(part))
