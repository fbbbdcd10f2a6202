"""One real release of each kind of query, small: what a stranger's certificate may be of."""

from pathlib import Path

from of_features import merged
from test_evaluation import files, of_files
from test_evaluation_kinds import study_of

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
            tables["privacy"] |= {"person": "who"}
            tables["data"] |= {"n_persons": 40}
            del tables["data"]["n_validation"]
        tables["evaluation"] |= {"bins": 4}
        found["binary report" if kind == "binary" else "person report"] = _report(tables, place)
    found["tune"] = tuned_release(_place(folder, "tune"))[0]
    return found | {kind: made(_place(folder, kind)) for kind, made in merged("RELEASES").items()}


def _place(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


def _report(tables: dict, place: Path) -> Release:
    spec, ledger = StudySpec.from_dict(tables), PrivacyLedger(f"sqlite:///{place / 'ledger.db'}")
    run_study(spec, ledger=ledger, folder=place)
    return evaluate_study(spec, ledger=ledger, folder=place).release


def tuned_release(place: Path) -> tuple[Release, StudySpec, PrivacyLedger]:
    """The release of a study whose files are made in `place`, the study and its ledger."""
    files(place)
    tables = of_files(budget={"epsilon": 200.0})
    del tables["evaluation"]
    tables["privacy"]["epsilon"] = 40.0
    spec, ledger = StudySpec.from_dict(tables), PrivacyLedger(f"sqlite:///{place / 'ledger.db'}")
    return run_study(spec, ledger=ledger, folder=place).release, spec, ledger
