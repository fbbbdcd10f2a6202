"""rowwise = "enforced": whatever an estimator does with a record, no other record's score can tell.

For every hostile estimator: over neighbouring sets of records, in every position, each record's score is what it is
alone, so the exact integer sum moves by at most one record.
"""

import json
import math
import os
import pickle
import struct
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hostile_rows
import numpy as np
import pytest
import zoo
from audit.rowwise import public
from hostile_rows import ACTS, MARK, Hostile, OnLoading, counted_score
from scipy.stats import binom
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.decomposition import NMF
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from worlds import mostly_slow, search_of

from dpbo.features.isolation import available, child, enforced_model, engine, handle, seccomp
from dpbo.features.isolation.child import Record, model_bytes, result_of
from dpbo.features.isolation.limits import Limits
from dpbo_core import PrivacyLedger, Real
from dpbo_core.data.table import Encoded
from dpbo_core.errors import AssumptionNotAccepted, Sealed, StudyInvalid
from dpbo_core.methods.advice import advise
from dpbo_core.models.estimator_trainer import EstimatorTrainer
from dpbo_core.models.estimators import FittedEstimator, fitted
from dpbo_core.models.integer_sums import GRID, to_grid
from dpbo_core.models.scores.accuracy import Correct
from dpbo_core.models.scores.bounded_function import BoundedFunction
from dpbo_core.models.scores.brier import Brier
from dpbo_core.models.scores.log_loss import LogLoss
from dpbo_core.models.scores.regression_error import RegressionError
from dpbo_core.models.scoring.in_memory import exact_totals
from dpbo_core.study import EstimatorSection, StudySpec
from dpbo_core.study.model import read_model
from dpbo_core.study.resolve import plan_study, problem_of

BRIEF = Limits(cpu_seconds=1, memory=2**28)
PUBLIC = np.array([[0.0, 0.9, 0.0, 0.0], [0.0, 0.1, 0.0, 0.0]])
SECRET = 7.25e30  # finite in single precision, or the row would not be predicted at all
# their honest rows die of what they try
DIE = tuple(act for act in ACTS if act.endswith((" counter", "system calls")))
SLOW = ("turns for ever", "recursion")  # a second each, which is their limit
MODULES = ("hostile_rows",)
LINUX = hasattr(os, "memfd_create")

pytestmark = pytest.mark.skipif(
    not LINUX, reason="there is nothing to enforce it with; refused, as tested elsewhere"
)


def rows(marked, m=4):
    """m honest records and a marked one at each place of `marked`; and their classes."""
    X = np.array([[0.0, (i * 0.37) % 1.0, 0.0, float(i)] for i in range(m)])
    for i in marked:
        X[i, 0], X[i, 2] = MARK, SECRET
    return X, (X[:, 1] > 0.5).astype(np.int64)


def hostile(act, kind=Hostile):
    return FittedEstimator(
        kind(act), PUBLIC[0], enforced_model.EnforcedModel(pickle.dumps(kind(act)), MODULES, MODULES, limits=BRIEF)
    )


def steps(fitted, X, y, score=None):
    score = score or Correct()
    return np.rint(fitted.scores(X, y, score) * GRID / score.score_range).astype(np.int64)


def neighbours_differ(act, kind=Hostile):
    """Records whose score is not the one they have alone, over neighbouring pairs; there should be none."""
    fitted, wrong = hostile(act, kind), []
    alone = {}
    for marked in [(1,), (0, 2)] if act not in SLOW else [(), (0,)]:  # before others, between them, after
        X, y = rows(marked)
        found = steps(fitted, X, y)
        for i, key in enumerate(map(tuple, X)):
            if key not in alone:
                alone[key] = int(steps(fitted, X[i : i + 1], y[i : i + 1])[0])
            if found[i] != alone[key]:
                wrong.append((marked, i))
            if act != "draws" and X[i, 0] != MARK and found[i] != (0 if act in DIE else GRID):
                wrong.append(("honest", i))
    return wrong


# "turns for ever" is summed below
@pytest.mark.parametrize("act", mostly_slow(ACTS, *(act for act in ACTS if act != "turns for ever")))
def test_no_record_changes_anothers_score(act):
    hostile_rows.FILE.unlink(missing_ok=True)
    assert neighbours_differ(act) == []
    assert not hostile_rows.FILE.exists()


def test_nothing_outlives_the_unpickling_either():
    assert neighbours_differ("nothing", OnLoading) == []


def test_the_exact_sum_moves_by_one_record():
    fitted = hostile("turns for ever")
    sums = []
    for marked in [(), (1,)]:
        X, y = rows(marked)
        records = Encoded(X, y, np.zeros(len(X), dtype=bool), 2)
        sums.append(exact_totals([fitted], records, Correct())[0][0])
    assert sums[0] == 4 * GRID
    assert abs(sums[0] - sums[1]) <= GRID


def test_a_score_function_that_remembers_is_asked_once_a_process():
    score = BoundedFunction("hostile_rows.counted_score", 0.0, 2.0, counted_score)
    X, y = rows(())
    assert steps(hostile("nothing"), X, y, score).tolist() == [GRID // 2] * 4


@pytest.mark.parametrize(
    "fault", ["seccomp.Filter.install = lambda self: True", "limits.take_the_clocks_away = lambda libc: True"]
)
def test_a_machine_that_confines_nothing_is_refused(monkeypatch, fault):
    planted = f"from dpbo.features.isolation import limits, seccomp; {fault}"
    boot = handle._BOOT_CODE.replace("; serve(", f"; exec({planted!r}); serve(")
    monkeypatch.setattr(handle, "_BOOT_CODE", boot)
    for cache in (engine._engine, available._obstacle):
        cache.cache_clear()
    try:
        with pytest.raises(StudyInvalid, match="enforced"):
            available.check_enforceable()
    finally:
        for cache in (engine._engine, available._obstacle):
            cache.cache_clear()


def test_no_attempt_of_the_probe_succeeds():
    images = engine.Engine((), (), BRIEF)
    try:
        whole = model_bytes(pickle.dumps(child.Probe()), pickle.dumps(Correct()))
        one = np.ones(1, dtype=np.int64)
        found = [
            images.trial(whole, Record(np.array([float(i)]), one))[0] for i in range(len(child.FORBIDDEN_CALLS))
        ]
    finally:
        images.close()
    assert found == [GRID] + [None] * (len(child.FORBIDDEN_CALLS) - 1)


def test_a_child_makes_no_instructions_and_no_pages_that_vanish():
    """By the filter's own text: each is refused before anything is allowed."""
    code = seccomp.program("x86_64")
    lines = [struct.unpack("HBBI", code[at : at + 8]) for at in range(0, len(code), 8)]
    bits = [k for operation, _, _, k in lines if operation == seccomp._ANY_BIT]
    assert bits.count(seccomp._PROT_EXEC) == 2  # mmap, mprotect
    assert any(k & 0x8 for k in bits)  # MAP_DROPPABLE


def test_a_record_that_cannot_be_used_scores_0_and_costs_no_other():
    X, y = rows(())
    X[1, 1], X[2, 3] = math.nan, 1e300
    assert steps(hostile("nothing"), X, y).tolist() == [GRID, 0, 0, GRID]
    assert steps(hostile("nothing"), X[:0], y[:0]).tolist() == []


@pytest.mark.parametrize("found", [b"", b"1234567", b"123456789", (2**24 + 1).to_bytes(8, "little"), b"\xff" * 8])
def test_a_result_is_one_number_in_range_or_none(found):
    assert result_of(found, GRID) is None


def test_a_result_is_read_as_it_was_written():
    assert [result_of(n.to_bytes(8, "little"), GRID) for n in (0, 5, GRID)] == [0, 5, GRID]


def watched(send, k, dealt):
    """Sends as before, and notes which image gets which record."""

    def sent(message, model, record, result):
        dealt.append((record.x[3], k))
        send(message, model, record, result)

    return sent


def test_records_are_dealt_out_by_their_index_and_a_lost_image_ends_the_others_and_seals_the_study(monkeypatch):
    images, dealt = engine.Engine(MODULES, MODULES, BRIEF), []
    pids = [one.process.pid for one in images._handles]
    for k, one in enumerate(images._handles):
        monkeypatch.setattr(one, "_send_record", watched(one._send_record, k, dealt))
    X, y = rows((), m=7)
    whole = model_bytes(pickle.dumps(Hostile("nothing")), pickle.dumps(Correct()))
    assert images.steps(whole, X, y).sum() == 7 * GRID
    assert sorted(dealt) == [(float(i), i % len(pids)) for i in range(7)]
    images._handles[0].process.kill()
    images._handles[0].process.wait()
    with pytest.raises(Sealed):
        images.steps(whole, X, y)
    assert not images.running
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


class TestBeforeAnythingIsCharged:
    """What `alone` refuses, on public rows, and what it says."""

    Y = np.array([1, 0])

    def test_what_predicts_is_taken_whatever_else_it_does(self):
        found = enforced_model.alone(Hostile("counts"), PUBLIC, self.Y, Correct(), needed_by={}, limits=BRIEF)
        assert found.named == ("dpbo_core.models.scores.accuracy", "hostile_rows")
        assert set(MODULES) <= set(found.modules)

    def test_an_error_is_named(self):
        marked = np.array([[MARK, 1.0, 0.0, 0.0]])
        with pytest.raises(StudyInvalid, match="BaseException: seen"):
            enforced_model.alone(Hostile("raises"), marked, self.Y[:1], Correct(), needed_by={}, limits=BRIEF)

    def test_what_cannot_be_pickled_is_refused(self):
        with pytest.raises(StudyInvalid, match="pickled"):
            enforced_model.alone(
                Hostile("nothing", [lambda: 0]), PUBLIC, self.Y, Correct(), needed_by={}, limits=BRIEF
            )

    def test_how_it_ended_is_named(self, monkeypatch):
        """What waits, through the door; and by what their processes end with, what else does not score."""
        marked, one = np.array([[MARK, 1.0, 0.0, 0.0]]), self.Y[:1]
        monkeypatch.setattr(enforced_model, "scouted", lambda *_: (MODULES, ""))
        with pytest.raises(StudyInvalid, match="calls what it may not"):
            enforced_model.alone(Hostile("pauses"), marked, one, Correct(), needed_by={}, limits=BRIEF)
        images = engine.engine(MODULES, (Correct.__module__, *MODULES), BRIEF, os.getpid())
        for act, words in (("turns for ever", "more time"), ("crashes", "SIGSEGV"), ("kills everyone", "may not")):
            model = model_bytes(pickle.dumps(Hostile(act)), pickle.dumps(Correct()))
            _, ending, _ = images.trial(model, Record(marked[0], one))
            assert words in enforced_model._exit_in_words(ending)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "score", "regression"),
    [
        ("sklearn.ensemble.RandomForestClassifier", Correct(), False),
        ("sklearn.linear_model.LogisticRegression", Brier(), False),
        ("sklearn.ensemble.HistGradientBoostingClassifier", LogLoss(), False),
        ("sklearn.neighbors.KNeighborsClassifier", LogLoss(), False),
        ("sklearn.linear_model.Ridge", RegressionError(2.0, 2), True),
    ],
)
def test_scikit_learns_own_score_as_they_do_in_process(path, score, regression):
    from dpbo_core.models.estimator_trainer import EstimatorTrainer
    from dpbo_core.models.estimators import EstimatorFactory

    rng = np.random.default_rng(3)
    X = rng.random((80, 3))
    y = X @ [1.0, 2.0, -1.0] if regression else (X[:, 0] > 0.5).astype(np.int64)
    factory = EstimatorFactory(path, {}, 0, regression)
    here = EstimatorTrainer(X, y, factory, score).train({})
    apart = EstimatorTrainer(X, y, factory, score, enforced=True).train({})
    V, w = rng.random((20, 3)), y[:20]
    one_by_one = [float(here.scores(V[i : i + 1], w[i : i + 1], score)[0]) for i in range(20)]
    np.testing.assert_allclose(apart.scores(V, w, score), np.clip(one_by_one, 0, score.score_range), atol=1e-6)
    whole = pickle.loads(pickle.dumps(apart))  # as a worker gets it
    assert whole.scores(V, w, score).tolist() == apart.scores(V, w, score).tolist()


# --- studies: no assumption, whatever the estimator; refused before anything is charged

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
    return search_of(url, estimator, space, **{"n_candidates": 2, "rowwise": "enforced"} | changes)


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


# --- the whole zoo with every record scored alone: no one of it moves a sum by more than its own record

SCORES = [BoundedFunction(score.__name__, 0.0, 1.0, score) for score in zoo.SCORES]


@dataclass
class Factory:
    """The same estimator, made anew."""

    make: Any
    columns: Any = None

    def train(self, X, y, weights=None, /, **_):
        return fitted(self.make(), X, y, display_name="zoo")


def scored(model, score, pairs, seed=0):
    """(record scores in steps, the neighbour's, which record differs) for pairs of tables of up to ten records."""
    rng = np.random.default_rng(seed)
    X, _, _ = public()
    for _ in range(pairs):
        m = int(rng.integers(2, 11))
        V, truth = X[rng.integers(0, len(X), m)], rng.integers(0, 2, m)
        other, labels, j = V.copy(), truth.copy(), int(rng.integers(m))
        other[j, 0], labels[j] = zoo.TRIGGER, 1 - labels[j]
        if rng.random() < 0.3:
            other[j] = rng.choice([-9.0, 2.0, 1e30, -1e8, 0.0], 4)
        before, after = (
            to_grid(model.scores(*table, score), 1.0, broken_score=0.0) for table in ((V, truth), (other, labels))
        )
        yield before, after, j


def sums(model, score, pairs):
    """(exact integer sum, of the neighbour) for each pair of neighbouring tables."""
    for before, after, _ in scored(model, score, pairs):
        yield int(before.sum()), int(after.sum())


def check(make, score, pairs):
    X, y, _ = public()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = EstimatorTrainer(X, (y > 0).astype(np.int64), Factory(make), score, enforced=True).train({})
        except StudyInvalid:
            return False
        for before, after in sums(model, score, pairs):
            assert abs(before - after) <= GRID
    return True


@pytest.fixture(autouse=True)
def _clean():
    yield
    zoo.SEEN.clear()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(zoo.ALL) - {"Random"}))
def test_everybody_of_the_zoo_alone(name):
    check(zoo.ALL[name], Correct(), 50)


DRAWN = BoundedFunction("score_that_draws", 0.0, 1.0, zoo.score_that_draws)


@pytest.mark.slow
@pytest.mark.parametrize(("make", "score"), [(zoo.Random, Correct()), (zoo.Plain, DRAWN)], ids=["label", "score"])
def test_coins_of_its_own_tell_nothing_of_the_others(make, score):
    """What asks the operating system for coins differs from run to run. Each of the other records must
    score above one half with probability 1/2 on either table, apart from what the differing one holds: exact
    binomial intervals, which a false alarm leaves with probability 1e-6 each."""
    X, y, _ = public()
    trainer = EstimatorTrainer(X, (y > 0).astype(np.int64), Factory(make), score, enforced=True)
    found = [
        [np.delete(scores, j) > GRID // 2 for scores in (before, after)]
        for before, after, j in scored(trainer.train({}), score, 50)
    ]
    for side in range(2):
        high_scores = np.concatenate([pair[side] for pair in found])
        low, high = binom.interval(1 - 1e-6, len(high_scores), 0.5)
        assert len(high_scores) > 150
        assert low <= high_scores.sum() <= high


@pytest.mark.slow
@pytest.mark.parametrize(
    "score", [score for score in SCORES if score.name != DRAWN.name], ids=lambda score: score.name
)
def test_every_score_of_the_zoo_alone(score):
    check(zoo.Plain, score, 50)
