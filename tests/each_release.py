"""One real release of each kind of query, small: what a stranger's certificate may be of."""

from pathlib import Path

import numpy as np
from test_evaluation import files, of_files
from test_evaluation_kinds import study_of
from test_outsourced_curator import world
from test_watch import KINDS, SURE, _turned

from dpbo import PrivateObjective
from dpbo.features.watch.looks import look_once
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.privacy.release import Release
from dpbo_core.report.evaluation import evaluate_study
from dpbo_core.study import StudySpec
from dpbo_core.study.tuning import run_study

REPORTS = ("binary report", "multiclass report", "regression report", "person report")


def each_release(folder: Path) -> dict[str, Release]:
    """The releases by their kind, made in folders of their own under `folder`."""
    found = {}
    for kind in ("classes", "errors"):
        place = _place(folder, kind)
        found["multiclass report" if kind == "classes" else "regression report"] = _report(
            study_of(kind, place, m=120)[1], place
        )
    for kind in ("binary", "persons"):
        place = _place(folder, kind)
        files(place, m=120)
        tables = of_files(m=120)
        if kind == "persons":
            tables["privacy"] |= KINDS["persons"]["privacy"]
            tables["data"] |= {"n_persons": 40}
            del tables["data"]["n_validation"]
        tables["evaluation"] |= {"bins": 4}
        found["binary report" if kind == "binary" else "person report"] = _report(tables, place)
    place = _place(folder, "watch")
    found["tune"], found["watch"] = _watched(place)
    found["objective"] = _objective(_place(folder, "objective"))
    found["curate"] = world(_place(folder, "curate")).publish().release
    return found


def _place(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


def _report(tables: dict, place: Path) -> Release:
    spec, ledger = StudySpec.from_dict(tables), PrivacyLedger(f"sqlite:///{place / 'ledger.db'}")
    run_study(spec, ledger=ledger, folder=place)
    return evaluate_study(spec, ledger=ledger, folder=place).release


def _watched(place: Path) -> tuple[Release, Release]:
    """The release of a study, and of the watch of its model that ended with an alarm."""
    files(place)
    tables = of_files(budget={"epsilon": 200.0})
    del tables["evaluation"]
    tables["privacy"]["epsilon"] = 40.0
    spec, ledger = StudySpec.from_dict(tables), PrivacyLedger(f"sqlite:///{place / 'ledger.db'}")
    tuned = run_study(spec, ledger=ledger, folder=place).release
    path = place / "validation.csv"
    header, *lines = path.read_text().splitlines()
    path.write_text("\n".join([header, *map(_turned, lines)]) + "\n")
    section = SURE.replace(epsilon=50.0)
    look = look_once(spec, ledger=ledger, folder=place, vaults=place / "vaults", name="a", section=section)
    return tuned, look.release


def _objective(place: Path) -> Release:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(3)
    X, V = rng.normal(size=(60, 2)), rng.normal(size=(40, 2))
    asked = PrivateObjective(
        LogisticRegression(), epsilon=4.0, delta=1e-6, dataset="d", budget=(5.0, 1e-5), n_scores=2,
        ledger=f"sqlite:///{place / 'ledger.db'}",
    ).fit(X, (X[:, 0] > 0).astype(int), X_validation=V, y_validation=(V[:, 0] > 0).astype(int))  # fmt: skip
    asked.ask({"C": 1.0})
    return asked.close()
