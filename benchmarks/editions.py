"""Editions that learn from earlier ones beside editions that begin afresh, on landscapes that drift.

    python -m benchmarks.editions [--json] [repetitions]

12 editions at (ε, δ) = (1, 1e-6): T = 10 steps of `private_trajectory` on m = 1,000 records each. A landscape is
a draw of a Gaussian process (Matérn 5/2, ℓ = 0.3√d, deviation 0.06 of the score's range) about 0.7, on 64
candidates of one axis or 16 × 16 of two. *Slow*: from edition to edition f ← √(1 − 0.12²)·f + 0.12·(a new draw).
*Sudden*: another draw from edition 7 on. *None*: the same throughout. Repetition i draws its landscapes from seed
(7, i) and its noise from (i, edition), the same for both contenders. A row is the ratio of their mean regrets
over editions 4 to 12 unless it says otherwise, with a 90% interval by the jackknife over the repetitions.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.compare.rivals import Forgetful
from benchmarks.compare.tasks import ScoreTable, TableScorer, TableTrainer
from benchmarks.rows import Row, main
from dpbo_core.mechanisms.noise import InjectedNoise, Noise
from dpbo_core.methods.private_trajectory import PrivateTrajectory
from dpbo_core.methods.problem import Problem
from dpbo_core.models.integer_sums import GRID
from dpbo_core.privacy.release import Release
from dpbo_core.search.gp import Matern52
from dpbo_core.search.search_space import EarlierEdition
from dpbo_core.study import StudySpec
from dpbo_core.study.editions import MAX_EDITIONS, edition_of, places_in
from dpbo_core.study.resolve import problem_of

EDITIONS, CHANGED, REPETITIONS = 12, 7, 24
SLOW, DEVIATION, CENTRE = 0.12, 0.06, 0.7
AXIS = {"low": 1e-3, "high": 1e3, "log": True}
SPACES = {1: {"C": AXIS | {"points": 64}}, 2: {"C": AXIS | {"points": 16}, "gamma": AXIS | {"points": 16}}}
RECORDS = 1_000
ASKED = {"slow": 0.5, "sudden": 1.1}

Landscape = NDArray[np.float64]


def rows(repetitions: int = REPETITIONS) -> Iterator[Row]:
    for dimensions in SPACES:
        for kind in ("slow", "none", "sudden"):
            afresh, learning = regrets(dimensions, kind, repetitions)
            what, asked = f"{dimensions} axes, {kind}", ASKED.get(kind)
            yield ratio_row(what, afresh[:, 3:], learning[:, 3:], asked)
            if kind == "sudden":
                after = slice(CHANGED - 1, None)
                yield ratio_row(f"{what}: editions 7–12", afresh[:, after], learning[:, after], asked)
                first = slice(CHANGED - 1, CHANGED)
                yield ratio_row(f"{what}: edition 7 alone", afresh[:, first], learning[:, first], None)


def ratio_row(what: str, afresh: Landscape, learning: Landscape, asked: float | None) -> Row:
    """Mean regret of the one by that of the other, (repetitions, editions) each."""
    top, bottom = learning.mean(axis=1), afresh.mean(axis=1)
    R = len(top)
    found = top.mean() / bottom.mean()
    without = (top.sum() - top) / (bottom.sum() - bottom)
    error = np.sqrt((R - 1) / R * ((without - without.mean()) ** 2).sum())
    note = f"mean regret {bottom.mean():.4f} afresh, {top.mean():.4f} learning; {R} repetitions"
    return Row(what, found, at_most=asked, low=found - 1.645 * error, high=found + 1.645 * error, note=note)


def regrets(dimensions: int, kind: str, repetitions: int) -> tuple[Landscape, Landscape]:
    """Of editions that begin afresh and of editions that learn, (repetitions, EDITIONS) each."""
    found = [
        [series(dimensions, kind, seed, learning=learning) for seed in range(repetitions)]
        for learning in (False, True)
    ]
    return np.array(found[0]), np.array(found[1])


def series(dimensions: int, kind: str, seed: int, *, learning: bool) -> list[float]:
    """The regret of each edition."""
    problem = problem_for(dimensions)
    truths, earlier, lost = landscapes(problem, kind, seed), list[EarlierEdition](), list[float]()
    places = places_in(problem)
    for number, truth in enumerate(truths):
        world, scorer = on_landscape(problem, truth)
        world = replace(world, earlier=tuple(earlier[-MAX_EDITIONS:]) if learning else None, edition=str(number))
        release = released(world, scorer, seed=(seed, number))
        earlier.append(edition_of(release, places))
        lost.append(float(truth.max() - truth[problem.candidates.points.index(release.value["hyperparameters"])]))
    return lost


def released(problem: Problem, scorer: TableScorer, *, seed: tuple[int, int]) -> Release:
    """One edition, with injected noise."""
    method = PrivateTrajectory()
    noise = Noise(InjectedNoise(np.random.default_rng(seed)), Forgetful())
    search = method.start(problem, method.plan(problem))
    for _ in range(method.n_steps(problem)):
        search.step(scorer, noise)
    return search.finish(noise)


def landscapes(problem: Problem, kind: str, seed: int) -> list[Landscape]:
    """f_1 … f_12 over Λ."""
    draw = smooth(problem, np.random.default_rng((7, seed)))
    shape, found = draw(), []
    for number in range(1, EDITIONS + 1):
        if number > 1 and kind == "slow":
            shape = np.sqrt(1.0 - SLOW**2) * shape + SLOW * draw()
        if number == CHANGED and kind == "sudden":
            shape = draw()
        found.append(np.clip(CENTRE + DEVIATION * shape, 0.0, 1.0))
    return found


def smooth(problem: Problem, rng: np.random.Generator) -> Callable[[], Landscape]:
    """Draws of the process of unit deviation."""
    X = problem.candidates.encoded
    L = np.linalg.cholesky(Matern52(0.3 * np.sqrt(X.shape[1])).matrix(X, X) + 1e-8 * np.eye(len(X)))
    return lambda: L @ rng.standard_normal(len(X))


def on_landscape(problem: Problem, truth: Landscape) -> tuple[Problem, TableScorer]:
    """The problem whose exact scores are these."""
    table = ScoreTable(np.rint(truth * problem.n_averaged * GRID).astype(np.int64), truth)
    places = {tuple(point.items()): i for i, point in enumerate(problem.candidates.points)}
    return replace(problem, trainer=TableTrainer(places, table, RECORDS)), TableScorer(places, table)


def problem_for(dimensions: int) -> Problem:
    """Support vectors on `dimensions` axes, accuracy; no file is opened."""
    spec = StudySpec.from_dict(
        {
            "study": {"name": "drift", "method": "private_trajectory"},
            "privacy": {"dataset": "drift", "epsilon": 1.0, "delta": 1e-6},
            "data": {
                "training": "t.csv",
                "validation": "v.csv",
                "target": "y",
                "n_validation": RECORDS,
            },
            "model": {"estimator": "sklearn.svm.SVC"},
            "space": SPACES[dimensions],
            "search": {"steps": 10},
        }
    )
    return problem_of(spec, n_validation=RECORDS)


if __name__ == "__main__":
    asked = [int(word) for word in sys.argv[1:] if word.isdigit()]
    main(lambda: rows(*asked))
