from dpbo import StudySpec, plan_study, run_study
from dpbo_core.ledger.accounting.certificate import read_certificate, recompute
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.methods.certified import CERTIFIED

study = StudySpec.from_dict(
    {
        "study": {"name": "grades", "method": "private_grid"},
        "privacy": {"dataset": "wine", "epsilon": 1.0, "delta": 0.0},
        "budget": {"epsilon": 1.0, "delta": 0.0},
        "data": {"source": "wine", "validation_share": 0.5},
        "model": {"estimator": "sklearn.tree.DecisionTreeClassifier", "score": "near_miss"},
        "space": {"max_depth": {"values": [1, 2, 3]}},
    }
)
ledger = PrivacyLedger("sqlite:///ledger.db")
release = run_study(study, ledger=ledger).release
assert release.guarantee == plan_study(study).guarantee
assert (release.facts["score"], release.facts["score_range"]) == ("near_miss", 1.0)
assert recompute(read_certificate(release.to_json(), CERTIFIED), CERTIFIED).epsilon <= 1.0
assert run_study(study, ledger=ledger).replayed
