"""A private objective by AUC: no public share of positives enters a score; of too rare a class there is none."""

import json
import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from test_private_objective import session

from dpbo.features.objective.objective_handle import ObjectiveHandle
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.accounting.certificate import read_certificate, recompute
from dpbo_core.mechanisms.noise import InjectedNoise, OperatingSystemNoise
from dpbo_core.report.certified import CERTIFIED

REASON = "too few positives for {} at this ε, or too few negatives"
POINTS = ({"C": 1.0}, {"C": 0.01})


class Handle(ObjectiveHandle):
    """What a search calls."""

    def __init__(self, asked):
        self.asked = asked

    @property
    def _session(self):
        return self.asked


def rare(positives, *, m=2000):
    """Sensitive records of which so many are positive: the public ones are, one in three."""
    rng = np.random.default_rng(4)
    truth = (np.arange(m) < positives).astype(int)
    return np.c_[rng.normal(size=m) + 0.5 * truth, rng.normal(size=(m, 2))], truth


def opened(folder, sensitive, **settings):
    source = InjectedNoise(np.random.default_rng(0), 0.0)
    return session(
        f"sqlite:///{folder}/l.db", source, sensitive, estimator=LogisticRegression(), n_scores=3, **settings
    )


@pytest.mark.parametrize("scoring", ["roc_auc", "balanced_accuracy"])
def test_a_score_is_that_of_the_sensitive_records_whatever_the_public_share(tmp_path, scoring):
    Z, truth = rare(40)
    one = opened(tmp_path, (Z, truth), scoring=scoring, epsilon=60.0)
    for point in POINTS:
        model = one.opened.price.problem.train_at(point).estimator
        if scoring == "roc_auc":
            exact = roc_auc_score(truth, model.decision_function(Z))
        else:
            exact = balanced_accuracy_score(truth, model.predict(Z))
        score = one.ask(point)
        low, high = score.interval
        assert score.value == pytest.approx(exact, abs=2e-3)
        assert low <= exact <= high
    value = one.close().value
    assert value["pairs"] == pytest.approx(4 * 40 * 1960 / 2000**2)
    low, high = value["interval"]
    assert low <= value["score"] <= high
    assert value["metric"] == {
        "name": scoring,
        "value": value["score"],
        "greater_is_better": True,
        "interval": [low, high],
    }


@pytest.mark.parametrize("scoring", ["roc_auc", "balanced_accuracy"])
@pytest.mark.parametrize("positives", [0, 1, 2000])
def test_where_a_class_is_too_rare_there_is_no_number(tmp_path, scoring, positives):
    one = opened(tmp_path, rare(positives), scoring=scoring)
    score = one.ask(POINTS[0])
    assert (score.value, score.noise, score.interval) == (None, None, None)
    assert math.isnan(Handle(one)(POINTS[1]))
    assert one.best() in POINTS
    value = json.loads(json.dumps(one.close().to_json(), allow_nan=False))["value"]
    assert value["score"] is value["interval"] is value["pairs"] is value["metric"]["value"] is None
    assert value["no_score"] == REASON.format({"roc_auc": "an AUC"}.get(scoring, "a balanced accuracy"))
    assert [step["score"] for step in value["trajectory"]] == [None, None]


def test_a_certificate_states_the_draw_of_the_number_of_pairs(tmp_path):
    one = session(f"sqlite:///{tmp_path}/l.db", OperatingSystemNoise(), rare(700), scoring="roc_auc")
    one.ask({"max_depth": 2})
    document = json.loads(json.dumps(one.close().to_json()))
    document["guarantee"]["epsilon"] = 1.0  # the dataset of the test is public
    assert recompute(read_certificate(document, CERTIFIED), CERTIFIED).epsilon <= 1.0
    document["spends"] = [spend for spend in document["spends"] if spend["what"] != "number of pairs"]
    with pytest.raises(StudyInvalid, match="no release of dpbo"):
        read_certificate(document, CERTIFIED)
