"""LightGBM and XGBoost: on the list with their argument, kept in their own formats, served without dpbo.

Run by `make frameworks`, which installs what it imports; no other lane collects it.
"""

import json
import sys

import lightgbm
import numpy as np
import pytest
import xgboost
from audit.rowwise import moved, public
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from test_final_model import COLUMNS, HOSTILE, REGRESSION, estimator_model, predicted_without_dpbo, regression_model

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.estimator_allowlist.inspection import unlisted_name, unlisted_part
from dpbo_core.models.final_model.dpbo_served_model import BOOSTER_FILES, _load_pyfunc
from dpbo_core.models.final_model.storage import NUMBERS
from dpbo_core.study.final_training import FinalModel

FEW = {"n_estimators": 5, "n_jobs": 1}
QUIET = {**FEW, "verbose": -1, "min_child_samples": 2}
SMALL = {**FEW, "max_depth": 3}
FORMS = {
    "LGBMClassifier": lambda: lightgbm.LGBMClassifier(**QUIET),
    "LGBMClassifier, dart": lambda: lightgbm.LGBMClassifier(boosting_type="dart", **QUIET),
    "LGBMClassifier, linear leaves": lambda: lightgbm.LGBMClassifier(linear_tree=True, **QUIET),
    "LGBMClassifier, random forest, two threads": lambda: lightgbm.LGBMClassifier(
        **{**QUIET, "n_jobs": 2}, boosting_type="rf", subsample=0.5, subsample_freq=1
    ),
    "LGBMRegressor": lambda: lightgbm.LGBMRegressor(**QUIET),
    "LGBMRegressor, quantile": lambda: lightgbm.LGBMRegressor(objective="quantile", zero_as_missing=True, **QUIET),
    "XGBClassifier": lambda: xgboost.XGBClassifier(**SMALL),
    "XGBClassifier, dart": lambda: xgboost.XGBClassifier(booster="dart", **SMALL),
    "XGBClassifier, a missing value, two threads": lambda: xgboost.XGBClassifier(
        **{**SMALL, "n_jobs": 2}, missing=1.0, tree_method="exact"
    ),
    "XGBRegressor": lambda: xgboost.XGBRegressor(**SMALL),
    "XGBRegressor, absolute": lambda: xgboost.XGBRegressor(objective="reg:absoluteerror", **SMALL),
    "XGBRFClassifier": lambda: xgboost.XGBRFClassifier(**SMALL),
    "XGBRFRegressor": lambda: xgboost.XGBRFRegressor(**SMALL),
    "in a Pipeline": lambda: make_pipeline(StandardScaler(), lightgbm.LGBMClassifier(**QUIET)),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_booster_is_unconditional_and_its_records_leave_each_other_alone(name):
    estimator = FORMS[name]()
    assert unlisted_part(estimator) == ""
    assert moved(estimator, pairs=120) == (120, 0)
    assert unlisted_part(estimator) == ""  # what fitting and predicting left in it


def test_a_booster_of_a_study_is_known_by_its_path():
    for library, (_, kinds) in BOOSTER_FILES.items():
        for kind in kinds:
            assert unlisted_name(f"{library}.{kind}", {"n_estimators": 5}, {}) == ""
    assert unlisted_name("lightgbm.LGBMClassifier", {"pred_early_stop": True}, {})
    assert unlisted_name("xgboost.XGBClassifier", {}, {"booster": ("gbtree", "gblinear")})
    assert unlisted_name("lightgbm.LGBMRanker", {}, {}) == "lightgbm.LGBMRanker"


def objective(truth, prediction):
    return prediction - truth, np.ones_like(truth)


def test_what_the_sentence_does_not_hold_for_is_named():
    assert unlisted_part(lightgbm.LGBMClassifier(objective=objective)).endswith("objective")
    assert unlisted_part(xgboost.XGBClassifier(eval_metric=objective)).endswith("objective")
    assert unlisted_part(xgboost.XGBClassifier(booster="gblinear")) == "XGBClassifier with booster = 'gblinear'"
    assert unlisted_part(xgboost.XGBClassifier(updater="shotgun")) == "XGBClassifier with kwargs = a dict"
    assert unlisted_part(xgboost.XGBClassifier(device="cuda")) == "XGBClassifier with device = 'cuda'"
    X, y, _ = public()
    for estimator, verb in (
        (lightgbm.LGBMClassifier(**QUIET), "predict"),
        (xgboost.XGBClassifier(**SMALL), "inplace_predict"),
    ):
        estimator.fit(X, y)
        setattr(estimator._Booster, verb, objective)
        assert unlisted_part(estimator) == f"Booster with its {verb} replaced"


def test_another_version_than_was_read_is_not_believed(monkeypatch):
    from dpbo_core.models.estimator_allowlist import inspection

    reviewed = inspection.REVIEWED_VERSIONS | {"lightgbm": ((1, 0), (1, 1))}
    monkeypatch.setattr(inspection, "REVIEWED_VERSIONS", reviewed)
    assert lightgbm.__version__ in unlisted_part(lightgbm.LGBMClassifier())
    assert lightgbm.__version__ in unlisted_name("lightgbm.LGBMClassifier", {}, {})
    assert unlisted_part(xgboost.XGBClassifier()) == ""


MODELS = {
    "LightGBM": lambda: estimator_model(lightgbm.LGBMClassifier(**QUIET)),
    "XGBoost": lambda: estimator_model(xgboost.XGBClassifier(**SMALL)),
    "XGBoost's forest": lambda: estimator_model(xgboost.XGBRFClassifier(**SMALL)),
    "behind a scaler": lambda: estimator_model(make_pipeline(StandardScaler(), lightgbm.LGBMClassifier(**QUIET))),
    "LightGBM's numbers": lambda: regression_model(lightgbm.LGBMRegressor(**QUIET)),
    "XGBoost's numbers": lambda: regression_model(xgboost.XGBRegressor(**SMALL)),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_booster_comes_back_the_same_from_its_own_format(name, tmp_path):
    model = MODELS[name]()
    folder = model.save(tmp_path / "model")
    assert {path.suffix for path in folder.iterdir()} <= {".json", ".txt", ".skops"}
    again, served = FinalModel.load(folder), _load_pyfunc(str(folder))
    numbers = "numbers" in name
    for rows in (REGRESSION,) if numbers else (COLUMNS, HOSTILE):
        assert np.array_equal(again.predict(rows), model.predict(rows))
        assert list(served.predict(rows)) == list(model.predict(rows))
        assert hasattr(again, "predict_proba") == hasattr(model, "predict_proba")
        if hasattr(model, "predict_proba"):
            assert np.array_equal(again.predict_proba(rows), model.predict_proba(rows))
            found = served.predict(rows, {"predict_method": "predict_proba"})
            assert np.allclose(found, model.predict_proba(rows), rtol=1e-6, atol=1e-6)


def test_a_damaged_booster_and_a_missing_package_are_said(tmp_path, monkeypatch):
    for name, file in (("LightGBM", "booster.txt"), ("XGBoost", "booster.json")):
        folder = MODELS[name]().save(tmp_path / name)
        (folder / file).write_text("{}")
        with pytest.raises(StudyInvalid, match="no booster can be read"):
            FinalModel.load(folder)
    folder = MODELS["LightGBM"]().save(tmp_path / "whole")
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(StudyInvalid, match="lightgbm, which is not installed"):
        FinalModel.load(folder)
    document = json.loads((folder / NUMBERS).read_text())
    (folder / NUMBERS).write_text(json.dumps(document | {"booster": {"library": "os", "class": "system"}}))
    with pytest.raises(StudyInvalid, match="not known here"):
        FinalModel.load(folder)


def test_an_objective_of_ones_own_is_not_written(tmp_path):
    with pytest.raises(StudyInvalid, match="without running its own code"):
        estimator_model(lightgbm.LGBMClassifier(objective=objective, **QUIET)).save(tmp_path)


def test_what_mlflow_shows_of_a_booster_loads_without_dpbo(tmp_path):
    from dpbo.tasks.reporting.logged_model import save_served

    models = [MODELS[name]() for name in ("LightGBM", "XGBoost", "behind a scaler")]
    folders = []
    for i, model in enumerate(models):
        folders.append(tmp_path / f"shown{i}")
        save_served(model, model.save(tmp_path / f"data{i}"), folders[-1])
        needs = (folders[-1] / "requirements.txt").read_text()
        assert "dpbo" not in needs
        assert ("xgboost" if i == 1 else "lightgbm") in needs
    predicted_without_dpbo(models, folders, tmp_path, rtol=1e-6)
