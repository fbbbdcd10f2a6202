"""The model of a sensitive training set, evaluated on the validation set: its confusion matrix, or one refusal."""

import copy
import json

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics

from dpbo_core import PrivacyLedger, evaluate_study, plan_evaluation, run_and_evaluate, run_study
from dpbo_core.errors import CertificateFalse, StudyInvalid
from dpbo_core.ledger.accounting.certificate import read_certificate, recompute
from dpbo_core.mechanisms.histogram import LaplaceHistogram
from dpbo_core.privacy.guarantee import PrivacyUnit
from dpbo_core.report.certified import CERTIFIED
from dpbo_core.study import StudySpec
from dpbo_core.study.data_split import public_half, validation_table

pytestmark = pytest.mark.filterwarnings("ignore:this report will not be usable")
N, M = 300, 250


def study(folder, classes, **changes):
    """Both files sensitive: two classes are told by a linear model, three by a softmax."""
    rng = np.random.default_rng(classes)
    for name, n in (("train", N), ("validation", M)):
        a, b = rng.uniform(-1, 1, (2, n))
        sex = rng.integers(0, 2, n)
        ill = np.digitize(a - b + 0.2 * rng.normal(size=n), [0.0] if classes == 2 else [-0.5, 0.5])
        pd.DataFrame({"a": a, "b": b, "sex": sex, "ill": ill}).to_csv(folder / f"{name}.csv", index=False)
    tables = {
        "study": {"name": "both", "method": "dp_hypo"},
        "privacy": {"dataset": "both", "epsilon": 8.0, "delta": 1e-6},
        "budget": {"epsilon": 20.0, "delta": 1e-5},
        "data": {
            "sensitive": "training",
            "training": "train.csv",
            "n_training": N,
            "validation": "validation.csv",
            "n_validation": M,
            "target": "ill",
            "labels": list(range(classes)),
            "bounds": {"*": [-1.0, 1.0]},
        },
        "model": {"estimator": "logistic" if classes == 2 else "softmax", "score": "accuracy"},
        "space": {"learning_rate": {"values": [2.0]}, "epochs": {"values": [5]}},
        "search": {"steps": 2},
        "method": {"base": "noisy_gradient_descent"},
        "evaluation": {"epsilon": 1.0},
    }
    for name, table in changes.items():
        tables[name] = {**tables[name], **table}
    return tables


def a_ledger(folder):
    return PrivacyLedger(f"sqlite:///{folder / 'l.db'}")


def tuned(tables, folder):
    """A release with a model: with few trials one may have none, and another edition is asked."""
    for edition in range(1, 40):
        spec = StudySpec.from_dict(tables | {"study": tables["study"] | {"edition": str(edition)}})
        if run_study(spec, ledger=a_ledger(folder), folder=folder).release.value["model"] is not None:
            return spec
    raise AssertionError


BUDGET = {"epsilon": 1e4, "delta": 1e-3}


@pytest.mark.parametrize("classes", [2, 3])
def test_its_confusion_matrix_is_what_the_released_weights_predict(classes, tmp_path, monkeypatch):
    monkeypatch.setattr(LaplaceHistogram, "prepare", lambda *_: lambda value: value.expose().tolist())
    spec = tuned(study(tmp_path, classes, budget=BUDGET, evaluation={"group": "sex", "groups": [1]}), tmp_path)
    released = run_study(spec, ledger=a_ledger(tmp_path), folder=tmp_path).release.value["model"]
    plan = plan_evaluation(spec, ledger=a_ledger(tmp_path), folder=tmp_path)
    assert "as if all were equally many" in plan.expected.why
    found = evaluate_study(spec, ledger=a_ledger(tmp_path), folder=tmp_path).release
    records = public_half(spec, tmp_path).preprocessing.transform(validation_table(spec.data, tmp_path))
    weights = np.array(released["weights"])
    scores = records.X @ weights
    predicted = (scores > 0).astype(int) if classes == 2 else scores.argmax(axis=1)
    matrix = metrics.confusion_matrix(records.labels, predicted, labels=range(classes))
    assert [row["records"]["value"] for row in found.value["confusion"]] == pytest.approx(matrix.ravel().tolist())
    told = {name: figure["value"] for name, figure in found.value["metrics"].items()}
    assert told["accuracy"] == pytest.approx(metrics.accuracy_score(records.labels, predicted))
    assert list(found.value["groups"]) == ["1", "other"]
    assert found.guarantee.unit is PrivacyUnit.TRAINING_RECORD
    assert found.spends[0].sensitivity == 2.0
    assert "with the help of these very records" in found.facts["optimism"]
    assert evaluate_study(spec, ledger=a_ledger(tmp_path), folder=tmp_path).replayed
    honest = json.loads(json.dumps(found.to_json()))
    assert recompute(read_certificate(honest, CERTIFIED), CERTIFIED).epsilon == pytest.approx(1.0, rel=1e-9)
    for change in (
        lambda d: d["spends"][0].update(sensitivity=1.0, noise_scale=1.0),
        lambda d: d["guarantee"].update(unit="candidate_row"),
    ):
        document = copy.deepcopy(honest)
        change(document)
        with pytest.raises(CertificateFalse):
            recompute(read_certificate(document, CERTIFIED), CERTIFIED)


def test_a_validation_record_moves_it_by_two_and_a_training_record_not_at_all(tmp_path, monkeypatch):
    """The model is what was released, whatever the training file holds since."""
    seen = []

    def prepare(*_):
        return lambda value: seen.append(value.expose()) or [0] * 5

    spec = tuned(study(tmp_path, 2, budget=BUDGET), tmp_path)
    monkeypatch.setattr(LaplaceHistogram, "prepare", prepare)

    def released(edition):
        asked = spec.replace(evaluation=spec.evaluation.replace(edition=edition))
        return evaluate_study(asked, ledger=a_ledger(tmp_path), folder=tmp_path).release.value

    first = released("1")
    for number, name in enumerate(("train", "validation")):
        path = tmp_path / f"{name}.csv"
        lines = path.read_text().splitlines()
        lines[7] = "9e9,x,,\xff"
        path.write_text("\n".join(lines) + "\n")
        assert released(str(number + 2)) == first
    assert [int(np.abs(seen[0] - one).sum()) for one in seen] == [0, 0, 2]


def test_as_the_last_step_both_are_paid_together(tmp_path):
    spec = StudySpec.from_dict(study(tmp_path, 2))
    try:
        _, evaluated = run_and_evaluate(spec, ledger=a_ledger(tmp_path), folder=tmp_path)
    except StudyInvalid as refused:  # no trial may have worked, which is released
        assert "released no model" in refused.what  # noqa: PT017
    else:
        assert evaluated.release.value["confusion"]
    entries = [entry.study for entry in a_ledger(tmp_path).accounts("both")[0].entries]
    assert entries == ["both", "both/evaluation"]


def test_what_only_public_records_could_tell_is_refused(tmp_path):
    without = study(tmp_path, 2)
    for key in ("validation", "n_validation"):
        del without["data"][key]
    for tables, said in (
        (study(tmp_path, 2, evaluation={"bins": 8}), "privately trained model has no bins"),
        (study(tmp_path, 2, evaluation={"prevalence": 0.1}), "privately trained model has no threshold"),
        (without, "without a validation set"),
    ):
        with pytest.raises(StudyInvalid, match=said):
            run_and_evaluate(StudySpec.from_dict(tables), ledger=a_ledger(tmp_path), folder=tmp_path)
    for tables, model, words in ((without, None, said), (study(tmp_path, 2), tmp_path, "saved model")):
        with pytest.raises(StudyInvalid, match=words):
            evaluate_study(StudySpec.from_dict(tables), ledger=a_ledger(tmp_path), folder=tmp_path, model=model)
    assert not a_ledger(tmp_path).accounts()
