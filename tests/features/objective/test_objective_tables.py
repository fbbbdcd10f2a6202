"""What a private objective does with tables in memory: it keeps nothing of them, and refuses absurd numbers."""

import re

import pytest
import test_absurd_numbers as absurd
import test_class_state as state
import test_frames as frames
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from test_absurd_numbers import ABSURD
from test_trial_trainings import X, Y

from dpbo import PrivateObjective
from dpbo_core import PrivacyLedger
from dpbo_core.errors import DpboError, StudyInvalid


def test_a_question_that_cannot_be_trained_costs_nothing(url):
    objective = PrivateObjective(
        LogisticRegression(), epsilon=5.0, delta=1e-6, dataset="asked", n_scores=2, budget=(1e3, 1e-3), ledger=url
    ).fit(X[:40], Y[:40], X_validation=X[40:], y_validation=Y[40:])
    for question, named in (({"penalty": "l1"}, "penalty = l1"), ({"C": -1.0}, "C = -1.0")):
        with pytest.raises(StudyInvalid, match=re.escape(named)):
            objective(question)
    assert PrivacyLedger(url).accounts() == ()
    objective({"C": 1.0})
    with pytest.raises(StudyInvalid, match=r"C = -1\.0"):
        objective({"C": -1.0})
    assert objective.scores_left == 1


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_later_objective_sees_nothing_that_an_earlier_one_s_classes_kept(here, wrapped):
    X, y, V, truth = state.data()
    estimator = make_pipeline(StandardScaler(), state.Keeps()) if wrapped else state.Keeps()
    axis = "keeps__cut" if wrapped else "cut"
    for name in ("first", "second"):
        asked = PrivateObjective(
            estimator, epsilon=1.0, delta=1e-6, dataset=name, budget=(5.0, 1e-5), n_scores=2,
            ledger=f"sqlite:///{here / 'ledger.db'}", accepts=("rowwise_predictions",),
        ).fit(X, y, X_validation=V, y_validation=truth)  # fmt: skip
        asked.ask({axis: 0.0})
        asked.ask({axis: 0.1})
        assert str(state.CANARY) not in state.kept()
        seen = state.Keeps.largest, *state.Keeps.history, *state.Keeps.kinds
        assert state.CANARY not in (state.LARGEST, *seen, *state.TABLE, *state.Notes.rows)


@pytest.mark.parametrize("number", ABSURD, ids=lambda number: str(number)[:9])
def test_absurd_numbers_are_refused(url, number):
    def objective(**settings):
        PrivateObjective(LogisticRegression(), ledger=url, **absurd.PRICE, **settings).fit(
            absurd.X, absurd.Y, X_validation=absurd.V, y_validation=absurd.TRUTH
        )

    absurd.refused(lambda: objective(n_scores=number))
    absurd.refused(lambda: objective(n_scores=2, n_persons=number, person="who"))


def objective(folder, **changes):
    asked = PrivateObjective(GaussianNB(), n_scores=1, delta=1e-6, **frames.settings(folder, **changes))
    return asked.fit(frames.X, frames.Y, X_validation=frames.V, y_validation=frames.Y[:20])


def spent(folder):
    asked = objective(folder)
    asked({"var_smoothing": 0.1})
    return asked


FAILURES = {
    "objective": lambda here: objective(here, person="x7"),
    "question": lambda here: objective(here).ask({"var_smoothing": -1.0}),
    "too many": lambda here: spent(here)({"var_smoothing": 0.2}),
    "submission": lambda here: objective(here).submit(GaussianNB()),
    "predictions": lambda here: objective(here).submit_predictions(frames.V[:3], name="ours"),
    "best of none": lambda here: objective(here, choice_share=0.5, epsilon=10.0).best(),
    "a failing step": lambda here: objective(here).ask({"var_smoothing": 0.1}),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_no_frame_of_a_failed_question_holds_a_table(here, monkeypatch, failure):
    if failure == "a failing step":

        def fails(*_, **__):
            raise MemoryError(frames.V)

        monkeypatch.setattr("dpbo_core.models.scoring.in_memory.exact_totals", fails)
    with pytest.raises((DpboError, KeyboardInterrupt)) as told:
        FAILURES[failure](here)
    frames.check_frames(told.value, __file__)
