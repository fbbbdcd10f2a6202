"""Each person once, by the mean of that person's records, beside at most k records of each.

    python -m benchmarks.persons [--json]

5,000 people with 10,121 records between them, most with one or two and some with twenty. Noise is the scale on the
released score at ε = 1, as a share of its range; bias is the exact score less the mean of the persons' means in
fractions, before any noise.
"""

from collections.abc import Iterator
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.rows import Row, main, spread_row
from benchmarks.timing import Spread, in_turn
from dpbo_core.data import Encoded
from dpbo_core.data.people import surplus_mask
from dpbo_core.models.estimators import EstimatorFactory
from dpbo_core.models.integer_sums import GRID
from dpbo_core.models.linear.fit import LinearModel
from dpbo_core.models.scores.accuracy import Accuracy
from dpbo_core.models.scores.brier import Brier
from dpbo_core.models.scoring.in_memory import Objective
from dpbo_core.models.scoring.persons import PersonObjective, Persons
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.study import StudySpec
from dpbo_core.study.resolve import plan_study

PEOPLE, RECORDS, MOST, REPETITIONS = 5_000, 10_121, 20, 5


def rows() -> Iterator[Row]:
    means, slots = noise({"n_persons": PEOPLE}), noise({"n_validation": RECORDS}, max_records_per_person=MOST)
    yield Row("noise with k = 20, by that with each person once", slots / means, at_least=9.88, note=f"{means:.3g}")
    perfect = np.full(120, 1.0)
    people = [f"p{i // 4}" for i in range(120)]
    yield Row(
        "bias of k = 3 for a perfect classifier, every fourth record beyond k",
        float(by_slots(perfect, people, 3) - truth(perfect, people)),
        unit="",
    )
    yield Row(
        "bias of each person once, there", float(by_person(perfect, people) - truth(perfect, people)), unit=""
    )
    rng = np.random.default_rng(0)
    counts = sizes(rng)
    people = [f"p{i}" for i, n in enumerate(counts) for _ in range(n)]
    right = (rng.random(RECORDS) < np.repeat(rng.beta(4.0, 1.0, PEOPLE), counts)).astype(float)
    k = int(np.quantile(counts, 0.95))
    yield Row(
        f"bias of k = {k}, which is enough for 19 of 20 people",
        float(by_slots(right, people, k) - truth(right, people)),
        unit="",
        note="against the mean of all records it weighs people by their records too",
    )
    off = float(abs(by_person(right, people) - truth(right, people)))
    yield Row("bias of each person once, there", off, unit="", at_most=1e-6)
    yield from durations(rng, people)


def noise(counted: dict[str, int], **k: int) -> float:
    """Of the score that `private_grid` releases; its range is 1."""
    study = {
        "study": {"name": "visits", "method": "private_grid"},
        "privacy": {"dataset": "visits", "epsilon": 1.0, "person": "patient", **k},
        "data": {"training": "t.csv", "validation": "v.csv", "target": "y", **counted},
        "model": {"estimator": "logistic", "score": "accuracy"},
        "space": {"lambda": {"low": 1e-4, "high": 10.0, "log": True, "points": 20}},
    }
    return plan_study(StudySpec.from_dict(study)).spends[-1].noise_scale


def sizes(rng: np.random.Generator) -> NDArray[np.int64]:
    """Records a person, (PEOPLE,), from 1 to MOST, RECORDS in all."""
    counts = np.minimum(rng.geometric(0.5, PEOPLE), MOST)
    counts[:30] = MOST
    while counts.sum() != RECORDS:
        place = rng.integers(30, PEOPLE)
        counts[place] = np.clip(counts[place] + np.sign(RECORDS - counts.sum()), 1, MOST)
    return counts


def truth(right: NDArray[np.float64], people: list[str]) -> Fraction:
    """The mean of the persons' means, in fractions."""
    sums: dict[str, list[int]] = {}
    for person, one in zip(people, right, strict=True):
        pair = sums.setdefault(person, [0, 0])
        pair[0], pair[1] = pair[0] + int(one), pair[1] + 1
    return sum((Fraction(*pair) for pair in sums.values()), Fraction()) / len(sums)


def table(right: NDArray[np.float64], broken: NDArray[np.bool_] | None = None) -> Encoded:
    """Records that the model x ↦ x classifies right, or wrong."""
    broken = np.zeros(len(right), dtype=np.bool_) if broken is None else broken
    X = np.where(broken, 0.0, 1.0)[:, None]
    return Encoded(X, np.where(broken, -1, right).astype(np.int64), broken, 2)


MODEL = LinearModel(np.ones(1), 1.0, 0.0)


def by_slots(right: NDArray[np.float64], people: list[str], k: int) -> Fraction:
    """The exact score, at most k records of each."""
    objective = Objective(Sensitive(table(right, surplus_mask(people, k))), Accuracy())
    return Fraction(objective.evaluate(MODEL).expose(), len(right) * GRID)


def by_person(right: NDArray[np.float64], people: list[str]) -> Fraction:
    """The exact score, each person once."""
    n = len(set(people))
    objective = PersonObjective(Sensitive(table(right)), Sensitive(Persons.of(people)), Accuracy(), n)
    return Fraction(objective.evaluate(MODEL).expose(), n * GRID)


def durations(rng: np.random.Generator, people: list[str]) -> Iterator[Row]:
    """What a row's place by its content costs, for scikit-learn's models."""
    X, y = rng.normal(size=(RECORDS, 20)), rng.integers(0, 2, RECORDS)
    records = Encoded(X, y, np.zeros(RECORDS, dtype=np.bool_), 2)
    for path, params in (
        ("sklearn.linear_model.LogisticRegression", {}),
        ("sklearn.ensemble.RandomForestClassifier", {"n_estimators": 100, "max_depth": 8}),
    ):
        model = EstimatorFactory(path, params).train(X[:500], y[:500])
        forms = (
            Objective(Sensitive(records), Brier()),
            PersonObjective(Sensitive(records), Sensitive(Persons.of(people)), Brier(), PEOPLE),
        )
        plain, ours = in_turn([partial(form.evaluate, model) for form in forms], REPETITIONS)
        ratios = [b / a for a, b in zip(plain, ours, strict=True)]
        name = path.rpartition(".")[2]
        yield spread_row(f"scoring {RECORDS:,} records by {name}, by a sum over records", Spread.of(ratios))


if __name__ == "__main__":
    main(rows)
