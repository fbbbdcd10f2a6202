"""Write yesterday's ledger: run once, from this folder's parent, by the version whose releases are to be kept.

python -m yesterday.make FOLDER
"""

import json
import sys
from pathlib import Path

import numpy as np

from dpbo_core.accounting.ledger import PrivacyLedger
from dpbo_core.methods.outsourced.answers import Curator
from dpbo_core.methods.outsourced.box import Outsourced, PrivateAnswers
from dpbo_core.methods.outsourced.curator import Publication, publish
from dpbo_core.methods.outsourced.session import suggest, update
from dpbo_core.spec import StudySpec
from dpbo_core.study import open_study, run_study
from yesterday.studies import FILES, UNFINISHED, searches, tables


def main(folder: Path) -> None:
    folder.mkdir(parents=True)
    url = f"sqlite:///{folder / 'ledger.db'}"
    train, validation = tables()
    train.to_csv(folder / "train.csv", index=False)
    validation.to_csv(folder / "validation.csv", index=False)
    ledger, kept = PrivacyLedger(url), {"finished": {}, "unfinished": {}}
    for name, study in FILES.items():
        spec = StudySpec.from_dict(study)
        if name in UNFINISHED:
            run = open_study(spec, ledger=ledger, folder=folder)
            kept["unfinished"][name] = [run.step() for _ in range(UNFINISHED[name])]
        else:
            kept["finished"][name] = run_study(spec, ledger=ledger, folder=folder).release.to_json()
        print(name)
    for name, (search, (X, y, V, truth)) in searches(url).items():
        search.fit(X, y, X_validation=V, y_validation=truth)
        kept["finished"][name] = search.release_.to_json()
        print(name)
    kept["finished"]["outsourced"] = outsource(folder, ledger)
    for link in ("ledger.db-wal", "ledger.db-shm"):
        (folder / link).unlink(missing_ok=True)
    (folder / "kept.json").write_text(json.dumps(kept, indent=1, sort_keys=True))


def outsource(folder: Path, ledger: PrivacyLedger) -> dict:
    """A table published, and three private answers of it."""
    from dpbo_core.accounting.budget import PrivacyBudget

    rows = np.random.default_rng(3).normal(size=(40, 2)).round(3)
    np.savetxt(folder / "X.csv", rows, delimiter=",", header="a,b", comments="", fmt="%.3f")
    answers = -(rows**2).sum(axis=1, keepdims=True)
    np.savetxt(folder / "Y.csv", answers, delimiter=",", header="y", comments="", fmt="%.6f")
    ledger.set_budget(PrivacyBudget.of("rows", epsilon=20.0, delta=1e-4))
    box = Outsourced(epsilon=3.0, delta=1e-6, norm_bound=4.0)
    table, state, vaults = folder / "Z.parquet", folder / "search.json", folder / "curator"
    release = publish(Publication(box, "rows"), folder / "X.csv", table, ledger=ledger, vaults=vaults).release
    private = PrivateAnswers(-10.0, 0.0, 1.0, 1e-6)
    for step in range(3):
        question, answer = folder / "Q.json", folder / f"A{step}.json"
        suggest(table, state, question)
        Curator.of(ledger, vaults).answer_file(question, folder / "Y.csv", answer, private=private, accepts=())
        update(answer, state)
    return release.to_json()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
