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
def test_a_loaded_tree_holds_no_byte_of_the_memory_it_was_loaded_into(tmp_path, estimator):
    """Between the fields of its nodes: each load of one file had another digest, and so another private score."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    fitted = estimator.fit(X, X[:, 0] * X[:, 1] > 0)
    skops_io.dump(fitted, tmp_path / ESTIMATOR)
    digests = set()
    for _ in range(8):
        junk = [rng.bytes(len(tree) * 64) for tree in [bytes(n) for n in (9, 17, 33, 65)] for _ in range(20)]
        del junk
        loaded = loaded_estimator(tmp_path / ESTIMATOR, verb="predict")
        trees = [loaded.tree_] if hasattr(loaded, "tree_") else [each.tree_ for each in loaded.estimators_]
        for tree in trees:
            nodes = tree.__getstate__()["nodes"]
            assert not nodes.view(np.uint8).reshape(len(nodes), -1)[:, 57:].any()
        digests.add(digest_of(loaded))
    assert len(digests) == 1
