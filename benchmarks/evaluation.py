"""How far the AUC of a report is from that of the records it counted, and what was said of it beforehand.

    python -m benchmarks.evaluation [--json]

Simulated records: decision values are normal, one standard deviation wide, the positives' further up. At an AUC of
0.70 their sampling error is that of the held-back data sets whose goals these are. Public records, as many as were
counted, choose the bins; each of 300 draws is of new records, with noise from the operating system, k = 1.
"""

from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np

from benchmarks.rows import Row, main
from dpbo_core.evaluation.bins import expected, ranked_within
from dpbo_core.evaluation.figures import figures
from dpbo_core.evaluation.intervals import estimates
from dpbo_core.evaluation.places import placed
from dpbo_core.evaluation.table import NoisedTable
from dpbo_core.mechanisms.histogram import LaplaceHistogram
from dpbo_core.mechanisms.noise import OperatingSystemNoise
from dpbo_core.privacy.amounts import spent_units
from dpbo_core.privacy.sensitive import Sensitive

DRAWS, COVERED = 300, 150
GOALS = (  # records, share of positives, mean |AUC error| asked at ε = 1
    (1_000, 0.36, 0.009),
    (10_000, 0.36, 0.0014),
    (10_000, 0.06, 0.006),
    (1_000, 0.06, None),
)
DISTANCES = {0.742: "0.70", 1.45: "0.85", 2.33: "0.95"}  # of the classes' means, and the AUC that is


def records(rng, m, share, distance):
    positive = rng.random(m) < share
    return rng.normal(size=m) + distance * positive, positive


def true_auc(values, positive):
    from sklearn.metrics import roc_auc_score

    return roc_auc_score(positive, values)


def measured(m, share, distance, *, epsilon=1.0):
    """Mean |error|, coverage of the exact AUC, the sampling sd, and what was expected."""
    rng = np.random.default_rng(m)
    errors, exact, held = [], [], []
    for number in range(DRAWS):
        public = SimpleNamespace(threshold=distance / 2.0)
        public.values, public.positive = records(rng, m, share, distance)
        scale = 2.0 / epsilon
        told = expected(public, n_records=m, scale=scale)
        values, positive = records(rng, m, share, distance)
        places = placed(values, positive.astype(int), told.edges)
        mechanism = LaplaceHistogram(2, spent_units(epsilon), 1 + 2 * (len(told.edges) + 1))
        counts = np.bincount(places, minlength=mechanism.size).astype(np.int64)
        drawn = mechanism.prepare(mechanism.spend("histogram"), OperatingSystemNoise())(Sensitive(counts))
        within = ranked_within(public, told.edges)
        table = NoisedTable(m, scale, told.edges, public.threshold, within, None, (), tuple(drawn))
        exact.append(true_auc(values, positive))
        errors.append(abs(float(figures(table, table.shifted(np.array(drawn, dtype=float)))["auc"]) - exact[-1]))
        if number < COVERED:
            low, high = estimates(table)[1]["auc"]
            held.append(bool(low <= exact[-1] <= high))
    return float(np.mean(errors)), float(np.mean(held)), float(np.std(exact)), told


def rows() -> Iterator[Row]:
    for m, share, goal in GOALS:
        for distance, auc in DISTANCES.items():
            error, held, sampling, told = measured(m, share, distance)
            note = f"{len(told.edges) + 1} bins; expected {told.auc_error:.2g}, {told.verdict}; sampling sd "
            note += f"{sampling:.2g}; the noise interval held it in {held:.0%} of {COVERED}"
            what = f"mean AUC error, AUC {auc}, {share:.0%} positive, m = {m:,}"
            yield Row(what, error, unit="", at_most=goal, note=note)


if __name__ == "__main__":
    main(rows)
