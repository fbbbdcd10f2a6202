"""A study's model evaluated: paid once, the same answer for ever, nothing of a record anywhere, certified."""

import copy
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics

from dpbo_core import evaluate_study, plan_evaluation, run_and_evaluate
from dpbo_core.errors import AssumptionNotAccepted, BudgetExceeded, CertificateFalse, Sealed, StudyInvalid
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.accounting.certificate import read_certificate, recompute
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.mechanisms.histogram import LaplaceHistogram
from dpbo_core.mechanisms.noise import InjectedNoise
from dpbo_core.methods.certified import CERTIFIED as OF_METHODS
from dpbo_core.models.final_model import storage
from dpbo_core.models.final_model.storage import write_served_code
from dpbo_core.privacy.guarantee import PrivacyUnit
from dpbo_core.report.certified import CERTIFIED
from dpbo_core.report.counting import FileTable
from dpbo_core.report.request import own_evaluation
from dpbo_core.study import EvaluationSection, StudySpec, query
from dpbo_core.study.data_split import public_half
from dpbo_core.study.final_training import FinalModel
from dpbo_core.study.query import QueryContext
from dpbo_core.study.resolve import resolve
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import ready_study, run_study

pytestmark = pytest.mark.filterwarnings("ignore:this report will not be usable")
NOISELESS = InjectedNoise(np.random.default_rng(0), factor=0.0)
FOREST = {"estimator": "sklearn.ensemble.RandomForestClassifier", "params": {"n_estimators": 5}}
DEPTHS = {"max_depth": {"values": [2, 3]}}


@pytest.fixture
def tables(tables):
    tables["study"]["method"] = "private_grid"
    tables["space"]["lambda"]["points"] = 4
    tables["evaluation"] = {"epsilon": 1.0}
    return tables


@pytest.fixture
def ledger(tmp_path):
    return PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}")


def tuned(tables, ledger, folder="."):
    spec = StudySpec.from_dict(tables)
    run_study(spec, ledger=ledger, folder=folder)
    return spec


def files(folder, *, m=300):
    """A training and a validation file, with a column of groups, one of persons, and a noisy label."""
    rng = np.random.default_rng(1)
    for name, n in (("train", 300), ("validation", m)):
        x = rng.normal(size=(n, 2))
        columns = {
            "who": np.arange(n) // 3,
            "sex": rng.choice(["f", "m", "x"], size=n, p=[0.5, 0.4, 0.1]),
            "a": x[:, 0],
            "b": x[:, 1],
            "ill": (x[:, 0] - x[:, 1] + rng.normal(size=n) > 0).astype(int),
        }
        pd.DataFrame(columns).to_csv(folder / f"{name}.csv", index=False)
    return columns


def in_a_cell(value):
    """A figure as every table has it: four decimals, or four digits beyond 1."""
    return f"{value:.4f}" if abs(value) <= 1.0 else f"{value:.4g}"


def in_an_interval(ends):
    """An interval as every table has it: three decimals, or four where it is narrower than two thousandths."""
    low, high = ends
    decimals = 4 if high - low < 0.002 and high <= 1.0 else 3
    return f"{low:.{decimals}f} to {high:.{decimals}f}"


def of_files(*, m=300, **more):
    tables = {
        "study": {"name": "clinic", "method": "private_grid"},
        "privacy": {"dataset": "clinic", "epsilon": 1.0, "anyway": True},
        "budget": {"epsilon": 20.0},
        "data": {
            "training": "train.csv",
            "validation": "validation.csv",
            "n_validation": m,
            "target": "ill",
            "ignore": ["who", "sex"],
        },
        "model": {"estimator": "logistic"},
        "space": {"lambda": {"low": 0.01, "high": 1.0, "log": True, "points": 3}},
        "evaluation": {"epsilon": 1.0},
    }
    return {**tables, **more}


# Paid once, the same answer for ever


def test_an_evaluation_is_one_spend_and_one_release(tables, ledger):
    spec = tuned(tables, ledger)
    before = ledger.accounts("people")[0]
    first = evaluate_study(spec, ledger=ledger)
    after = ledger.accounts("people")[0]
    assert not first.replayed
    assert [entry.study for entry in after.entries] == ["trial", "trial/evaluation"]
    assert len(before.entries) == 1
    assert after.spent.epsilon_units - before.spent.epsilon_units == 10**12
    guarantee = first.release.guarantee
    assert (guarantee.epsilon, guarantee.delta, guarantee.assumptions) == (1.0, 0.0, ())
    assert guarantee.unit is PrivacyUnit.VALIDATION_RECORD
    assert [spend.what for spend in first.release.spends] == ["histogram"]
    assert first.release.spends[0].noise_scale == pytest.approx(2.0)
    assert "optimistic" in first.release.facts["optimism"]
    again = evaluate_study(spec, ledger=ledger)
    assert again.replayed
    assert again.release == first.release
    assert ledger.accounts("people")[0].spent == after.spent


def test_a_study_that_was_edited_after_its_release_is_told_which_key_goes_back_to_what(tables, ledger, tmp_path):
    spec = tuned(tables, ledger)
    edited = spec.replace(model=spec.model.replace(steepness=5.0), search=spec.search.replace(seed=3))
    with pytest.raises(StudyInvalid, match=r"released with model\.steepness = 10\.0, search\.seed = 0") as caught:
        evaluate_study(edited, ledger=ledger)
    assert "change it back; or give the study a new edition" in caught.value.remedy
    with pytest.raises(StudyInvalid, match="has released nothing yet"):
        evaluate_study(spec.replace(edition="2"), ledger=ledger)
    with pytest.raises(StudyInvalid, match="has released nothing yet"):  # what others tuned is not said
        evaluate_study(spec.replace(privacy=spec.privacy.replace(dataset="others")), ledger=ledger)
    files(tmp_path)
    on_files = tuned(of_files() | {"study": {"name": "files", "method": "private_grid"}}, ledger, tmp_path)
    train = tmp_path / "train.csv"
    train.write_text(train.read_text() + train.read_text().splitlines()[-1] + "\n")
    with pytest.raises(StudyInvalid, match="released with another public training set"):
        evaluate_study(on_files, ledger=ledger, folder=tmp_path)


def test_another_question_is_another_spend_and_another_reading_is_none(tables, ledger):
    tables["budget"]["epsilon"] = 50.0
    spec = tuned(tables, ledger)
    first = evaluate_study(spec, ledger=ledger)

    def asked(**keys):
        return evaluate_study(spec.replace(evaluation=spec.evaluation.replace(**keys)), ledger=ledger)

    for keys in ({"edition": "2"}, {"bins": 6}):
        assert not asked(**keys).replayed
    assert not evaluate_study(spec, ledger=ledger, epsilon=0.25).replayed
    assert len(ledger.accounts("people")[0].entries) == 5
    priced = asked(false_positive_cost=1.0, false_negative_cost=9.0)
    assert priced.replayed
    assert priced.release == first.release
    assert priced.best_threshold["prevalence"] == first.release.value["metrics"]["positive_share"]["value"]
    rare = asked(prevalence=0.01)
    assert rare.replayed
    assert rare.best_threshold["false_negative_cost"] == 1.0
    assert first.best_threshold is None


def test_the_reports_of_a_schedules_runs_are_told_by_their_editions(tables, ledger):
    tables["budget"]["epsilon"] = 50.0
    for edition in ("1", "2026-01-01"):
        tables["study"]["edition"] = edition
        spec = tuned(tables, ledger)
        for own in ("1", "b"):
            evaluate_study(spec.replace(evaluation=EvaluationSection(epsilon=0.1, edition=own)), ledger=ledger)
    entries = [entry for entry in ledger.accounts("people")[0].entries if entry.study == "trial/evaluation"]
    assert [entry.edition for entry in entries] == ["1", "b", "2026-01-01", "2026-01-01.b"]
    assert [one.release.edition for one in ledger.editions("trial/evaluation")] == [one.edition for one in entries]


def test_nothing_is_charged_for_what_is_refused(tables, ledger, tmp_path):
    spec = StudySpec.from_dict(tables)
    with pytest.raises(StudyInvalid, match="released nothing yet"):
        evaluate_study(spec, ledger=ledger)
    run_study(spec, ledger=ledger)
    before = ledger.accounts("people")
    with pytest.raises(StudyInvalid, match="no ε is stated"):
        evaluate_study(spec.replace(evaluation=None), ledger=ledger)
    with pytest.raises(BudgetExceeded):
        evaluate_study(spec, ledger=ledger, epsilon=2.5)
    with pytest.raises(StudyInvalid, match="no privacy level"):
        evaluate_study(spec, ledger=ledger, epsilon=-1.0)
    with pytest.raises(StudyInvalid, match="no column 'sex'"):
        evaluate_study(
            spec.replace(evaluation=EvaluationSection(epsilon=0.1, group="sex", groups=("f",))), ledger=ledger
        )
    with pytest.raises(StudyInvalid, match="are not stated by public data"):
        evaluate_study(spec.replace(evaluation=EvaluationSection(epsilon=0.1, group="sex")), ledger=ledger)
    with pytest.raises(StudyInvalid, match="no final model can be read"):
        evaluate_study(spec, ledger=ledger, model=tmp_path / "nowhere")
    assert ledger.accounts("people") == before


def test_an_impossible_section_is_refused(tables):
    bad = {"epsilon": 0.0, "bins": 1, "groups": ["a"], "false_positive_cost": 1.0, "prevalence": 1.0, "edition": ""}
    for key, value in {**bad, "binz": 3}.items():
        with pytest.raises(StudyInvalid):
            StudySpec.from_dict(tables | {"evaluation": {key: value}})


# What is counted is what is there


def noiseless(tables, folder):
    """A run without noise, on a dataset declared public."""
    ledger = PrivacyLedger(f"sqlite:///{folder / 'public.db'}")
    tables = {name: table for name, table in tables.items() if name != "budget"}
    ledger.set_budget(PrivacyBudget.without_limit(tables["privacy"]["dataset"]))
    spec = StudySpec.from_dict(tables)
    run_study(spec, ledger=ledger, folder=folder, source=NOISELESS)
    return spec, ledger


def final_model(spec, ledger, folder):
    """The released model, as it is published."""
    key = resolve(spec).key(public_half(spec, folder).fingerprint)
    return FinalModel.of_release(spec, folder, ledger.release_of(key.fingerprint))


@pytest.mark.parametrize(
    ("model", "space"),
    [
        ({"estimator": "logistic"}, None),
        ({"estimator": "hinge"}, None),
        ({"estimator": "sklearn.tree.DecisionTreeClassifier"}, DEPTHS),
        ({"estimator": "sklearn.svm.LinearSVC"}, {"C": {"values": [0.1, 1.0]}}),
    ],
    ids=["logistic", "hinge", "tree", "decision function"],
)
def test_without_noise_it_is_what_the_final_model_does(tmp_path, model, space):
    columns = files(tmp_path)
    tables = of_files(model=model)
    tables["evaluation"] |= {"group": "sex", "groups": ["m", "f"], "epsilon": 50.0}  # few of a group are told then
    if space is not None:
        tables["space"] = space
    spec, ledger = noiseless(tables, tmp_path)
    found = evaluate_study(spec, ledger=ledger, folder=tmp_path, source=NOISELESS).release
    final = final_model(spec, ledger, tmp_path)
    predicted = final.predict({name: list(columns[name]) for name in ("a", "b")}).astype(float)
    told = {name: figure["value"] for name, figure in found.value["metrics"].items()}
    assert told["accuracy"] == pytest.approx(metrics.accuracy_score(columns["ill"], predicted))
    assert told["recall"] == pytest.approx(metrics.recall_score(columns["ill"], predicted))
    assert told["precision"] == pytest.approx(metrics.precision_score(columns["ill"], predicted))
    groups = found.value["groups"]
    assert list(groups) == ["f", "m", "other"]
    for name, sex in (("f", "f"), ("m", "m"), ("other", "x")):
        own = columns["sex"] == sex
        assert groups[name]["records_share"]["value"] == pytest.approx(own.mean())
        assert groups[name]["recall"]["value"] == pytest.approx(
            metrics.recall_score(columns["ill"][own], predicted[own])
        )
    assert found.guarantee.epsilon == float("inf")
    has_probabilities = model["estimator"] not in ("hinge", "sklearn.svm.LinearSVC")
    assert ("calibration_error" in told) == has_probabilities == bool(found.value["calibration"])
    saved = final.save(tmp_path / "model")  # and the saved one is evaluated like it
    of_file = evaluate_study(spec, ledger=ledger, folder=tmp_path, model=saved, source=NOISELESS).release
    assert (of_file.facts["model"], found.facts["model"]) == ("of a file", "released")
    assert of_file.value["metrics"]["accuracy"]["value"] == pytest.approx(told["accuracy"])
    assert evaluate_study(spec, ledger=ledger, folder=tmp_path, model=saved).replayed


# Assumptions


def test_an_estimator_that_nobody_vouches_for_needs_the_assumption(tmp_path, monkeypatch):
    files(tmp_path)
    spec = StudySpec.from_dict(
        of_files(
            model={"estimator": "sklearn.semi_supervised.LabelPropagation"},
            space={"gamma": {"values": [1.0, 20.0]}},
            study={"name": "clinic", "method": "private_grid", "accepts": ["rowwise_predictions"]},
        )
    )
    ledger = PrivacyLedger(f"sqlite:///{tmp_path / 'l.db'}")
    run_study(spec, ledger=ledger, folder=tmp_path)
    assert plan_evaluation(spec, ledger=ledger, folder=tmp_path).price.guarantee.assumptions == (
        "rowwise_predictions",
    )
    found = evaluate_study(spec, ledger=ledger, folder=tmp_path)
    assert found.release.guarantee.assumptions == ("rowwise_predictions",)
    monkeypatch.setattr(
        storage,
        "TRUSTED_TYPES",
        (*storage.TRUSTED_TYPES, "sklearn.semi_supervised._label_propagation.LabelPropagation"),
    )
    final_model(spec, ledger, tmp_path).save(tmp_path / "model")
    listed = StudySpec.from_dict(of_files())  # the study's own estimator is listed, the file's is not
    before = ledger.accounts("clinic")
    with pytest.raises(AssumptionNotAccepted):
        evaluate_study(listed, ledger=ledger, folder=tmp_path, model=tmp_path / "model")
    assert ledger.accounts("clinic") == before


# Killed and asked again


def test_a_draw_that_was_recorded_is_read_with_the_edges_it_was_made_with(tables, ledger, monkeypatch):
    """Killed between the draw and the release; then a version that would choose other bins goes on."""
    from dpbo_core.ledger.reservation import Reservation
    from dpbo_core.report import binary_bins

    spec = tuned(tables, ledger)
    with monkeypatch.context() as patch:
        patch.setattr(Reservation, "conclude", lambda self, release: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(Sealed):
            evaluate_study(spec, ledger=ledger)
    monkeypatch.setattr(binary_bins, "BIN_COUNTS", (64,))
    monkeypatch.setattr(FileTable, "count", lambda *_: pytest.fail("the records were read again"))
    found = evaluate_study(spec, ledger=ledger).release.value["table"]
    assert len(found["edges"]) < 30
    assert len(found["drawn"]) == 1 + 2 * (len(found["edges"]) + 1)
    assert len(ledger.accounts("people")[0].entries) == 2


def test_edges_that_cannot_be_written_down_are_found_before_the_charge(tables, ledger, monkeypatch):
    spec = tuned(tables, ledger)
    with monkeypatch.context() as patch:
        broken = SimpleNamespace(loads=json.loads, dumps=lambda *_: 1 / 0)
        patch.setattr("dpbo_core.report.evaluation.json", broken)
        with pytest.raises(ZeroDivisionError):
            evaluate_study(spec, ledger=ledger)
    assert len(ledger.accounts("people")[0].entries) == 1
    assert not evaluate_study(spec, ledger=ledger).replayed


# Nothing of a record


def frozen_draw(monkeypatch):
    """Every histogram is drawn as 0, 1, 2 …; the list of what was asked of the records, exact."""
    honest, queries = LaplaceHistogram.prepare, []

    def prepare(mechanism, spend, source):
        applied = honest(mechanism, spend, source)

        def apply(value):
            queries.append(value.expose())
            assert len(applied(value)) == mechanism.size
            return list(range(mechanism.size))

        return apply

    monkeypatch.setattr(LaplaceHistogram, "prepare", prepare)
    return queries


def test_on_a_neighbour_everything_is_the_same_but_the_draw(tmp_path, monkeypatch):
    """One candidate, so that tuning chooses alike; the draw frozen: all that a bystander sees is equal."""
    queries, shown = frozen_draw(monkeypatch), []
    for number, record in enumerate((None, b"\xff\x00,,", b"1,x,-9,9,1")):
        folder = tmp_path / str(number)
        folder.mkdir()
        files(folder)
        if record is not None:
            lines = (folder / "validation.csv").read_bytes().split(b"\n")
            lines[100] = record
            (folder / "validation.csv").write_bytes(b"\n".join(lines))
        ledger = PrivacyLedger(f"sqlite:///{folder / 'l.db'}")
        tables = of_files(space={"lambda": {"values": [0.1]}})
        tables["evaluation"] |= {"group": "sex", "groups": ["f", "m"]}
        spec = tuned(tables, ledger, folder)
        shown.append(replace(evaluate_study(spec, ledger=ledger, folder=folder).release, released_at=""))
    assert all(release == shown[0] for release in shown)
    moves = [int(np.abs(query - queries[0]).sum()) for query in queries]
    assert max(moves) == 2


# The certificate


@pytest.mark.parametrize("k", [1, 3])
def test_an_honest_certificate_is_worth_its_guarantee_and_an_edit_is_caught(tables, ledger, k):
    tables["privacy"]["max_records_per_person"] = k
    spec = tuned(tables, ledger)
    honest = json.loads(json.dumps(evaluate_study(spec, ledger=ledger).release.to_json()))
    found = recompute(read_certificate(honest, CERTIFIED), CERTIFIED)
    assert found.epsilon == pytest.approx(1.0, rel=1e-9)
    assert found.draws == 1

    def edited(change):
        document = copy.deepcopy(honest)
        change(document)
        return document

    spend = "spends"
    for change in (
        lambda d: d["guarantee"].update(epsilon=0.99),
        lambda d: d[spend][0].update(noise_scale=d[spend][0]["noise_scale"] * 0.99),
        lambda d: d[spend][0].update(sensitivity=k * 1.0, noise_scale=k * 1.0),  # of one cell, not of two
        lambda d: d[spend][0].update(epsilon=0.5, rho=0.125),
        lambda d: d[spend].append(d[spend][0] | {"what": "another"}),
        lambda d: d[spend][0].update(what="score"),
        lambda d: d[spend][0].update(mechanism="discrete Laplace"),
        lambda d: d.update(noise="injected"),
        lambda d: d["facts"].update(max_records_per_person=k + 1),
    ):
        with pytest.raises(CertificateFalse):
            recompute(read_certificate(edited(change), CERTIFIED), CERTIFIED)
    for change in (
        lambda d: d["facts"].pop("n_validation"),
        lambda d: d["value"].update(records=[1, 2, 3]),
        lambda d: d.update(method="evaluatoin"),
    ):
        with pytest.raises(StudyInvalid):
            read_certificate(edited(change), CERTIFIED)
    with pytest.raises(StudyInvalid, match="this version cannot check"):
        read_certificate(honest, OF_METHODS)


# Before anything is spent


def test_the_plan_says_what_to_expect_and_charges_nothing(tables, ledger):
    spec = tuned(tables, ledger)
    before = ledger.accounts("people")
    plan = plan_evaluation(spec, ledger=ledger, epsilon=0.02)
    assert plan.expected.verdict == "useless"
    assert plan.price.spends[0].noise_scale == pytest.approx(100.0)
    assert plan_evaluation(spec, ledger=ledger, epsilon=3.0).expected.verdict in ("good", "poor")
    assert ledger.accounts("people") == before
    with pytest.warns(UserWarning, match="this report will not be usable"):
        evaluate_study(spec, ledger=ledger, epsilon=0.02)


# As the last step of a study


def test_both_are_reserved_together_and_the_evaluation_takes_its_own_over(tables, ledger, monkeypatch):
    from dpbo_core.study import data_split

    seen, honest = [], data_split.sensitive_half

    def sensitive_half(*args):
        seen.append([(entry.study, entry.epsilon) for entry in ledger.accounts("people")[0].entries])
        return honest(*args)

    monkeypatch.setattr(data_split, "sensitive_half", sensitive_half)
    tables["evaluation"]["epsilon"] = 0.5
    spec = StudySpec.from_dict(tables)
    study, evaluation = run_and_evaluate(spec, ledger=ledger)
    assert seen == [[("trial", 1.0), ("trial/evaluation", 0.5)]]  # before a record was read
    assert [study.replayed, evaluation.replayed] == [False, False]
    assert ledger.accounts("people")[0].spent.epsilon_units == 15 * 10**11
    assert len(ledger.accounts("people")[0].entries) == 2
    again = run_and_evaluate(spec, ledger=ledger)
    assert [one.release for one in again] == [study.release, evaluation.release]
    assert all(one.replayed for one in again)
    assert evaluate_study(spec, ledger=ledger).release == evaluation.release  # the same key as asked by itself
    assert run_study(spec.replace(evaluation=None), ledger=ledger).replayed


@pytest.mark.parametrize("asked_before", [True, False])
def test_neither_is_reserved_where_there_is_no_room_for_both(tables, ledger, monkeypatch, asked_before):
    """By the ledger's own transaction too, where another process spent it after both were asked about."""
    tables["budget"]["epsilon"] = 1.9
    with monkeypatch.context() as patch:
        if not asked_before:
            patch.setattr(query, "_check_room_together", lambda *_: None)
        with pytest.raises(BudgetExceeded):
            run_and_evaluate(StudySpec.from_dict(tables), ledger=ledger)
    assert ledger.accounts() == ()  # not even the cap was opened
    tables["evaluation"]["epsilon"] = 0.9
    run_and_evaluate(StudySpec.from_dict(tables), ledger=ledger)
    assert ledger.accounts("people")[0].spent.epsilon_units == 19 * 10**11


def test_an_unfinished_study_that_asks_for_an_evaluation_goes_on_or_stays_as_it_was(tables, ledger, monkeypatch):
    from dpbo_core.study import data_split

    with monkeypatch.context() as patch:
        patch.setattr(data_split, "sensitive_half", lambda *_: 1 / 0)
        with pytest.raises(Sealed):
            run_study(StudySpec.from_dict(tables | {"evaluation": {}}), ledger=ledger)
    before = ledger.accounts("people")
    tables["evaluation"]["epsilon"] = 2.5
    with pytest.raises(BudgetExceeded):
        run_and_evaluate(StudySpec.from_dict(tables), ledger=ledger)
    assert ledger.accounts("people") == before
    tables["evaluation"]["epsilon"] = 2.0
    study, _ = run_and_evaluate(StudySpec.from_dict(tables), ledger=ledger)
    assert not study.replayed
    assert [entry.epsilon for entry in ledger.accounts("people")[0].entries] == [1.0, 2.0]


@pytest.mark.parametrize(
    "changes",
    [
        {"study": {"name": "trial", "method": "lipschitz"}},
        {"evaluation": {"epsilon": 1.0, "group": "sex", "groups": ["f"]}},
        {"evaluation": {"epsilon": 1.0, "group": "sex"}},
        {"evaluation": {"edition": "2"}},
        {"data": {"source": "iris"}, "model": FOREST, "space": DEPTHS, "evaluation": {"epsilon": 1.0, "bins": 8}},
    ],
)
def test_what_cannot_be_evaluated_is_not_tuned_either(tables, ledger, changes):
    spec = StudySpec.from_dict(tables | changes)
    with pytest.raises(StudyInvalid):
        run_and_evaluate(spec, ledger=ledger)
    assert ledger.accounts() == ()


# At the command


def test_an_evaluation_that_is_not_finished_is_said_to_be_asked_for_again(dpbo, here, tables):
    ledger = PrivacyLedger(f"sqlite:///{here / 'mlruns' / 'ledger.db'}")
    ready = ready_study(Run.of(StudySpec.from_dict(tables), QueryContext(ledger)))
    ready.charge(own_evaluation(ready))
    code, out, err = dpbo("show", "trial/evaluation")
    assert (code, out) == (2, "")
    assert "run dpbo evaluate with it again" in " ".join(err.split())


BARE = """
import json, sys
class Closed:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("dpbo", "dpbo_core"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Closed())
sys.path += sys.argv[2:]
import importlib, numpy as np, pandas as pd
loader = importlib.import_module(sys.argv[1])
columns, models = json.load(sys.stdin)
for folder, verbs in models:
    model, rows = loader._load_pyfunc(folder), pd.DataFrame(columns)
    print(json.dumps([model.predict(rows).tolist(), *(
        np.asarray(model.predict(rows, {"predict_method": verb})).tolist() for verb in verbs)]))
"""


def without_dpbo(folder, columns, *models):
    """What each saved model, a folder and verbs, answers in a bare interpreter with the code that MLflow
    carries: classes, and what the verbs give.
    """
    _, loader = write_served_code(folder)
    words = [sys.executable, "-I", "-S", "-c", BARE, loader, folder, Path(np.__file__).parents[1]]
    asked = json.dumps([{name: column.tolist() for name, column in columns.items()}, models])
    said = subprocess.run(words, input=asked, capture_output=True, text=True, check=True).stdout
    return map(json.loads, said.splitlines())


def repaired(folder, **changes):
    """The columns of a study's records, its final model, and the repaired one, which flags what was counted."""
    folder.mkdir()
    columns, tables = files(folder), of_files(**changes)
    tables["evaluation"] = {"epsilon": 1.0, "repair": True, "threshold": "cost=8:1"}
    spec, ledger = noiseless(tables, folder)
    spent = len(ledger.accounts(spec.privacy.dataset)[0].entries)
    found = evaluate_study(spec, ledger=ledger, folder=folder, source=NOISELESS)
    again = evaluate_study(spec, ledger=ledger, folder=folder)
    assert again.replayed
    assert again.repair.to_json() == found.repair.to_json()
    assert len(ledger.accounts(spec.privacy.dataset)[0].entries) == spent + 1
    own, mended = final_model(spec, ledger, folder), found.repaired_model
    flagged = mended.predict(columns) == mended.classes[1]
    row = found.repair.after["confusion"]
    assert flagged.sum() == pytest.approx(row["true_positives"] + row["false_positives"])
    assert flagged.sum() > (own.predict(columns) == own.classes[1]).sum()
    return columns, own, mended


def test_a_repaired_model_loads_without_dpbo_and_flags_what_the_report_counted(tmp_path):
    columns, _, hinge = repaired(tmp_path / "hinge", model={"estimator": "hinge"})
    _, own, forest = repaired(tmp_path / "forest", model=FOREST, space=DEPTHS)
    folders = [str(one.save(tmp_path / name / "mended")) for one, name in ((hinge, "hinge"), (forest, "forest"))]
    answers = without_dpbo(tmp_path, columns, (folders[0], ()), (folders[1], ("predict_proba",)))
    ((of_hinge,), (of_forest, probabilities)) = answers
    loaded = [FinalModel.load(folder) for folder in folders]
    for mended, again, classes in zip((hinge, forest), loaded, (of_hinge, of_forest), strict=True):
        assert np.array_equal(again.predict(columns), mended.predict(columns))
        assert classes == mended.predict(columns).tolist()
    old, new = (one.predict_proba(columns)[:, 1] for one in (own, loaded[1]))
    assert np.array_equal(np.argsort(old, kind="stable"), np.argsort(new, kind="stable"))
    assert np.array(probabilities) == pytest.approx(loaded[1].predict_proba(columns))
