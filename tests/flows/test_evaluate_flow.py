"""`dpbo evaluate`, its flow and its card: one spend, one report, shown whole, and nothing of a record anywhere."""

import json
import re
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
import tomli_w
from canary import forms_of_number, forms_of_text, search
from prefect import flow
from test_evaluation import files, in_a_cell, in_an_interval, of_files
from test_flow import flow_runs, logs, task_runs, terminal  # noqa: F401  fixtures

from dpbo.flows.evaluate import evaluate_privately
from dpbo.flows.stores import Stores
from dpbo.flows.terminal import SCREEN_WIDTH
from dpbo.flows.tune import tune_privately
from dpbo.tasks.reporting.evaluation_picture import draw_evaluation
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.mechanisms.noise import OperatingSystemNoise
from dpbo_core.study import StudySpec
from dpbo_core.study.tuning import run_study

pytestmark = pytest.mark.usefixtures("prefect_server")
FIGURES = {"auc", "recall", "specificity", "precision", "f1", "average_precision", "lift", "calibration_error"}


@pytest.fixture
def asked(here):
    """A study on files, with groups and costs, of 600 records; what it is, as tables."""
    files(here, m=600)
    tables = of_files(m=600)
    tables["evaluation"] |= {
        "group": "sex",
        "groups": ["f", "m"],
        "false_positive_cost": 1.0,
        "false_negative_cost": 5.0,
    }

    def spec(**changes):
        for where, value in changes.items():
            tables[where] = value
        (here / "study.toml").write_text(tomli_w.dumps(tables))
        return StudySpec.from_dict(tables)

    return spec


def ledger():
    return PrivacyLedger(Stores().ledger)


def entries():
    found = ledger().accounts("clinic")
    return [(entry.study, entry.epsilon) for entry in found[0].entries] if found else []


def tuned_only(asked):
    """Tuned without its last step, in the folder's own ledger."""
    Stores().make_folder()
    spec = asked()
    run_study(spec, ledger=ledger())
    return spec


def client():
    from mlflow.tracking import MlflowClient

    return MlflowClient(tracking_uri=Stores().tracking)


def artifacts(run_id):
    return next(Path("mlruns/artifacts").glob(f"*/{run_id}/artifacts"))


def cell(told):
    """A figure as a page has it: none where the noise leaves nothing of it."""
    return "<td>–</td>" if told["noise_interval"] is None else f"<td>{in_a_cell(told['value'])}</td>"


@pytest.fixture
def run(dpbo, monkeypatch):
    """The command, on the server of these tests."""
    monkeypatch.setattr("dpbo.flows.cli.running.run_server", nullcontext)
    return dpbo


# The command, its flow and its card


TITLES = {"auc": "AUC", "recall": "recall", "f1": "F1", "calibration_error": "calibration error"}


def test_what_is_refused_for_a_public_reason_is_refused_before_prefect_starts(here, asked, dpbo, monkeypatch):
    """Each by the door that the flow has, in its words."""
    tuned_only(asked)
    before = entries()
    monkeypatch.setattr("dpbo.flows.cli.evaluate.flows_here", lambda _: pytest.fail("it was started"))
    study = here / "study.toml"

    def refused(code, words, *options):
        found, out, said = dpbo("evaluate", study, *options)
        assert (found, out) == (code, ""), said
        assert re.search(words, " ".join(said.split())), said

    refused(3, "ε = 50|asks for", "--epsilon", "50")  # over the cap
    refused(2, "below the ledger's unit", "--epsilon", "1e-14")
    training, validation = (here / f"{name}.csv" for name in ("train", "validation"))
    content = validation.read_bytes()
    validation.write_bytes(content + content.splitlines(keepends=True)[-1])
    refused(2, "holds 601 records")
    validation.rename(here / "away.csv")
    refused(2, r"validation\.csv")
    (here / "away.csv").rename(validation)
    validation.write_bytes(content)
    ledger().set_budget(PrivacyBudget.of("other", epsilon=1.0, delta=1e-5))
    copy = here / "copy.csv"  # a file of its own, which another dataset is scored on
    copy.write_bytes(training.read_bytes())
    assert dpbo("budget", "allow", "other", copy)[0] == 0
    asked(data=of_files(m=600)["data"] | {"training": "copy.csv"})
    refused(3, "would be read as public")
    assert dpbo("budget", "allow", "other", validation)[0] == 3  # it is clinic's
    asked(data=of_files(m=600)["data"], study=of_files()["study"] | {"name": "never"})
    refused(2, "has released nothing yet")
    assert entries() == before


def test_the_command_makes_two_tasks_one_spend_and_a_card_that_shows_all_of_it(here, asked, run, monkeypatch):
    spec = tuned_only(asked)
    code, out, err = run("evaluate", "study.toml")
    stages = [line.partition(": ")[2].split(" ")[0] for line in err.splitlines()]
    assert (code, stages) == (0, ["starting", "preparing", "counting", "the"])
    assert max(map(len, out.splitlines())) <= SCREEN_WIDTH
    of_flow = flow_runs("evaluate privately")[0]
    assert re.fullmatch(r"clinic · 1 · evaluation: AUC -?[\d.]+( \([\d.–-]+\))?, ε 1 \(18 left\)", of_flow.name)
    names = sorted(task.name.rsplit("-", 1)[0] for task in task_runs(of_flow))
    assert names == ["evaluate", "prepare evaluation", "show the release"]
    assert of_flow.state.is_completed()
    assert entries() == [("clinic", 1.0), ("clinic/evaluation", 1.0)]
    screen = " ".join(out.split())
    code, told, err = run("evaluate", "study.toml", "--json")
    assert (code, err) == (0, "")
    document = json.loads(told)
    value = document["value"]
    assert {"roc", "calibration", "confusion", "groups"} < set(value)
    assert set(value["roc"][0]) == {"fpr", "tpr", "threshold"}
    assert set(value["groups"]) == {"f", "m", "other"}
    assert document["replayed"] is True
    assert document["best_threshold"]["false_positive_cost"] == 1.0
    is_printed(value, screen)
    code, out, err = run("evaluate", "study.toml")
    assert re.search(r"released on \d{4}-\d\d-\d\d; nothing was drawn or spent this time", " ".join(out.split()))
    code, out, err = run("evaluate", "study.toml", "--plain")
    assert (code, "AUC: value" in out, "recall " in out.partition("ROC: ")[2]) == (0, True, True)
    again = evaluate_privately(spec)
    assert (again.result.replayed, again.warnings) == (True, ())
    release, tracked = again.result.release, again.tracked
    assert document["release_id"] == release.release_id
    assert document["tracking"] == {"experiment": "clinic", "run_id": tracked.run_id}
    is_on_its_card(release, tracked)
    a_repair_costs_nothing_and_stands_beside_the_original(run, tracked, monkeypatch)
    assert len(entries()) == 2


def is_printed(value, words):
    for name, title in TITLES.items():
        figure = value["metrics"][name]
        assert set(figure) == {"value", "noise_interval", "sampling_interval"}
        intervals = [in_an_interval(figure[f"{kind}_interval"]) for kind in ("noise", "sampling")]
        assert f"{title} {in_a_cell(figure['value'])} {intervals[0]} {intervals[1]}" in words
    assert "ε = 1, differentially private" in words
    assert "clinic: ε 2 of 20 spent, 18 left" in words
    assert "at costs 1 (false positive) and 5 (missed)" in words


def is_on_its_card(release, tracked):
    shown = client().get_run(tracked.run_id)
    assert (shown.info.status, shown.info.run_name) == ("FINISHED", "1 · clinic/evaluation")
    logged = shown.data.metrics
    for name, told in release.value["metrics"].items():
        assert logged[f"evaluation/{name}"] == told["value"]
    assert shown.data.params["epsilon"] == "1"
    assert {name for name in logged if not name.startswith("evaluation/")} == {"budget/spent", "budget/left"}
    folder = artifacts(tracked.run_id)
    assert json.loads((folder / "release.json").read_text()) == release.to_json()
    assert sorted(path.name for path in (folder / "plots").iterdir()) == ["budget.png", "evaluation.png"]
    page = (folder / "release.html").read_text().partition("<details>")[0]
    for told in release.value["metrics"].values():
        assert cell(told) in page
        assert in_an_interval(told["noise_interval"]) in page
        assert in_an_interval(told["sampling_interval"]) in page
    for name, told in release.value["groups"].items():
        assert f"<td>{name}</td><td>recall</td>{cell(told['recall'])}{cell(told['gaps']['recall'])}" in page
    for row in release.value["confusion"]:
        assert f"<td>{in_a_cell(row['recall']['value'])}</td>" in page
    for row in release.value["calibration"]:
        assert f"<td>{in_a_cell(row['predicted'])}</td>{cell(row['observed'])}" in page
    assert release.guarantee.in_words() in page


def a_repair_costs_nothing_and_stands_beside_the_original(run, tracked, monkeypatch):
    import mlflow
    import pandas as pd

    code, told, err = run("evaluate", "study.toml", "--repair", "--threshold", "cost=9:1", "--json")
    assert (code, "dpbo:" in err) == (0, False)
    document = json.loads(told)
    repair = document["repair"]
    assert repair["price"].startswith("no further price")
    assert {"mean_log_loss", "calibration_error"} <= set(repair["before"]["metrics"])
    assert set(repair["before"]["metrics"]) == set(repair["after"]["metrics"])
    code, out, err = run("evaluate", "study.toml", "--repair", "--threshold", "cost=9:1")
    assert (code, "dpbo:" in err) == (0, False)
    assert max(map(len, out.splitlines())) <= SCREEN_WIDTH
    assert "no further price" in " ".join(out.split())
    version = client().get_model_version_by_alias("clinic", "repaired")
    assert (version.run_id, int(version.version)) == (tracked.run_id, 1)
    assert document["tracking"]["run_id"] == tracked.run_id
    files = {file.path for file in client().list_artifacts(version.run_id)}
    assert {"repair.json", "repaired"} <= files
    page = (artifacts(version.run_id) / "release.html").read_text()
    assert "has no further price: it follows from what is shown here and from public records" in page
    monkeypatch.setenv("MLFLOW_TRACKING_URI", Stores().tracking)
    with monkeypatch.context() as alone:
        for name in ("dpbo", "dpbo_core"):  # MLflow's own loading, where neither can be imported
            alone.setitem(sys.modules, name, None)
        model = mlflow.pyfunc.load_model(f"models:/{version.name}@repaired")
        columns = model.metadata.get_input_schema().input_names()
        assert set(model.predict(pd.DataFrame([[0.5] * len(columns)] * 4, columns=columns))) <= {0, 1}


UNPAID = (
    ("--epsilon 30", 3, "limit is"),
    ("--epsilon -1", 2, "no privacy level"),
    ("--model nowhere", 2, "no final model can be read"),
)


def test_a_plan_and_a_refusal_with_its_exit_code_charge_nothing(here, asked, run):
    """Of a study that is not tuned, with a ledger or without; then of one that is."""
    asked()
    code, out, err = run("evaluate", "study.toml")
    assert (code, out, "has released no model yet" in err) == (2, "", True)
    assert not Path("mlruns").exists()
    Stores().make_folder()
    ledger().set_budget(PrivacyBudget.of("clinic", epsilon=20.0, delta=0.0))
    code, out, err = run("evaluate", "study.toml")
    assert (code, out, "released nothing yet" in err) == (2, "", True)
    tuned_only(asked)
    for words, code, said in UNPAID:
        found, out, err = run("evaluate", "study.toml", *words.split())
        assert (found, out, said in err) == (code, "", True), words
    code, out, err = run("evaluate", "study.toml", "--plan", "--epsilon", "0.5")
    assert (code, err, "Nothing was charged" in out) == (0, "", True)
    told = json.loads(run("evaluate", "study.toml", "--plan", "--json")[1])
    assert told["verdict"] in ("good", "poor")
    assert told["spends"][0]["noise_scale"] == pytest.approx(2.0)
    assert told["guarantee"]["epsilon"] == 1.0
    assert entries() == [("clinic", 1.0)]


# As the last step of a tune


def planted(here, asked):
    """The study with values in its validation file, which lies elsewhere, that occur nowhere else; their forms."""
    number, label, group = 73914.28571428571, "Kanarienvogel", "Zaunkoenig-7"
    spec = asked(evaluation=of_files()["evaluation"] | {
        "group": "sex", "groups": ["<b>f</b>", "$x$ & {m}"], "false_positive_cost": 1.0, "false_negative_cost": 5.0,
    })  # fmt: skip
    path = here / "validation.csv"
    lines = path.read_text().splitlines()
    lines[3:6] = [f"0,{group},{number},1.0,1", f"1,{label},0.5,{number},0", f"2,f,1.0,1.0,{label}"]
    data = here.parent / f"{here.name}-data"
    data.mkdir()
    (data / "validation.csv").write_text("\n".join(lines) + "\n")
    path.unlink()
    spec = asked(data=spec.to_dict()["data"] | {"validation": str(data / "validation.csv")})
    secrets = {"number": forms_of_number(number), "label": forms_of_text(label), "group": forms_of_text(group)}
    return spec, secrets


def test_a_tune_with_the_section_makes_both_and_writes_nothing_of_a_record(here, asked, capfd, monkeypatch):
    """What could not be shown is shown by the next run, and a page escapes what people chose."""
    spec, secrets = planted(here, asked)
    with monkeypatch.context() as broken:
        broken.setattr("dpbo.tasks.reporting.evaluation_picture.draw_evaluation", lambda *_: 1 / 0)
        tuned = tune_privately(spec)
    assert any("without the picture evaluation" in line for line in tuned.warnings)
    run = flow_runs("tune privately")[0]
    tasks = task_runs(run)
    names = [task.name.rsplit("-", 1)[0] for task in tasks]
    assert {"prepare evaluation", "evaluate"} < set(names)
    assert names.count("show the release") == 2
    assert entries() == [("clinic", 1.0), ("clinic/evaluation", 1.0)]
    assert not tuned.evaluation.replayed
    assert tuned.evaluation.best_threshold["false_negative_cost"] == 5.0
    assert set(tuned.evaluation.release.value["metrics"]) >= FIGURES
    for door in ("draw", "draw_many"):
        monkeypatch.setattr(OperatingSystemNoise, door, lambda *_: pytest.fail("drawn again"))
    again = tune_privately(spec)
    assert (again.evaluation.release, again.warnings) == (tuned.evaluation.release, ())
    assert (again.evaluation.replayed, again.shown.run_id) == (True, tuned.shown.run_id)
    assert len(entries()) == 2
    assert client().get_run(again.shown.run_id).info.status == "FINISHED"
    shown = artifacts(again.shown.run_id)
    assert (shown / "plots" / "evaluation.png").exists()
    draw_evaluation(again.evaluation.release).canvas.draw()  # for real, with these names in it
    page = (shown / "release.html").read_text()
    assert ("<b>f</b>" in page, "&lt;b&gt;f&lt;/b&gt;" in page) == (False, True)
    kept = "\n".join([item.model_dump_json() for item in (run, *tasks)] + logs(run))
    texts = {"Prefect": kept.encode(), "screen": "".join(capfd.readouterr()).encode()}
    found = search(here, secrets | {"seen": forms_of_text("clinic/evaluation")}, texts)
    assert {which for _, which in found} == {"seen"}
    experiments = [one.experiment_id for one in client().search_experiments()]
    (series,) = client().search_runs(experiments, "tags.`dpbo.kind` = 'study'")
    assert "\n\nEvery edition of the study clinic is a run below" in series.data.tags["mlflow.note.content"]


def test_what_was_released_comes_before_a_refusal_of_its_evaluation(here, asked, monkeypatch):
    monkeypatch.setattr("dpbo.flows.tune.publish_release", lambda *_: None)
    asked(evaluation={"prevalence": 0.1}, budget={"epsilon": 1.5})
    Stores().make_folder()
    first = run_study(asked(), ledger=ledger())  # a section without a price is no step
    assert entries() == [("clinic", 1.0)]
    again = tune_privately(asked(evaluation={"epsilon": 1.0}))
    assert (again.result.replayed, again.result.release, again.evaluation) == (True, first.release, None)
    (line,) = again.warnings
    assert line.startswith("the release stands, and was not evaluated: ")
    assert entries() == [("clinic", 1.0)]


# Several classes, and numbers


@pytest.mark.parametrize("kind", ["classes", pytest.param("errors", marks=pytest.mark.slow)])
def test_it_serves_as_a_subflow_takes_a_form_and_the_card_of_another_kind_shows_its_figures(here, kind):
    from test_evaluation_kinds import study_of

    _, tables = study_of(kind, here)
    Stores().make_folder()
    run_study(StudySpec.from_dict(tables), ledger=ledger())

    @flow(name="team report")
    def pipeline():
        return evaluate_privately(tables, epsilon=0.5)

    evaluated = pipeline()
    assert evaluated.result.release.guarantee.epsilon == 0.5
    assert evaluated.warnings == ()
    logged = client().get_run(evaluated.tracked.run_id).data.metrics
    for name, told in evaluated.result.release.value["metrics"].items():
        assert logged[f"evaluation/{name}"] == told["value"]
    folder = artifacts(evaluated.tracked.run_id)
    assert sorted(path.name for path in (folder / "plots").iterdir()) == ["budget.png", "evaluation.png"]
