"""Studies with rowwise = "enforced": no assumption, whatever the estimator; refused before anything is charged."""

import json

import hostile_rows
import numpy as np
import pytest
from hostile_rows import Hostile
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.decomposition import NMF
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from dpbo_core import PrivacyLedger, PrivateSearch, Real
from dpbo_core.advice.advise import advise
from dpbo_core.errors import AssumptionNotAccepted, StudyInvalid
from dpbo_core.models.one_by_one import available
from dpbo_core.preparation.resolve import plan_study
from dpbo_core.problem.model import read_model
from dpbo_core.study_file import EstimatorSection, StudySpec
from dpbo_core.study_file.posed_problem import problem_of

RNG = np.random.default_rng(0)
X, V = RNG.random((60, 4)), RNG.random((12, 4))
Y, W = (X[:, 1] > 0.5).astype(int), (V[:, 1] > 0.5).astype(int)
X[:, 0] = V[:, 0] = 0.0


class Counting(ClassifierMixin, BaseEstimator, Hostile):
    """A hostile one that scikit-learn knows as a classifier."""

    def __init__(self, act="nothing", weight=1.0):
        self.act, self.weight, self.state = act, weight, []

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self


Counting.__module__, hostile_rows.Counting = "hostile_rows", Counting  # a study names it there


def search(url, estimator, space, **changes):
    settings = {"epsilon": 1.0, "delta": 0.0, "dataset": "people", "budget": (3.0, 1e-5), "ledger": url}
    settings |= {"n_steps": 2, "n_candidates": 2, "method": "private_grid", "rowwise": "enforced"}
    return PrivateSearch(estimator, space, **settings | changes)


def tables(**model):
    return {
        "study": {"name": "s", "method": "private_grid"},
        "privacy": {"dataset": "d", "epsilon": 1.0},
        "data": {"source": "breast_cancer", "validation_share": 0.5},
        "model": {"estimator": "sklearn.linear_model.LogisticRegression", **model},
        "space": {"C": {"low": 0.1, "high": 1.0, "points": 4}},
        "search": {"steps": 4},
    }


@pytest.mark.slow
def test_what_iterates_over_all_rows_together_needs_no_assumption(url):
    """NMF needs one in process: one record moves the scores of others. Alone it has no others."""
    pipeline = make_pipeline(MinMaxScaler(), NMF(2), LogisticRegression())
    space = {"logisticregression__C": Real(0.1, 10.0)}
    with pytest.raises(AssumptionNotAccepted, match="NMF"):
        search(url, pipeline, space, rowwise=None).fit(X, Y, X_validation=V, y_validation=W)
    found = search(url, pipeline, space).fit(X, Y, X_validation=V, y_validation=W)
    assert found.guarantee_.assumptions == ()
    assert found.release_.facts["rowwise"] == "enforced"
    again = search(url, pipeline, space)
    with pytest.warns(UserWarning, match="nothing was drawn"):
        assert again.fit(X, Y, X_validation=V, y_validation=W).best_score_ == found.best_score_


def test_a_notebooks_class_is_refused_before_anything_is_charged(url, monkeypatch):
    import __main__

    monkeypatch.setattr(Counting, "__module__", "__main__")
    monkeypatch.setattr(__main__, "Counting", Counting, raising=False)
    with pytest.raises(StudyInvalid, match="notebook"):
        search(url, Counting(), {"weight": Real(0.5, 1.0)}).fit(X, Y, X_validation=V, y_validation=W)
    assert not PrivacyLedger(url).accounts()


def test_where_it_is_not_to_be_had_it_is_refused_at_plan(monkeypatch):
    spec = StudySpec.from_dict(tables(rowwise="enforced"))
    monkeypatch.setattr(available, "_obstacle", lambda process: "no seccomp")
    with pytest.raises(StudyInvalid, match="no seccomp"):
        plan_study(spec)
    with pytest.raises(StudyInvalid, match="no seccomp"):
        advise(problem_of(spec, n_validation=100), spec.method, spec.options)


def test_plan_says_how_long_it_will_take(monkeypatch):
    monkeypatch.setattr(available.os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    assert available.seconds_expected(1000, 20) == pytest.approx(1000 * 20 * 0.014 / 4)
    monkeypatch.undo()
    spec = StudySpec.from_dict(tables(rowwise="enforced"))
    lines = advise(problem_of(spec, n_validation=1000), spec.method, spec.options).to_json()["methods"]
    priced = [line for line in lines if line["epsilon"] is not None]
    assert priced
    for line in priced:
        assert line["estimated_seconds"] == available.seconds_expected(1000, line["trainings"])
    plain = StudySpec.from_dict(tables())
    assert "estimated_seconds" not in json.dumps(
        advise(problem_of(plain, n_validation=1000), plain.method, plain.options).to_json()
    )


def test_the_key_changes_no_study_without_it():
    assert "rowwise" not in StudySpec.from_dict(tables()).to_dict()["model"]
    spec = StudySpec.from_dict(tables(rowwise="enforced"))
    assert spec.to_dict()["model"]["rowwise"] == "enforced"
    assert StudySpec.from_dict(spec.to_dict()) == spec


@pytest.mark.parametrize("word", ["yes", "", "Enforced"])
def test_only_enforced_is_known(word):
    with pytest.raises(StudyInvalid, match="rowwise"):
        EstimatorSection(estimator="sklearn.svm.SVC", rowwise=word)


def test_our_own_models_need_none():
    with pytest.raises(StudyInvalid, match="ours"):
        read_model({"estimator": "logistic", "rowwise": "enforced"})


def test_an_estimator_of_others_and_a_score_of_ones_own_need_no_assumption():
    for model in (
        {"estimator": "theirs.Model", "score": "accuracy"},
        {"estimator": "theirs.Model", "score": "ours.score", "score_low": 0.0, "score_high": 1.0},
    ):
        for how, guaranteed in ((None, False), ("enforced", True)):
            asked = model if how is None else model | {"rowwise": how}
            problem = problem_of(StudySpec.from_dict(tables() | {"model": asked}), n_validation=9)
            assert problem.rowwise is guaranteed
