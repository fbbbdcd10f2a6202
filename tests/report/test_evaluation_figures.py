"""The report against scikit-learn where there is no noise, and its intervals against the truth where there is."""

import json
import math
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from scipy.stats import norm
from sklearn import metrics

from dpbo_core.report import report_kind
from dpbo_core.report.binary import Binary, best_threshold
from dpbo_core.report.binary_bins import (
    CHOOSES,
    N_STEPS,
    SAYS,
    AucTies,
    PublicSteps,
    auc,
    auc_ties,
    half_width,
    variance,
)
from dpbo_core.report.histogram_cells import class_bins, with_groups
from dpbo_core.report.noised_table import NoisedTable, report, simulated_noise
from dpbo_core.report.report_kind import MAX_USEFUL_ERROR, PublicRecords, TableSize, wilson

EDGES = (-1.0, -0.3, 0.0, 0.4, 1.1, 2.0)
TIES = AucTies(0.5, 0.0)
IN_ANY_ORDER = {"auc": metrics.roc_auc_score, "average_precision": metrics.average_precision_score}


def population(rng, m, share, distance=1.2):
    y = rng.random(m) < share
    return rng.normal(size=m) + distance * y, y.astype(int)


def nobodys(edges):
    """Of no public records."""
    return PublicSteps.of(np.zeros(0), np.zeros(0, dtype=bool), edges)


def table_of(
    values, labels, *, edges=EDGES, threshold=0.0, scale=1e-9, groups=None, names=(), predicted=None, ties=TIES
):
    n_cells = 2 * (len(edges) + 1)
    cells = with_groups(class_bins(values, labels, edges), groups, n_cells)
    drawn = np.bincount(cells, minlength=1 + n_cells * max(1, len(names)))
    steps = PublicSteps(*[((1, *[0] * (N_STEPS - 1)),) * (len(edges) + 1)] * 2)  # all records of a bin tie
    kind = Binary(edges, threshold, ties, predicted, steps, "sick")
    return NoisedTable(len(values), scale, kind, names, tuple(drawn.tolist()))


def noised(table, rng, scale):
    drawn = np.array(table.drawn) + simulated_noise(rng, scale, (len(table.drawn),))
    return replace(table, scale=scale, drawn=tuple(int(count) for count in drawn))


def expected(public, *, n_records, scale, n_groups=1, n_bins=None):
    return Binary.expected(public, TableSize(n_records, scale, n_groups), n_bins)


# Without noise


@pytest.mark.parametrize("share", [0.5, 0.06])
def test_without_noise_every_figure_is_scikit_learns(share):
    values, labels = population(np.random.default_rng(1), 4000, share)
    binned = np.digitize(values, EDGES, right=True)
    told = report(table_of(values, labels))
    found = {name: figure["value"] for name, figure in told["metrics"].items()}
    flagged = values > 0.0
    wanted = {
        "auc": metrics.roc_auc_score(labels, binned),
        "average_precision": metrics.average_precision_score(labels, binned),
        "positive_share": labels.mean(),
        "unread_share": 0.0,
        "recall": metrics.recall_score(labels, flagged),
        "specificity": metrics.recall_score(1 - labels, ~flagged),
        "precision": metrics.precision_score(labels, flagged),
        "f1": metrics.f1_score(labels, flagged),
        "accuracy": metrics.accuracy_score(labels, flagged),
        "flagged_share": flagged.mean(),
        "lift": metrics.precision_score(labels, flagged) / labels.mean(),
        "balanced_accuracy": metrics.balanced_accuracy_score(labels, flagged),
    }
    assert found == pytest.approx(wanted, abs=1e-12)
    for row in told["confusion"]:
        flagged = values > row["threshold"]
        (tn, fp), (fn, tp) = metrics.confusion_matrix(labels, flagged)
        named = ("true_negatives", "false_positives", "false_negatives", "true_positives")
        assert [row[name] for name in named] == pytest.approx([tn, fp, fn, tp])
        assert row["f1"]["value"] == pytest.approx(metrics.f1_score(labels, flagged))
        assert row["own"] == (row["threshold"] == 0.0)
    fpr, tpr, _ = metrics.roc_curve(labels, binned, drop_intermediate=False)
    assert [point["fpr"] for point in told["roc"]] == pytest.approx(fpr.tolist())
    assert [point["tpr"] for point in told["roc"]] == pytest.approx(tpr.tolist())
    for name, figure in told["metrics"].items():  # noise of scale 1e-9 is none
        ends = [figure["value"]] * 2
        if name in IN_ANY_ORDER:  # if all negatives of each bin lay above its positives, and below them
            untied = binned + np.arange(4000) / 1e6
            ends = [IN_ANY_ORDER[name](labels, untied + 0.1 * order * labels) for order in (-1, 1)]
        assert figure["noise_interval"] == pytest.approx(ends, abs=2e-3)
        low, high = figure["sampling_interval"]
        assert low <= figure["value"] <= high


def test_without_noise_calibration_is_what_is_so():
    rng = np.random.default_rng(2)
    p = rng.uniform(size=5000)
    labels = (rng.random(5000) < p**2).astype(int)  # overconfident
    edges = (0.2, 0.5, 0.8)
    at = np.digitize(p, edges, right=True)
    predicted = tuple(float(p[at == b].mean()) for b in range(4))
    told = report(table_of(p, labels, edges=edges, threshold=0.5, predicted=predicted))
    rows = told["calibration"]
    observed = [labels[at == b].mean() for b in range(4)]
    assert [row["observed"]["value"] for row in rows] == pytest.approx(observed)
    assert [row["records"]["value"] for row in rows] == np.bincount(at).tolist()
    assert [(row["above"], row["up_to"]) for row in rows] == [(None, 0.2), (0.2, 0.5), (0.5, 0.8), (0.8, None)]
    error = sum((at == b).mean() * abs(observed[b] - predicted[b]) for b in range(4))
    assert told["metrics"]["calibration_error"]["value"] == pytest.approx(error)
    assert report(table_of(p, labels, edges=edges, threshold=0.5))["calibration"] == []


def test_without_noise_groups_and_gaps_are_what_is_so():
    rng = np.random.default_rng(3)
    values, labels = population(rng, 3000, 0.4)
    groups = rng.choice(3, size=3000, p=[0.5, 0.3, 0.2])
    # the second group's negatives are flagged more
    values = values + np.where(groups == 1, 0.8 * (1 - labels), 0.0)
    told = report(table_of(values, labels, groups=groups, names=("a", "b", "other")))
    binned = np.digitize(values, EDGES, right=True)
    assert list(told["groups"]) == ["a", "b", "other"]
    for g, name in enumerate(told["groups"]):
        own, rest, row = groups == g, groups != g, told["groups"][name]
        assert row["records_share"]["value"] == pytest.approx(own.mean())
        assert row["auc"]["value"] == pytest.approx(metrics.roc_auc_score(labels[own], binned[own]))
        recalls = [metrics.recall_score(1 - labels[who], values[who] <= 0.0) for who in (own, rest)]
        assert row["specificity"]["value"] == pytest.approx(recalls[0])
        assert row["gaps"]["specificity"]["value"] == pytest.approx(recalls[0] - recalls[1])
    assert told["groups"]["b"]["gaps"]["specificity"]["sampling_interval"][1] < 0.0
    assert told["metrics"]["auc"]["value"] == pytest.approx(metrics.roc_auc_score(labels, binned))


def test_the_best_threshold_is_that_of_least_cost():
    values, labels = population(np.random.default_rng(4), 4000, 0.3)
    released = report(table_of(values, labels))

    def cost(flagged, share):
        recall, specificity = flagged[labels == 1].mean(), (~flagged)[labels == 0].mean()
        return share * 5.0 * (1 - recall) + (1 - share) * (1 - specificity)

    for share in (labels.mean(), 0.02, 0.7):
        costs = {edge: cost(values > edge, share) for edge in EDGES}
        costs |= {"everybody": cost(values > -math.inf, share), "nobody": cost(values > math.inf, share)}
        found = best_threshold(released, false_positive=1.0, false_negative=5.0, prevalence=share)
        key = found["threshold"] if found["flag"] == "above" else found["flag"]
        assert found["expected_cost"] == pytest.approx(costs[key]) == pytest.approx(min(costs.values()))
    rare = best_threshold(released, false_positive=1e6, false_negative=1.0, prevalence=1e-6)
    assert (rare["flag"], rare["threshold"]) == ("nobody", None)
    assert best_threshold(released, false_positive=1.0, false_negative=1e6)["flag"] == "everybody"


def test_the_shift_sums_to_m_and_is_the_nearest_table_that_does():
    table = NoisedTable(10, 2.0, Binary((0.0,), 0.0, TIES, None, nobodys((0.0,))), (), (1, 5, -2, 3, 7))
    shifted = table.shifted(np.array(table.drawn, dtype=float))
    assert shifted.sum() == pytest.approx(10.0)
    assert np.ptp(shifted - np.array(table.drawn)) == pytest.approx(0.0)


@pytest.mark.parametrize("scale", [1e-6, 2.0, 2.0**50])
@pytest.mark.parametrize("counts", ["empty", "one class", "full"])
def test_any_table_has_a_report_and_plain_json(scale, counts):
    """Nothing that may be drawn stops the report: no NaN, nothing outside its range, no error."""
    rng, m = np.random.default_rng(5), 30
    values, labels = population(rng, m, 0.5)
    labels = {"empty": np.full(m, -1), "one class": np.ones(m, dtype=int), "full": labels}[counts]
    names = ("a", "other")
    table = table_of(values, labels, groups=rng.integers(2, size=m), names=names, predicted=(0.1, None, *[0.5] * 5))
    table = noised(table, rng, scale)
    told = report(table)
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    best_threshold(told, false_positive=1.0, false_negative=2.0)
    for name, figure in told["metrics"].items():
        if figure["value"] is not None:
            assert 0.0 <= figure["value"] <= (1.0 if name != "lift" else math.inf)
    if counts == "one class" and scale < 1.0:
        assert told["metrics"]["auc"]["value"] is None
        assert told["metrics"]["auc"]["noise_interval"] is None


# The noise's law and the intervals


@pytest.mark.parametrize("scale", [0.5, 2.0, 40.0])
def test_the_simulated_noise_has_the_mechanisms_law(scale):
    """Of the discrete Laplace the mass at 0, and the variance."""
    n = 200_000
    z = simulated_noise(np.random.default_rng(8), scale, (n,))
    q = math.exp(-1.0 / scale)
    mass, variance = (1 - q) / (1 + q), 2 * q / (1 - q) ** 2
    assert abs((z == 0).mean() - mass) < 4.5 * math.sqrt(mass / n)
    assert z.var() == pytest.approx(variance, rel=0.03)


def test_wilsons_interval_is_as_printed():
    """Newcombe (1998), Table I, at 95%: 81 of 263, 15 of 148, 0 of 20; here by its own quantile."""
    z, report_kind.Z = report_kind.Z, 1.959963984540054
    try:
        for part, whole, low, high in ((81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611)):
            found = wilson(np.array(part / whole), np.array(float(whole)))
            assert [float(end) for end in found] == pytest.approx([low, high], abs=5e-5)
    finally:
        report_kind.Z = z


FIGURES = ("auc", "average_precision", "recall", "specificity", "precision", "f1", "flagged_share", "accuracy")


def covered(runs, *, m, share, seed, scale=2.0):
    """How often each noise interval holds the figure of the very records that were counted, and ECE's.

    Each run simulates with a seed of its own: 500 tables that all runs share err by 2% in all of them alike.
    """
    rng = np.random.default_rng(seed)
    held = dict.fromkeys((*FIGURES, "calibration_error", "at precision", "in observed"), 0)
    edges = tuple(np.quantile(population(rng, 4000, 0.5)[0], np.arange(1, 12) / 12).tolist())
    edges = tuple(sorted({*edges, 0.5}))
    for seed in range(runs):
        values, labels = population(rng, m, share)
        logit = 1.2 * values - 0.72 + math.log(share / (1 - share))
        at = np.digitize(values, edges, right=True)
        probability = 1 / (1 + np.exp(-logit))
        mean = tuple(float(probability[at == b].mean()) if (at == b).any() else None for b in range(len(edges) + 1))
        exact = table_of(values, labels, edges=edges, threshold=0.5, predicted=mean)
        truth = exact.figures(exact.counts)
        with patch("dpbo_core.report.noised_table.SEED", seed):
            noise = noised(exact, rng, scale).estimates().noise
        for name in held:
            at = {"at precision": 6, "in observed": 8}.get(name, ())
            held[name] += bool(noise[name][0][at] <= truth[name][at] <= noise[name][1][at])
    return {name: count / runs for name, count in held.items()}


@pytest.mark.slow
@pytest.mark.parametrize(("m", "share"), [(1000, 0.36), (10_000, 0.36), (10_000, 0.06)])
def test_90_percent_noise_intervals_hold_in_87_to_93_percent_of_1000_runs(m, share):
    """The standard error of each share is 0.95%: a true 90% leaves 87–93% with probability 0.2%.

    The intervals of AUC and average precision hold for any order of the records in a bin, so they hold more often.
    """
    found = covered(1000, m=m, share=share, seed=10)
    assert min(found.pop(name) for name in ("auc", "calibration_error", "average_precision")) >= 0.87
    assert all(0.87 <= one <= 0.93 for one in found.values()), found


def sampling_covered(runs, *, m, share, seed):
    rng = np.random.default_rng(seed)
    values, labels = population(rng, 2_000_000, share)
    names = ("auc", "recall", "precision", "f1", "balanced_accuracy", "lift")
    whole = table_of(values, labels)
    truth, held = whole.figures(whole.counts), dict.fromkeys(names, 0)
    for _ in range(runs):
        sampling = noised(table_of(*population(rng, m, share)), rng, 2.0).estimates().sampling
        for name in names:
            held[name] += bool(sampling[name][0] <= truth[name] <= sampling[name][1])
    return {name: count / runs for name, count in held.items()}


@pytest.mark.slow
@pytest.mark.parametrize("m", [200, 1000])
def test_sampling_intervals_cover_the_population_with_the_noise(m):
    covered = sampling_covered(150, m=m, share=0.36, seed=11)
    assert all(0.82 <= share <= 0.97 for share in covered.values()), covered


def test_average_precision_is_that_of_the_values_themselves(monkeypatch):
    """Not only that of the bins, which is .04 below it here."""
    monkeypatch.setattr("dpbo_core.report.noised_table.PAIRS", 60)  # of 25 intervals, enough of each
    rng, off, held = np.random.default_rng(16), [], 0
    for _ in range(25):
        public, (values, labels) = public_records(rng, 1000, 0.1, 1.45), centred(rng, 1000, 0.1, 1.45)
        kind = Binary.of(public, expected(public, n_records=1000, scale=2.0).edges)
        cells = class_bins(values, labels, kind.edges)
        exact = NoisedTable(1000, 1e-9, kind, (), tuple(np.bincount(cells, minlength=1 + math.prod(kind.shape))))
        truth = metrics.average_precision_score(labels, values)
        off.append(float(exact.figures(exact.counts)["average_precision"]) - truth)
        low, high = noised(exact, rng, 2.0).estimates().noise["average_precision"]
        held += bool(np.isnan(low) or low <= truth <= high)
    assert abs(np.mean(off)) < 0.015
    assert held >= 19  # a true 90% falls below with probability .3%


ADVERSARIAL = pytest.mark.parametrize(
    "ranked",
    [
        lambda values, labels: 4.0 * values + 6.0 * labels,
        lambda values, labels: np.where(labels == 1, 9.0, np.where(values > 0.5, 9.5, values)),
        lambda values, labels: values - 2.9 * labels,
    ],
    ids=["far better", "negatives at the top", "reversed"],
)


@pytest.mark.parametrize("share", [0.05, 0.36])
@ADVERSARIAL
def test_an_interval_for_any_order_holds_however_records_lie_within_bins(monkeypatch, share, ranked):
    """Taken to lie as public records do, these were held in 0 to 30% of draws by some kinds and shares."""
    monkeypatch.setattr("dpbo_core.report.noised_table.PAIRS", 30)
    rng, held = np.random.default_rng(17), dict.fromkeys(IN_ANY_ORDER, 0)
    for _ in range(12):
        public, (values, labels) = public_records(rng, 800, 0.36, 1.45), centred(rng, 3000, share, 1.45)
        values, edges = ranked(values, labels), expected(public, n_records=3000, scale=2.0).edges
        counts = tuple(np.bincount(class_bins(values, labels, edges), minlength=3 + 2 * len(edges)))
        noise = noised(NoisedTable(3000, 1e-9, Binary.of(public, edges), (), counts), rng, 2.0).estimates().noise
        for name, exact in IN_ANY_ORDER.items():
            low, high = noise[name]
            assert 0.0 <= low <= high <= 1.0
            held[name] += bool(low <= exact(labels, values) <= high)
    assert min(held.values()) >= 10, held  # of fixed seeds


@ADVERSARIAL
def test_a_groups_auc_interval_holds_however_its_records_lie_within_bins(monkeypatch, ranked):
    """One group lies as the public records do, and the other as `ranked` says: each, and how far apart they are."""
    monkeypatch.setattr("dpbo_core.report.noised_table.PAIRS", 30)
    rng, held, names = np.random.default_rng(18), {"of auc": np.zeros(2), "gap auc": np.zeros(2)}, ("one", "other")
    for _ in range(12):
        public = public_records(rng, 800, 0.36, 1.45)
        parts = [centred(rng, 3000, 0.36, 1.45) for _ in names]
        parts[1] = ranked(*parts[1]), parts[1][1]
        values, labels = map(np.concatenate, zip(*parts, strict=True))
        edges = expected(public, n_records=6000, scale=2.0, n_groups=2).edges
        exact = table_of(values, labels, edges=edges, groups=np.repeat([0, 1], 3000), names=names)
        table = replace(exact, kind=Binary.of(public, edges))
        noise = noised(table, rng, 2.0).estimates().noise
        aucs = np.array([metrics.roc_auc_score(labels, values) for values, labels in parts])
        for name, truth in (("of auc", aucs), ("gap auc", aucs - aucs[::-1])):
            low, high = noise[name]
            assert (low <= high).all()
            held[name] += (low <= truth) & (truth <= high)
    assert min(map(min, held.values())) >= 10, held  # of fixed seeds


def held_auc(runs, *, m, share, distance=1.45, rounded=None, seed=15):
    """How often the interval holds the AUC of the values themselves; each run has public records of its own.

    `rounded` makes values tie, as those of trees do.
    """
    rng, held = np.random.default_rng(seed), 0
    for _ in range(runs):
        public = public_records(rng, m, share, distance)
        values, labels = centred(rng, m, share, distance)
        if rounded is not None:
            public, values = replace(public, outcome=np.round(public.outcome, rounded)), np.round(values, rounded)
        edges = expected(public, n_records=m, scale=2.0).edges
        exact = table_of(values, labels, edges=edges, ties=Binary.of(public, edges).ties)
        low, high = noised(exact, rng, 2.0).estimates().noise["auc"]
        truth = metrics.roc_auc_score(labels, values)
        held += bool(low <= truth <= high)
    return held / runs


@pytest.mark.slow
@pytest.mark.parametrize(
    ("m", "share", "distance", "rounded"),
    [(1000, 0.36, 0.742, None), (1000, 0.36, 1.45, 1), (10_000, 0.36, 1.45, None), (10_000, 0.06, 1.45, None)],
)
def test_they_hold_it_in_at_least_87_percent_of_1000_runs(m, share, distance, rounded):
    held = held_auc(1000, m=m, share=share, distance=distance, rounded=rounded)
    assert held >= 0.87, held


def test_pairs_within_a_bin_spread_as_mann_and_whitney_say():
    """One bin, both classes alike: the number of pairs ranked right, with and without ties."""
    rng, positive = np.random.default_rng(21), np.arange(60) < 25
    for levels in (None, 4, 1):
        drawn = []
        for _ in range(1000):
            values = rng.random(60) if levels is None else rng.integers(levels, size=60).astype(float)
            drawn.append(auc(values, positive) * 25 * 35)
        untied = auc_ties(values, positive, ()).untied
        told = untied * float(variance(np.array([25.0]), np.array([35.0])))
        assert np.var(drawn) == pytest.approx(told, rel=0.12, abs=1e-9)
    assert untied == 0.0


def test_one_half_of_the_public_records_chooses_and_the_other_says():
    rng = np.random.default_rng(22)
    values, labels = population(rng, 1001, 0.36)
    parts = [half_width(values, labels == 1, which) for which in (CHOOSES, SAYS)]
    assert sorted(np.concatenate([part for part, _ in parts])) == sorted(values)
    assert auc_ties(values, labels == 1, ()).ranked == pytest.approx(auc(*parts[1]))
    nothing = auc_ties(np.array([1.0, 2.0]), np.array([True, True]), (0.0,))
    assert nothing.ranked == 0.5


# The number of bins, and honesty beforehand


def centred(rng, n, share, distance=0.75):
    """The model's own threshold, 0, lies in the middle between the classes."""
    values, labels = population(rng, n, share, distance)
    return values - distance / 2.0, labels


def public_records(rng, n, share, distance=0.75):
    values, labels = centred(rng, n, share, distance)
    return PublicRecords(labels, values, "decision_function")


def test_it_says_beforehand_what_is_usable():
    rng = np.random.default_rng(12)
    for m, share, verdict in (
        (1000, 0.36, "good"),
        (10_000, 0.36, "good"),
        (10_000, 0.06, "good"),
        (1000, 0.06, "poor"),
    ):
        for distance in (0.75, 1.5, 2.5):
            one = public_records(rng, 5000, share, distance)
            assert expected(one, n_records=m, scale=2.0).verdict == verdict, (m, share, distance)
    one = public_records(rng, 5000, 0.36)
    assert expected(one, n_records=1000, scale=2.0, n_groups=20).verdict == "poor"
    assert "1,000 records of which about 36% are positive" in expected(one, n_records=1000, scale=2.0).why


def test_more_records_and_more_epsilon_get_more_bins_and_less_error():
    one = public_records(np.random.default_rng(13), 20_000, 0.3)
    sizes = [expected(one, n_records=m, scale=2.0) for m in (300, 3000, 30_000, 300_000)]
    assert [len(e.edges) for e in sizes] == sorted(len(e.edges) for e in sizes)
    assert [e.errors["auc_error"] for e in sizes] == sorted((e.errors["auc_error"] for e in sizes), reverse=True)
    assert len(expected(one, n_records=3000, scale=2.0, n_bins=20).edges) == 20  # 19 quantiles and the threshold
    for e in sizes:
        assert 0.0 in e.edges
        assert list(e.edges) == sorted(set(e.edges))


def test_the_expected_error_is_that_of_real_draws():
    rng = np.random.default_rng(14)
    public = public_records(rng, 10_000, 0.36)
    told = expected(public, n_records=1000, scale=2.0)
    ties, errors = Binary.of(public, told.edges).ties, []
    for _ in range(100):
        values, labels = centred(rng, 1000, 0.36)
        table = noised(table_of(values, labels, edges=told.edges, ties=ties), rng, 2.0)
        found = table.figures(table.shifted(table.counts))["auc"]
        errors.append(abs(float(found) - metrics.roc_auc_score(labels, values)))
    assert np.mean(errors) == pytest.approx(told.errors["auc_error"], rel=0.2)
    assert np.mean(errors) <= 0.009


def test_a_report_is_refused_where_its_auc_cannot_be_told_from_a_constant_answers_and_not_before():
    """90% of its errors, normal with this mean size, lie within ± .25: halfway from .5 to a perfect AUC."""
    assert norm.ppf(0.95) * MAX_USEFUL_ERROR / math.sqrt(2 / math.pi) == pytest.approx(0.25, abs=1e-4)
    one = public_records(np.random.default_rng(12), 5000, 0.36)
    for scale in (2.0, 10.0, 20.0, 40.0, 80.0, 160.0):
        report = expected(one, n_records=1000, scale=scale)
        beyond = report.errors["auc_error"] > MAX_USEFUL_ERROR
        assert (report.verdict == "useless") is bool(report.warning) is beyond
    assert beyond
    assert not expected(one, n_records=1000, scale=10.0).warning


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 1.0, 1.0], [0.0, 1.0]])
def test_public_values_of_any_kind_have_edges(values):
    for positive in ([1] * len(values), [0] * len(values), [i % 2 for i in range(len(values))]):
        one = PublicRecords(np.array(positive, dtype=int), np.array(values), "predict_proba")
        found = expected(one, n_records=100, scale=2.0)
        assert 0.5 in found.edges
        if len(set(positive)) < 2:
            assert found.verdict in ("poor", "useless")
