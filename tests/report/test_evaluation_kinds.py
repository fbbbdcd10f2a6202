"""Reports of several classes and of regressions: sensitivity, values, coverage, certificate, what is shown."""

import copy
import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn import metrics
from test_evaluation import NOISELESS, final_model, in_a_cell, noiseless, of_files
from test_evaluation_cells import every_table

from dpbo.flows.cli.evaluate import expected_json, print_expected
from dpbo.flows.cli.release_screen import document_of, print_document
from dpbo.tasks.reporting.evaluation_picture import draw_evaluation
from dpbo.tasks.reporting.release_files import page
from dpbo_core import evaluate_study, plan_evaluation
from dpbo_core.data import Preprocessing, read_table, table_of
from dpbo_core.data.header import SENSITIVE_FILE
from dpbo_core.errors import CertificateFalse, StudyInvalid
from dpbo_core.ledger.accounting.certificate import read_certificate, recompute
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.models.estimators import EstimatorFactory
from dpbo_core.privacy.release import StudyResult
from dpbo_core.report.certified import CERTIFIED
from dpbo_core.report.counting import Counter
from dpbo_core.report.histogram_cells import Grouping
from dpbo_core.report.multiclass import ClassCells, Multiclass
from dpbo_core.report.noised_table import NoisedTable, simulated_noise
from dpbo_core.report.regression import ErrorCells, Regression, error_edges, public_bins
from dpbo_core.report.report_kind import PublicRecords, TableSize
from dpbo_core.study import StudySpec
from dpbo_core.study.tuning import run_study

pytestmark = pytest.mark.filterwarnings("ignore:this report will not be usable")
TREE = "sklearn.tree.DecisionTree"
KINDS = ("classes", "errors")
FALSE_ALARM = 1e-3  # of one figure with 90%; of all those of one test together below 3%


# Sensitivity: every replacement of one record in every small table

RECORDS = {
    "classes": (b"0.3,red,low", b"-0.7,blue,high", b"1.4,green,mid", b"1e308,red,low", b"nan,red,mid",
                b"0.3,red,none of them", b"\xff,,"),
    "errors": (b"0.3,red,0.1", b"-0.7,blue,-8", b"1.4,green,1e308", b"1e308,red,0", b"nan,red,1",
               b"0.3,red,inf", b"\xff,,"),
}  # fmt: skip


@pytest.fixture(params=KINDS)
def counted(request, tmp_path):
    """The kind, and the exact histogram of a sensitive file of given lines."""
    kind, rng = request.param, np.random.default_rng(3)
    a = rng.normal(size=60)
    y = np.array(["low", "mid", "high"])[np.digitize(a, [-0.5, 0.5])] if kind == "classes" else a + 0.1
    public = table_of({"a": a.tolist(), "y": y.tolist()})
    fitted = Preprocessing.fit(public, "y", unit_ball=False, regression=kind == "errors")
    encoded = fitted.transform(public)
    path = TREE + ("Classifier" if kind == "classes" else "Regressor")
    model = EstimatorFactory(path, {"max_depth": 3}, 0, kind == "errors").train(encoded.X, encoded.truth)
    cells = ClassCells((), 3) if kind == "classes" else ErrorCells((-0.2, 0.0, 0.2))
    counter = Counter(fitted, model, cells, Grouping("colour", ("blue", "red")))

    def histogram(lines):
        file = tmp_path / "v.csv"
        file.write_bytes(b"a,colour,y\n" + b"".join(line + b"\n" for line in lines))
        return counter.histogram(read_table(file, mode=SENSITIVE_FILE, display_name="v.csv"))

    return kind, counter, histogram


def test_replacing_one_record_moves_the_table_by_two_and_never_more(counted):
    kind, counter, histogram = counted
    alone, most = every_table(histogram, RECORDS[kind])
    assert most == 2
    assert len(alone[0]) == counter.size == 1 + 3 * (9 if kind == "classes" else 4)
    assert [int(one[0]) for one in alone[-3:]] == [1, 1, 1]  # unread, or of a class that is none of them
    assert not any(one[0] for one in alone[:3])


def test_cells_of_whatever_is_predicted():
    truth, odd = np.array([0, 2, 1, -1, 1]), np.array([0.0, 1.0, np.nan, 1.0, 7.0])
    assert ClassCells((), 3).of(odd, truth).tolist() == [1, 8, 0, 0, 0]
    errors = ErrorCells((-1.0, 0.0, 1.0)).of(np.array([np.nan, np.inf, -np.inf, 0.0, 1.0, 1.5]), np.zeros(6))
    assert errors.tolist() == [0, 4, 1, 2, 3, 4]
    mixed = np.array([1.0, None, "x", 10**400], dtype=object)
    assert ErrorCells((0.0,)).of(mixed, np.zeros(4)).tolist() == [2, 0, 0, 0]


# Values, against scikit-learn


def several(rng, m, C=3, right=0.7):
    y = rng.choice(C, size=m, p=np.arange(1, C + 1) / (C * (C + 1) / 2))
    return y, np.where(rng.random(m) < right, y, rng.integers(C, size=m))


def class_table(y, predicted, *, C=3, groups=(), group=None, scale=1e-9, rng=None):
    cells = 1 + y * C + predicted + (0 if group is None else group * C * C)
    drawn = np.bincount(cells, minlength=1 + C * C * max(1, len(groups)))
    drawn = drawn if rng is None else drawn + simulated_noise(rng, scale, drawn.shape).astype(int)
    return NoisedTable(len(y), scale, Multiclass(tuple("abcdefghij"[:C])), groups, tuple(drawn.tolist()))


def exact_of_classes(y, p):
    return {
        "accuracy": metrics.accuracy_score(y, p),
        "balanced_accuracy": metrics.balanced_accuracy_score(y, p),
        "macro_f1": metrics.f1_score(y, p, average="macro"),
        "cohen_kappa": metrics.cohen_kappa_score(y, p),
        "class recall": metrics.recall_score(y, p, average=None),
        "class precision": metrics.precision_score(y, p, average=None),
        "class f1": metrics.f1_score(y, p, average=None),
    }


def test_without_noise_the_matrix_is_scikit_learns():
    rng = np.random.default_rng(1)
    y, p = several(rng, 900, C=5)
    group = rng.integers(2, size=900)
    found = class_table(y, p, C=5, groups=("f", "other"), group=group).estimates()
    for name, value in exact_of_classes(y, p).items():
        assert found.values[name] == pytest.approx(value, abs=1e-12), name
        low, high = found.noise[name]
        assert low == pytest.approx(value, abs=1e-6)
        assert high == pytest.approx(value, abs=1e-6)
    for g in (0, 1):
        own, rest = (exact_of_classes(y[group == h], p[group == h]) for h in (g, 1 - g))
        for name in ("accuracy", "balanced_accuracy", "macro_f1"):
            assert found.values[f"of {name}"][g] == pytest.approx(own[name])
            assert found.values[f"gap {name}"][g] == pytest.approx(own[name] - rest[name])


def test_of_a_class_without_records_nothing_is_said():
    y, p = np.array([0, 0, 1, 1]), np.array([0, 2, 1, 1])
    values = class_table(y, p).estimates().values
    assert np.isnan(values["class recall"][2])
    assert np.isnan(values["balanced_accuracy"])
    assert values["accuracy"] == 0.75
    assert values["class precision"][2] == 0.0


def error_table(public, errors, *, edges=None, bound=6.0, n_bins=20, scale=1e-9, rng=None, groups=(), group=None):
    public = np.clip(public, -bound, bound)
    edges = error_edges(public, bound, n_bins) if edges is None else edges
    at = 1 + (errors[:, None] > np.array(edges)).sum(axis=1) + (0 if group is None else group * (len(edges) + 1))
    drawn = np.bincount(at, minlength=1 + (len(edges) + 1) * max(1, len(groups)))
    drawn = drawn if rng is None else drawn + simulated_noise(rng, scale, drawn.shape).astype(int)
    kind = Regression(edges, bound, public_bins(public, edges, bound), 4.0)
    return NoisedTable(len(errors), scale, kind, groups, tuple(drawn.tolist()))


def exact_of_errors(errors, bound=6.0):
    e = np.clip(errors, -bound, bound)
    mse = metrics.mean_squared_error(np.zeros(len(e)), e)
    return {
        "mae": metrics.mean_absolute_error(np.zeros(len(e)), e),
        "bias": e.mean(),
        "rmse": mse**0.5,
        "r2_public_baseline": 1.0 - mse / 4.0,
        "median_absolute_error": np.quantile(np.abs(e), 0.5, method="inverted_cdf"),
        "absolute_error_q90": np.quantile(np.abs(e), 0.9, method="inverted_cdf"),
        **{
            f"error_q{100 * q:02.0f}": np.quantile(e, q, method="inverted_cdf")
            for q in (0.05, 0.25, 0.5, 0.75, 0.95)
        },
    }


def test_where_records_are_the_public_ones_the_bins_cost_the_means_nothing():
    """Then a bin's mean is theirs, and only quantiles are known to their bin alone."""
    errors = np.random.default_rng(2).normal(0.2, 1.5, 2000)
    table = error_table(errors, errors)
    found, exact, ends = table.estimates(), exact_of_errors(errors), table.kind.ends
    for name in ("mae", "bias", "rmse", "r2_public_baseline"):
        assert found.values[name] == pytest.approx(exact[name], abs=1e-9)
    for name in set(exact) - {"mae", "bias", "rmse", "r2_public_baseline"}:
        low, high = found.noise[name]
        assert low <= exact[name] <= high
        assert low <= found.values[name] <= high
        assert low in ends
        assert high in ends
    assert found.values["median_absolute_error"] == pytest.approx(
        metrics.median_absolute_error(np.zeros(2000), errors), abs=0.02
    )


@pytest.mark.parametrize("n_bins", [2, 8, 256])
def test_wherever_records_lie_in_their_bins_the_mean_is_off_by_no_more_than_is_said(n_bins):
    """Public errors mislead: those of other records lie at the bins' ends, and beyond the clip."""
    rng = np.random.default_rng(4)
    public = rng.normal(size=500)
    for errors in (rng.standard_cauchy(1000), 5.9 * rng.choice([-1.0, 1.0], 1000), np.zeros(1000)):
        table = error_table(public, errors, n_bins=n_bins)
        off = abs(float(table.estimates().values["mae"]) - exact_of_errors(errors)["mae"])
        assert off <= table.kind.farthest(table.split(table.shifted(table.counts))) + 1e-9
    assert len(table.kind.edges) <= n_bins - 1


def test_groups_of_errors():
    rng = np.random.default_rng(5)
    errors, group = rng.normal(size=3000), rng.integers(2, size=3000)
    errors[group == 1] *= 2.0
    found = error_table(errors, errors, n_bins=256, groups=("f", "other"), group=group).estimates().values
    exact = [exact_of_errors(errors[group == g])["mae"] for g in (0, 1)]
    assert found["of mae"] == pytest.approx(exact, abs=0.02)
    assert found["gap mae"] == pytest.approx([exact[0] - exact[1], exact[1] - exact[0]], abs=0.03)


# Intervals


def coverage_of_classes(runs, *, m=1000, seed=6):
    """How often the noise interval holds these records' figure, and the sampling interval the population's."""
    rng, kept = np.random.default_rng(seed), {"noise": {}, "sampling": {}}
    everybody = exact_of_classes(*several(np.random.default_rng(7), 2_000_000))
    for _ in range(runs):
        y, p = several(rng, m)
        exact = exact_of_classes(y, p)
        pair = class_table(y, p, scale=2.0, rng=rng).estimates(), class_table(y, p).estimates()
        hold(kept["noise"], pair[0].noise, exact)
        hold(kept["sampling"], pair[1].sampling, everybody)
    return mean(kept, runs)


def coverage_of_errors(runs, *, m=1000, seed=8):
    rng, kept = np.random.default_rng(seed), {"noise": {}, "sampling": {}}
    everybody = exact_of_errors(np.random.default_rng(9).normal(0.2, 1.5, 2_000_000))
    for _ in range(runs):
        public, errors = rng.normal(0.2, 1.5, m), rng.normal(0.2, 1.5, m)
        pair = [
            error_table(public, errors, scale=scale, rng=r).estimates() for scale, r in ((2.0, rng), (1e-9, None))
        ]
        hold(kept["noise"], pair[0].noise, exact_of_errors(errors))
        hold(kept["sampling"], pair[1].sampling, everybody)
    return mean(kept, runs)


def hold(kept, intervals, exact):
    for name, value in exact.items():
        low, high = intervals[name]
        within = (low - 1e-9 <= value) & (value <= high + 1e-9)
        kept[name] = kept.get(name, 0.0) + np.asarray(within, dtype=float)


def mean(kept, runs):
    return {
        (kind, name, i): float(share)
        for kind, names in kept.items()
        for name, total in names.items()
        for i, share in enumerate(np.atleast_1d(total / runs))
    }


MEANS = ("mae", "bias", "rmse", "r2_public_baseline")


def check_coverage(found, runs, *, whole, margin=0.0):
    """`whole` intervals reach from bin to bin, and hold more often than 90%."""
    low, high = (binom.ppf(q, runs, 0.9) / runs for q in (FALSE_ALARM / 2.0, 1.0 - FALSE_ALARM / 2.0))
    for (kind, name, i), share in found.items():
        assert share >= low - margin, (kind, name, i, share)
        assert share <= high + margin or name in whole, (kind, name, i, share)


QUANTILES = set(exact_of_errors(np.ones(3))) - set(MEANS)


@pytest.mark.slow
@pytest.mark.parametrize("m", [1000, 5000])
def test_they_hold_in_nine_of_ten_of_1000_runs(m):
    check_coverage(coverage_of_classes(1000, m=m, seed=10), 1000, whole=(), margin=0.01)
    check_coverage(coverage_of_errors(1000, m=m, seed=11), 1000, whole=QUANTILES, margin=0.01)


# Before anything is spent


def test_the_expected_error_is_that_of_real_draws(monkeypatch):
    monkeypatch.setattr("dpbo_core.report.noised_table.PAIRS", 5)  # of the intervals, which nobody reads here
    rng = np.random.default_rng(12)
    y, p = several(rng, 1000)
    public, size = PublicRecords(y, p, classes=("a", "b", "c")), TableSize(1000, 2.0)
    told = Multiclass.expected(public, size, None)
    off = []
    for _ in range(40):
        table = class_table(y, p, scale=2.0, rng=rng)
        off.append(abs(float(table.estimates().values["accuracy"]) - metrics.accuracy_score(y, p)))
    assert np.mean(off) == pytest.approx(told.errors["accuracy_error"], rel=0.4)
    errors = rng.normal(size=1000)
    public = PublicRecords(np.zeros(1000), errors, error_bound=6.0)
    told = Regression.expected(public, size, None)
    assert told.verdict == "good"
    off = []
    for _ in range(40):
        table = error_table(errors, errors, scale=2.0, rng=rng)
        off.append(abs(float(table.estimates().values["mae"]) - np.abs(errors).mean()))
    assert np.mean(off) == pytest.approx(told.errors["mae_error"], rel=0.4)
    few = Regression.expected(public, TableSize(50, 20.0, 3), None)
    assert few.verdict == "useless"
    assert "not be usable" in few.warning
    nobody = PublicRecords(np.zeros(0), np.zeros(0))
    assert Regression.expected(nobody, size, None).edges == (0.0,)


# Whole studies

PATHS = {
    "classes": {"estimator": TREE + "Classifier", "score": "accuracy"},
    "errors": {"estimator": TREE + "Regressor", "score": "absolute_error", "error_bound": 9.0},
}


def study_of(kind, folder, *, m=500):
    rng = np.random.default_rng(13)
    for name, n in (("train", 400), ("validation", m)):
        a, b = rng.normal(size=(2, n))
        noisy = a - b + rng.normal(scale=0.5, size=n)
        y = np.array(["low", "mid", "high"])[np.digitize(noisy, [-0.7, 0.7])] if kind == "classes" else noisy
        sex = rng.choice(["f", "m"], size=n)
        columns = {"sex": sex, "a": a, "b": b, "y": y}
        pd.DataFrame(columns).to_csv(folder / f"{name}.csv", index=False)
    evaluation = {"epsilon": 1.0, "group": "sex", "groups": ["f"]}
    tables = of_files(m=m, model=PATHS[kind], space={"max_depth": {"values": [2, 4]}}, evaluation=evaluation)
    tables["data"] |= {"target": "y", "ignore": ["sex"]}
    return columns, tables


@pytest.mark.parametrize("kind", KINDS)
def test_without_noise_a_study_is_told_what_its_final_model_does(kind, tmp_path):
    columns, tables = study_of(kind, tmp_path)
    if kind == "errors":
        tables["evaluation"]["bins"] = 256
    spec, ledger = noiseless(tables, tmp_path)
    found = evaluate_study(spec, ledger=ledger, folder=tmp_path, source=NOISELESS).release
    final = final_model(spec, ledger, tmp_path)
    predicted = final.predict({name: list(columns[name]) for name in ("a", "b")})
    told = {name: figure["value"] for name, figure in found.value["metrics"].items()}
    assert told["unread_share"] == 0.0
    if kind == "classes":
        assert told["accuracy"] == pytest.approx(metrics.accuracy_score(columns["y"], predicted))
        assert told["macro_f1"] == pytest.approx(metrics.f1_score(columns["y"], predicted, average="macro"))
        names = [row["class"] for row in found.value["classes"]]
        cells = [row["records"]["value"] for row in found.value["confusion"]]
        matrix = metrics.confusion_matrix(columns["y"], predicted, labels=names)
        assert cells == pytest.approx(matrix.ravel().tolist())
    else:
        exact = metrics.mean_absolute_error(columns["y"], predicted.astype(float))
        assert told["mae"] == pytest.approx(exact, abs=0.01)
        assert abs(told["mae"] - exact) <= found.value["binning"]["mae_off_at_most"]
        assert told["bias"] == pytest.approx(np.mean(predicted.astype(float) - columns["y"]), abs=0.02)
        assert found.value["binning"]["clipped_at"] == 9.0
    assert list(found.value["groups"]) == ["f", "other"]
    if kind == "classes":
        folder = final.save(tmp_path / "model")
        saved = evaluate_study(spec, ledger=ledger, folder=tmp_path, source=NOISELESS, model=folder).release
        assert {*saved.value} == {*found.value}
        assert saved.value["metrics"] == found.value["metrics"]


@pytest.mark.parametrize("kind", KINDS)
def test_one_spend_one_release_a_certificate_that_holds_and_everything_shown(kind, here, capsys, tmp_path):
    _, tables = study_of(kind, here)
    ledger, spec = PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}"), StudySpec.from_dict(tables)
    run_study(spec, ledger=ledger)
    plan = plan_evaluation(spec, ledger=ledger)
    assert expected_json(plan)["cells"] == plan.expected.n_cells
    print_expected(plan)
    assert plan.expected.verdict in capsys.readouterr().out
    first = evaluate_study(spec, ledger=ledger)
    again = evaluate_study(spec, ledger=ledger)
    assert again.replayed
    assert again.release == first.release
    release = first.release
    assert [entry.epsilon for entry in ledger.accounts("clinic")[0].entries] == [1.0, 1.0]
    assert release.spends[0].noise_scale == pytest.approx(2.0)
    honest = json.loads(json.dumps(release.to_json(), allow_nan=False))
    found = recompute(read_certificate(honest, CERTIFIED), CERTIFIED)
    assert (found.epsilon, found.draws) == (pytest.approx(1.0), 1)
    forged = copy.deepcopy(honest)
    forged["spends"][0] |= {"sensitivity": 1.0, "noise_scale": 1.0}
    with pytest.raises(CertificateFalse):
        recompute(read_certificate(forged, CERTIFIED), CERTIFIED)
    for told in release.value["metrics"].values():
        assert set(told) == {"value", "noise_interval", "sampling_interval"}
    print_document(document_of(StudyResult(release, replayed=False), None, look=""))
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert ("Cohen's kappa" if kind == "classes" else "mean absolute error") in shown
    written = page(release, [])
    for told in release.value["metrics"].values():
        if told["noise_interval"] is not None:
            assert f"<td>{in_a_cell(told['value'])}</td>" in written
    draw_evaluation(release).savefig(tmp_path / "evaluation.png")
    refused_by_name(kind, tables, ledger, again=f"{kind} again")


def refused_by_name(kind, tables, ledger, again):
    """What only two classes have costs nothing: neither of a report that is there nor of one that is not."""
    before = ledger.accounts("clinic")
    asked = [{"prevalence": 0.1}, {"false_positive_cost": 1.0, "false_negative_cost": 2.0}]
    for keys in asked + ([{"bins": 8}] if kind == "classes" else []):
        spec = StudySpec.from_dict(tables | {"evaluation": {"epsilon": 1.0, "edition": again} | keys})
        with pytest.raises(StudyInvalid, match=r"costs or a prevalence|has no bins"):
            evaluate_study(spec, ledger=ledger)
    later = StudySpec.from_dict(tables | {"evaluation": tables["evaluation"] | {"prevalence": 0.1}})
    with pytest.raises(StudyInvalid, match="costs or a prevalence"):
        evaluate_study(later, ledger=ledger)
    assert ledger.accounts("clinic") == before


def test_more_classes_than_cells_can_serve_are_refused_by_name(tmp_path):
    _, tables = study_of("classes", tmp_path)
    for path in tmp_path.glob("*.csv"):
        header, *rows = path.read_text().splitlines()
        of_sixty = [f"{row.rpartition(',')[0]},{i % 60}" for i, row in enumerate(rows)]
        path.write_text("\n".join([header, *of_sixty]) + "\n")
    ledger, spec = PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}"), StudySpec.from_dict(tables)
    run_study(spec, ledger=ledger, folder=tmp_path)
    with pytest.raises(StudyInvalid, match="60 classes, and at most 50"):
        evaluate_study(spec, ledger=ledger, folder=tmp_path)
