"""What a repair is worth where two populations differ, and what it costs where they do not: docs/tables/repair.txt.

    python -m benchmarks.repair [RUNS] [--data randhie.csv]      ε = 1; of fewer than 200 runs it is printed alone

Every shift is a public table with a logistic model and a sensitive one; a run draws m of the sensitive records and
the noise of their report. Log-losses are those of ALL sensitive records, not of the bins. *Lost* is how much worse
the repair by the noised cells is than that by the exact ones; *worse* the share of runs where it is more than 0.005
worse than the model as it was; *kept* the share where the threshold for a recall of 0.9 keeps it on the m records.
Data as `benchmarks.rankings` has them. Seeds: run i is `default_rng([SEED, i])`.
"""

import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dpbo_core.data.bundled import FADED_INK_SHARE
from dpbo_core.report.binary import Binary
from dpbo_core.report.histogram_cells import class_bins
from dpbo_core.report.noised_table import simulated_noise
from dpbo_core.report.repair import BinnedLogOdds, projected, recalibration, recall_edge
from dpbo_core.report.report_kind import PublicRecords, Reals, TableSize

SEED, EPSILON, SIZES, RECALL, RUNS = 40, 1.0, (500, 1_000, 2_000), 0.9, 200
TABLE = Path(__file__).parent.parent / "docs" / "tables" / "repair.txt"
HEAD = (
    "| shift | records | log-loss before | repaired by exact cells | lost by noise, mean | goal | in 95% of runs "
    "| worse than before by > .005 | goal | left as it is | recall of .9 kept | goal |"
)
DISEASES = 5  # its column among the features
Labelled = tuple[Reals, Reals]


def alike(rng: np.random.Generator) -> tuple[Labelled, Labelled]:
    """No shift: rows of one population."""
    X, y = make_classification(14_000, 12, n_informative=6, class_sep=0.7, flip_y=0.05, random_state=SEED)
    del rng
    return (X[:2_000], y[:2_000]), (X[2_000:], y[2_000:])


def rare(rng: np.random.Generator) -> tuple[Labelled, Labelled]:
    """The label's share falls from a half to 15%."""
    public, (X, y) = alike(rng)
    kept = (y == 0) | (rng.random(len(y)) < 0.18)
    return public, (X[kept], y[kept])


def blurred(rng: np.random.Generator) -> tuple[Labelled, Labelled]:
    """The sensitive columns carry noise that the public ones do not: the model is too sure of itself."""
    public, (X, y) = alike(rng)
    return public, (X + rng.normal(size=X.shape) * X.std(axis=0), y)


def moved(rng: np.random.Generator) -> tuple[Labelled, Labelled]:
    """An instrument with another zero and gain."""
    public, (X, y) = alike(rng)
    return public, (1.6 * X + 0.5 * X.std(axis=0), y)


def two_scanners(rng: np.random.Generator) -> tuple[Labelled, Labelled]:
    """The README's scans, digits of 5 and more: a quarter is public, the others faded; each is drawn many times."""
    X, y = load_digits(return_X_y=True)
    del rng
    public = np.arange(len(y)) % 4 == 0
    return (X[public], (y[public] >= 5).astype(int)), (FADED_INK_SHARE * X[~public], (y[~public] >= 5).astype(int))


def randhie(rng: np.random.Generator) -> tuple[Labelled, Labelled]:
    """Six visits to a doctor or more: half of those with fewer diseases are public, those with more are not."""
    if "--data" in sys.argv:
        path = Path(sys.argv[sys.argv.index("--data") + 1])
    else:
        import statsmodels.datasets.randhie as source

        path = Path(source.__file__).with_name("randhie.csv")
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    X, y = table[:, 1:], (table[:, 0] >= 6).astype(int)
    ill = X[:, DISEASES] > np.median(X[:, DISEASES])
    public = ~ill & (rng.random(len(y)) < 0.5)
    return (X[public], y[public]), (X[ill], y[ill])


SHIFTS: tuple[Callable[[np.random.Generator], tuple[Labelled, Labelled]], ...] = (
    *(alike, rare, blurred, moved, two_scanners),
    randhie,
)


def of_shift(shift: Callable[..., tuple[Labelled, Labelled]], runs: int) -> Iterator[str]:
    """A row for each m."""
    (X, y), (X_sensitive, y_sensitive) = shift(np.random.default_rng(SEED))
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2_000))
    outcome = cross_val_predict(model, X, y, method="decision_function")
    public = PublicRecords(y, outcome, "decision_function", logistic=True)
    z = model.fit(X, y).decision_function(X_sensitive)

    def loss(slope: float, intercept: float) -> float:
        return float(np.logaddexp(0.0, -(slope * z + intercept) * (2 * y_sensitive - 1)).mean())

    scale = 2.0 / EPSILON
    for m in SIZES:
        edges = Binary.expected(public, TableSize(m, scale), None).edges
        binned = BinnedLogOdds.of(public, edges)
        assert binned is not None
        cells, own = class_bins(z, y_sensitive, edges), loss(1.0, 0.0)
        left, exactly, lost, worse, kept = 0, [], [], [], []
        for run in range(runs):
            rng = np.random.default_rng([SEED, run])
            drawn = rng.integers(len(cells), size=m)
            exact = np.bincount(cells[drawn], minlength=2 * len(edges) + 3).astype(float)
            noised = exact + simulated_noise(rng, scale, exact.shape)
            fits = []
            for counts, variance in ((noised, 2.0 * scale**2), (exact, 0.0)):
                likely = projected(counts, m)[1:].reshape(2, -1)
                fits.append(recalibration(counts[1:].reshape(2, -1), likely, variance, binned)[:2])
            by_noised, by_exact = (loss(*fit) for fit in fits)
            left += fits[0] == (1.0, 0.0)
            exactly.append(by_exact)
            lost.append(by_noised - by_exact)
            worse.append(by_noised > own + 0.005)
            edge = recall_edge(noised[1:].reshape(2, -1), scale, RECALL)
            positives = exact[1:].reshape(2, -1)[1]
            kept.append(edge is None or positives[edge + 1 :].sum() >= RECALL * positives.sum())
        goal = ("≤ 5%" if shift is alike else "–", ".03" if m < 1_000 else ".01")
        yield (
            f"| {shift.__name__} | {m:,} | {own:.4f} | {np.mean(exactly):.4f} | {np.mean(lost):z.4f} | {goal[1]} | "
            f"{np.quantile(lost, 0.95):z.4f} | {np.mean(worse):.1%} | {goal[0]} | {left / runs:.0%} | "
            f"{np.mean(kept):.1%} | ≥ 90% |"
        )


def main() -> None:
    """Print a row for every shift and size; write the table."""
    runs, rows = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS, list[str]()
    warnings.simplefilter("ignore")
    for shift in SHIFTS:
        for row in of_shift(shift, runs):
            print(row, flush=True)
            rows.append(row)
    if runs >= RUNS:
        TABLE.write_text("\n".join([HEAD, "|---" * HEAD.count(" | ") + "|---|", *rows, ""]))


if __name__ == "__main__":
    main()
