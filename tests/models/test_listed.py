"""The list of classes that need no assumption: each entry tried on neighbours, each way past it closed."""

import functools
import warnings
from importlib.metadata import version

import numpy as np
import pytest
import zoo
from audit.rowwise import examples, kinds, moved, public
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from worlds import mostly_slow

from dpbo_core import PrivateSearch, Real
from dpbo_core.errors import AssumptionNotAccepted, StudyInvalid
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.models.estimator_allowlist import inspection
from dpbo_core.models.estimator_allowlist.classes import PARTS, PREDICTORS, TRANSFORMERS
from dpbo_core.models.estimator_allowlist.inspection import check_listed, imported, unlisted_name, unlisted_part
from dpbo_core.models.estimator_trainer import EstimatorTrainer

LISTED = {**PREDICTORS, **TRANSFORMERS, **PARTS}
PATHS = [path for path, _ in examples()]
FORMS = [  # the first form of each class; the others in `make audit`
    pytest.param(
        path, make, id=f"{path.rpartition('.')[2]}-{i}", marks=[] if PATHS.index(path) == i else pytest.mark.slow
    )
    for i, (path, make) in enumerate(examples())
]


def test_every_entry_says_why_and_is_scikit_learns_own():
    assert all(len(item.because.split()) >= 2 for item in LISTED.values())
    for path, item in PREDICTORS.items():
        kind, package = imported(path), path.partition(".")[0]
        assert package == {"scikit-learn": "sklearn"}.get(item.package, item.package)
        assert (kind is None and package != "sklearn") or kind.__module__.startswith(f"{package}."), path
    assert {path for path, _ in examples()} == set(kinds())


@pytest.mark.parametrize(("path", "make"), FORMS)
def test_a_listed_estimator_is_unconditional_and_its_records_leave_each_other_alone(path, make):
    estimator = make()
    assert unlisted_part(estimator) == ""
    assert moved(estimator, pairs=12) == (12, 0)
    assert unlisted_part(estimator) == ""  # what fitting and predicting left in it


@pytest.mark.parametrize("name", sorted(zoo.ALL))
def test_nobody_of_the_zoo_is_taken_for_listed(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = zoo.ALL[name]()
        before = unlisted_part(estimator)
        X, y, _ = public()
        try:
            after = unlisted_part(estimator.fit(X, (y > 0).astype(int)))
        except Exception:  # noqa: BLE001  some cannot even be trained
            after = "cannot be trained"
    assert before
    assert after


@pytest.mark.parametrize("name", mostly_slow(sorted(zoo.ALL), *sorted(zoo.ALL)[::8]))  # all are asked for above
def test_nobody_of_the_zoo_is_released_without_an_assumption(name, tmp_path):
    X, y, _ = public()
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = zoo.ALL[name]()
        names = [key for key, value in estimator.get_params(deep=True).items() if type(value) is float]
        axis = {names[0] if names else "none": Real(0.1, 1.0)}
        search = PrivateSearch(
            estimator, axis, epsilon=1.0, delta=1e-6, dataset="d", budget=(9.0, 1e-5), ledger=url, n_candidates=4
        )
        with pytest.raises((AssumptionNotAccepted, StudyInvalid)):
            search.fit(X, (y > 0).astype(int), X_validation=X + 0.1, y_validation=(y > 0).astype(int))
    accounts = PrivacyLedger(url).accounts()
    assert all(account.entries == () for account in accounts)


def test_what_an_estimator_holds_is_looked_at_wherever_it_is():
    strange, model = zoo.Plain(), LogisticRegression()
    for put in (strange, [strange], (1, {"a": strange}), {strange: 1}, np.array([strange], dtype=object), zoo.shift,
                functools.partial(zoo.shift), zoo.Plain, zoo.Plain().predict, np.ones(2).view(zoo.Coefficients),
                zoo.Number(1.0), np.mean, len):  # fmt: skip
        model.held_ = put
        assert unlisted_part(model), put
    model.held_ = [
        1,
        2.0,
        "a",
        None,
        np.ones(3),
        np.float32(1),
        {"k": (True, b"x")},
        np.dtype(float),
        np.float64,
        model,
    ]
    assert unlisted_part(model) == ""


def test_a_method_that_was_replaced_in_the_class_is_seen(monkeypatch):
    monkeypatch.setattr(LogisticRegression, "predict", zoo.BatchMean.predict)
    assert unlisted_part(LogisticRegression()) == "LogisticRegression with its predict replaced"
    assert unlisted_part(make_pipeline(StandardScaler(), LogisticRegression()))


def test_parameters_for_which_a_sentence_does_not_hold():
    from sklearn.dummy import DummyClassifier

    assert unlisted_part(DummyClassifier(strategy="uniform")) == "DummyClassifier with strategy = 'uniform'"
    assert unlisted_part(SVC(kernel=zoo.kernel)) == "SVC with kernel = a function"
    assert unlisted_part(KNeighborsClassifier(metric="mahalanobis"))
    assert unlisted_name("sklearn.dummy.DummyClassifier", {"strategy": "uniform"}, {})
    assert unlisted_name("sklearn.dummy.DummyClassifier", {}, {"strategy": ("prior", "stratified")})
    assert unlisted_name("sklearn.dummy.DummyClassifier", {}, {"strategy": ("prior",)}) == ""
    assert unlisted_name("ourpackage.Model", {}, {}) == "ourpackage.Model"
    assert unlisted_name("sklearn.frozen.Other", {}, {}) == "sklearn.frozen.Other"


def test_another_scikit_learn_than_was_read_is_not_believed(monkeypatch):
    assert unlisted_part(SVC()) == ""
    monkeypatch.setattr(inspection, "READ", {"scikit-learn": ((1, 0), (1, 1))})
    assert version("scikit-learn") in unlisted_part(SVC())
    assert unlisted_name("sklearn.svm.SVC", {}, {})


def test_what_fitting_put_in_is_refused_before_it_scores(monkeypatch):
    """A study names an estimator by its path; what comes out of training is held to what that stood for."""

    class Factory:
        def train(self, X, y, weights=None, /, **_):
            model = LogisticRegression().fit(X, y)
            model.extra_ = zoo.Plain()
            from dpbo_core.models.estimators import FittedEstimator

            return FittedEstimator(model, X[0])

    X, y, _ = public()
    with pytest.raises(StudyInvalid, match=r"holds zoo\.Plain"):
        EstimatorTrainer(X, y, Factory(), listed=True).train({})
    EstimatorTrainer(X, y, Factory(), listed=False).train({})
    with pytest.raises(StudyInvalid):
        check_listed(zoo.Plain())
