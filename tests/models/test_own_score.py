"""A score function that a study names: imported once its owner allowed it, and given numbers alone."""

import json
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
import tomli_w
from of_features import merged
from sklearn.linear_model import LogisticRegression
from worlds import search_of

from dpbo_core import Categorical, evaluate_study
from dpbo_core.errors import NoBudget, PolicyRefused, StudyInvalid
from dpbo_core.ledger.charge import Caller
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.owners_ledger import Code
from dpbo_core.ledger.sources import file_source
from dpbo_core.models.scores.bounded_function import BoundedFunction
from dpbo_core.study import StudySpec
from dpbo_core.study.data_split import public_sources
from dpbo_core.study.precomputed import train_candidates
from dpbo_core.study.preconditions import approve_study
from dpbo_core.study.query import QueryContext
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import open_study, run_study

MARK = "ran.txt"
SEEN = []


class RunsWhenLoaded:
    def __reduce__(self):
        return Path(MARK).touch, ()


@pytest.fixture
def study(here, tables):
    """A study by its score: its classes are texts, the first of them the path of a pickle that runs code."""
    (here / "hostile").write_bytes(pickle.dumps(RunsWhenLoaded()))
    rng = np.random.default_rng(0)
    for name in ("t", "v"):
        rows = [f"{x:.6f},{'well' if x + 0.3 * rng.normal() > 0 else 'hostile'}" for x in rng.normal(size=60)]
        (here / f"{name}.csv").write_text("\n".join(["x,y", *rows]) + "\n")

    def made(score):
        tables["study"] |= {"method": "private_grid"}
        tables["study"]["accepts"] = ["rowwise_predictions"]
        tables["data"] = {"training": "t.csv", "validation": "v.csv", "n_validation": 60, "target": "y"}
        tables["model"] = {"estimator": "sklearn.linear_model.LogisticRegression", "score": score}
        tables["model"] |= {"score_low": 0.0, "score_high": 1.0}
        tables["space"] = {"C": {"values": [0.1, 1.0]}}
        return StudySpec.from_dict(tables)

    return made


@pytest.fixture
def ledger(here):
    return PrivacyLedger(f"sqlite:///{here / 'ledger.db'}")


def opened(study, ledger, *scores):
    """The study's cap, as its owner opens it, and the functions that the owner allows."""
    from dpbo_core.study.preconditions import opening_cap

    ledger.set_budget(opening_cap(study))
    for score in scores:
        ledger.allow_code(study.privacy.dataset, Code("score", score))


def allow_all(study, ledger, folder):
    """The owner's word for the study's files and its estimator."""
    for source in public_sources(study, folder):
        ledger.allow_reading(study.privacy.dataset, source)
    ledger.allow(study.privacy.dataset, file_source(folder / study.data.validation))
    ledger.allow_code(study.privacy.dataset, Code("estimator", study.model.estimator))


DOORS = {
    "tune": lambda study, ledger, folder: run_study(study, ledger=ledger, folder=folder),
    "an operator": lambda study, ledger, folder: open_study(
        Run.of(study, QueryContext(ledger, folder=folder, caller=Caller.OPERATOR))
    ),
    "evaluate": lambda study, ledger, folder: evaluate_study(study, ledger=ledger, folder=folder, epsilon=1.0),
    "serve": lambda study, ledger, folder: approve_study(study, ledger=ledger, folder=folder),
    "a worker": lambda study, _, folder: train_candidates(study, folder, (0,)),
    **merged("ASKED_OF_A_MODEL"),
}


@pytest.mark.parametrize(("door", "score"), [*((door, "joblib.load") for door in DOORS), ("tune", "pip.main")])
def test_no_function_that_a_study_names_is_imported_before_its_owner_said_so(
    study, ledger, here, monkeypatch, door, score
):
    """`joblib.load` was given the label texts of the public rows, and ran what lay at their path."""
    spec = study(score)
    opened(spec, ledger, "numpy.equal")  # another one
    before = ledger.accounts()
    monkeypatch.setattr("importlib.import_module", lambda *_, **__: pytest.fail("something was imported"))
    with pytest.raises(PolicyRefused, match=f"{score}.*did not allow.*dpbo budget allow people {score} --as score"):
        DOORS[door](spec, ledger, here)
    assert not (here / MARK).exists()
    assert ledger.accounts() == before


def test_neither_before_there_is_a_cap(study, ledger, here):
    with pytest.raises(PolicyRefused, match=r"joblib\.load"):
        run_study(study("joblib.load"), ledger=ledger, folder=here)
    assert (ledger.accounts(), (here / MARK).exists()) == ((), False)
    with pytest.raises(NoBudget):
        ledger.allow_code("people", Code("score", "numpy.equal"))


def test_what_the_owner_allowed_is_scored_by_and_gets_no_text(study, ledger, here):
    spec = study("numpy.equal")
    opened(spec, ledger, "numpy:equal")
    assert not ledger.allow_code("people", Code("score", "numpy.equal"))
    release = run_study(spec, ledger=ledger, folder=here).release
    assert release.value["hyperparameters"]["C"] in (0.1, 1.0)
    assert ledger.accounts()[0].scores == ("numpy.equal",)
    hostile = study("joblib.load")
    ledger.allow_code("people", Code("score", "joblib.load"))  # even so: an index is no path
    with pytest.raises(StudyInvalid, match="fails, on the public training rows"):
        run_study(hostile, ledger=ledger, folder=here)
    assert not (here / MARK).exists()


@pytest.mark.parametrize("path", ["utility", "our._hidden.utility", "our scores.utility", "a." + "b" * 600, ""])
def test_what_is_no_path_is_not_allowed(study, ledger, path):
    opened(study("numpy.equal"), ledger)
    with pytest.raises(StudyInvalid, match="import path"):
        ledger.allow_code("people", Code("score", path))


def noted(truth, prediction):
    """A score that keeps what it is given."""
    SEEN.append((truth, prediction))
    return float(truth == prediction)


def test_in_memory_the_function_is_handed_in_and_gets_indices(here):
    X = np.linspace(-1.0, 1.0, 80)[:, None]
    y = np.where(X[:, 0] > 0, "well", "hostile")
    SEEN.clear()
    given_ = {"scoring": noted, "score_bounds": (0.0, 1.0), "accepts": ("rowwise_predictions",)}
    search = search_of(f"sqlite:///{here / 'l.db'}", LogisticRegression(), {"C": Categorical([0.1, 1.0])}, **given_)
    search.fit(X[::2], y[::2], X_validation=X[1::2], y_validation=y[1::2])
    assert {(type(a), type(b)) for a, b in SEEN} == {(int, int)}
    assert {a for a, _ in SEEN} == {0, 1}
    named = search.set_params(scoring="joblib.load", edition="2")
    with pytest.raises(PolicyRefused, match="give the function"):
        named.fit(X[::2], y[::2], X_validation=X[1::2], y_validation=y[1::2])


def test_a_prediction_that_is_a_text_reaches_no_function():
    score = BoundedFunction("f", 0.0, 1.0, lambda y, p: SEEN.append(p) or 1.0)
    SEEN.clear()
    values = score.of(np.array(["hostile", "1", None, 1.0], dtype=object), np.array([0, 1, 1, 1]))
    assert (np.isnan(values).tolist(), SEEN) == ([True, False, True, False], [1, 1])


def test_the_command(study, dpbo, here):
    (here / "study.toml").write_text(tomli_w.dumps(study("colorama.ansi.clear_screen").to_dict()))
    opened(study("numpy.equal"), PrivacyLedger(f"sqlite:///{here / 'mlruns' / 'ledger.db'}"))
    loaded = set(sys.modules)
    code, out, _ = dpbo("plan", "study.toml")
    assert (code, "colorama.ansi" in set(sys.modules) - loaded) == (0, False)
    code, out, _ = dpbo("budget", "allow", "people", "ourpackage.scores:utility", "--as", "score")
    assert (
        code,
        "may be scored by ourpackage.scores:utility from now on" in " ".join(out.split()),
    ) == (0, True)
    assert "as before" in " ".join(
        dpbo("budget", "allow", "people", "ourpackage.scores.utility", "--as", "score")[1].split()
    )
    assert "may be scored by the function ourpackage.scores.utility" in " ".join(
        dpbo("budget", "people")[1].split()
    )
    shown = json.loads(dpbo("budget", "people", "--json")[1])
    assert shown["datasets"][0]["scores"] == ["ourpackage.scores.utility"]
    assert dpbo("budget", "allow", "people")[0] == 2
