"""Two loads of one model are one submission."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier
from skops import io as skops_io

from dpbo.features.objective.submission import digest_of
from dpbo_core.models.final_model.dpbo_served_model import ESTIMATOR
from dpbo_core.models.final_model.storage import loaded_estimator


@pytest.mark.parametrize("estimator", [DecisionTreeClassifier(max_depth=8), RandomForestClassifier(3)])
def test_every_load_of_a_model_has_one_digest(tmp_path, estimator):
    X = np.random.default_rng(0).normal(size=(300, 3))
    skops_io.dump(estimator.fit(X, X[:, 0] * X[:, 1] > 0), tmp_path / ESTIMATOR)
    assert len({digest_of(loaded_estimator(tmp_path / ESTIMATOR, verb="predict")) for _ in range(8)}) == 1
