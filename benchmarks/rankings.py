"""What is lost by choosing on a count of pairs, and on other scores, where the AUC is what counts.

    python -m benchmarks.rankings [--data randhie.csv] [--json]

The RAND health insurance experiment (`randhie` of statsmodels): ten visits or more, 6% of the records. In each of
20 random splits 24 boosting candidates are trained on 5,000 public records; m others play the sensitive ones. A
choice is permute-and-flip at 0.75 ε, ε = 1, drawn 400 times as the maximum under exponential noise, which is the
same law. Regret: the best AUC of the 24 on the m records less that of the choice. Then the score of the best at
0.25 ε, with a share of it for the number of pairs, against C₂ and D drawn apart.
"""

import sys
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.rows import Row, main, missing
from dpbo_core.methods.pair_draws import SHARE_OF_PAIRS, on_grid
from dpbo_core.models.aggregates.pair_count import PairCount
from dpbo_core.models.estimators import EstimatorFactory
from dpbo_core.models.scores.accuracy import Correct
from dpbo_core.models.scores.brier import Brier
from dpbo_core.models.scores.grid import GRID, to_grid
from dpbo_core.models.scores.log_loss import LogLoss
from dpbo_core.models.scores.pairs import pairs_of
from dpbo_core.models.scores.roc_auc import RocAuc
from dpbo_core.models.trainer import EstimatorTrainer, table_of_estimator, with_cells

SPLITS, DRAWS, PUBLIC = 20, 400, 5_000
SIZES = (10_000, 3_000)
GOALS = {10_000: 0.0006, 3_000: 0.017}  # of the regret when choosing by pairs
SELECT, SCORE = 0.75, 0.25  # of ε = 1
CANDIDATES = [
    {"learning_rate": rate, "max_leaf_nodes": leaves, "max_iter": rounds}
    for rate, leaves, rounds in product((0.01, 0.05, 0.2, 0.6), (2, 8, 31), (20, 150))
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
        for m in SIZES:
            own = order[PUBLIC : PUBLIC + m]
            counted = [pairs_of(table_of_estimator(model, X[own], y[own], RANKS)) for model in models]
            sums = {"pairs": [ranked for ranked, _ in counted]}
            for name, score in SCORES.items():
                steps = [
                    to_grid(model.scores(X[own], y[own], score), score.score_range, broken_score=0.0)
                    for model in models
                ]
                sums[name] = [int(each.sum()) for each in steps]
            D = counted[0][1]
            auc = np.array(sums["pairs"]) / D
            for name, found in sums.items():
                moved = PairCount(m, 1).record_steps if name == "pairs" else GRID
                noise = rng.exponential(2.0 * moved / SELECT, size=(DRAWS, len(found)))
                chosen = (np.array(found) + noise).argmax(axis=1)
                regrets.setdefault((m, name), []).append(float((auc.max() - auc[chosen]).mean()))
            best = int(auc.argmax())
            guess = trainer.public_score(CANDIDATES[best], seed=0)
            for name, said in said_of(rng, sums["pairs"][best], D, m, guess).items():
                errors.setdefault((m, name), []).append(float(np.abs(said - auc[best]).mean()))
    arrays = ({key: np.array(values) for key, values in found.items()} for found in (regrets, errors))
    return *arrays, float(y.mean())


def said_of(rng, ranked, pairs, m, guess):
    """Scores as they are drawn in several ways, (DRAWS,) each."""
    count = PairCount(m, 1)

    def laplace(epsilon):
        return rng.laplace(0.0, count.record_steps / epsilon, DRAWS)

    def number(epsilon):
        return np.clip(pairs + laplace(epsilon), count.fewest_pairs, count.range_steps)

    found = {"C2 and D apart": (ranked + laplace(SCORE / 2)) / number(SCORE / 2)}
    for part in (0.03, 0.06, SHARE_OF_PAIRS, 0.25, 0.5):
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
        goal = GOALS[m] if name == "pairs" else None
        note = f"{SPLITS} splits × {DRAWS} draws; standard error {values.std(ddof=1) / SPLITS**0.5:.1g}"
        yield Row(what, float(values.mean()), unit="", at_most=goal, low=values.min(), high=values.max(), note=note)
    for (m, name), values in errors.items():
        what = f"mean |AUC error| of the score at ε = {SCORE}, {name}, m = {m:,}"
        yield Row(what, float(values.mean()), unit="", low=values.min(), high=values.max())


if __name__ == "__main__":
    main(rows)
