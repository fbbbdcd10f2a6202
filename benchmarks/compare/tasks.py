"""The tasks of the comparison: public data sets, split into a half that plays public and one that plays sensitive.

| symbol | name here | meaning | shape |
|---|---|---|---|
| Λ | `problem.candidates` | the candidates | N points |
| f_V(λ)·m·2²⁴/G | `ScoreTable.sums` | every candidate's exact sum on the half that plays sensitive | (N,) |
| p(λ) | `ScoreTable.public` | cross-validated score of every candidate on the public half | (N,) |
| — | `ScoreTable.steps`, `public_steps` | the same record by record, in steps of G/2²⁴ | (m, N), (n, N) |
| D | `ScoreTable.pairs` | where pairs are counted: what `sums` come to if all are right; else None | scalar |

Every candidate is trained once; methods are then run by the hundred on the table of their exact sums.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_classification

from dpbo_core.data import Encoded, bundled
from dpbo_core.methods.problem import Problem
from dpbo_core.models.estimator_trainer import EstimatorTrainer
from dpbo_core.models.estimators import EstimatorFactory
from dpbo_core.models.integer_sums import stretched
from dpbo_core.models.scoring.in_memory import ScorableModel
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.search.search_space import Value
from dpbo_core.study import StudySpec, data_split
from dpbo_core.study.resolve import problem_of


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """What all the trainings of a task came to. Public data: these raw scores could never be kept otherwise."""

    sums: NDArray[np.int64]
    public: NDArray[np.float64]
    steps: NDArray[np.int32] | None = field(default=None, repr=False)
    public_steps: NDArray[np.int32] | None = field(default=None, repr=False)
    pairs: int | None = None

    @classmethod
    def of(
        cls, steps: NDArray[np.int32], public_steps: NDArray[np.int32], public: NDArray[np.float64]
    ) -> "ScoreTable":
        """A table of record scores in steps of G/2²⁴, summed here by candidate, and of `public` scores."""
        return cls(steps.sum(axis=0, dtype=np.int64), public, steps, public_steps)

    def by_record(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Each record's score under every candidate, in whole steps: of the sensitive half, of the public.

        Raises:
            ValueError: the table is of sums alone, and has no paired contender.
        """
        if self.steps is None or self.public_steps is None:
            raise ValueError("a table of sums alone")
        return self.steps, self.public_steps

    def arrays(self) -> dict[str, Any]:
        """The table's arrays, by the names under which they are saved."""
        return {"steps": self.steps, "public_steps": self.public_steps, "public": self.public}


@dataclass(frozen=True)
class Place:
    """A model known by its candidate's place in Λ."""

    index: int


@dataclass(frozen=True, eq=False)
class TableTrainer:
    """Trains nothing: the model of a point is its place in Λ, its public score is in the table."""

    places: Mapping[tuple[Any, ...], int]
    table: ScoreTable
    n_records: int

    def train(self, point: Mapping[str, Value]) -> Any:
        """The place of a point's scores in the table, in place of a model: nothing is trained."""
        return Place(self.places[tuple(point.items())])

    def public_score(self, point: Mapping[str, Value], *, seed: int) -> float:  # noqa: ARG002
        """The public score P(λ) of a point, looked up in the table: `seed` is ignored."""
        return float(self.table.public[self.places[tuple(point.items())]])

    def public_steps(self, point: Mapping[str, Value], *, seed: int) -> NDArray[np.int64]:  # noqa: ARG002
        """Each public record's score at a point, in whole steps, looked up in the table: `seed` is ignored."""
        _, public = self.table.by_record()
        return public[:, self.places[tuple(point.items())]].astype(np.int64)


@dataclass(frozen=True, eq=False)
class TableScorer:
    """Looks the exact sum up."""

    places: Mapping[tuple[Any, ...], int]
    table: ScoreTable

    @property
    def training(self) -> None:
        """None: in a comparison the training records are public."""
        return

    def evaluate(self, model: ScorableModel | Place) -> Sensitive[int]:
        """A candidate's sum over the sensitive half, looked up in the table: of scores in whole steps or, for AUC,
        of counted pairs.
        """
        return Sensitive(int(self.table.sums[_index_of(model)]))

    def paired(
        self, model: ScorableModel | Place, reference: ScorableModel | Place, clipped: int
    ) -> Sensitive[int]:
        """The sum of score differences to `reference`, each clipped at ±`clipped` steps and scaled to 0 … 2²⁴."""
        return Sensitive(paired_sums(self.table, _index_of(reference), clipped)[_index_of(model)])

    def pairs(self) -> Sensitive[int]:
        """The count of pairs, 2PQ, that a perfect ranking of the sensitive half reaches; TypeError without pairs.

        Raises:
            TypeError: each record has a score alone.
        """
        if self.table.pairs is None:
            raise TypeError("a table of records' scores, and pairs are of two")
        return Sensitive(self.table.pairs)

    def place_of(self, point: Mapping[str, Value]) -> int:
        """The index in Λ of one of its points."""
        return self.places[tuple(point.items())]


def _index_of(model: ScorableModel | Place) -> int:
    """The index of the candidate whose place in the table stands for a model."""
    assert isinstance(model, Place)
    return model.index


@lru_cache(maxsize=8)
def paired_sums(table: ScoreTable, reference: int, clipped: int) -> tuple[int, ...]:
    """Each candidate's sum of score differences to `reference`, clipped at ±`clipped` steps, scaled to 0 … 2²⁴."""
    steps, _ = table.by_record()
    other = steps[:, reference].astype(np.int64)
    sums = (stretched(steps[:, i].astype(np.int64), other, clipped).sum() for i in range(steps.shape[1]))
    return tuple(int(total) for total in sums)


@dataclass(frozen=True)
class Task:
    """One public task: how to make its data split, and where its candidates lie."""

    name: str
    make: Callable[[], tuple[Problem, Encoded]]

    def table(self, problem: Problem, records: Encoded) -> ScoreTable:
        """Train every candidate on the public half and on its folds: the table of all records' scores."""
        N = range(len(problem.candidates))
        steps = [problem.train(i).steps(records, problem.score).astype(np.int32) for i in N]
        public_steps = [problem.public_steps(i).astype(np.int32) for i in N]
        public = np.array([problem.public_score(i) for i in N])
        return ScoreTable.of(np.array(steps).T, np.array(public_steps).T, public)


def on_table(problem: Problem, table: ScoreTable, **search: Any) -> tuple[Problem, TableScorer]:
    """The problem and its scorer with every training looked up in the table; `search` replaces search settings."""
    places = {tuple(point.items()): i for i, point in enumerate(problem.candidates.points)}
    tabled = replace(
        problem, trainer=TableTrainer(places, table, problem.n_training), search=problem.search.replace(**search)
    )
    return tabled, TableScorer(places, table)


def breast_cancer() -> tuple[Problem, Encoded]:
    """Logistic regression at 256 strengths of its penalty: the problem, and 285 validation records."""
    return _bundled_task(
        "breast_cancer",
        {"estimator": "logistic", "score": "sigmoid", "steepness": 10.0},
        {"lambda": {"low": 1e-4, "high": 10.0, "log": True, "points": 256}},
    )


def digits() -> tuple[Problem, Encoded]:
    """Support vectors on ten classes at 16 × 16 values of C and γ: the problem, and 899 validation records."""
    return _bundled_task(
        "digits",
        {"estimator": "sklearn.svm.SVC"},
        {
            "C": {"low": 1e-2, "high": 1e3, "log": True, "points": 16},
            "gamma": {"low": 1e-5, "high": 1.0, "log": True, "points": 16},
        },
    )


def trees() -> tuple[Problem, Encoded]:
    """A decision tree at 288 settings, from 3,000 public records: the problem, and 10,000 validation records."""
    X, y = make_classification(
        13_000, n_features=20, n_informative=8, n_redundant=4, flip_y=0.15, class_sep=0.8, random_state=1
    )
    space = {
        "max_depth": {"low": 1, "high": 24, "integer": True, "points": 8},
        "min_samples_leaf": {"low": 1, "high": 300, "integer": True, "log": True, "points": 9},
        "max_features": {"low": 0.1, "high": 1.0, "points": 4},
    }
    return _synthetic_task(X, y, 3_000, {"estimator": "sklearn.tree.DecisionTreeClassifier"}, space)


def boosting() -> tuple[Problem, Encoded]:
    """Gradient boosting at 144 settings, from 600 noisier records: the problem, and 20,000 validation records.

    The public half is small and misleads: what it says is best is not.
    """
    X, y = make_classification(
        20_600, n_features=12, n_informative=6, n_redundant=2, n_clusters_per_class=4, flip_y=0.05, random_state=2
    )
    flipped = np.random.default_rng(2).random(600) < 0.2
    y[:600] = np.where(flipped, 1 - y[:600], y[:600])
    space = {
        "learning_rate": {"low": 0.01, "high": 1.0, "log": True, "points": 6},
        "max_leaf_nodes": {"low": 2, "high": 64, "integer": True, "log": True, "points": 6},
        "l2_regularization": {"low": 1e-3, "high": 100.0, "log": True, "points": 4},
    }
    model = {"estimator": "sklearn.ensemble.HistGradientBoostingClassifier", "params": {"max_iter": 40}}
    return _synthetic_task(X, y, 600, model, space)


TASKS = (
    Task("breast_cancer", breast_cancer),
    Task("digits", digits),
    Task("trees", trees),
    Task("boosting", boosting),
)


def _comparison_study(data: dict[str, Any], model: dict[str, Any], space: dict[str, Any]) -> StudySpec:
    """A study with these sections, at ε = 1 and δ = 1e-6, on a public dataset."""
    return StudySpec.from_dict(
        {
            "study": {"name": "comparison", "method": "auto"},
            "privacy": {"dataset": "public", "epsilon": 1.0, "delta": 1e-6},
            "data": data,
            "model": model,
            "space": space,
        }
    )


def _bundled_task(source: str, model: dict[str, Any], space: dict[str, Any]) -> tuple[Problem, Encoded]:
    """The problem of a bundled set, half of which plays public, and the other half's encoded records."""
    spec = _comparison_study({"source": source, "validation_share": 0.5}, model, space)
    public = data_split.public_half(spec, ".")
    return public.problem, public.preprocessing.transform(bundled.load(source, 0.5)[1])


def _synthetic_task(
    X: NDArray[np.float64], y: NDArray[np.int64], n: int, model: dict[str, Any], space: dict[str, Any]
) -> tuple[Problem, Encoded]:
    """The problem and the encoded validation records of a synthetic data set: its first n records play public."""
    m = len(y) - n
    data = {"training": "made", "validation": "made", "n_validation": m, "target": "y"}
    spec = _comparison_study(data, model, space)
    trainer = EstimatorTrainer(X[:n], y[:n], EstimatorFactory(spec.model.estimator, spec.model.params))
    problem = replace(problem_of(spec, n_validation=m), trainer=trainer)
    records = Encoded(X[n:].copy(), y[n:].astype(np.int64), np.zeros(m, dtype=bool), int(y.max()) + 1)
    return problem, records
