"""What cannot be trained costs nothing: structures are tried out and parameters checked before the charge."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import NuSVC

from dpbo.tasks.reporting.release_document import untrained_words
from dpbo_core import PrivacyLedger, PrivateSearch, Real, StudySpec, run_study
from dpbo_core.errors import StudyInvalid
from dpbo_core.study.precomputed import PublicWork
from dpbo_core.study.query import QueryContext
from dpbo_core.study.resolve import resolve
from dpbo_core.study.run import Run
from dpbo_core.study.trained_models import to_try_out
from dpbo_core.study.tuning import StudyRun

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))
Y = (X[:, 0] > 0.7).astype(int)
PIPE = Pipeline([("s", StandardScaler()), ("c", LogisticRegression())])


def searched(url, estimator, space, method="private_grid", **settings):
    settings = {"epsilon": 20.0, "delta": 1e-6, "dataset": "late", "budget": (1e5, 1e-3)} | settings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        it = PrivateSearch(estimator, space, ledger=url, method=method, n_candidates=8, n_steps=8, **settings)
        return it.fit(X[:40], Y[:40], X_validation=X[40:], y_validation=Y[40:])


REFUSED = [
    (LogisticRegression(solver="lbfgs"), {"penalty": ["l2", "l1"]}, "penalty = l1"),
    (LogisticRegression(), {"C": [1.0, 2.0, -1.0]}, "C = -1.0"),
    (LogisticRegression(), {"C": [1.0, float("nan")]}, "C = nan"),
    (LogisticRegression(), {"max_iter": [10, 10.5]}, "max_iter = 10.5"),
    (LogisticRegression(), {"class_weight": ["balanced", "None"]}, "class_weight = None"),
    (PIPE, {"c__C": [1.0, -1.0]}, "c__C = -1.0"),
    (PIPE, {"c": [LogisticRegression(), NuSVC(nu=0.9)]}, "c = NuSVC(nu=0.9)"),
    (PIPE, {"s": ["passthrough", "pass"]}, "s = pass"),
]


@pytest.mark.parametrize("method", ["private_grid", "private_trajectory"])
@pytest.mark.parametrize(("estimator", "space", "named"), REFUSED)
def test_a_candidate_that_cannot_be_trained_is_named_and_nothing_is_charged(url, estimator, space, named, method):
    with pytest.raises(StudyInvalid) as refusal:
        searched(url, estimator, space, method)
    assert named in refusal.value.what
    assert refusal.value.remedy.endswith("nothing was charged")
    assert PrivacyLedger(url).accounts() == ()


@pytest.mark.slow
def test_in_several_processes_too(url):
    with pytest.raises(StudyInvalid, match="penalty = l1"):
        searched(url, LogisticRegression(solver="lbfgs"), {"penalty": ["l2", "l1"]}, n_jobs=2)
    assert PrivacyLedger(url).accounts() == ()


@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc"])
@pytest.mark.parametrize("method", ["private_grid", "private_trajectory"])
def test_what_fails_at_a_number_alone_scores_the_constant_and_is_named(url, scoring, method):
    """nu is a number in (0, 1] to scikit-learn's check, and above twice the rarer class's share infeasible."""
    found = searched(url, NuSVC(), {"nu": Real(0.05, 0.95)}, method, scoring=scoring, epsilon=2000.0)
    facts = found.release_.facts
    listed = [point["nu"] for point in facts["untrained_candidates"]]
    assert len(listed) == facts["untrained"] > 0
    assert min(listed) > 2.0 * Y[:40].mean() > found.best_params_["nu"]
    assert f"nu = {listed[0]:.4g}"[:8] in untrained_words(found.release_)
    for step in found.trajectory_ or ():
        constant = 0.5 if scoring == "roc_auc" else 1.0 - Y[40:].mean()
        if step["hyperparameters"]["nu"] in listed:
            # 17 deviations of an AUC's noise here, which is .0086; what was trained scores .93 or more
            assert step["score"] == pytest.approx(constant, abs=0.15 if scoring == "roc_auc" else 0.02)


def test_a_chosen_candidate_that_cannot_be_trained_keeps_its_release(url):
    """Here the constant answer is right more often than whatever was trained."""
    search = PrivateSearch(
        NuSVC(), {"nu": Real(0.05, 0.95)}, ledger=url, method="private_grid", n_candidates=8, epsilon=2000.0,
        delta=1e-6, dataset="late", budget=(1e5, 1e-3),
    )  # fmt: skip
    search.best_estimator_ = "of an earlier fit"
    with pytest.warns(UserWarning, match=r"the chosen candidate, nu = 0\.\d+, cannot be trained"):
        search.fit(X[:40], Y[:40], X_validation=X[40:], y_validation=1 - Y[40:])
    assert search.best_params_ in search.release_.facts["untrained_candidates"]
    assert search.best_score_ == pytest.approx(Y[40:].mean(), abs=0.02)
    assert not hasattr(search, "best_estimator_")
    assert not hasattr(search, "predict")
    with pytest.raises(AttributeError) as absent:
        search.predict(X)
    assert "cannot be trained" in str(absent.value.__cause__)
    spent = PrivacyLedger(url).accounts()[0].spent
    with pytest.warns(UserWarning, match="cannot be trained"):
        again = search.fit(X[:40], Y[:40], X_validation=X[40:], y_validation=1 - Y[40:])
    assert again.replayed_
    assert PrivacyLedger(url).accounts()[0].spent == spent
    with pytest.raises(StudyInvalid):
        search.evaluate(X[:40], Y[:40], X_validation=X[40:], y_validation=1 - Y[40:], epsilon=1.0)
    assert PrivacyLedger(url).accounts()[0].spent == spent


def test_a_study_that_was_killed_names_what_an_earlier_process_could_not_train(url, monkeypatch):
    whole = StudyRun.finish

    def killed(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(StudyRun, "finish", killed)
    with pytest.raises(KeyboardInterrupt):
        searched(url, NuSVC(), {"nu": Real(0.05, 0.95)}, "private_trajectory")
    monkeypatch.setattr(StudyRun, "finish", whole)
    found = searched(url, NuSVC(), {"nu": Real(0.05, 0.95)}, "private_trajectory")
    tried = {step["hyperparameters"]["nu"] for step in found.trajectory_}
    infeasible = {nu for nu in tried if nu > 2.0 * Y[:40].mean()}
    assert {point["nu"] for point in found.release_.facts["untrained_candidates"]} == infeasible


def test_each_structure_is_tried_out_and_numbers_make_none(tables):
    tables["model"] = {"estimator": "sklearn.svm.SVC", "score": "accuracy"}
    tables["space"] = {
        "C": {"low": 0.1, "high": 10.0, "log": True, "points": 5},
        "kernel": {"values": ["linear", "rbf"]},
        "gamma": {"values": ["scale", 0.1, 0.2], "when": {"kernel": "rbf"}},
        "shrinking": {"values": [True, False]},
    }
    study = resolve(StudySpec.from_dict(tables))
    points = study.problem.candidates.points
    tried = [points[index] for index in to_try_out(study.method, study.problem)]
    assert len(points) == 5 * (1 + 3) * 2
    assert len(tried) == (1 + 2) * 2  # linear; rbf with a text or a number; each with either truth value
    assert to_try_out(study.method, study.problem)[0] == 0


def test_public_tasks_try_out_what_a_study_by_itself_would(tables, tmp_path):
    tables["model"] = {
        "estimator": "sklearn.linear_model.LogisticRegression",
        "score": "accuracy",
        "params": {"solver": "lbfgs"},
    }
    tables["space"] = {"penalty": {"values": ["l2", "l1"]}}
    spec = StudySpec.from_dict(tables)
    ledger = PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}")
    work = PublicWork(Run.of(spec, QueryContext(ledger, tmp_path)))
    assert [index for part in work.to_try for index in part] == [0, 1]
    first, second = work.to_try
    assert work.try_out(first) == 1
    with pytest.raises(StudyInvalid, match="penalty = l1"):
        work.try_out(second)
    with pytest.raises(StudyInvalid, match="penalty = l1"):
        run_study(spec, ledger=ledger, folder=tmp_path)
    assert ledger.accounts() == ()


def test_plan_refuses_what_tune_refuses(dpbo, here):
    rows = "\n".join(f"{a:.3f},{b:.3f},{y}" for (a, b, _), y in zip(X, Y, strict=True))
    for name in ("train", "validation"):
        (here / f"{name}.csv").write_text(f"a,b,y\n{rows}\n")
    (here / "study.toml").write_text(
        """
        study = { name = "late", method = "private_grid" }
        privacy = { dataset = "late", epsilon = 20.0, anyway = true }
        budget = { epsilon = 50.0 }
        data = { training = "train.csv", validation = "validation.csv", n_validation = 80, target = "y" }
        model = { estimator = "sklearn.linear_model.LogisticRegression", score = "accuracy" }
        space = { penalty = { values = ["l2", "l1"] } }
        """
    )
    code, _, said = dpbo("plan", "study.toml")
    assert code == 2
    assert "penalty = l1" in said
    assert "nothing was charged" in " ".join(said.split())
