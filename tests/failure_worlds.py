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

from dpbo_core.study.context import QueryContext

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
SENSITIVE = {"sensitive": "training", "n_training": 24, "labels": ["no", "yes"], "bounds": {"*": [-3.0, 3.0]}}
AXES = {
    "noisy_gradient_descent": {"learning_rate": {"low": 1.0, "high": 4.0, "points": 2}, "epochs": {"values": [2]}},
    "dp_sgd": {"learning_rate": {"low": 1.0, "high": 4.0, "points": 2}, "epochs": {"values": [1]}},
    "output_perturbation": {"lambda": {"low": 0.1, "high": 1.0, "points": 2}},
    "objective_perturbation": {"lambda": {"low": 0.1, "high": 1.0, "points": 2}},
}
ADAPTIVE = {"sampler": "gaussian_process", "lower": 0.9, "upper": 1.1}


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


def private(base, **options):
    """Both sets sensitive."""
    return study(
        study={"method": "dp_hypo"},
        privacy={"epsilon": 8.0, "dataset": "both"},
        data=SENSITIVE,
        model={"score": "accuracy"},
        space=AXES[base],
        search={"steps": 4},
        method={"base": base, **options},
    )


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
    "dp_hypo, public": study(study={"method": "dp_hypo"}),
    "dp_hypo, noisy_gradient_descent": private("noisy_gradient_descent", **ADAPTIVE),
    "dp_hypo, dp_sgd": private("dp_sgd", stopping="poisson"),
    "dp_hypo, output_perturbation": private("output_perturbation", **ADAPTIVE),
    "dp_hypo, objective_perturbation": private("objective_perturbation", hide_duration=True),
    "dp_hypo, one training": private("noisy_gradient_descent", stopping="one"),
    "private_grid, three classes": study(
        data={"training": "train_colours.csv", "validation": "colours.csv", "target": "colour"},
        model={"estimator": LOGISTIC, "score": "accuracy"},
        space={"C": {"values": [0.1]}},
    ),
    "private_grid, one by one": study(
        model={"estimator": TREE, "score": "accuracy", "rowwise": "enforced"},
        space={"max_depth": {"values": [1]}},
    ),
}
STUDIES["dp_hypo, disjoint people"] = private("dp_sgd", people="disjoint")
STUDIES["dp_hypo, disjoint people"]["study"]["accepts"] = ["disjoint_people"]
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
    "evaluation, private training": private("noisy_gradient_descent", stopping="one")
    | {"evaluation": {"epsilon": 1.0}},
    "evaluation, one by one": STUDIES["private_grid, one by one"] | {"evaluation": {"epsilon": 1.0}},
}
EVALUATED["evaluation, persons' means"]["data"] = MEANS | {"validation": "people.csv"}
EVALUATED["evaluation, persons' means in parts"]["data"] = MEANS | {"validation": "people"}
WATCHED = {
    "watch": study(data={"validation": "parts"}),
    "watch, a pool": study(data={"validation": "day-2026-03-01.csv"}),
    "watch, pairs": study(model={"estimator": LOGISTIC, "score": "roc_auc"}, space={"C": {"values": [0.1]}}),
}
STUDIES["private_grid, predictions"]["data"] = {
    "predictions": "predictions.csv", "n_validation": 24, "target": "ill", "labels": ["no", "yes"],
}  # fmt: skip
STUDIES["private_grid, persons' means"]["data"] = MEANS | {"validation": "people.csv"}
STUDIES["private_grid, persons' means in parts"]["data"] = MEANS | {"validation": "people"}
STUDIES["private_grid, a bundled set"]["data"] = {"source": "breast_cancer", "validation_share": 0.05}


def worlds(folder):
    """name → a function of an edition that asks for the study, in `folder`, which has its files."""
    from sklearn.linear_model import Ridge
    from sklearn.tree import DecisionTreeClassifier

    from dpbo import PrivateObjective
    from dpbo.features.objective.objective_handle import objective_of_study
    from dpbo.features.objective.score_session import ScoreSession
    from dpbo.features.outsourced.answers import Curator
    from dpbo.features.outsourced.box import Outsourced, PrivateAnswers
    from dpbo.features.outsourced.curator import Publication, publish
    from dpbo.features.outsourced.messages import Query
    from dpbo.features.watch.looks import look_once
    from dpbo_core import PrivateSearch, PrivateSelection, Real
    from dpbo_core.ledger.accounting.budget import PrivacyBudget
    from dpbo_core.ledger.ledger import PrivacyLedger
    from dpbo_core.ledger.sources import file_source
    from dpbo_core.privacy.guarantee import NeighboringRelation
    from dpbo_core.report.evaluation import evaluate_study
    from dpbo_core.study import StudySpec, WatchSection
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

    def watched(place, tables, pooled):
        ledger = PrivacyLedger(f"sqlite:///{folder / f'ledger-watch-{place}.db'}")
        spec = StudySpec.from_dict(tables)
        run_study(spec, ledger=ledger, folder=folder)
        if pooled:
            ledger.allow("people", file_source(folder / "day-{date}.csv"))

        def go(edition):
            wanted = WatchSection(drop=1.0, epsilon=9.0, edition=edition, reference=0.0)  # from which nothing falls
            if pooled:
                wanted = wanted.replace(pool=3, table="day-{date}.csv", least_records=72)
            vaults = folder / f"watch-{place}"
            return look_once(spec, ledger=ledger, folder=folder, vaults=vaults, name="day", section=wanted)

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

    def objective(edition, **settings):
        """All scores for one price: two questions, the best of them, the release."""
        table, public = frame(1), frame(0)
        first_rows()
        asked = PrivateObjective(
            DecisionTreeClassifier(),
            epsilon=1.0,
            delta=1e-9,
            dataset=settings["study"],
            n_scores=2,
            budget=(LIMIT, 1e-5),
            edition=edition,
            ledger=url,
            **settings,
        )
        return asked.fit(public[["a", "b"]], public.ill, X_validation=table[["a", "b"]], y_validation=table.ill)

    def chosen(edition):
        asked = objective(edition, study="chosen", choice_share=0.3)
        for depth in (1, 2):
            asked({"max_depth": depth})
        return asked.close()

    def submitted(edition):
        asked = objective(edition, study="submitted", accepts=("rowwise_predictions", "public_models"))
        public = frame(0)
        asked.submit(DecisionTreeClassifier(max_depth=1, random_state=0).fit(public[["a", "b"]], public.ill))
        asked.submit_predictions(frame(3).ill, name="a team's")
        return asked.close()

    def of_a_file(edition):
        tables = study(
            study={"edition": edition},
            privacy={"dataset": "asked"},
            model={"estimator": LOGISTIC, "score": "log_loss"},
            space={"C": {"low": 0.1, "high": 1.0}},
            objective={"scores": 1},
        )
        run = QueryContext(PrivacyLedger(f"sqlite:///{folder / 'ledger-asked.db'}"), folder)
        session = ScoreSession(objective_of_study(StudySpec.from_dict(tables), run), run)
        session.ask({"C": 0.5})
        return session.close()

    ledger.set_budget(
        PrivacyBudget.of("rows", epsilon=LIMIT, delta=0.5, relation=NeighboringRelation.ROW_MOVES_BY_ONE)
    )

    def curate(edition):
        box = Outsourced(epsilon=1.0, delta=1e-6, relation=NeighboringRelation.ROW_MOVES_BY_ONE)
        vaults = folder / "vaults"
        publication = Publication(box, "rows", edition)
        release = publish(
            publication, folder / "rows.csv", folder / "z.parquet", QueryContext(ledger), vaults=vaults
        ).release
        query = Query(publication=release.release_id, session="0" * 16, step=1, row=2)
        return Curator(QueryContext(ledger), vaults).answer(
            query, folder / "answers.csv", private=PrivateAnswers(-1.0, 1.0, 1.0, 1e-6)
        )

    made = {name: of(place, tables) for place, (name, tables) in enumerate(STUDIES.items())}
    made |= {name: learning(place, tables) for place, (name, tables) in enumerate(LEARNING.items())}
    made |= {name: evaluated(place, tables) for place, (name, tables) in enumerate(EVALUATED.items())}
    made |= {name: watched(place, tables, "pool" in name) for place, (name, tables) in enumerate(WATCHED.items())}
    in_memory = {"PrivateSearch, a score function": search, "PrivateSelection, functions": selection}
    in_memory |= {"objective, a choice": chosen, "objective, handed in": submitted, "objective, a file": of_a_file}
    return made | in_memory | {"outsourced": curate}


def here(path):
    """A fresh folder with the files, and the state of a user who keeps it there."""
    folder = Path(path)
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    folder.mkdir(parents=True, exist_ok=True)
    files(folder)
    return folder
