"""What is lost by choosing on a count of pairs, and on other scores, where the AUC is what counts.

    python -m benchmarks.rankings [--data randhie.csv] [--json]

The RAND health insurance experiment (`randhie` of statsmodels): ten visits or more, 6% of the records. In each of
10 random splits 24 boosting candidates are trained on 5,000 public records; m others play the sensitive ones. A
choice is permute-and-flip at 0.75 ε, ε = 1, drawn 400 times as the maximum under exponential noise, which is the
same law. Regret: the best AUC of the 24 on the m records less that of the choice. Then the score of the best at
0.25 ε, with a share of it for the number of pairs, against C₂ and D drawn apart.
"""

import sys
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from benchmarks.rows import Row, main, missing
from dpbo_core.methods.pair_bounds import NoiseTail
from dpbo_core.methods.pair_draws import SHARE_OF_PAIRS, on_grid
from dpbo_core.methods.problem import PublicSearch
from dpbo_core.methods.public_search import head_start
from dpbo_core.models.estimator_trainer import EstimatorTrainer, with_cells
from dpbo_core.models.estimators import EstimatorFactory
from dpbo_core.models.integer_sums import GRID, PairCount, to_grid
from dpbo_core.models.scores.accuracy import Correct
from dpbo_core.models.scores.brier import Brier
from dpbo_core.models.scores.kinds import pairs_of
from dpbo_core.models.scores.log_loss import LogLoss
from dpbo_core.models.scores.roc_auc import RocAuc

SPLITS, DRAWS, PUBLIC = 10, 400, 5_000
SIZES = (10_000, 3_000)
GOALS = {10_000: 0.0006, 3_000: 0.017}  # of the regret when choosing by pairs
SELECT, SCORE = 0.75, 0.25  # of ε = 1
CANDIDATES = [
    {"learning_rate": rate, "max_leaf_nodes": leaves, "max_iter": rounds}
    for rate, leaves, rounds in product((0.01, 0.03, 0.1, 0.3, 0.6, 1.0), (4, 8, 16, 31), (60,))
]
CLASSIFIER = "sklearn.ensemble.HistGradientBoostingClassifier"
SCORES = {"brier": Brier(), "log_loss": LogLoss(), "accuracy": Correct()}
RANKS = RocAuc()


def records() -> tuple[np.ndarray, np.ndarray]:
    """Rows and classes.

    Raises:
        ImportError: statsmodels is not installed, and no file was named.
    """
    if "--data" in sys.argv:
        path = Path(sys.argv[sys.argv.index("--data") + 1])
    else:
        import statsmodels.datasets.randhie as randhie

        path = Path(randhie.__file__).with_name("randhie.csv")
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    return table[:, 1:], (table[:, 0] >= 10).astype(np.int64)


@cache
def measured() -> tuple[dict[tuple[int, str], np.ndarray], dict[tuple[int, str], np.ndarray], float]:
    """By m and score the mean regret of each split, by m and way the mean |error| of the score of each, and π."""
    X, y = records()
    regrets: dict[tuple[int, str], list[float]] = {}
    errors: dict[tuple[int, str], list[float]] = {}
    for split in range(SPLITS):
        rng = np.random.default_rng(split)
        order = rng.permutation(len(y))
        public = order[:PUBLIC]
        trainer = EstimatorTrainer(X[public], y[public], EstimatorFactory(CLASSIFIER, {}, 0), RANKS)
        models = [
            with_cells(trainer.factory.train(X[public], y[public], **at), RANKS, X[public])[0] for at in CANDIDATES
        ]
        guesses = np.array([trainer.public_score(at, seed=0) for at in CANDIDATES])
        for m in SIZES:
            own = order[PUBLIC : PUBLIC + m]
            counted = [pairs_of(model.table(X[own], y[own], RANKS)) for model in models]
            sums = {"pairs": [ranked for ranked, _ in counted]}
            for name, score in SCORES.items():
                steps = [
                    to_grid(model.scores(X[own], y[own], score), score.score_range, broken_score=0.0)
                    for model in models
                ]
                sums[name] = [int(each.sum()) for each in steps]
            D = counted[0][1]
            auc = np.array(sums["pairs"]) / D
            sums["pairs, with the public handicap"] = handicapped(sums["pairs"], guesses, m, y[public])
            for name, found in sums.items():
                moved = PairCount(m, 1).record_steps if name.startswith("pairs") else GRID
                noise = rng.exponential(2.0 * moved / SELECT, size=(DRAWS, len(found)))
                chosen = (np.array(found) + noise).argmax(axis=1)
                regrets.setdefault((m, name), []).append(float((auc.max() - auc[chosen]).mean()))
            best = int(auc.argmax())
            guess = float(guesses[best])
            for name, said in score_caption(rng, sums["pairs"][best], D, m, guess).items():
                errors.setdefault((m, name), []).append(float(np.abs(said - auc[best]).mean()))
    arrays = ({key: np.array(values) for key, values in found.items()} for found in (regrets, errors))
    return *arrays, float(y.mean())


def handicapped(ranked, guesses, m, labels):
    """C₂ and the head start of a public shortlist, which every candidate is on here."""
    count = PairCount(m, 1, float(labels.mean()))
    problem = SimpleNamespace(aggregate=count, n_training=len(labels), metric_per_step=count.metric_per_step)
    search = PublicSearch(None, tuple(range(len(guesses))), guesses, guesses)
    scale = 2.0 * count.record_steps / SELECT * count.metric_per_step
    return (np.array(ranked) + head_start(problem, search.tried, search, scale)).tolist()


def score_caption(rng, ranked, pairs, m, guess):
    """Scores as they are drawn in several ways, (DRAWS,) each."""
    count = PairCount(m, 1, pairs / (2 * m**2) * 1.2)  # a public share a fifth off

    def laplace(epsilon):
        return rng.laplace(0.0, count.record_steps / epsilon, DRAWS)

    def number(epsilon):
        least = NoiseTail(count.record_steps / epsilon, gaussian=False).least_shown
        return np.clip(pairs + laplace(epsilon), least, count.range_steps)

    found = {"C2 and D apart": (ranked + laplace(SCORE / 2)) / number(SCORE / 2)}
    for part in (0.1, 0.15, SHARE_OF_PAIRS, 0.4):
        for name, r in (("public AUC", on_grid(guess)), ("3/4", 0.75)):
            drawn = ranked - np.floor(r * pairs) + laplace(SCORE * (1 - part))
            found[f"beside {name}, {part:g} for D"] = r + drawn / number(SCORE * part)
    return found


def rows() -> Iterator[Row]:
    try:
        records()
    except ImportError:
        yield missing("AUC regret", "statsmodels")
        return
    regrets, errors, share = measured()
    for (m, name), values in regrets.items():
        what = f"mean AUC regret, chosen by {name}, m = {m:,}, {share:.1%} positive"
        goal = GOALS[m] if name.startswith("pairs") else None
        note = f"{SPLITS} splits × {DRAWS} draws; standard error {values.std(ddof=1) / SPLITS**0.5:.1g}"
        yield Row(what, float(values.mean()), unit="", at_most=goal, low=values.min(), high=values.max(), note=note)
    for (m, name), values in errors.items():
        what = f"mean |AUC error| of the score at ε = {SCORE}, {name}, m = {m:,}"
        yield Row(what, float(values.mean()), unit="", low=values.min(), high=values.max())


if __name__ == "__main__":
    main(rows)
