"""A search on tables in memory, evaluated: one spend of its own, the same answer for ever, the table of files."""

import copy
import pickle
import shutil

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score

from dpbo_core import Categorical, PrivacyLedger, PrivateSearch, evaluate_study, run_study
from dpbo_core.errors import BudgetExceeded, Sealed, StudyInvalid
from dpbo_core.ledger.accounting.certificate import read_certificate, recompute
from dpbo_core.mechanisms.histogram import LaplaceHistogram
from dpbo_core.privacy.guarantee import NeighboringRelation
from dpbo_core.report.certified import CERTIFIED
from dpbo_core.report.histogram_cells import PERSON_WEIGHT
from dpbo_core.study import StudySpec

pytestmark = pytest.mark.filterwarnings("ignore:this report will not be usable")
M = 400


def frame(seed, n):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n))
    y = (a - b + rng.normal(size=n) > 0).astype(int)
    return pd.DataFrame({"a": a, "b": b, "sex": rng.choice(["f", "m"], n), "y": y})


TRAIN, VALIDATION = frame(0, 300), frame(1, M)
X, Y = TRAIN[["a", "b"]], TRAIN["y"]
V, W = VALIDATION[["a", "b", "sex"]], VALIDATION["y"]


@pytest.fixture
def exact(monkeypatch):
    """The noise of the report left out."""
    monkeypatch.setattr(LaplaceHistogram, "prepare", lambda *_: lambda value: value.expose().tolist())


def search(url, inner=None, space=None, **changes):
    settings = {"epsilon": 1.0, "delta": 0.0, "dataset": "wards", "budget": (4.0, 0.0), "ledger": url}
    settings |= {"n_candidates": 2, "method": "private_grid", "scoring": "log_loss", "error_bound": 3.0}
    inner = LogisticRegression() if inner is None else inner
    return PrivateSearch(inner, space or {"C": Categorical([0.1, 1.0])}, **settings | changes)


def fitted(url, validation=V[["a", "b"]], truth=W, **changes):
    return search(url, **changes).fit(X, Y, X_validation=validation, y_validation=truth)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The folder of a ledger in which the plain search was released, and the search."""
    folder = tmp_path_factory.mktemp("kept")
    return folder, fitted(f"sqlite:///{folder / 'ledger.db'}")


@pytest.fixture
def it(kept, url, tmp_path):
    """The plain search, on a copy of its ledger at `url`."""
    folder, search = kept
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return copy.deepcopy(search).set_params(ledger=url)


def asked(it, validation=V, truth=W, **changes):
    return it.evaluate(X, Y, X_validation=validation, y_validation=truth, **{"epsilon": 1.0} | changes)


def spent(url):
    (account,) = PrivacyLedger(url).accounts("wards")
    return account.spent.epsilon_units


def test_it_is_one_spend_and_asked_again_it_is_the_same(it, url):
    assert spent(url) == 10**12
    first = asked(it, V[["a", "b"]])
    assert spent(url) == 2 * 10**12
    assert not first.replayed
    again = asked(pickle.loads(pickle.dumps(it)), V[["a", "b"]])
    assert (again.release, again.replayed) == (first.release, True)
    other = fitted(url)  # another object, the same study: its release, and its report
    assert other.replayed_
    assert asked(other, pl.from_pandas(V[["a", "b"]])).release == first.release
    assert spent(url) == 2 * 10**12
    assert asked(it, V[["a", "b"]], false_positive_cost=1.0, false_negative_cost=4.0).best_threshold["flag"]
    assert spent(url) == 2 * 10**12
    entries = [(entry.study, entry.epsilon) for entry in PrivacyLedger(url).accounts("wards")[0].entries]
    assert entries == [("PrivateSearch", 1.0), ("PrivateSearch/evaluation", 1.0)]
    found = recompute(read_certificate(first.release.to_json(), CERTIFIED), CERTIFIED)
    assert found.epsilon == pytest.approx(1.0, rel=1e-9)
    assert not asked(it, V[["a", "b"]], edition="2").replayed
    assert spent(url) == 3 * 10**12
    with pytest.raises(BudgetExceeded):
        asked(it, V[["a", "b"]], epsilon=1.5)
    assert spent(url) == 3 * 10**12
    assert not {name for name in vars(it) if "evaluat" in name}  # the object holds nothing of it


def test_the_table_is_that_of_the_same_study_on_files(url, exact, tmp_path):
    """One candidate, so that both choose it, and standardised alike: not at all."""
    it = fitted(url, space={"C": Categorical([1.0])}, n_candidates=1)
    TRAIN.drop(columns="sex").to_csv(tmp_path / "train.csv", index=False)
    VALIDATION.drop(columns="sex").to_csv(tmp_path / "validation.csv", index=False)
    files = {"training": "train.csv", "validation": "validation.csv", "n_validation": M, "target": "y"}
    spec = StudySpec.from_dict(
        {
            "study": {"name": "files", "method": "private_grid"},
            "privacy": {"dataset": "files", "epsilon": 1.0},
            "budget": {"epsilon": 4.0},
            "data": files,
            "model": {
                "estimator": "sklearn.linear_model.LogisticRegression",
                "score": "log_loss",
                "error_bound": 3.0,
                "standardize": False,
            },
            "space": {"C": {"values": [1.0]}},
            "evaluation": {"epsilon": 1.0},
        }
    )
    run_study(spec, ledger=PrivacyLedger(url), folder=tmp_path)
    of_files = evaluate_study(spec, ledger=PrivacyLedger(url), folder=tmp_path).release.value["table"]
    assert asked(it, V[["a", "b"]]).release.value["table"] == of_files


def test_other_records_than_were_searched_on_are_another_question(it, url, exact):
    asked(it, V[["a", "b"]])
    other = frame(2, 250)
    found = asked(it, other[["a", "b"]], other["y"])
    assert not found.replayed
    assert sum(found.release.value["table"]["drawn"]) == 250
    assert found.release.value["metrics"]["accuracy"]["value"] == pytest.approx(
        accuracy_score(other["y"], it.predict(other[["a", "b"]]))
    )
    assert spent(url) == 3 * 10**12


def test_persons_count_once(url, exact):
    who = np.array([f"p{i % 150}" for i in range(M)])
    both = {"person": "who", "n_persons": 150}
    it = fitted(url, V[["a", "b"]].assign(who=who), **both)
    release = asked(it, V[["a", "b"]].assign(who=who)).release
    assert release.guarantee.relation is NeighboringRelation.REPLACE_ONE_PERSON
    assert sum(release.value["table"]["drawn"]) == 150 * PERSON_WEIGHT
    weights = 1.0 / pd.Series(who).map(pd.Series(who).value_counts()).to_numpy()
    wanted = accuracy_score(W, it.predict(V[["a", "b"]]), sample_weight=weights)
    assert release.value["metrics"]["accuracy"]["value"] == pytest.approx(wanted, abs=1e-6)


class Quoting:
    """A cell that quotes a record wherever it is looked at."""

    def __float__(self):
        raise StudyInvalid("record 17 has income 123456789")

    __str__ = __repr__ = __eq__ = __hash__ = __float__


def test_nothing_in_a_record_raises_or_is_told(it, url, monkeypatch):
    hostile = V[["a", "b"]].astype(object)
    hostile.iloc[3, 0], hostile.iloc[4, 1], hostile.iloc[5, 0] = Quoting(), "x", None
    told = repr(asked(it, hostile).release.to_json())
    assert "123456789" not in told
    monkeypatch.setattr(
        "dpbo_core.sklearn_api.search_run.count_table",
        lambda *_: (_ for _ in ()).throw(StudyInvalid("record 17 has income 123456789")),
    )
    with pytest.raises(Sealed) as sealed:
        asked(it, hostile, edition="2")
    assert "123456789" not in repr(sealed.value)
    assert spent(url) == 3 * 10**12


def test_what_cannot_be_asked_is_refused_and_costs_nothing(it, url):
    before = spent(url)
    for changes, said in (
        ({"validation": V[["a"]]}, "b"),
        ({"validation": V[["a", "b"]], "group": "ward", "groups": ("x",)}, "ward"),
        ({"group": "sex"}, "groups of 'sex'"),
        ({"bins": 1}, "bins"),
    ):
        with pytest.raises(StudyInvalid, match=said):
            asked(it, **changes)
    with pytest.raises(StudyInvalid, match="shares its memory"):
        asked(it, X, Y)
    with pytest.raises(StudyInvalid, match="another public training set"):
        # not what it was fit to
        it.evaluate(X[:-1], Y[:-1], X_validation=V[["a", "b"]], y_validation=W, epsilon=1.0)
    with pytest.raises(NotFittedError):
        asked(clone(it))
    moved = copy.deepcopy(it).set_params(epsilon=2.0)
    with pytest.raises(StudyInvalid, match=r"epsilon = 1\.0"):
        asked(moved, V[["a", "b"]])
    assert spent(url) == before
