"""Named columns under `rowwise = "enforced"`: records scored alone come out as together."""

from dataclasses import replace

import numpy as np
import pytest
from test_named_columns import MODULE, WELL, model_of, pipeline, public, sensitive, write_study
from test_rankings import study, write

from dpbo.features.isolation.enforced_model import alone
from dpbo_core import PrivacyLedger, StudySpec, plan_study, run_study
from dpbo_core.models.scores.brier import Brier
from dpbo_core.study import data_split


@pytest.mark.slow
def test_records_scored_alone_come_out_as_together_and_what_looks_at_others_needs_no_assumption(tmp_path):
    made, encoded = public()
    model = model_of(pipeline(), made, encoded)
    how = alone(model.by_rows(), encoded.X, encoded.truth, Brier(), needed_by={})
    rows = [list(row) for row in WELL]
    rows[3] = ["\ud800"] * 5
    found = sensitive(made, rows, [0, 1] * 6)
    together = model.scores(found.X, found.truth, Brier())
    one_by_one = replace(model, alone=how).scores(found.X, found.truth, Brier())
    np.testing.assert_allclose(one_by_one, together, atol=2**-22)
    assert together[3] == 0.0
    assert np.ptp(together) > 0.01
    study = write_study(tmp_path, module=MODULE.replace("SimpleImputer", "KNNImputer"), also='rowwise = "enforced"')
    release = run_study(study, ledger=PrivacyLedger(f"sqlite:///{tmp_path}/l.db"), folder=tmp_path).release
    assert release.guarantee.assumptions == ()
    assert release.facts["rowwise"] == "enforced"
    assert 0.6 < release.value["metric"]["value"] < 1.1


@pytest.mark.slow
def test_three_ways_to_score_a_record_alone_agree(tmp_path):
    """Listed, enforced, and one record at a time: the same cell of the same class."""
    tables = study(
        model={"estimator": "sklearn.ensemble.RandomForestClassifier", "params": {"n_estimators": 5}},
        space={"max_depth": {"values": [2, 4]}},
    )
    spec = write(tmp_path, tables)
    assert plan_study(spec).guarantee.assumptions == ()
    public = data_split.public_half(spec, tmp_path)
    here = data_split.sensitive_half(spec, tmp_path, public)
    tables["model"]["rowwise"] = "enforced"
    apart = StudySpec.from_dict(tables)
    alone = data_split.public_half(apart, tmp_path)
    there = data_split.sensitive_half(apart, tmp_path, alone)
    for i in range(2):
        assert there.evaluate(alone.problem.train(i)).expose() == here.evaluate(public.problem.train(i)).expose()
    assert there.pairs().expose() == here.pairs().expose()
