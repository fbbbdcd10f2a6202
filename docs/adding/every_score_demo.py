from dpbo import StudySpec, advise_study, plan_study, run_study
from dpbo_core.ledger.accounting.certificate import read_certificate, recompute
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.methods.certified import CERTIFIED

study = StudySpec.from_dict(
    {
        "study": {"name": "short-list", "method": "every_score"},
        "privacy": {"dataset": "people", "epsilon": 1.0, "delta": 0.0},
        "budget": {"epsilon": 1.0, "delta": 0.0},
        "data": {"source": "breast_cancer", "validation_share": 0.5},
        "model": {"estimator": "logistic"},
        "space": {"lambda": {"low": 1e-3, "high": 1.0, "log": True, "points": 4}},
    }
)
assert "every_score" in [line.kind for line in advise_study(study).methods if line.verdict != "refused"]
ledger = PrivacyLedger("sqlite:///ledger.db")
release = run_study(study, ledger=ledger).release
assert release.guarantee == plan_study(study).guarantee
assert [spend.what for spend in release.spends] == [*(f"score {t}" for t in range(1, 5)), "score of the best"]
assert recompute(read_certificate(release.to_json(), CERTIFIED), CERTIFIED).epsilon <= 1.0
assert run_study(study, ledger=ledger).replayed
