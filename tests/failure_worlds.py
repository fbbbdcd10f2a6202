"""One small study of every kind, each asked for under a new edition, for the probes to run."""

import copy
import os
import random
import secrets
import shutil
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from of_features import merged

LIMIT = 1e6  # of the caps: thousands of editions fit
BASE = {
    "study": {"name": "probed", "method": "private_grid"},
    "privacy": {"dataset": "people", "epsilon": 1.0, "delta": 1e-9, "anyway": True},
    "budget": {"epsilon": LIMIT, "delta": 1e-5},
    "data": {"training": "train.csv", "validation": "validation.csv", "n_validation": 24, "target": "ill"},
    "model": {"estimator": "logistic", "score": "sigmoid"},
    "space": {"lambda": {"low": 0.1, "high": 1.0, "log": True, "points": 3}},
    "search": {"steps": 3},
}
LOGISTIC, TREE = "sklearn.linear_model.LogisticRegression", "sklearn.tree.DecisionTreeClassifier"


def near(truth, prediction):
    """A user's score function."""
    return 1.0 - min(1.0, abs(truth - prediction))


def frame(seed, n=24):
    """Two columns, a class and a few broken cells."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    table["ill"] = np.where(table.a + rng.normal(size=n) > 0, "yes", "no")
    return table


def files(folder):
    """Everything that the studies read."""
    frame(0).to_csv(folder / "train.csv", index=False)
    table = frame(1)
    table.to_parquet(folder / "validation.parquet")
    (folder / "parts").mkdir()
    for part in range(2):
        table[part * 12 : part * 12 + 12].to_parquet(folder / "parts" / f"{part}.parquet")
    table["who"] = [f"p{i // 2}" for i in range(24)]
    table.to_csv(folder / "people.csv", index=False)
    (folder / "people").mkdir()
    for part in range(2):
        table[part * 12 : part * 12 + 12].to_parquet(folder / "people" / f"{part}.parquet")
    broken = table.drop(columns="who").astype(object)
    broken.loc[3, "a"], broken.loc[5, "ill"] = "x", None
    broken.to_csv(folder / "validation.csv", index=False)
    broken.to_csv(folder / "predictions.csv", index=False)  # what was said is no probability, and no matter
    frame(2)[["a", "b"]].to_csv(folder / "rows.csv", index=False)
    frame(3)[["a"]].to_csv(folder / "answers.csv", index=False)
    for name, seed in (("train_colours.csv", 0), ("colours.csv", 1)):
        kinds = frame(seed)
        kinds["colour"] = np.array(["blue", "green", "red"])[np.digitize(kinds.a, [-0.5, 0.5])]
        kinds.drop(columns="ill").to_csv(folder / name, index=False)
    for day in (1, 2, 3):
        table.drop(columns="who").to_csv(folder / f"day-2026-03-0{day}.csv", index=False)


def study(**sections):
    """A study as the base says, with these changes."""
    tables = copy.deepcopy(BASE)
    for section, changes in sections.items():
        tables[section] = changes if section == "space" else tables.get(section, {}) | changes
    return tables


MEANS = {"training": "train.csv", "target": "ill", "n_persons": 12}
STUDIES = {
    "private_grid, a file": study(method={"score_share": 0.5}),
    "private_grid, a folder of parts": study(data={"validation": "parts"}),
    "private_grid, persons": study(
        data={"validation": "people.csv"},
        privacy={"person": "who", "max_records_per_person": 1, "dataset": "persons"},
    ),
    "private_grid, persons' means": study(privacy={"person": "who", "dataset": "means"}),
    "private_grid, persons' means in parts": study(
        privacy={"person": "who", "dataset": "means"},
        model={"estimator": LOGISTIC, "score": "log_loss"},
        space={"C": {"values": [0.1]}},
    ),
    "private_grid, scikit-learn": study(
        data={"validation": "validation.parquet"},
        model={"estimator": LOGISTIC, "score": "log_loss"},
        space={"C": {"low": 0.1, "high": 1.0, "points": 2}},
    ),
    "private_grid, pairs": study(data={"validation": "parts"}, model={"score": "roc_auc"}),
    "private_trajectory, pairs": study(
        study={"method": "private_trajectory"},
        model={"estimator": LOGISTIC, "score": "balanced_accuracy"},
        space={"C": {"low": 0.1, "high": 1.0, "points": 2}},
    ),
    "private_grid, a bundled set": study(data={}, search={}),
    "private_grid, predictions": study(
        study={"accepts": ["rowwise_predictions"]},
        privacy={"dataset": "predictions"},
        model={"estimator": "predictions", "score": "brier"},
        space={"candidate": {"values": ["a", "b"]}},
    ),
    "private_trajectory": study(
        study={"method": "private_trajectory"},
        method={"final_share": 0.25},
        search={"lengthscale": "fit", "steps": 9},
    ),
    "lipschitz": study(study={"method": "lipschitz"}),
    "lipschitz, a path": study(study={"method": "lipschitz"}, method={"evaluate": "path"}),
    "lipschitz, training in steps": study(
        study={"method": "lipschitz", "accepts": ["step_times_hidden"]},
        privacy={"dataset": "step times"},
        method={"evaluate": "path", "train": "step"},
    ),
    "noisy_gp": study(study={"method": "noisy_gp"}),
    "exact_gp": study(study={"method": "exact_gp"}, method={"rate_constant": 1e3, "decay_constant": 0.01}),
    "private_grid, three classes": study(
        data={"training": "train_colours.csv", "validation": "colours.csv", "target": "colour"},
        model={"estimator": LOGISTIC, "score": "accuracy"},
        space={"C": {"values": [0.1]}},
    ),
}
STUDIES |= merged("failing_studies", study)
LEARNING = {
    "private_trajectory, learning": study(
        study={"method": "private_trajectory"}, search={"learn_from": "editions"}
    ),
}
EVALUATED = {
    "evaluation, persons and groups": study(
        data={"validation": "people.csv"},
        privacy={"person": "who", "max_records_per_person": 1, "dataset": "persons"},
        evaluation={"epsilon": 1.0, "group": "b", "groups": [1.0]},
    ),
    "evaluation, a folder of parts": study(data={"validation": "parts"}, evaluation={"epsilon": 1.0}),
    "evaluation, scikit-learn": study(
        model={"estimator": LOGISTIC, "score": "accuracy"},
        space={"C": {"values": [0.1]}},
        evaluation={"epsilon": 1.0},
    ),
    "evaluation, persons' means": study(
        privacy={"person": "who", "dataset": "means"},
        model={"estimator": LOGISTIC, "score": "accuracy"},
        space={"C": {"values": [0.1]}},
        evaluation={"epsilon": 1.0},
    ),
    "evaluation, persons' means in parts": study(
        privacy={"person": "who", "dataset": "means"}, evaluation={"epsilon": 1.0}
    ),
}
EVALUATED |= {
    "evaluation, three classes": STUDIES["private_grid, three classes"] | {"evaluation": {"epsilon": 1.0}},
    "evaluation, a regression": study(
        data={"target": "b", "ignore": ["ill"]},
        model={"estimator": "sklearn.linear_model.Ridge", "score": "absolute_error", "error_bound": 3.0},
        space={"alpha": {"values": [1.0]}},
        evaluation={"epsilon": 1.0},
    ),
}
EVALUATED |= merged("failing_evaluations", study)
EVALUATED["evaluation, persons' means"]["data"] = MEANS | {"validation": "people.csv"}
EVALUATED["evaluation, persons' means in parts"]["data"] = MEANS | {"validation": "people"}
STUDIES["private_grid, predictions"]["data"] = {
    "predictions": "predictions.csv", "n_validation": 24, "target": "ill", "labels": ["no", "yes"],
}  # fmt: skip
STUDIES["private_grid, persons' means"]["data"] = MEANS | {"validation": "people.csv"}
STUDIES["private_grid, persons' means in parts"]["data"] = MEANS | {"validation": "people"}
STUDIES["private_grid, a bundled set"]["data"] = {"source": "breast_cancer", "validation_share": 0.05}


def worlds(folder):
    """name → a function of an edition that asks for the study, in `folder`, which has its files."""
    from sklearn.linear_model import Ridge

    from dpbo_core import PrivateSearch, PrivateSelection, Real
    from dpbo_core.ledger.ledger import PrivacyLedger
    from dpbo_core.report.evaluation import evaluate_study
    from dpbo_core.study import StudySpec
    from dpbo_core.study.tuning import run_study

    url = f"sqlite:///{folder / 'ledger.db'}"
    ledger = PrivacyLedger(url)
    fixed = random.Random()  # which branch is taken must not differ from run to run
    secrets.randbits, secrets.randbelow = fixed.getrandbits, fixed.randrange

    def of(place, tables):
        ledger = PrivacyLedger(f"sqlite:///{folder / f'ledger-{place}.db'}")  # they score the same files

        def go(edition):
            fixed.seed(5)
            return run_study(
                StudySpec.from_dict(tables | {"study": tables["study"] | {"edition": edition}}),
                ledger=ledger,
                folder=folder,
            )

        return go

    def evaluated(place, tables):
        ledger = PrivacyLedger(f"sqlite:///{folder / f'ledger-evaluation-{place}.db'}")
        run_study(StudySpec.from_dict(tables), ledger=ledger, folder=folder)  # charged and released before

        def go(edition):
            section = tables["evaluation"] | {"edition": edition}
            spec = StudySpec.from_dict(tables | {"evaluation": section})
            with warnings.catch_warnings(action="ignore"):  # of 24 records nothing can be said
                return evaluate_study(spec, ledger=ledger, folder=folder)

        return go

    def learning(place, tables):
        go = of(f"learning-{place}", tables)
        go("the first")  # charged and released before
        return go

    def first_rows():
        """A user whose rows were never sensitive before: their marks are written anew."""
        shutil.rmtree(folder / "ledger.db.rows", ignore_errors=True)
        fixed.seed(5)

    def search(edition):
        table, public = frame(1), frame(0)
        first_rows()
        searched = PrivateSearch(
            Ridge(),
            {"alpha": Real(0.1, 1.0)},
            epsilon=1.0,
            delta=1e-9,
            dataset="frames",
            budget=(LIMIT, 1e-5),
            method="private_grid",
            n_candidates=2,
            scoring=near,
            score_bounds=(0.0, 1.0),
            accepts=("rowwise_predictions",),
            edition=edition,
            ledger=url,
        )
        given = {"X_validation": table[["a"]], "y_validation": table.b}
        searched.fit(public[["a"]], public.b, **given)
        with warnings.catch_warnings(action="ignore"):
            return searched.evaluate(public[["a"]], public.b, **given, epsilon=1.0)

    def selection(edition):
        table = frame(1)
        first_rows()
        return PrivateSelection(
            {"even": lambda X: np.full(len(X), 0.5), "fails": lambda X: X.nothing},
            labels=("no", "yes"),
            scoring="brier",
            epsilon=1.0,
            dataset="selection",
            budget=(LIMIT, 1e-5),
            method="private_grid",
            accepts=("rowwise_predictions",),
            edition=edition,
            ledger=url,
        ).fit(table[["a"]], table.ill)

    made = {name: of(place, tables) for place, (name, tables) in enumerate(STUDIES.items())}
    made |= {name: learning(place, tables) for place, (name, tables) in enumerate(LEARNING.items())}
    made |= {name: evaluated(place, tables) for place, (name, tables) in enumerate(EVALUATED.items())}
    in_memory = {"PrivateSearch, a score function": search, "PrivateSelection, functions": selection}
    return made | in_memory | merged("failing_queries", folder, ledger, first_rows)


def here(path):
    """A fresh folder with the files, and the state of a user who keeps it there."""
    folder = Path(path)
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    folder.mkdir(parents=True, exist_ok=True)
    files(folder)
    return folder
