"""What a report says where a class has few records, or none."""

import json
import math

import numpy as np
import pytest

from dpbo_core.report.binary import Binary
from dpbo_core.report.multiclass import Multiclass
from dpbo_core.report.noised_table import NoisedTable, least_clear, report, simulated_noise
from dpbo_core.report.repair import repair
from dpbo_core.report.report_kind import PublicRecords, TableSize

SCALE, M = 2.0, 3000
RNG = np.random.default_rng(3)
CLASS = np.repeat([0, 1], 200)
PUBLIC = PublicRecords(CLASS, 1.0 / (1.0 + np.exp(-(RNG.normal(size=400) + 2.0 * CLASS))), "predict_proba")
KIND = Binary.of(PUBLIC, Binary.expected(PUBLIC, TableSize(M, SCALE), None).edges)
BINS = len(KIND.edges) + 1
OF_POSITIVES = ("auc", "recall", "average_precision", "balanced_accuracy")


def counted(positives, *, groups=1):
    """Exact cells of M records: so many positives, spread as the public negatives are, an AUC of ½."""
    at = np.searchsorted(np.array(KIND.edges), PUBLIC.outcome[CLASS == 0])
    law = np.bincount(at, minlength=BINS) / 200
    cells = [np.rint(law * (M - positives) / groups), np.rint(law * positives / groups)]
    return np.array([0.0, *np.tile(np.concatenate(cells), groups)])


def table_of(cells, noise, groups=()):
    return NoisedTable(M, SCALE, KIND, groups, tuple((cells + noise).astype(int).tolist()))


def test_a_report_says_nothing_of_a_class_that_may_be_empty():
    """No positive at all; noise adds one or two records to every cell of theirs, which is as much as it may."""
    for raised in (0.0, 1.0, 1.9):
        noise = np.array([0.0, *np.zeros(BINS), *np.full(BINS, raised)])
        told = report(table_of(counted(0), noise))
        assert {told["metrics"][name]["value"] for name in OF_POSITIVES} == {None}
        assert {told["metrics"][name]["noise_interval"] for name in OF_POSITIVES} == {None}
        assert {row["recall"]["value"] for row in told["confusion"]} == {None}
        assert told["no_score"] == "too few positives for an AUC at this ε, or too few records of another class"
        assert told["metrics"]["specificity"]["value"] == pytest.approx(1.0, abs=0.6)
        json.dumps(told, allow_nan=False)


def test_no_threshold_is_chosen_for_the_recall_of_a_class_that_may_be_empty():
    """Noise of three records in the highest bin looked as if it held all positives, so that its edge was chosen."""
    for positives, raised, goal, own in ((0, 3, "recall=0.5", True), (1500, 0, "recall=0.6", False)):
        cells = counted(positives).astype(int)
        cells[-1] += raised
        table = NoisedTable(M, 0.4, KIND, (), tuple(cells.tolist()))
        assert (repair(table, PUBLIC, goal).threshold == KIND.threshold) is own


def test_nor_of_a_group_without_it():
    cells = counted(1500, groups=2)
    cells[0] = cells[1 + 2 * BINS + BINS :].sum()  # the second group's positives: they cannot be read
    cells[1 + 2 * BINS + BINS :] = 0.0
    told = report(table_of(cells, 0.0, ("a", "b")))
    assert told["metrics"]["auc"]["value"] == pytest.approx(0.5, abs=0.05)
    assert "no_score" not in told
    assert told["groups"]["a"]["auc"]["value"] == pytest.approx(0.5, abs=0.05)
    assert told["groups"]["b"]["auc"]["value"] is told["groups"]["b"]["gaps"]["auc"]["value"] is None
    assert told["groups"]["a"]["gaps"]["auc"]["value"] is None
    assert told["groups"]["b"]["specificity"]["value"] is not None


def test_nor_the_balanced_accuracy_of_several_classes_one_of_which_may_be_empty():
    kind = Multiclass(("a", "b", "c"))
    cells = np.array([0, 900, 100, 0, 100, 900, 0, 2, 1, 0])
    told = report(NoisedTable(2003, SCALE, kind, (), tuple(cells.tolist())))
    assert told["metrics"]["balanced_accuracy"]["value"] is None
    assert [one["recall"]["value"] is None for one in told["classes"]] == [False, False, True]


def test_what_shows_that_there_are_records_is_reached_by_noise_alone_hardly_ever():
    """The sum's noise over 200,000 tables, and Chernoff's bound at the ends of what tables are like."""
    rng = np.random.default_rng(5)
    for n_cells, n_all in ((5, 11), (15, 31), (3, 10)):
        z = simulated_noise(rng, SCALE, (200_000, n_all))
        sums = (z - z.mean(axis=1, keepdims=True))[:, :n_cells].sum(axis=1)
        assert (sums >= least_clear(n_cells, n_all, SCALE)).mean() <= 5e-4
        assert least_clear(n_cells, n_all, SCALE) <= 5.0 * sums.std()


@pytest.mark.slow
@pytest.mark.parametrize("positives", [20, 28, 60, 300])
def test_nine_in_ten_intervals_of_what_is_said_hold_it(positives, monkeypatch):
    """Among the reports that say something, which is a selection by their own noise."""
    monkeypatch.setattr("dpbo_core.report.noised_table.PAIRS", 100)
    rng, cells = np.random.default_rng(positives), counted(positives)
    truth = NoisedTable(M, SCALE, KIND, (), tuple(cells.tolist())).figures(cells)
    held = {name: [] for name in ("auc", "recall", "balanced_accuracy")}
    for _ in range(4000):
        table = table_of(cells, simulated_noise(rng, SCALE, cells.shape))
        if table.split(table.shifted(table.counts))[0, 1].sum() < least_clear(BINS, len(cells), SCALE):
            continue
        estimates = table.estimates()
        for name, ones in held.items():
            low, high = estimates.noise[name]
            ones.append(bool(low - 1e-9 <= truth[name] <= high + 1e-9))
        if len(held["auc"]) == 300:
            break
    for name, ones in held.items():
        assert np.mean(ones) >= 0.9 - 3.0 * math.sqrt(0.09 / len(ones)), name
