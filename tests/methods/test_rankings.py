"""Studies by AUC and by balanced accuracy without class shares, whole: scikit-learn is the oracle."""

import json
import re

import numpy as np
import pandas as pd
import pytest
import tomli_w
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import balanced_accuracy_score, get_scorer_names, roc_auc_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC
from worlds import mostly_slow

from dpbo_core import Categorical, Integer, PrivacyLedger, PrivateSearch, Real, StudySpec, plan_study
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.accounting.certificate import read_certificate, recompute
from dpbo_core.methods import METHODS
from dpbo_core.methods.advice import advise
from dpbo_core.methods.certified import CERTIFIED
from dpbo_core.methods.contract import Scope
from dpbo_core.models.scores.union import SCORES
from dpbo_core.models.scoring.partitioned import PartitionedObjective
from dpbo_core.study import data_split
from dpbo_core.study.named_score import score_on
from dpbo_core.study.resolve import advise_study, planning_problem
from dpbo_core.study.run import advised_half
from dpbo_core.study.spec import read_study
from dpbo_core.study.tuning import run_study

LARGE = 3000.0  # noise is then far below what is compared
X, Y = load_breast_cancer(return_X_y=True)
X = X[:, :6] + np.random.default_rng(0).normal(size=(len(X), 6)) * X[:, :6].std(axis=0) * 2.0  # a harder task
NEAR = 2e-3


def search(url, inner, space, **changes):
    settings = {"epsilon": LARGE, "delta": 1e-6, "dataset": "d", "budget": (1e5, 1e-3), "ledger": url}
    return PrivateSearch(inner, space, **settings | {"n_candidates": 3, "method": "private_grid"} | changes)


def fit(it, X=X, y=Y):
    return it.fit(X[0::2], y[0::2], X_validation=X[1::2], y_validation=y[1::2])


def value(model, X):
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict_proba(X)[:, 1]


MODELS = {
    "logistic": (LogisticRegression(max_iter=5000), {"C": Categorical([1e-7, 1e-4, 1.0])}),
    "forest": (RandomForestClassifier(5), {"max_depth": Integer(1, 8)}),
    "boosting": (HistGradientBoostingClassifier(max_iter=20), {"max_leaf_nodes": Integer(2, 20)}),
    "vectors": (SVC(), {"C": Real(1e-2, 10.0, log=True)}),
    "bayes": (GaussianNB(), {"var_smoothing": Real(1e-9, 1.0, log=True)}),
}


@pytest.mark.parametrize("name", mostly_slow(MODELS, "forest", "vectors"))
def test_the_released_auc_is_scikit_learns(url, name):
    inner, space = MODELS[name]
    found = fit(search(url, inner, space, scoring="roc_auc"))
    exact = roc_auc_score(Y[1::2], value(found.best_estimator_, X[1::2]))
    assert found.best_score_ == pytest.approx(exact, abs=NEAR)
    low, high = found.best_score_interval_
    assert 0.0 <= low <= found.best_score_ <= high <= 1.0
    assert found.release_.facts["counts"] == "pairs"
    assert found.release_.facts["public_share"] == pytest.approx(Y[0::2].mean())
    P = int(Y[1::2].sum())
    assert found.release_.value["pairs"] == pytest.approx(4 * P * (len(Y[1::2]) - P) / len(Y[1::2]) ** 2, abs=1e-2)


def test_the_choice_is_the_one_with_the_largest_auc(url):
    axis = Categorical([1e-9, 1e-6, 1e-3])
    inner = LogisticRegression(max_iter=5000)
    found = fit(search(url, inner, {"C": axis}, scoring="roc_auc"))
    exact = {}
    for C in axis.values:
        model = LogisticRegression(max_iter=5000, C=C, random_state=0)
        scaled = (X - X[0::2].mean(axis=0)) / 1.0
        exact[C] = roc_auc_score(Y[1::2], model.fit(scaled[0::2], Y[0::2]).decision_function(scaled[1::2]))
    assert exact[found.best_params_["C"]] >= max(exact.values()) - NEAR


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param(np.array([0, 1]), id="numbers", marks=pytest.mark.slow),
        pytest.param(np.array(["ill", "well"]), id="texts"),
    ],
)
def test_balanced_accuracy_of_two_classes_needs_no_shares(url, labels):
    """The public table is balanced and the sensitive one is not: shares of the public one would mislead."""
    rng = np.random.default_rng(3)
    y = Y.copy()
    keep = np.flatnonzero((np.arange(len(Y)) % 2 == 0) | (Y == 1) | (rng.random(len(Y)) < 0.2))
    sensitive = np.isin(np.arange(len(Y)), keep) & (np.arange(len(Y)) % 2 == 1)
    public = np.arange(len(Y)) % 2 == 0
    it = search(url, RandomForestClassifier(5), {"max_depth": Integer(1, 6)}, scoring="balanced_accuracy")
    it.fit(X[public], labels[y[public]], X_validation=X[sensitive], y_validation=labels[y[sensitive]])
    exact = balanced_accuracy_score(labels[y[sensitive]], it.best_estimator_.predict(X[sensitive]))
    assert it.best_score_ == pytest.approx(exact, abs=NEAR)
    assert it.release_.facts["counts"] == "pairs"


def test_with_class_shares_it_is_the_mean_it_was(url):
    inner, space = RandomForestClassifier(3), {"max_depth": Integer(1, 4)}
    found = fit(search(url, inner, space, scoring="balanced_accuracy", class_shares={0: 0.4, 1: 0.6}))
    assert "counts" not in found.release_.facts
    assert found.release_.facts["score_range"] == pytest.approx(1 / 0.8)
    assert [spend.what for spend in found.release_.spends] == ["best candidate", "its score"]


def test_a_trajectory_is_the_auc_step_by_step(url):
    inner, space = SVC(), {"C": Real(1e-2, 10.0, log=True)}
    found = fit(search(url, inner, space, scoring="roc_auc", method="private_trajectory", n_steps=6))
    assert len(found.trajectory_) == 6
    for point in found.trajectory_:
        model = Pipeline([*found.best_estimator_.steps[:1], ("model", SVC(**point["hyperparameters"]))])
        exact = roc_auc_score(Y[1::2], value(model.fit(X[0::2], Y[0::2]), X[1::2]))
        assert point["score"] == pytest.approx(exact, abs=5 * NEAR)
    exact = roc_auc_score(Y[1::2], value(found.best_estimator_, X[1::2]))
    low, high = found.release_.value["interval"]
    assert low - NEAR <= exact <= high + NEAR
    assert found.best_score_ == pytest.approx(exact, abs=5 * NEAR)


def study(**changes):
    tables = {
        "study": {"name": "ranks", "method": "private_grid"},
        "privacy": {"dataset": "d", "epsilon": 1.0, "delta": 1e-6},
        "budget": {"epsilon": 100.0, "delta": 1e-3},
        "data": {"training": "t.csv", "validation": "v.csv", "n_validation": 284, "target": "y"},
        "model": {"estimator": "logistic", "score": "roc_auc"},
        "space": {"lambda": {"low": 1e-4, "high": 1.0, "log": True, "points": 5}},
        "search": {"steps": 4},
    }
    for key, table in changes.items():
        tables[key] = table if key in ("space",) else tables[key] | table
    return tables


def write(folder, tables, *, parts=0, classes=Y):
    names = [f"x{j}" for j in range(6)]
    frame = pd.DataFrame(X, columns=names).assign(y=classes)
    frame[0::2].to_csv(folder / "t.csv", index=False)
    if parts:
        (folder / "v.csv").mkdir()
        for part in range(parts):
            frame[1::2][part::parts].to_parquet(folder / "v.csv" / f"{part}.parquet", index=False)
    else:
        frame[1::2].to_csv(folder / "v.csv", index=False)
    (folder / "s.toml").write_text(tomli_w.dumps(tables))
    return read_study(folder / "s.toml")


ESTIMATORS = {
    "logistic": {},
    "hinge": {"model": {"estimator": "hinge"}},
    "boosting": {
        "model": {"estimator": "sklearn.ensemble.HistGradientBoostingClassifier", "params": {"max_iter": 10}},
        "space": {"max_leaf_nodes": {"values": [2, 5, 20]}},
    },
    "forest, balanced": {
        "model": {
            "estimator": "sklearn.ensemble.RandomForestClassifier",
            "score": "balanced_accuracy",
            "params": {"n_estimators": 10},
        },
        "space": {"max_depth": {"values": [1, 3]}},
    },
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_parts_come_to_the_whole_bit_for_bit(tmp_path, name):
    tables = study(**ESTIMATORS[name])
    for folder in ("whole", "parts"):
        (tmp_path / folder).mkdir()
    whole = write(tmp_path / "whole", tables)
    split = write(tmp_path / "parts", tables, parts=3)
    public = data_split.public_half(whole, tmp_path / "whole")
    one = data_split.sensitive_half(whole, tmp_path / "whole", public)
    many = data_split.sensitive_half(split, tmp_path / "parts", public)
    assert isinstance(many, PartitionedObjective)
    assert many.pairs().expose() == one.pairs().expose() == 2 * int(Y[1::2].sum()) * int((Y[1::2] == 0).sum())
    for i in range(len(public.problem.candidates)):
        model = public.problem.train(i)
        assert many.evaluate(model).expose() == one.evaluate(model).expose()


def test_a_margin_is_ranked_as_scikit_learn_ranks_it(tmp_path):
    spec = write(
        tmp_path, study(study={"method": "private_grid"}, privacy={"epsilon": LARGE}, budget={"epsilon": 1e5})
    )
    ledger = PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}")
    release = run_study(spec, ledger=ledger, folder=tmp_path).release
    public = data_split.public_half(spec, tmp_path)
    records = public.preprocessing.transform(data_split.validation_table(spec.data, tmp_path))
    exact = [
        roc_auc_score(records.labels, public.problem.train(i).margins(records.X, np.ones(284))) for i in range(5)
    ]
    assert release.value["score"] == pytest.approx(max(exact), abs=NEAR)
    assert recompute(read_certificate(release.to_json(), CERTIFIED), CERTIFIED).epsilon <= LARGE
    assert run_study(spec, ledger=ledger, folder=tmp_path).replayed


def test_unreadable_records_and_unknown_labels_are_in_neither_class_for_every_candidate(tmp_path):
    spec = write(tmp_path, study())
    public = data_split.public_half(spec, tmp_path)
    lines = (tmp_path / "v.csv").read_text().splitlines()
    before = data_split.sensitive_half(spec, tmp_path, public)
    P, Q = int(Y[1::2].sum()), int((Y[1::2] == 0).sum())
    cells = [line.split(",") for line in lines]
    first = [next(i for i in range(1, len(cells)) if cells[i][-1] == label) for label in ("0", "1")]
    cells[first[0]][0], cells[first[1]][-1] = "no number", "maybe"
    (tmp_path / "v.csv").write_text("\n".join(",".join(row) for row in cells) + "\n")
    after = data_split.sensitive_half(spec, tmp_path, public)
    assert before.pairs().expose() == 2 * P * Q
    assert after.pairs().expose() == 2 * (P - 1) * (Q - 1)
    kept = [i - 1 for i in range(1, len(cells)) if i not in first]
    records = public.preprocessing.transform(data_split.validation_table(spec.data, tmp_path))
    for i in range(5):
        margins = public.problem.train(i).margins(records.X[kept], np.ones(len(kept)))
        exact = roc_auc_score(Y[1::2][kept], margins)
        assert after.evaluate(public.problem.train(i)).expose() / (2 * (P - 1) * (Q - 1)) == pytest.approx(
            exact, abs=1e-4
        )


def test_a_persons_surplus_records_are_in_neither_class(tmp_path):
    tables = study(privacy={"person": "who", "max_records_per_person": 2})
    spec = write(tmp_path, tables)
    frame = pd.read_csv(tmp_path / "v.csv")
    frame["who"] = np.arange(len(frame)) // 4  # four records each, two of which count
    frame.to_csv(tmp_path / "v.csv", index=False)
    public = data_split.public_half(spec, tmp_path)
    counted = np.arange(len(frame)) % 4 < 2
    y = frame["y"].to_numpy()[counted]
    there = data_split.sensitive_half(spec, tmp_path, public)
    assert there.pairs().expose() == 2 * int(y.sum()) * int((y == 0).sum())
    assert plan_study(spec).spends[0].sensitivity == pytest.approx(2 * 2 * 282 * 2 / 284**2)


@pytest.mark.parametrize("name", ["roc_auc", "balanced_accuracy"])
def test_persons_means_are_refused_by_name(name):
    tables = study(model={"score": name}, privacy={"person": "who"})
    tables["data"] = {"training": "t.csv", "validation": "v.csv", "n_persons": 50, "target": "y"}
    with pytest.raises(StudyInvalid, match=f"{name} counts pairs of records, and n_persons averages") as message:
        plan_study(StudySpec.from_dict(tables))
    assert "max_records_per_person" in message.value.remedy


def test_more_classes_are_refused_with_the_reason(url):
    W, w = load_wine(return_X_y=True)
    by_rank, by_shares = (
        search(url, LogisticRegression(), {"C": Real(0.1, 1.0)}, scoring=name)
        for name in ("roc_auc", "balanced_accuracy")
    )
    with pytest.raises(StudyInvalid, match="3 classes, and roc_auc ranks") as message:
        fit(by_rank, W, w)
    assert "log_loss or brier" in message.value.remedy
    assert "one class against the rest" in message.value.remedy
    assert [entry for account in PrivacyLedger(url).accounts() for entry in account.entries] == []
    assert "counts" not in fit(by_shares, W, w).release_.facts  # the shares of the public y, as it was
    model = {"estimator": "sklearn.svm.SVC", "score": "balanced_accuracy"}
    with pytest.raises(StudyInvalid, match="3 classes"):
        score_on(StudySpec.from_dict(study(model=model, space={"C": {"values": [1]}})).model, (0.0, 1.0, 2.0))


def test_the_plan_of_three_classes_says_so_too(tmp_path):
    spec = write(
        tmp_path,
        study(model={"estimator": "sklearn.svm.SVC"}, space={"C": {"values": [1.0]}}),
        classes=np.arange(len(Y)) % 3,
    )
    with pytest.raises(StudyInvalid, match="3 classes"):
        advised_half(spec, tmp_path)


@pytest.mark.parametrize("name", sorted(set(get_scorer_names()) - set(SCORES)))
@pytest.mark.parametrize("estimator", ["logistic", "sklearn.svm.SVC"])
def test_every_score_of_scikit_learn_is_told_what_serves_in_its_place(name, estimator):
    space = {"lambda": {"low": 0.1, "high": 1.0}} if estimator == "logistic" else {"C": {"values": [1.0]}}
    with pytest.raises(StudyInvalid, match=f"'{name}' is no score that a study can choose by") as message:
        StudySpec.from_dict(study(model={"estimator": estimator, "score": name}, space=space))
    assert "misspelt" not in message.value.cause
    assert any(f in message.value.remedy for f in SCORES)
    if name in ("f1", "average_precision", "precision", "recall"):
        assert message.value.remedy == "choose by roc_auc or log_loss, and get it from `dpbo evaluate`"


def test_a_misspelling_is_still_one():
    with pytest.raises(StudyInvalid, match=r"roc_auk.*roc_auc") as message:
        StudySpec.from_dict(study(model={"score": "roc_auk"}))
    assert "misspelt" in message.value.cause


def test_a_search_says_the_same(url):
    with pytest.raises(StudyInvalid, match="'f1' is no score"):
        fit(search(url, LogisticRegression(), {"C": Real(0.1, 1.0)}, scoring="f1"))
    D, T = load_diabetes(return_X_y=True)
    with pytest.raises(StudyInvalid, match="'r2' is no score") as message:
        fit(search(url, Ridge(), {"alpha": Real(0.1, 1.0)}, scoring="r2"), D, T)
    assert "squared_error" in message.value.remedy


def test_an_estimator_that_ranks_nothing_is_refused_before_anything_is_charged(url):
    inner = VotingClassifier([("a", LogisticRegression()), ("b", GaussianNB())], voting="hard")
    with pytest.raises(StudyInvalid, match="neither decision values nor probabilities"):
        fit(search(url, inner, {"a__C": Real(0.1, 1.0)}, scoring="roc_auc"))
    assert [entry for account in PrivacyLedger(url).accounts() for entry in account.entries] == []


@pytest.mark.parametrize("kind", [kind for kind, cls in METHODS.items() if cls.scope is not Scope.PAIRS])
def test_a_study_by_another_method_says_which_methods_count_pairs(kind):
    from worlds import with_method

    with pytest.raises(StudyInvalid, match="roc_auc counts pairs") as message:
        plan_study(StudySpec.from_dict(with_method(study(), kind)))
    assert "'private_trajectory' or 'private_grid'" in message.value.remedy
    (line,) = [line for line in advise_study(StudySpec.from_dict(study())).methods if line.kind == kind]
    assert line.verdict == "refused"
    assert "counts pairs" in line.why


def lines(positives, m):
    spec = StudySpec.from_dict(study(data={"n_validation": m}))
    return {line.kind: line for line in advise_study(spec, positives=positives).methods}


def test_the_plan_says_from_which_number_of_records_it_is_useful():
    found = {share: lines(share, 10_000)["private_grid"] for share in (0.5, 0.06, 0.01)}
    least = {share: line.useful_from for share, line in found.items()}
    assert least[0.5] < least[0.06] < least[0.01]
    for share, m in least.items():
        assert f"useful from about {m:,} records at the public share of positives, {share:.1%}" in found[share].why
        assert lines(share, m)["private_grid"].verdict == "good"
        assert lines(share, int(m * 0.8))["private_grid"].verdict != "good"
    ratio = (0.25 / (0.06 * 0.94), 0.25 / (0.01 * 0.99))
    assert least[0.06] / least[0.5] == pytest.approx(ratio[0], rel=0.3)
    assert least[0.01] / least[0.5] == pytest.approx(ratio[1], rel=0.3)
    unknown = lines(None, 10_000)["private_grid"]
    assert "as many positives as negatives" in unknown.why
    assert unknown.useful_from == least[0.5]
    assert lines(0.06, 200)["private_grid"].verdict == "useless"


def test_what_auto_becomes_does_not_hang_on_the_share_that_the_plan_looked_up():
    spec = StudySpec.from_dict(study(study={"method": "auto"}))
    chosen = {advise_study(spec, positives=share).recommended for share in (None, 0.5, 0.01)}
    assert len(chosen) == 1
    assert advise(planning_problem(spec), spec.method, spec.options).recommended in chosen


def test_the_reason_and_the_line_of_what_is_chosen_count_the_same_positives():
    spec = StudySpec.from_dict(study(study={"method": "auto"}, data={"n_validation": 10_000}))
    rare, unknown = advise_study(spec, positives=0.047), advise_study(spec)
    assert ", 4.7% of them positive as in public)" in rare.choice.why
    assert ", as if half of the records were positive)" in unknown.choice.why
    for advice in (rare, unknown):
        assert f": {expected_caption(advice)} below the best" in advice.choice.why
        assert f"its choice scores {expected_caption(advice)} below the best, and" in advice.best.why
    assert expected_caption(rare) != expected_caption(unknown)


def expected_caption(advice):
    return re.search(r"its choice scores (.*) below the best, and the", advice.best.why)[1]


def test_the_command_reads_the_public_file_alone(dpbo, here):
    write(here, study())
    (here / "v.csv").unlink()
    code, out, _ = dpbo("plan", here / "s.toml", "--json")
    assert code == 2  # as tune would be, and the numbers are there
    told = json.loads(out)
    assert "there is no file v.csv" in told["refused"]
    assert told["public_share"] == pytest.approx(Y[0::2].mean())
    assert all("useful_from" in line for line in told["methods"] if line["kind"] in ("private_grid",))
