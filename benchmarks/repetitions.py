"""64 repetitions of one private study, as an audit of its noise needs them: in a batch, and one by one.

    python -m benchmarks.repetitions [--json]

Every repetition runs the product's own method with its own noise from the operating system, for an audit has to
run the code that releases. What a batch shares is what no noise touches: the models, which are functions of λ, and
their exact sums. So the repetitions do not walk in step on a batch axis of the posterior: that would be a second
search, and auditing it would say nothing of the first. The product itself keeps no sum of a candidate it has
scored: where the path is private, a quicker second visit would tell it.
"""

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.rows import Row, main, spread_row
from benchmarks.timing import in_turn, ratio
from benchmarks.training import table
from dpbo_core.data import Encoded
from dpbo_core.mechanisms.noise import Noise, OperatingSystemNoise
from dpbo_core.methods.private_trajectory import PrivateTrajectory
from dpbo_core.methods.problem import Problem
from dpbo_core.models.estimators import Model
from dpbo_core.models.linear.fit import LinearTrainer
from dpbo_core.models.scores.sigmoid import Sigmoid
from dpbo_core.models.scoring.in_memory import Objective, Scorer
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.study import StudySpec
from dpbo_core.study.resolve import problem_of

RECORDS, FEATURES, STEPS, TIMES, REPETITIONS = 20_000, 30, 20, 64, 3


class Remembering:
    """A scorer that keeps the sums of the models it has scored, for audits of public tables."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer, self._sums = scorer, {}

    def evaluate(self, model: Model) -> Sensitive[int]:
        if id(model) not in self._sums:
            self._sums[id(model)] = (model, self._scorer.evaluate(model))  # kept, so that its id is not used again
        return self._sums[id(model)][1]


class Memory:
    """A recorder without a database."""

    def recorded(self, what):
        del what

    def record(self, spend, draw):
        del spend
        return draw()


def rows() -> Iterator[Row]:
    X, y = table(2 * RECORDS, FEATURES)
    labels = (y > 0).astype(int)
    training, validation = slice(0, RECORDS), slice(RECORDS, None)
    broken = labels[validation] < 0

    def prepared() -> tuple[Problem, Objective]:
        trainer = LinearTrainer.of(X[training], labels[training], "logistic", score=Sigmoid(10.0), tolerance=None)
        problem = replace(problem_of(SPEC, n_validation=RECORDS), trainer=trainer)
        records = Encoded(X[validation], labels[validation], broken, 2)
        return problem, Objective(Sensitive(records), problem.score)

    def one_by_one() -> None:
        for _ in range(TIMES):
            repeat(*prepared())

    def batch() -> None:
        problem, objective = prepared()
        remembering = Remembering(objective)
        for _ in range(TIMES):
            repeat(problem, remembering)

    alone, together = in_turn([one_by_one, batch], REPETITIONS)
    note = f"{min(together) / TIMES * 1e3:.3g} ms a repetition in the batch"
    on = f"{TIMES} repetitions of {STEPS} steps, {RECORDS:,} × {FEATURES}"
    yield spread_row(f"{on}: one by one, of a batch", ratio(alone, together), at_least=4.0, note=note)


def repeat(problem: Problem, objective: Scorer) -> None:
    """The method's three verbs."""
    method = PrivateTrajectory()
    plan = method.plan(problem)
    search, noise = method.start(problem, plan), Noise(OperatingSystemNoise(), Memory())
    noise.prepare_draws(method.draws(problem))
    for _ in range(method.n_steps(problem)):
        search.step(objective, noise)
    search.finish(noise)


SPEC = StudySpec.from_dict(
    {
        "study": {"name": "repeated", "method": "private_trajectory"},
        "privacy": {"dataset": "records", "epsilon": 1.0, "delta": 1e-6},
        "data": {
            "training": "training.parquet",
            "validation": "validation.parquet",
            "target": "y",
            "n_validation": RECORDS,
        },
        "model": {"estimator": "logistic", "score": "sigmoid", "steepness": 10.0},
        "space": {"lambda": {"low": 1e-4, "high": 10.0, "log": True, "points": 64}},
        "search": {"steps": STEPS, "lengthscale": 0.3},
    }
)


if __name__ == "__main__":
    main(rows)
