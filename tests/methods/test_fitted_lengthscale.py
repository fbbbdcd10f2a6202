"""lengthscale = "fit" is honoured or refused, never silently 0.3; what was charged before goes on as it began."""

import pytest
from of_features import merged

from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.study import StudySpec
from dpbo_core.study.resolve import advise_study, plan_study
from dpbo_core.study.tuning import run_study

FIXED = {
    "lipschitz": {"evaluate": "path"},
    "noisy_gp": {},
    "exact_gp": {"rate_constant": 1e3, "decay_constant": 0.01},
    **merged("FITS_NO_KERNEL"),
}
FITTED = {
    "private_trajectory": {},
    "lipschitz": {},
    "private_grid": {"evaluate": "public_shortlist"},
    **merged("NEEDS_NO_KERNEL"),
}


def study(method, options, lengthscale="fit"):
    return StudySpec.from_dict(
        {
            "study": {"name": "lengths", "method": method},
            "privacy": {"dataset": "wards", "epsilon": 2.0, "delta": 1e-6},
            "budget": {"epsilon": 20.0, "delta": 1e-4},
            "data": {"source": "breast_cancer", "validation_share": 0.3},
            "model": {"estimator": "logistic", "score": "sigmoid", "steepness": 10.0},
            "space": {"lambda": {"low": 1e-3, "high": 1.0, "log": True, "points": 5}},
            "search": {"steps": 4, "lengthscale": lengthscale},
            "method": options,
        }
    )


@pytest.fixture
def ledger(tmp_path):
    return PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}")


@pytest.mark.parametrize("method", FIXED)
def test_a_new_study_of_a_method_that_fits_none_is_refused_uncharged(method, ledger):
    spec = study(method, FIXED[method])
    with pytest.raises(StudyInvalid, match=f"{method} fits no kernel"):
        run_study(spec, ledger=ledger)
    with pytest.raises(StudyInvalid, match=f"{method} fits no kernel"):
        plan_study(spec)
    lines = {line.kind: line for line in advise_study(spec).methods}
    assert (lines[method].verdict, "fits no kernel" in lines[method].why) == ("refused", True)
    assert ledger.accounts() == ()
    assert plan_study(study(method, FIXED[method], 0.3)).spends


@pytest.mark.parametrize("method", FITTED)
def test_a_method_that_fits_one_or_needs_none_is_not(method):
    assert plan_study(study(method, FITTED[method])).spends
