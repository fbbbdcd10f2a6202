"""Small worlds for tests: a problem whose models are its candidates, and an objective that is a table of scores."""

import os
from dataclasses import dataclass, replace

import numpy as np
import pytest

from dpbo_core import PrivateSearch, StudySpec
from dpbo_core.errors import DpboError
from dpbo_core.mechanisms.noise import OperatingSystemNoise
from dpbo_core.methods import method_named
from dpbo_core.methods.problem import Problem
from dpbo_core.models.integer_sums import GRID, stretched
from dpbo_core.models.scores.sigmoid import Sigmoid
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.search.search_space import Real, SearchSpace, grid
from dpbo_core.study import LinearSection, SearchSection
from dpbo_core.study.named_score import score_of

OPTIONS = {  # what a study must say of a method whose options have no default
    "exact_gp": {"rate_constant": 1e3, "decay_constant": 0.01}  # so large that the score's range caps it
}
PATHS = {  # the two forms of Algorithm 3 as printed, which campaigns run beside each method as it is by default
    "lipschitz_ahead": {"evaluate": "path"},
    "lipschitz_step": {"evaluate": "path", "train": "step"},
}
PATH_ACCEPTS = ("step_times_hidden",)


def with_method(tables, kind):
    """The tables of a study of this kind, or of a form of it."""
    tables["study"]["method"] = "lipschitz" if kind in PATHS else kind
    tables["method"] = dict((OPTIONS | PATHS).get(kind, {}))
    return tables


def plain(kind):
    """The method of this kind, with its defaults."""
    return method_named(kind, OPTIONS.get(kind, {}))


@dataclass(frozen=True)
class Named:
    """A model that knows which candidate it is."""

    index: int


class NamedTrainer:
    """Trains nothing: the model of a point is its place in Λ. Counts what it was asked for."""

    def __init__(self, lambdas):
        self.lambdas, self.asked = lambdas, []

    def train(self, point):
        self.asked.append(point["lambda"])
        return Named(self.lambdas.index(point["lambda"]))

    n_records = 200

    def public_score(self, point, *, seed):
        """A public half that thinks best what lies in the middle; it may be wrong."""
        u = self.lambdas.index(point["lambda"]) / len(self.lambdas)
        return 0.8 - (u - 0.5) ** 2

    def public_steps(self, point, *, seed):
        """Every record scores as their mean does."""
        return np.full(self.n_records, round(self.public_score(point, seed=seed) * GRID))


@dataclass
class Table:
    """scores[i, j] in [0, 1]: the score of candidate i on record j."""

    scores: np.ndarray

    def evaluate(self, model):
        return Sensitive(int(self.steps(model).sum()))

    def paired(self, model, reference, clipped):
        return Sensitive(int(stretched(self.steps(model), self.steps(reference), clipped).sum()))

    def steps(self, model):
        return np.rint(self.scores[model.index] * GRID).astype(np.int64)


@dataclass
class PairTable:
    """values[i, j]: the decision value of candidate i for record j; labels (m,) 0, 1, or −1 for neither class."""

    values: np.ndarray
    labels: np.ndarray

    def exact(self, index):
        """(C₂, D) of a candidate."""
        s, y = self.values[index], self.labels
        above, below = s[y == 1][:, None], s[y == 0][None, :]
        return int((2 * (above > below) + (above == below)).sum()), 2 * above.size * below.size

    def auc(self, index):
        """Of a candidate."""
        ranked, pairs = self.exact(index)
        return ranked / pairs

    def evaluate(self, model):
        return Sensitive(self.exact(model.index)[0])

    def pairs(self):
        return Sensitive(self.exact(0)[1])


class Memory:
    """A recorder without a database."""

    def __init__(self):
        self.kept = {}

    def recorded(self, what):
        return self.kept.get(what)

    def record(self, spend, draw):
        if spend.what not in self.kept:
            self.kept[spend.what] = draw()
        return self.kept[spend.what]


class Watch(OperatingSystemNoise):
    """The system's noise, which keeps every vector that it drew."""

    def __init__(self):
        self.drawn = []

    def draw_many(self, measurement, size, imitation):
        self.drawn.append(super().draw_many(measurement, size, imitation))
        return self.drawn[-1]


def problem(*, n_candidates=12, n_validation=50, epsilon=1.0, delta=1e-6, steps=30, k=1, **search):
    """λ ∈ [0.5, 8] on a log grid; m public."""
    candidates = grid(SearchSpace({"lambda": Real(0.5, 8.0, log=True)}), {"lambda": n_candidates})
    return Problem(
        candidates=candidates,
        n_validation=n_validation,
        score=Sigmoid(0.05),
        model=LinearSection(estimator="logistic", steepness=0.05),
        search=SearchSection(steps=steps, **search),
        epsilon=epsilon,
        delta=delta,
        max_records_per_person=k,
        study="table",
        edition="1",
        dataset="d",
        trainer=NamedTrainer([point["lambda"] for point in candidates.points]),
    )


def by_pairs(problem):
    """The same problem under a score that counts pairs."""
    model = LinearSection(estimator="logistic", score="roc_auc")
    return replace(problem, score=score_of(model), model=model)


def ranked_table(problem, *, best, seed=0, width=0.25, share=0.3):
    """Decision values whose classes are furthest apart at candidate `best`."""
    rng = np.random.default_rng(seed)
    u, m = problem.candidates.encoded[:, 0], problem.n_validation
    labels = (np.arange(m) < share * m).astype(np.int64)
    height = 0.4 + 1.6 * np.exp(-(((u - u[best]) / width) ** 2))
    return PairTable(height[:, None] * labels + rng.normal(size=m), labels)


def smooth_table(problem, *, best, seed=0, width=0.25):
    """A smooth score with its maximum at candidate `best`, plus per-record scatter."""
    rng = np.random.default_rng(seed)
    u = problem.candidates.encoded[:, 0]
    height = 0.2 + 0.6 * np.exp(-(((u - u[best]) / width) ** 2))
    scatter = rng.uniform(-0.1, 0.1, size=(1, problem.n_validation))
    return Table(np.clip(height[:, None] + scatter, 0.0, 1.0))


def run(method, problem, objective, noise, *, plan=None):
    """The three verbs, plainly."""
    search = method.start(problem, plan or method.plan(problem))
    for _ in range(method.n_steps(problem)):
        search.step(objective, noise)
    return search.finish(noise)


def mostly_slow(values, *short):
    """Parameters of a test, of which `short` are in the short run, and the others in `make audit`."""
    assert set(short) <= set(values)
    return [pytest.param(value, marks=[] if value in short else pytest.mark.slow) for value in values]


def at_length(examples):
    """How many examples Hypothesis tries: a quarter in the short run, all in `make audit`."""
    return examples if "DPBO_AT_LENGTH" in os.environ else max(10, examples // 4)


def search_of(url, estimator, space, **changes):
    """A search of a few candidates by the grid method, at ε = 1 under a wide cap."""
    settings = {"epsilon": 1.0, "delta": 0.0, "dataset": "d", "budget": (50.0, 0.0), "method": "private_grid"}
    return PrivateSearch(estimator, space, **settings | {"n_candidates": 4, "ledger": url} | changes)


def study_of_files(model, space, **tables):
    """A study by the grid method on two files of three records, with this [model] and [space], and other tables."""
    files = {"training": "t.csv", "validation": "v.csv", "n_validation": 3, "target": "y"}
    plain = {"study": {"name": "s", "method": "private_grid"}, "privacy": {"dataset": "d", "epsilon": 1.0}}
    return StudySpec.from_dict(plain | {"data": files, "model": model, "space": space} | tables)


def asked_until_it_answers(work):
    """What `work` returns, asked again as the message says where a busy machine takes the ledger for silent."""
    while True:
        try:
            return work()
        except DpboError as error:
            if "cannot be used now" not in error.what:
                raise
