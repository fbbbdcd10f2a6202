"""How often the intervals of a report of two classes hold what they are said to hold, figure by figure.

    python -m benchmarks.report_intervals [--json] [--world NAME] [--draws N] [--seed S]

Twelve cells: 200, 1,000 and 10,000 records, of which 3, 10 and 36% are positive, and one where the counted records
are not like the public ones (20% positive, and the model ranks them worse). Each draw is of new records, with noise
of the mechanism's law at ε = 1; 2,000 new public records choose the bins. "both" is the interval that is said to
hold the figure of all such records, `sampling_interval`: of AUC and average precision the exact ones of the
population, of other figures those of its bins. "noise" is said to hold the figure of the counted records.
Where a report says nothing of a figure it has not said anything untrue, and counts as holding; in how many draws a
figure is told stands beside it.
"""

import argparse
import functools
from collections.abc import Iterator

import numpy as np

from benchmarks.rows import Row, main
from dpbo_core.report.binary import Binary
from dpbo_core.report.histogram_cells import class_bins
from dpbo_core.report.noised_table import NoisedTable, simulated_noise
from dpbo_core.report.report_kind import PublicRecords, TableSize

SCALE = 2.0  # of ε = 1
RECORDS, SHARES, N_PUBLIC = (200, 1_000, 10_000), (0.03, 0.10, 0.36), 2_000
POOL, TRAINED = 120_000, 3_000
EXACT = ("auc", "auc_any_order", "average_precision")  # of the values themselves; the others are of the bins
AT_LEAST = 0.87


@functools.cache
def pools(model, share, shifted):
    """Probabilities and classes of the public population, and of the counted one."""
    from sklearn.datasets import make_classification
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    X, y = make_classification(
        POOL, 12, n_informative=5, n_clusters_per_class=3, weights=[1.0 - share], flip_y=0.03, class_sep=0.7,
        random_state=11,
    )  # fmt: skip
    made = {
        "boosting": HistGradientBoostingClassifier(max_iter=40, random_state=0),
        "a forest": RandomForestClassifier(20, min_samples_leaf=5, random_state=0),
        "a line": LogisticRegression(),
    }[model]
    made.fit(X[:TRAINED], y[:TRAINED])
    public = made.predict_proba(X[TRAINED:])[:, 1], y[TRAINED:] == 1
    if not shifted:
        return public, public
    rng = np.random.default_rng(12)
    moved = X[TRAINED:] + 0.7 * rng.normal(size=(POOL - TRAINED, 12)) + 0.2
    return public, (made.predict_proba(moved)[:, 1], y[TRAINED:] == 1)


def exact(values, positive):
    from sklearn.metrics import average_precision_score, roc_auc_score

    auc = roc_auc_score(positive, values)
    return {
        "auc": auc,
        "auc_any_order": auc,
        "average_precision": average_precision_score(positive, values),
    }


def figures_of(kind, values, positive, population=None):
    """Every figure of these records, as bins have it but for those of the values themselves."""
    cells = class_bins(values, positive.astype(int), kind.edges)
    counts = np.bincount(cells, minlength=1 + 2 * (len(kind.edges) + 1)).astype(float)
    figures = NoisedTable(len(values), SCALE, kind, (), tuple(counts.tolist())).figures(counts)
    return {name: float(figures[name]) for name in kind.metrics} | (population or exact(values, positive))


def measured(model, share, m, *, shifted, draws, seed):
    """For each figure and interval: whether it holds the truth in each draw, errors and widths where it is told."""
    (public_values, public_positive), (values, positive) = pools(model, share, shifted)
    population = exact(values, positive)
    rng = np.random.default_rng([seed, m, int(100 * share), int(shifted)])
    held, errors, widths = {}, {}, {}
    for _ in range(draws):
        at = rng.choice(len(public_values), N_PUBLIC, replace=False)
        public = PublicRecords(public_positive[at].astype(int), public_values[at], "predict_proba")
        kind = Binary.of(public, Binary.expected(public, TableSize(m, SCALE), None).edges)
        at = rng.choice(len(values), m, replace=False)
        cells = class_bins(values[at], positive[at].astype(int), kind.edges)
        size = 1 + 2 * (len(kind.edges) + 1)
        drawn = np.bincount(cells, minlength=size) + simulated_noise(rng, SCALE, (size,))
        estimates = NoisedTable(m, SCALE, kind, (), tuple(drawn.astype(int).tolist())).estimates()
        truths = {
            "both": figures_of(kind, values, positive, population),
            "noise": figures_of(kind, values[at], positive[at]),
        }
        for name in kind.metrics:
            for which, intervals in (("both", estimates.sampling), ("noise", estimates.noise)):
                low, high = (float(end) for end in intervals[name])
                untold = np.isnan([low, high]).any() or np.isnan(estimates.values[name])
                holds = untold or low - 1e-9 <= truths[which][name] <= high + 1e-9
                held.setdefault((which, name), []).append(holds)
                if untold:
                    continue
                widths.setdefault((which, name), []).append(high - low)
                errors.setdefault((which, name), []).append(float(estimates.values[name]) - truths[which][name])
    return held, errors, widths


def asked():
    """Which model's world, how many draws, and the seed of all of them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report_intervals")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--world", default="boosting", choices=["boosting", "a forest", "a line"])
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--seed", type=int, default=38)
    return parser.parse_args()


def rows() -> Iterator[Row]:
    only = asked()
    for m in RECORDS:
        for share, shifted in [*((share, False) for share in SHARES), (0.20, True)]:
            held, errors, widths = measured(only.world, share, m, shifted=shifted, draws=only.draws, seed=only.seed)
            for (which, name), each in held.items():
                what = (
                    f"{which} interval of {name}, m = {m:,}, {share:.0%} positive{', shifted' if shifted else ''}"
                )
                error, width = (np.array(of.get((which, name), [np.nan])) for of in (errors, widths))
                note = f"told in {len(widths.get((which, name), []))} of {only.draws}; "
                note += f"mean error {error.mean():+.2g}, width {width.mean():.2g}"
                least = AT_LEAST if which == "both" else None
                yield Row(what, float(np.mean(each)), unit="", at_least=least, note=note)


if __name__ == "__main__":
    main(rows)
