"""Boosters that score every record in a process of its own. Run by `make frameworks`."""

import numpy as np
import pytest
from audit.rowwise import public
from boosters import FORMS

from dpbo.features.isolation.enforced_model import alone
from dpbo_core.models.estimators import fitted
from dpbo_core.models.scores.brier import Brier


@pytest.mark.parametrize("name", ["LGBMClassifier", "XGBClassifier"])
def test_a_booster_can_score_every_record_alone(name):
    X, y, _ = public()
    model = fitted(FORMS[name](), X, y, display_name=name)
    together = model.scores(X[:8], y[:8], Brier())
    apart = alone(model.estimator, X, y, Brier(), needed_by={}).scores(X[:8], y[:8], Brier())
    assert np.allclose(apart, together, atol=1e-6)
