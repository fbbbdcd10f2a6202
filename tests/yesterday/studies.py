"""The studies of yesterday's ledger: what is asked of every later version again, word for word.

`FILES` are studies as they stand in a file; `searches` are those of a notebook. Nothing here may ever change: a
study is found again by the whole of what it says. `UNFINISHED` says after how many steps a study was left.
"""

import numpy as np
import pandas as pd

CAP = {"epsilon": 20.0, "delta": 1e-4}
LOGISTIC = {"estimator": "logistic", "score": "sigmoid", "steepness": 10.0}
LAMBDA = {"lambda": {"low": 1e-4, "high": 10.0, "log": True, "points": 16}}
BUNDLED = {"source": "breast_cancer", "validation_share": 0.5}
TREE = {"estimator": "sklearn.tree.DecisionTreeClassifier", "score": "accuracy"}
DEPTH = {"max_depth": {"low": 1, "high": 8, "integer": True, "points": 8}}
CLINIC = {"training": "train.csv", "validation": "validation.csv", "n_validation": 120, "target": "ill"}
PRIVATE = {**BUNDLED, "sensitive": "training", "bounds": {"*": [0.0, 100.0]}}


def _study(name, method, *, dataset="wards", epsilon=1.0, delta=1e-6, data=None, model=None, space=None, **more):
    privacy = {"dataset": dataset, "epsilon": epsilon, "delta": delta} | more.pop("privacy", {})
    return {
        "study": {"name": name, "method": method} | more.pop("study", {}),
        "privacy": privacy,
        "budget": dict(CAP),
        "data": data or BUNDLED,
        "model": model or LOGISTIC,
        "space": space or LAMBDA,
        "search": {"steps": 5} | more.pop("search", {}),
        "method": more.pop("options", {}),
    }


_TREES = {"model": TREE, "space": DEPTH}
_PEOPLE = {"dataset": "patients", "data": CLINIC, "privacy": {"person": "patient", "max_records_per_person": 2}}
_TRAINED = {"dataset": "trained", "epsilon": 6.0, "delta": 1e-6, "data": PRIVATE}
_DESCENT = _TRAINED | {
    "options": {"base": "noisy_gradient_descent"},
    "space": {
        "learning_rate": {"low": 0.1, "high": 2.0, "log": True, "points": 3},
        "clipping_norm": {"values": [0.5, 1.0]},
        "epochs": {"values": [5, 10]},
    },
}
FILES = {
    name: _study(name, method, **more)
    for name, (method, more) in {
        "trajectory": ("private_trajectory", {}),
        "trajectory-fit": ("private_trajectory", {"search": {"lengthscale": "fit"}}),
        "grid": ("private_grid", {}),
        "trees": ("private_grid", _TREES),
        "lipschitz": ("lipschitz", {}),
        "noisy": ("noisy_gp", {}),
        "exact": ("exact_gp", {"options": {"rate_constant": 1e3, "decay_constant": 0.01}}),
        "auto": ("auto", {}),
        "auto-trees": ("auto", _TREES),
        "people": ("private_grid", _PEOPLE),
        "people-trajectory": ("private_trajectory", _PEOPLE),
        "clinic": ("private_grid", {"dataset": "visits", "data": CLINIC | {"ignore": ["patient"]}}),
        "clinic-five": (
            "private_grid",
            {"dataset": "five", "data": CLINIC | {"ignore": ["patient"]}, "privacy": {"max_records_per_person": 5}},
        ),
        "hypo": ("dp_hypo", _DESCENT),
        "hypo-output": ("dp_hypo", _TRAINED | {"options": {"base": "output_perturbation"}}),
        "hypo-adaptive": (
            "dp_hypo",
            {"dataset": "adaptive", "epsilon": 6.0, "options": {"sampler": "gaussian_process"}},
        ),
        "left-trajectory": ("private_trajectory", {}),
        "left-auto": ("auto", _TREES),
        "left-people": ("private_trajectory", _PEOPLE),
        "left-hypo": ("dp_hypo", _DESCENT),
        "left-grid": ("private_grid", {}),
    }.items()
}
UNFINISHED = {"left-trajectory": 2, "left-auto": 1, "left-people": 3, "left-hypo": 0, "left-grid": 0}


def tables(seed=0):
    """The clinic's two tables: five columns, one of text, some patients with several visits."""
    rng = np.random.default_rng(seed)

    def table(n):
        age, pressure, marker = rng.uniform(20, 90, n), rng.normal(130, 15, n), rng.normal(0, 1, n)
        ill = rng.random(n) < 1 / (1 + np.exp(-(0.06 * (age - 55) + 1.2 * marker)))
        return pd.DataFrame(
            {
                "patient": rng.integers(0, n // 2, n),
                "age": age.round(1),
                "pressure": pressure.round(0),
                "marker": marker.round(3),
                "ward": rng.choice(["north", "south", "west"], n),
                "ill": ill.astype(int),
            }
        )

    return table(150), table(120)


def searches(ledger):
    """name → (an unfitted `PrivateSearch`, its arguments of `fit`)."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    from dpbo_core import Categorical, Integer, PrivateSearch, Real

    rng = np.random.default_rng(1)
    X, V = rng.normal(size=(120, 4)), rng.normal(size=(150, 4))
    y, truth = (X[:, 0] + X[:, 1] ** 2 > 0.7).astype(int), (V[:, 0] + V[:, 1] ** 2 > 0.7).astype(int)
    arrays = (X, y, V, truth)
    public, private = tables(2)
    columns = ["patient", "age", "marker", "ward"]
    frames = (public[columns[1:]], public["ill"], private[columns], private["ill"])
    common = {"epsilon": 1.0, "delta": 1e-6, "budget": (20.0, 1e-4), "n_steps": 4, "n_candidates": 12}
    common |= {"ledger": ledger}
    svc = make_pipeline(StandardScaler(), SVC())
    imputed = make_pipeline(IterativeImputer(max_iter=2), LogisticRegression())
    C = {"svc__C": Real(1e-2, 1e2, log=True), "svc__gamma": Real(1e-3, 1.0, log=True)}
    forest = {"max_depth": Categorical((2, 4, None)), "min_samples_leaf": Integer(1, 8)}
    made = {
        "notebook-svc": (svc, C, {"dataset": "notebook"}, arrays),
        "notebook-grid": (svc, C, {"dataset": "notebook", "method": "private_grid"}, arrays),
        "notebook-imputed": (
            imputed,
            {"logisticregression__C": Real(1e-2, 1e2, log=True)},
            {"dataset": "notebook", "method": "private_grid"},
            arrays,
        ),
        "notebook-people": (
            RandomForestClassifier(n_estimators=5),
            forest,
            {"dataset": "patients-notebook", "person": "patient", "max_records_per_person": 2},
            frames,
        ),
    }
    return {
        name: (PrivateSearch(estimator, space, study=name, **common, **more), data)
        for name, (estimator, space, more, data) in made.items()
    }
