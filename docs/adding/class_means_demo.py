from pathlib import Path

import numpy as np

from dpbo import StudySpec, plan_study, run_study
from dpbo_core.ledger.accounting.certificate import read_certificate, recompute
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.methods.certified import CERTIFIED

rng = np.random.default_rng(0)
for name in ("train.csv", "validation.csv"):
    a, b = rng.uniform(-1, 1, (2, 2000))
    rows = (f"{x:.4f},{y:.4f},{int(x + y > 0)}" for x, y in zip(a, b, strict=True))
    Path(name).write_text("\n".join(["a,b,ill", *rows]))
study = StudySpec.from_dict(
    {
        "study": {"name": "means", "method": "dp_hypo"},
        "privacy": {"dataset": "people", "epsilon": 8.0, "delta": 0.0},
        "budget": {"epsilon": 8.0, "delta": 0.0},
        "data": {
            "training": "train.csv",
            "validation": "validation.csv",
            "sensitive": "training",
            "n_training": 2000,
            "n_validation": 2000,
            "target": "ill",
            "labels": [0, 1],
            "bounds": {"*": [-1.0, 1.0]},
        },
        "model": {"estimator": "logistic", "score": "accuracy"},
        "space": {"length": {"values": [0.5, 1.0, 2.0]}},
        "search": {"steps": 3},
        "method": {"base": "class_means"},
    }
)
ledger = PrivacyLedger("sqlite:///ledger.db")
release = run_study(study, ledger=ledger).release
assert release.guarantee == plan_study(study).guarantee
assert (release.guarantee.epsilon, release.guarantee.delta, release.guarantee.assumptions) == (8.0, 0.0, ())
assert recompute(read_certificate(release.to_json(), CERTIFIED), CERTIFIED).epsilon <= 8.0
assert run_study(study, ledger=ledger).replayed
