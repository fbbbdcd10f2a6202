"""Probabilities and thresholds that are mended from one released histogram, against what is so."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.repair import HEAD, SHIFTS, SIZES, TABLE
from dpbo_core.errors import StudyInvalid
from dpbo_core.report.binary import Binary
from dpbo_core.report.histogram_cells import class_bins
from dpbo_core.report.noised_table import NoisedTable, simulated_noise
from dpbo_core.report.repair import BinnedLogOdds, projected, recalibration, recall_edge, repair
from dpbo_core.report.report_kind import PublicRecords, TableSize
from dpbo_core.study.sections import threshold_goal

SCALE = 2.0  # ε = 1


def drawn_from(rng, n, slope=1.0, intercept=0.0):
    """Log-odds, and labels of probability logistic(slope·z + intercept)."""
    z = 1.5 * rng.normal(size=n)
    return z, (rng.random(n) < 1.0 / (1.0 + np.exp(-slope * z - intercept))).astype(int)


@pytest.fixture(scope="module")
def public():
    values, labels = drawn_from(np.random.default_rng(1), 2_000)
    return PublicRecords(labels, values, "decision_function", logistic=True)


def noised_table(public, z, y, rng, scale=SCALE):
    edges = Binary.expected(public, TableSize(len(z), SCALE), None).edges
    counts = np.bincount(class_bins(z, y, edges), minlength=3 + 2 * len(edges))
    noise = simulated_noise(rng, scale, counts.shape) if scale else np.zeros(len(counts))
    return NoisedTable(
        len(z), scale or 1e-9, Binary.of(public, edges), (), tuple((counts + noise).astype(int).tolist())
    )


def log_loss(z, y, slope, intercept):
    return float(np.logaddexp(0.0, -(slope * z + intercept) * (2 * y - 1)).mean())


@pytest.mark.parametrize(("slope", "intercept"), [(0.5, -1.0), (1.5, 0.8)])
def test_a_shifted_population_gets_its_own_probabilities(public, slope, intercept):
    z, y = drawn_from(np.random.default_rng(2), 20_000, slope, intercept)
    exact = repair(noised_table(public, z, y, None, scale=0.0), public, None)
    assert (exact.slope, exact.intercept) == pytest.approx((slope, intercept), abs=0.1)
    lost = []
    for seed in range(20):
        rng = np.random.default_rng([3, seed])
        few = rng.integers(len(z), size=1_000)
        table = noised_table(public, z[few], y[few], rng)
        binned, counts = BinnedLogOdds.of(public, table.kind.edges), table.split(table.counts)[0]
        likely = table.split(projected(table.counts, 1_000))[0]
        fit = recalibration(counts, likely, 2.0 * SCALE**2, binned)
        lost.append(log_loss(z, y, *fit[:2]) - log_loss(z, y, exact.slope, exact.intercept))
    assert np.mean(lost) < 0.01


def test_a_model_that_is_hardly_sure_of_anything_gets_probabilities_too(public):
    """Log-odds within hundredths of 0, as a strongly penalised model has: its slope may be two hundred."""
    timid = replace(public, outcome=public.outcome / 200.0)
    z, y = drawn_from(np.random.default_rng(7), 20_000)
    before = log_loss(z / 200.0, y, 1.0, 0.0)
    for seed in range(4):
        rng = np.random.default_rng([8, seed])
        few = rng.integers(len(z), size=1_000)
        mended = repair(noised_table(timid, z[few] / 200.0, y[few], rng), timid, None)
        after = log_loss(z / 200.0, y, mended.slope, mended.intercept)
        assert after < log_loss(z, y, 1.0, 0.0) + 0.02 < before - 0.1
        errors = [side["metrics"]["calibration_error"]["value"] for side in (mended.before, mended.after)]
        assert errors[1] < errors[0] / 2.0


def test_where_the_populations_are_alike_the_probabilities_are_left(public):
    worse, own = 0, (1.0, 0.0)
    z, y = drawn_from(np.random.default_rng(4), 20_000)
    for seed in range(40):
        rng = np.random.default_rng([5, seed])
        few = rng.integers(len(z), size=500)
        table = noised_table(public, z[few], y[few], rng)
        binned, counts = BinnedLogOdds.of(public, table.kind.edges), table.split(table.counts)[0]
        fit = recalibration(counts, table.split(projected(table.counts, 500))[0], 2.0 * SCALE**2, binned)
        worse += log_loss(z, y, *fit[:2]) > log_loss(z, y, *own) + 0.005
    assert worse <= 2


def test_the_recall_of_these_records_is_kept_in_nine_draws_of_ten(monkeypatch):
    monkeypatch.setattr("dpbo_core.report.repair.N_SIMULATIONS", 4_000)  # for the quantile of each run
    rng, recall, missed, runs = np.random.default_rng(6), 0.9, 0, 200
    positives = np.array([1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 20.0, 40.0])
    cells = np.stack([np.full(8, 20.0), positives])
    for _ in range(runs):
        edge = recall_edge(cells + simulated_noise(rng, SCALE, cells.shape), SCALE, recall)
        missed += edge is not None and positives[edge + 1 :].sum() < recall * positives.sum()
    assert missed / runs <= 0.1


def test_before_and_after_are_shown_and_the_ranks_stay(public):
    z, y = drawn_from(np.random.default_rng(7), 3_000, 0.6, -1.0)
    table = noised_table(public, z, y, np.random.default_rng(8))
    mended = repair(table, public, "recall=0.9")
    before, after = mended.before["metrics"], mended.after["metrics"]
    assert after["mean_log_loss"]["value"] < before["mean_log_loss"]["value"]
    assert after["calibration_error"]["value"] < before["calibration_error"]["value"]
    assert after["auc"] == before["auc"]
    assert mended.after["confusion"]["recall"]["value"] > 0.88
    assert mended.threshold in table.kind.edges
    counts = mended.after["confusion"]["counts"]
    for name, exact in (("true_positives", y[z > mended.threshold].sum()), ("false_negatives", None)):
        low, high = counts[name]["noise_interval"]
        assert low <= counts[name]["value"] <= high
        assert exact is None or low - 20 <= exact <= high + 20
    document = mended.to_json()
    assert "optimistic" in document["optimism"]
    assert document["price"].startswith("no further price")


def test_a_bin_without_public_records_says_no_probability(public):
    z, y = drawn_from(np.random.default_rng(7), 3_000, 0.6, -1.0)
    table = noised_table(public, z, y, np.random.default_rng(8))
    unseen = (None, *table.kind.predicted[1:])
    mended = repair(replace(table, kind=replace(table.kind, predicted=unseen)), public, None)
    assert [mended.before["calibration"][0]["predicted"], mended.after["calibration"][0]["predicted"]] == [
        None,
        None,
    ]


def test_a_costly_miss_lowers_the_threshold(public):
    z, y = drawn_from(np.random.default_rng(9), 3_000)
    table = noised_table(public, z, y, np.random.default_rng(10))
    one, other = (repair(table, public, f"cost={cost}:1").threshold for cost in (10, 1))
    assert one < other


def test_a_model_without_probabilities_gets_a_threshold_alone(public):
    margins = replace(public, logistic=False)
    z, y = drawn_from(np.random.default_rng(11), 3_000, 0.5, -1.0)
    mended = repair(noised_table(margins, z, y, np.random.default_rng(12)), margins, "cost=5:1")
    assert (mended.slope, mended.intercept, mended.probability) == (1.0, 0.0, None)


def test_the_goals_are_met_in_what_was_measured():
    """Of 200 runs each, at ε = 1: a row for every shift and size, with the goal beside the figure."""
    head, _, *rows = (line.strip("| ").split(" | ") for line in TABLE.read_text().splitlines())
    assert " | ".join(head) == HEAD.strip("| ")
    assert [tuple(row[:2]) for row in rows] == [(shift.__name__, f"{m:,}") for shift in SHIFTS for m in SIZES]
    for _, _, _, _, lost, within, _, worse, at_most, _, recall, _ in rows:
        assert float(lost) <= float(within)
        assert at_most == "–" or float(worse.strip("%")) <= 5.0
        assert float(recall.strip("%")) >= 90.0


@pytest.mark.parametrize("text", ["recall=1", "recall=0", "cost=0:1", "cost=3", "precision=0.9", ""])
def test_a_threshold_that_is_none_is_refused(text):
    with pytest.raises(StudyInvalid, match="no cost and no recall"):
        threshold_goal(text)


def test_the_projection_is_the_nearest_table_of_that_total():
    nearest = projected(np.array([5.0, -3.0, 10.0]), 10.0)
    assert nearest == pytest.approx([2.5, 0.0, 7.5])
