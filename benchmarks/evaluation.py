"""How far the AUC of a report is from that of the records it counted, and how often its interval holds that.

    python -m benchmarks.evaluation [--json] [--world NAME] [--records M] [--share S] [--draws N]

All of it takes more than an hour; one world, as in `--world boosting --records 1000 --share 0.36 --draws 200`, a
minute.

No data set of the product's examples is among them. Normal: decision values are normal, one standard deviation
wide, the positives' further up; at an AUC of 0.70 their sampling error is that of the held-back data sets whose
goals these are. Models: boosting and a forest of 20 trees, whose values tie, on 12 columns of `make_classification`
with heavy tails and 3% of the labels turned. Each draw is of new records, with noise of the mechanism's law, k = 1;
as many new public records as are counted choose the bins, except where it says 300.
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

DRAWS = 1000
SCALE = 2.0  # of ε = 1
POOL, TRAINED = 120_000, 3_000
GOALS = (  # records, share of positives, mean |AUC error| asked at ε = 1
    (1_000, 0.36, 0.009),
    (10_000, 0.36, 0.0014),
    (10_000, 0.06, 0.006),
    (1_000, 0.06, None),
)
DISTANCES = {0.742: "0.70", 1.45: "0.85", 2.33: "0.95"}  # of the classes' means, and the AUC that is


def normal(share, distance):
    """New records of that AUC: their values and classes; and the model's threshold."""

    def drawn(rng, m):
        positive = rng.random(m) < share
        return rng.normal(size=m) + distance * positive, positive

    return drawn, distance / 2.0


@functools.cache
def pool(model, share):
    """Probabilities of a trained model on many records, and their classes."""
    from sklearn.datasets import make_classification
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

    X, y = make_classification(
        POOL, 12, n_informative=5, n_clusters_per_class=3, weights=[1.0 - share], flip_y=0.03, class_sep=0.7,
        random_state=7,
    )  # fmt: skip
    X = np.sinh(X)
    made = {
        "boosting": HistGradientBoostingClassifier(max_iter=40, random_state=0),
        "a forest": RandomForestClassifier(20, min_samples_leaf=5, random_state=0),
    }[model]
    made.fit(X[:TRAINED], y[:TRAINED])
    return made.predict_proba(X[TRAINED:])[:, 1], y[TRAINED:] == 1


def modelled(model, share):
    """Records of a pool, new at each draw; and the model's threshold."""
    values, positive = pool(model, share)

    def drawn(rng, m):
        taken = rng.choice(len(values), m, replace=False)
        return values[taken], positive[taken]

    return drawn, 0.5


def true_auc(values, positive):
    from sklearn.metrics import roc_auc_score

    return roc_auc_score(positive, values)


def measured(drawn, threshold, m, *, n_public=None, draws=DRAWS):
    """Mean |error|, how often the noise interval holds the exact AUC, the sampling sd, and what was expected."""
    rng = np.random.default_rng(m)
    errors, exact, held = [], [], []
    for _ in range(draws):
        values, positive = drawn(rng, n_public or m)
        public = PublicRecords(positive.astype(int), values - threshold, "decision_function")
        told = Binary.expected(public, TableSize(m, SCALE), None)
        values, positive = drawn(rng, m)
        cells = class_bins(values - threshold, positive.astype(int), told.edges)
        size = 1 + 2 * (len(told.edges) + 1)
        counts = np.bincount(cells, minlength=size) + simulated_noise(rng, SCALE, (size,))
        kind = Binary.of(public, told.edges)
        table = NoisedTable(m, SCALE, kind, (), tuple(counts.astype(int).tolist()))
        exact.append(true_auc(values, positive))
        errors.append(abs(float(table.figures(table.shifted(counts))["auc"]) - exact[-1]))
        low, high = table.estimates().noise["auc"]
        held.append(bool(low <= exact[-1] <= high))
    return float(np.mean(errors)), float(np.mean(held)), float(np.std(exact)), told


def worlds(share):
    """What draws records, with a name for it and how many public ones there are."""
    for distance, auc in DISTANCES.items():
        yield f"AUC {auc}", normal(share, distance), None
    yield "AUC 0.85, 300 public records", normal(share, 1.45), 300
    for model in ("boosting", "a forest"):
        yield model, modelled(model, share), None


def asked():
    """Which worlds, of how many records and positives, and how many draws of each; all where it is not said."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evaluation")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--world", help="part of a world's name, boosting say")
    parser.add_argument("--records", type=int, choices=sorted({m for m, _, _ in GOALS}))
    parser.add_argument("--share", type=float, choices=sorted({share for _, share, _ in GOALS}))
    parser.add_argument("--draws", type=int, default=DRAWS)
    return parser.parse_args()


def rows() -> Iterator[Row]:
    only = asked()
    for m, share, goal in GOALS:
        if only.records not in (None, m) or only.share not in (None, share):
            continue
        for name, (drawn, threshold), n_public in worlds(share):
            if only.world is not None and only.world not in name:
                continue
            error, held, sampling, told = measured(drawn, threshold, m, n_public=n_public, draws=only.draws)
            note = (
                f"{len(told.edges) + 1} bins; expected {told.errors['auc_error']:.2g}, {told.verdict}; sampling sd "
            )
            note += f"{sampling:.2g}; the 90% noise interval held it in {held:.1%} of {only.draws:,}"
            what = f"mean AUC error, {name}, {share:.0%} positive, m = {m:,}"
            yield Row(what, error, unit="", at_most=goal, note=note)


if __name__ == "__main__":
    main(rows)
