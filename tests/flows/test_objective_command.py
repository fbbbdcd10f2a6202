"""`dpbo objective` and its flow: scores one at a time from a study file, across processes, a task each."""

import json
import os
import pickle
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest
import skops.io
import tomli_w
from conftest import new_database
from mlflow.tracking import MlflowClient
from sklearn.tree import DecisionTreeClassifier
from test_evaluate_flow import run  # noqa: F401  a fixture
from test_evaluation import files, of_files
from test_flow import flow_runs, task_runs, terminal  # noqa: F401  fixtures
from test_one_query import dead_after

from dpbo.flows.cli import objective as door
from dpbo.flows.objective import close_privately, score_privately
from dpbo.flows.stores import Stores
from dpbo.tasks.reporting.release_picture import draw
from dpbo_core import FinalModel, PrivateObjective, run_study
from dpbo_core.errors import NoScoresLeft, PolicyRefused, StudyInvalid
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.sources import PUBLIC, file_source
from dpbo_core.study_file import StudySpec

pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.fixture
def spec(here):
    files(here)
    tables = of_files(budget={"epsilon": 100.0, "delta": 1e-5}, objective={"scores": 3})
    tables["privacy"] |= {"epsilon": 2.0, "delta": 1e-6}
    tables["model"] = {"estimator": "sklearn.tree.DecisionTreeClassifier", "score": "accuracy"}
    tables["space"] = {"max_depth": {"low": 1, "high": 8, "integer": True}}
    del tables["evaluation"]
    (here / "study.toml").write_text(tomli_w.dumps(tables))
    Stores().make_folder()
    return StudySpec.from_dict(tables)


def account():
    (only,) = PrivacyLedger(Stores().ledger).accounts("clinic")
    return only


def entries():
    return [(entry.study, entry.method) for entry in account().entries]


def ask(run, depth):  # noqa: F811
    code, out, err = run("objective", "study.toml", "--params", json.dumps({"max_depth": depth}), "--json")
    assert (code, "dpbo:" in err) == (0, False)
    return json.loads(out)


def test_the_command_asks_one_score_and_goes_on_where_another_process_stopped(here, spec, run):  # noqa: F811
    """Until all are asked for, whoever asked for them; one more is refused with the budget's exit code."""
    first = ask(run, 2)
    assert set(first) == {
        "hyperparameters", "replayed", "score", "noise", "interval", "scores_left", "guarantee"
    }  # fmt: skip
    assert (first["scores_left"], first["guarantee"]["epsilon"]) == (2, 2.0)
    assert ask(run, 2) == first | {"replayed": True}
    elsewhere = PrivateObjective.from_study(here / "study.toml")
    assert elsewhere({"max_depth": 2}) == first["score"]
    elsewhere({"max_depth": 4})
    code, out, err = run("objective", "study.toml", "--json")
    told = json.loads(out)
    assert (code, "dpbo:" in err, told["scores_left"]) == (0, False, 1)
    assert [step["hyperparameters"] for step in told["trajectory"]] == [{"max_depth": 2}, {"max_depth": 4}]
    code, out, err = run("objective", "study.toml", "best")
    assert (code, "dpbo:" in err, "max_depth" in out) == (0, False, True)
    ask(run, 1)
    code, _, err = run("objective", "study.toml", "--params", '{"max_depth": 3}')
    assert (code, "all 3 scores" in err) == (3, True)
    assert entries() == [("clinic/objective", "objective")]


UNPICKLED = """
import pickle, sys
handle = pickle.load(sys.stdin.buffer)
print([handle({"max_depth": depth}) for depth in (2, 3, 3)])
"""


def test_two_machines_and_a_process_with_a_handle_ask_each_question_once(postgresql, here, spec, run, monkeypatch):  # noqa: F811
    """Two homes and folders, whose copies the owner allowed; the database and the ledger's key in common.

    A handle holds a path, and is sent to a process. Sixteen that ask at once are test_private_objective's.
    """
    url = new_database(postgresql)
    monkeypatch.setenv("DPBO_LEDGER_URL", url)
    for name in ("here", "there"):
        Path(name, "home").mkdir(parents=True)
        for file in ("study.toml", "train.csv", "validation.csv"):
            shutil.copy(file, name)

    def at(name, *words):
        with monkeypatch.context() as machine:
            machine.chdir(here / name)
            machine.setenv("XDG_STATE_HOME", str(here / name / "home"))
            return submitted(run, *words)

    first = at("here", "--params", json.dumps({"max_depth": 2}))
    ledger = PrivacyLedger(url)
    ledger.allow("clinic", file_source("there/validation.csv"))
    stored = pickle.dumps(PrivateObjective.from_study(here / "there" / "study.toml"))
    assert len(stored) < 1000
    around = os.environ | {"XDG_STATE_HOME": str(here / "there" / "home")}
    done = subprocess.run(
        [sys.executable, "-c", UNPICKLED], input=stored, env=around, capture_output=True, check=True
    )
    again, *twice = json.loads(done.stdout)
    assert (again, twice[0]) == (first["score"], twice[1])
    assert at("here", "--params", json.dumps({"max_depth": 3}))["score"] == twice[0]
    seen = at("there")
    drawn = {step["hyperparameters"]["max_depth"]: step["score"] for step in seen["trajectory"]}
    assert (drawn, seen["scores_left"]) == ({2: first["score"], 3: twice[0]}, 1)
    (only,) = ledger.accounts("clinic")
    assert [entry.study for entry in only.entries] == ["clinic/objective"]


def test_a_pickled_handle_holds_no_password_of_the_ledger(monkeypatch):
    monkeypatch.setenv("DPBO_LEDGER_URL", "postgresql://ann:hunter2@db.example/dpbo")
    assert b"hunter2" not in pickle.dumps(PrivateObjective.from_study("study.toml"))


def test_a_flow_has_a_task_for_each_score_and_shows_the_release(here, spec):
    scored = score_privately(spec, [{"max_depth": 1}, {"max_depth": 2}])
    assert (len(scored.scores), scored.scores_left) == (2, 1)
    assert [one.name.partition("-")[0] for one in task_runs(*flow_runs("score privately"))].count("score") == 2
    closed = close_privately(spec)
    assert closed.tracked is not None
    client = MlflowClient(Stores().tracking)
    series = client.get_metric_history(closed.tracked.run_id, "trajectory/score")
    points = [point.value for point in sorted(series, key=lambda point: point.step)]
    assert points == pytest.approx([one.value for one in scored.scores], abs=1e-4)
    (left, _) = draw(closed.release).axes  # the picture beside it has the bars
    bars = [segment[:, 1].tolist() for segment in left.collections[0].get_segments()]
    assert bars == [pytest.approx([one.value - one.noise, one.value + one.noise]) for one in scored.scores]
    assert "plots/trajectory.png" in {item.path for item in client.list_artifacts(closed.tracked.run_id, "plots")}
    assert closed.warnings == ()
    assert [step["score"] for step in closed.release.value["trajectory"]] == [one.value for one in scored.scores]
    assert close_privately(spec).release == closed.release
    with pytest.raises(NoScoresLeft):
        score_privately(spec, [{"max_depth": 5}])


def test_a_section_that_cannot_be_is_refused():
    for table in ({"scores": 0}, {"scores": 2, "choice_share": 1.0}, {}, {"scores": 2, "steps": 3}):
        with pytest.raises(StudyInvalid):
            StudySpec.from_dict(of_files(objective=table))
    spec = StudySpec.from_dict(of_files(objective={"scores": 7, "choice_share": 0.2}))
    assert StudySpec.from_dict(spec.to_dict()) == spec
    assert spec.tuned.objective is None


def submitted(run, *words):  # noqa: F811
    code, out, err = run("objective", "study.toml", *words, "--json")
    assert (code, "dpbo:" in err) == (0, False)
    return json.loads(out)


@pytest.fixture
def accepting(here, spec):
    """The study, which takes what was made elsewhere; a fitted model's file and a file of predictions beside it."""
    text = Path("study.toml").read_text()
    line = 'accepts = ["public_models", "rowwise_predictions"]'
    Path("study.toml").write_text(text.replace("[study]", f"[study]\n{line}", 1))
    train, validation = (pd.read_csv(f"{name}.csv") for name in ("train", "validation"))
    tree = DecisionTreeClassifier(max_depth=2, random_state=0).fit(train[["a", "b"]], train["ill"])
    skops.io.dump(tree, "tree.skops")
    pd.DataFrame({"prediction": tree.predict(validation[["a", "b"]])}).to_csv("team.csv", index=False)
    return spec


def test_a_model_of_a_file_and_predictions_of_a_file_are_scored_once(here, accepting, run):  # noqa: F811
    first = submitted(run, "--model", "tree.skops")
    assert [*first["hyperparameters"]] == ["submitted model"]
    assert first["guarantee"]["assumptions"] == ["public_questions", "public_models", "rowwise_predictions"]
    assert submitted(run, "--model", "tree.skops") == first | {"replayed": True}
    second = submitted(run, "--predictions", "team.csv")
    assert second["hyperparameters"] == {"submitted predictions": "team.csv"}
    Path("team.csv").write_text("prediction\n" + "0\n" * 300)
    assert submitted(run, "--predictions", "team.csv") == second | {"replayed": True}
    assert second["scores_left"] == 1
    assert entries() == [("clinic/objective", "objective")]
    with pytest.raises(PolicyRefused):  # such a file is sensitive from then on
        PrivacyLedger(Stores().ledger).check_public(file_source("team.csv", PUBLIC))


def test_a_saved_model_that_ignores_what_the_study_has_is_asked_about_its_own_columns(here, accepting, run):  # noqa: F811
    tables = accepting.to_dict()
    own = StudySpec.from_dict(tables | {"data": tables["data"] | {"ignore": ["who", "sex", "b"]}})
    release = run_study(own, ledger=PrivacyLedger("sqlite:///vendor.db"), folder=here).release
    model, rows = FinalModel.of_release(own, here, release), pd.read_csv("validation.csv")
    model.save(here / "vendor.model")
    found = submitted(run, "--model", "vendor.model")
    assert found["score"] == pytest.approx((model.predict(rows) == rows["ill"]).mean(), abs=5 * found["noise"])


def test_killed_between_its_writes_a_submission_has_one_score(here, accepting, run, monkeypatch):  # noqa: F811
    """After the first score, the file's name and the second score; after every write is test_one_query's."""
    text = Path("study.toml").read_text()
    for writes in (2, 3, 4):
        shutil.copy("team.csv", f"{writes}.csv")
        asked = (("--model", "tree.skops"), ("--predictions", f"{writes}.csv"), ("--model", "tree.skops"))
        Path("study.toml").write_text(text.replace("scores = 3", f'scores = 3\nedition = "k{writes}"'))
        with dead_after(writes, monkeypatch), suppress(BaseException):
            for words in asked:
                run("objective", "study.toml", *words)
        before = door._session(Path("study.toml")).trajectory
        scores = [submitted(run, *words) for words in asked]
        session = door._session(Path("study.toml"))
        assert session.trajectory[: len(before)] == before
        assert [step["score"] for step in session.trajectory] == [one["score"] for one in scores[:2]]
        assert scores[2] == scores[0] | {"replayed": True, "scores_left": scores[1]["scores_left"]}
        assert session.close() == door._session(Path("study.toml")).close()
    assert len(entries()) == len({entry.edition for entry in account().entries}) == 3


def test_predictions_of_the_parts_of_a_folder_are_refused_before_the_charge(here, accepting, run):  # noqa: F811
    Path("parts").mkdir()
    pd.read_csv("validation.csv").to_parquet("parts/1.parquet")
    Path("study.toml").write_text(Path("study.toml").read_text().replace("validation.csv", "parts"))
    code, _, err = run("objective", "study.toml", "--predictions", "team.csv")
    assert (code, PrivacyLedger(Stores().ledger).accounts("clinic")) == (2, ())
    assert "hand in the model" in " ".join(err.split())
    exact = run("objective", "study.toml", "--model", "tree.skops")
    assert exact[0] == 0


UNASKED = (
    ("--params {", "no JSON"), ('--params {"depth":1}', "no axis 'depth'"),
    ('--params {"max_depth":99}', "not in [space]"), ("--params {}", "max_depth is missing"),
    ("best", "no score was asked for"),
    ("--predictions short.csv", "2"), ("--predictions other.csv", "prediction"),
    ("--predictions absent.csv", "absent.csv"), ("--model absent.skops", "absent.skops"),
    ("--model foreign.skops", "not loaded"), ("--model tree.skops --params {}", "several things"),
)  # fmt: skip


def test_what_cannot_be_asked_is_a_message_and_costs_nothing(here, accepting, run):  # noqa: F811
    Path("short.csv").write_text("prediction\n1\n0\n")
    Path("other.csv").write_text("guess\n" + "1\n" * 300)
    skops.io.dump(StandsStill(), "foreign.skops")
    for words, message in UNASKED:
        code, _, err = run("objective", "study.toml", *words.split())
        assert (code, message in err) == (2, True), words
    Path("study.toml").write_text(Path("study.toml").read_text().partition("[objective]")[0])
    code, _, err = run("objective", "study.toml")
    assert (code, "scores = 20" in err) == (2, True)
    assert PrivacyLedger(Stores().ledger).accounts("clinic") == ()


class StandsStill:
    """A model of nobody's, which skops does not trust."""

    def predict(self, rows):
        return rows
