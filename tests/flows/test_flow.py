"""The Prefect shell: what runs, what it leaves behind, and what it never writes."""

import ast
import fcntl
import importlib
import json
import os
import re
import time
from base64 import b64encode
from contextlib import nullcontext
from itertools import zip_longest
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pytest
import tomli_w
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from mlflow.tracking import MlflowClient
from prefect import Task, flow, settings
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas import filters
from prefect.client.schemas.sorting import FlowRunSort
from prefect.context import FlowRunContext
from prefect.logging.handlers import APILogHandler
from prefect.settings import temporary_settings
from prefect.states import Running
from worlds import mostly_slow, with_method

from dpbo.flows.evaluate import evaluate_privately
from dpbo.flows.owner import owners_terminal
from dpbo.flows.prefect_runtime.liveness import crash_dead_runs, is_alive
from dpbo.flows.prefect_runtime.settings import check_prefect_settings
from dpbo.flows.run_end import one_line, outcome_of
from dpbo.flows.serve import tune_on_schedule
from dpbo.flows.stores import Stores
from dpbo.flows.tune import tune_file, tune_privately
from dpbo.tasks import policies, tuning
from dpbo.tasks.reporting.receipt import new_key
from dpbo_core.errors import BudgetExceeded, Sealed, StudyInvalid
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.methods import METHODS
from dpbo_core.models.linear.fit import LinearTrainer
from dpbo_core.models.scoring.in_memory import Objective
from dpbo_core.study import StudySpec
from dpbo_core.study.query import QueryContext
from dpbo_core.study.resolve import resolve
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import open_study

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("prefect_server")
TASK_FILES = sorted(path for path in (ROOT / "tasks").glob("*.py") if path.stem not in ("__init__", "policies"))


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    """The owner's own process, as `dpbo tune` is: the studies here open their caps. A busy server is waited for."""
    monkeypatch.setattr("dpbo.flows.run_end.RECORD_TIMEOUT_S", 600.0)
    with owners_terminal():
        yield


def flow_runs(name):
    """The runs of the flow of this name, the latest first: the server has more than one file's."""
    of_name = filters.FlowFilter(name={"any_": [name]})
    with get_client(sync_client=True) as client:
        return client.read_flow_runs(flow_filter=of_name, sort=FlowRunSort.START_TIME_DESC)


def task_runs(*runs):
    """Those of these runs, each with its state: the server writes both down some time after it was told of them."""
    chosen = filters.FlowRunFilter(id={"any_": [run.id for run in runs]})
    with get_client(sync_client=True) as client:
        while True:
            found = client.read_task_runs(flow_run_filter=chosen)
            if all(run.state is not None for run in found):
                return found
            time.sleep(0.1)


def logs(*runs):
    """What the server keeps of what these runs said, all of it sent."""
    APILogHandler().flush()  # it is sent from time to time
    chosen = filters.LogFilter(flow_run_id={"any_": [run.id for run in runs]})
    with get_client(sync_client=True) as client:
        return [log.message for log in client.read_logs(chosen)]


def stem(name):
    """A task's name without what Prefect, or its step's number and point, makes of it."""
    return re.sub(r"^step \d+ of \d+( · .*)?$", "search step", re.sub(r"-[0-9a-f]{3}$", "", name))


ALWAYS = ("reserve the budget", "draw the release", "show the release")
POINTS = {"private_grid": 10, "noisy_gp": 4}  # candidates, of the others 16
PUBLIC_WORK = {  # tasks before anything is charged; of the others the training of all, or the trial of one
    "public": ["cross-validate candidates"] * 16 + ["search on public data", "try out trainings"]
}


def trainings_by_task(runs, times):
    """How many trainings each task of a run made, in their order, by the times that Prefect's database has."""
    spans = sorted((task.start_time.timestamp(), task.end_time.timestamp(), task.name) for task in runs)
    made = [(stem(name), sum(begun <= time <= end for time in times)) for begun, end, name in spans]
    assert sum(count for _, count in made) == len(times)  # none outside a task
    return made


def timed(work, times):
    """`work`, which notes when it is called."""

    def noted(*arguments, **named):
        times.append(time.time())
        return work(*arguments, **named)

    return noted


def first_visits(release, tried):
    """1 for each step of a trajectory whose candidate no step before had, nor was `tried` out, else 0."""
    asked = [tried, *(seen["hyperparameters"] for seen in release.value.get("trajectory", []))]
    return [int(point not in asked[:step]) for step, point in enumerate(asked)][1:]


def neither_prefect_nor_mlflow_holds(key, here, databases):
    """The key that signs what is in MLflow: its text, its bytes, or these in another writing."""
    private, _, name = key
    secret = load_pem_private_key(private.read_bytes(), None).private_bytes_raw()
    forms = (private.read_bytes().splitlines()[1], secret, b64encode(secret), secret.hex().encode())
    of_prefect = Path(databases.database.partition("///")[2]).parent
    files = [path for folder in (here, of_prefect) for path in folder.rglob("*") if path.is_file()]
    stored = {path: path.read_bytes() for path in files if path != here / private}
    assert any(b"tune privately" in stored[path] for path in stored if path.is_relative_to(of_prefect))
    assert any(name.encode() in stored[path] for path in stored if path.name == "release.intoto.json")
    assert [str(path) for path, content in stored.items() if any(form in content for form in forms)] == []


@pytest.mark.parametrize("kind", mostly_slow(METHODS, "private_grid", "private_trajectory"))
def test_each_step_is_a_task_and_mlflow_shows_the_release(here, tables, kind, monkeypatch, databases):
    """And neither it nor Prefect ever holds the key that signs what is released."""
    trained, cross_validated = [], []
    for name, times in (("retrain", trained), ("_without", cross_validated)):
        monkeypatch.setattr(LinearTrainer, name, timed(getattr(LinearTrainer, name), times))
    tables["space"]["lambda"]["points"] = n = POINTS.get(kind, 16)
    key = new_key()
    before = {run.id for run in flow_runs("tune privately")}
    tuned = tune_privately(StudySpec.from_dict(with_method(tables, kind)))
    assert tuned.warnings == ()
    (run,) = (run for run in flow_runs("tune privately") if run.id not in before)
    (account,) = PrivacyLedger(Stores().ledger).accounts("people")
    assert run.name == f"trial · 1: {outcome_of(account, tuned.result.release)}"
    assert set(run.tags) == {"dataset: people", f"method: {kind}", f"folder: {here.name}"}
    assert run.state.message == one_line(tuned.result)
    assert re.fullmatch(
        r"(\w+ -?[\d.e+-]+( \(-?[\d.]+–[\d.]+\))?|no score), ε [\d.]+ \([\d.]+ left\)", run.name.partition(": ")[2]
    ), run.name
    assert not [line for line in logs(run) if line.startswith(("Finished in state", "Created", "Beginning task"))]
    names = sorted(stem(task.name) for task in task_runs(run))
    study = resolve(StudySpec.from_dict(with_method(tables, kind)))
    steps, public_path = study.method.n_steps(study.problem), study.method.public_path
    value = tuned.result.release.value
    final = ["train the final model"] if "hyperparameters" in value and "model" not in value else []
    trained_first = ["try out trainings"] if public_path else ["train candidates"] * n
    public_work = PUBLIC_WORK.get(kind, trained_first)
    assert names == sorted([*public_work, *ALWAYS, *final, *["search step"] * steps])
    assert all(task.state.is_completed() for task in task_runs(run))
    made = trainings_by_task(task_runs(run), trained)
    training_free = ("reserve the budget", "draw the release", "search on public data")
    assert [count for name, count in made if name in training_free].count(0) >= 2
    in_steps = [count for name, count in made if name == "search step"]
    tried = study.problem.candidates.points[0]
    assert in_steps == {  # what was tried out is not trained again, nor is a candidate that comes again
        "lipschitz": [3, 3, 3, 3, 3],  # a chunk of 16 candidates each
        "private_trajectory": first_visits(tuned.result.release, tried),
        "private_grid": [0, *[1] * (steps - 1)],
        "public": [int(value.get("hyperparameters") != tried)],
    }.get(kind, [0] * steps)
    assert {count for name, count in made if name == "train the final model"} <= {0}
    first = [count for name, count in made if name in ("train candidates", "try out trainings")]
    assert sum(first) == len(first) == (1 if public_path else n)
    folds = dict(trainings_by_task(task_runs(run), cross_validated))
    assert {name for name, count in folds.items() if count} <= {"cross-validate candidates"}
    client = MlflowClient(tracking_uri=Stores().tracking)
    tracked = client.get_run(tuned.tracked.run_id)
    release = tuned.result.release
    shown = min(max(release.value["score"], 0.0), 1.0)  # what was drawn may lie outside
    assert tracked.data.metrics["sigmoid"] == float(f"{shown:.4g}")
    assert tracked.data.params["epsilon"] == "1"
    ours = {name.removeprefix("dpbo.") for name in tracked.data.tags if not name.startswith("mlflow.")}
    assert ours == {
        "dataset", "edition", "kind", "method", "release_id", "study", "unit", "evidence",
        "assumptions", "noise",
    }  # fmt: skip
    assert set(tracked.data.tags) - {f"dpbo.{name}" for name in ours} == {
        "mlflow.note.content", "mlflow.parentRunId", "mlflow.runName"
    }  # fmt: skip
    tasks = {task.id: task for task in task_runs(run)}
    in_order = sorted(tasks.values(), key=lambda task: task.start_time)
    stepwise = [task for task in in_order if task.name.startswith("step ")]
    points = [f" · lambda = {p['hyperparameters']['lambda']:.3g}" for p in value.get("trajectory", [])]
    numbered = [f"step {number} of {steps}" for number in range(1, steps + 1)]
    assert [task.name for task in stepwise] == [a + b for a, b in zip_longest(numbered, points, fillvalue="")]
    before_each = [stem(tasks[task.task_inputs["study"][0].id].name) for task in stepwise]
    assert before_each == ["reserve the budget", *["search step"] * (steps - 1)]  # a chain
    told = [message for message in logs(run) if " tried lambda = " in message]
    assert len(told) == (steps if study.method.shows_all else 0)  # of a private path nothing is told
    stepped = client.get_metric_history(tuned.tracked.run_id, "steps/noised")
    assert [point.value for point in stepped] == [
        float(f"{p['score']:.4g}") for p in release.value.get("trajectory", [])
    ]
    stored = json.loads(next(Path("mlruns/artifacts").rglob("release.json")).read_text())
    assert stored == release.to_json()
    assert list(Path("mlruns/artifacts").rglob("plots/*.png"))
    neither_prefect_nor_mlflow_holds(key, here, databases)
    if kind in ("private_grid", "noisy_gp"):  # asked again, each is recorded alike
        return
    again = tune_privately(StudySpec.from_dict(tables))
    assert again.result.replayed
    assert again.tracked == tuned.tracked
    assert len(client.search_runs([tracked.info.experiment_id])) == 2  # and the study's own


@pytest.fixture
def unpublished(monkeypatch):
    """What is released is shown nowhere, which takes seconds."""
    monkeypatch.setattr("dpbo.flows.tune.publish_release", lambda *_: None)


def test_a_list_that_is_public_beforehand_goes_in_thirty_two_tasks(here, tables, monkeypatch):
    """Of 70 candidates, and a task says which; a trajectory of 40 steps has a task for each."""
    tables["space"]["lambda"]["points"], tables["search"]["steps"] = 70, 40
    Stores().make_folder()
    context = QueryContext(PrivacyLedger(Stores().ledger))
    of_list, of_steps = (
        open_study(Run.of(StudySpec.from_dict(with_method(tables, kind)), context)).tasks
        for kind in ("private_grid", "private_trajectory")
    )
    assert [len(task) for task in of_list] == [3] * 6 + [2] * 26
    assert [step for task in of_list for step in task] == list(range(70))
    assert of_steps == tuple((step,) for step in range(40))
    running = SimpleNamespace(task_run=SimpleNamespace(name="search step"))
    monkeypatch.setattr("dpbo.tasks.prefect_classes.TaskRunContext.get", lambda: running)
    tuning.step.fn(SimpleNamespace(step=lambda n: None, n_steps=70), of_list[1])
    assert running.task_run.name == "candidates 4–6 of 70"


def test_a_failing_step_leaves_nothing_of_its_error(here, tables, monkeypatch):
    def fails(self, model):
        raise ValueError("record 17 earns 987654321")

    monkeypatch.setattr(Objective, "evaluate", fails)
    with pytest.raises(Sealed) as sealed:
        tune_privately(StudySpec.from_dict(tables))
    assert sealed.value.__cause__ is None
    assert sealed.value.__context__ is None
    run = flow_runs("tune privately")[0]
    assert run.state.is_failed()
    states = [item.state.message for item in (run, *task_runs(run))]
    assert len(states) > 1
    assert not [text for text in [*states, *logs(run)] if text and "987654321" in text]


def test_a_refusal_runs_no_step(here, tables):
    tables["budget"]["epsilon"] = 0.5
    tables["study"]["name"] = "too dear"
    with pytest.raises(Exception, match=r"limit is ε = 0\.5") as refused:
        tune_privately(StudySpec.from_dict(tables))
    assert refused.value.exit_code == 3
    run = flow_runs("tune privately")[0]
    names = [stem(task.name) for task in task_runs(run) if "try" not in task.name]
    assert names in ([], ["reserve the budget"])


TASKS = {
    f"{path.stem}.{node.name}": node
    for path in TASK_FILES
    for node in ast.parse(path.read_text()).body
    if isinstance(node, ast.FunctionDef) and node.decorator_list
}


@pytest.mark.parametrize("name", TASKS)
def test_every_task_uses_a_policy(name):
    """A constant name, a policy and nothing beside it; the body is one call."""
    story, _, function = name.partition(".")
    decorated = TASKS[name]
    (decorator,) = decorated.decorator_list
    named = {keyword.arg: keyword.value for keyword in decorator.keywords}
    assert set(named) == {"name", None}
    assert isinstance(named["name"], ast.Constant)
    assert ast.unparse(named[None]) in ("policies.SENSITIVE_TASK_OPTIONS", "policies.PUBLISHING_TASK_OPTIONS")
    body = [node for node in decorated.body if not isinstance(node, ast.Expr)]
    assert len(body) == 1
    task = getattr(importlib.import_module(f"tasks.{story}"), function)
    assert isinstance(task, Task)
    assert task.persist_result is False
    assert task.log_prints is False
    assert task.task_run_name is None
    assert repr(task.cache_policy) == repr(NO_CACHE)
    assert task.retries == (3 if function in ("publish", "publish_looks") else 0)


def test_no_prefect_option_is_set_anywhere_else():
    options = {"persist_result", "cache_policy", "retries", "log_prints", "cache_key_fn", "result_storage"}
    for folder in ("tasks", "flows", "features"):
        for path in (ROOT / folder).rglob("*.py"):
            if path.stem == "policies":
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call):
                    assert not options & {keyword.arg for keyword in node.keywords}, path


HOSTILE = {  # a platform's defaults, that a profile may hold
    settings.PREFECT_RESULTS_PERSIST_BY_DEFAULT: True,
    settings.PREFECT_TASKS_DEFAULT_PERSIST_RESULT: True,
    settings.PREFECT_TASKS_DEFAULT_RETRIES: 2,
    settings.PREFECT_FLOWS_DEFAULT_RETRIES: 2,
    settings.PREFECT_LOGGING_LOG_PRINTS: True,
}


@pytest.mark.parametrize("fails", [False, True])
def test_a_hostile_profile_keeps_nothing_and_repeats_nothing(here, tables, monkeypatch, fails):
    """Flows and tasks are made under it anew, as a program that imports them under the profile makes them."""
    honest, asked = Objective.evaluate, []

    def evaluate(self, model):
        asked.append(model)
        print("record 17 earns 987654321")
        if fails:
            raise ValueError("record 17 earns 987654321")
        return honest(self, model)

    monkeypatch.setattr(Objective, "evaluate", evaluate)
    results = here / "results"
    with temporary_settings(HOSTILE | {settings.PREFECT_LOCAL_STORAGE_PATH: results}):
        for name in ("finish", "reserve", "step"):
            made = getattr(tuning, name)
            monkeypatch.setattr(
                f"dpbo.flows.tune.{name}",
                policies.private_task(name=made.name, **policies.SENSITIVE_TASK_OPTIONS)(made.fn),
            )
        again = policies.private_flow(name=f"hostile {fails}", **policies.FLOW_OPTIONS)(tune_privately.fn)
        with pytest.raises(Sealed) if fails else nullcontext():
            again(StudySpec.from_dict(tables))
    assert len(asked) == (1 if fails else tables["search"]["steps"] + 1)  # and the final choice
    assert not list(results.rglob("*"))
    run = flow_runs(f"hostile {fails}")[0]
    assert not [line for line in logs(run) if "987654321" in line]


def test_a_flow_of_others_that_keeps_results_is_told_the_refusal_and_nothing_else(here, tables):
    tables["privacy"]["epsilon"] = 9.0  # of a cap of 3

    @flow(name="keeps results", persist_result=True)
    def keeps():
        return tune_privately(StudySpec.from_dict(tables))

    with temporary_settings({settings.PREFECT_LOCAL_STORAGE_PATH: here / "results"}):
        with pytest.raises(BudgetExceeded):
            keeps()
        with pytest.raises(StudyInvalid):
            tune_privately(tables | {"method": 3})
    invalid, refused = flow_runs("tune privately")[:2]
    assert (refused.state.name, refused.state.type.value) == ("Refused: budget", "CANCELLED")
    assert (invalid.state.name, invalid.state.type.value) == ("Failed", "FAILED")
    assert (refused.name, invalid.name[-8:]) == ("trial · 1: refused by the budget", ": failed")
    assert "the limit is" in refused.state.message
    said = logs(invalid, refused)
    assert any("the limit is" in line for line in said)
    assert not [line for line in [*said, *logs(flow_runs("keeps results")[0])] if "serialize" in line]
    assert not [line for line in said if "Traceback" in line]


FLOWS = [
    pytest.param(node, id=node.name)
    for part in ("flows", "features")
    for path in sorted((ROOT / part).rglob("*.py"))
    for node in ast.walk(ast.parse(path.read_text()))
    if isinstance(node, ast.FunctionDef) and "private_flow(" in " ".join(map(ast.unparse, node.decorator_list))
]


@pytest.mark.parametrize("node", FLOWS)
def test_every_private_flow_ends_a_refusal_by_the_same_function(node):
    """Which gives it one state, one message and one ending of its name."""
    caught = [one for one in ast.walk(node) if isinstance(one, ast.ExceptHandler)]
    assert any(ast.unparse(one.type) == "DpboError" for one in caught)
    assert re.search(r"\b(failed_run|failure_line)\(", ast.unparse(node))


def test_a_refused_evaluation_ends_as_a_refused_tune_does(here, tables):
    tables["study"]["method"] = "private_grid"
    tune_privately(StudySpec.from_dict(tables))
    changed = {"study": tables["study"] | {"edition": "2"}, "privacy": tables["privacy"] | {"epsilon": 2.5}}
    (here / "study.toml").write_text(tomli_w.dumps(tables | changed))
    with pytest.raises(BudgetExceeded):
        evaluate_privately(StudySpec.from_dict(tables), epsilon=2.5)
    with pytest.raises(BudgetExceeded):
        tune_file("study.toml")
    state = tune_on_schedule("study.toml", return_state=True)
    ended = [flow_runs(name)[0] for name in ("evaluate privately", "tune a study file")]
    assert [(run.state.name, run.state.type.value) for run in ended] == [("Refused: budget", "CANCELLED")] * 2
    assert [run.name for run in ended] == [
        "trial · 1 · evaluation: refused by the budget",
        "trial · 2: refused by the budget",
    ]
    assert all("the limit is" in run.state.message for run in ended)
    assert (state.name, state.type.value) == ("Refused: budget", "CANCELLED")


def test_other_libraries_log_lines_are_not_sent_to_prefect():
    check_prefect_settings()
    sent = temporary_settings({settings.PREFECT_LOGGING_EXTRA_LOGGERS: "sklearn"})
    with sent, pytest.raises(StudyInvalid, match="PREFECT_LOGGING_EXTRA_LOGGERS"):
        check_prefect_settings()


def test_a_run_whose_process_was_killed_is_called_crashed(here):
    @flow(name="killed")
    def killed():
        pass

    folder = here / "running"
    folder.mkdir()
    with get_client(sync_client=True) as client:
        dead, living = (client.create_flow_run(killed, state=Running()) for _ in range(2))
        for run in (dead.id, living.id, uuid4()):
            (folder / str(run)).touch()
        handle = os.open(folder / str(living.id), os.O_RDWR)
        fcntl.flock(handle, fcntl.LOCK_EX)
        buried = crash_dead_runs(folder)
        os.close(handle)
        assert len(buried) == 2
        assert str(living.id) not in buried
        assert client.read_flow_run(dead.id).state.is_crashed()
        assert client.read_flow_run(living.id).state.is_running()


def test_a_retry_after_a_kill_is_not_called_crashed_by_itself_or_by_another_run(here):
    """The killed attempt's file is there: of the same run, and beside another run of the same folder."""
    folder, told = here / "running", []

    @flow(name="killed before")
    def again(state):
        run = FlowRunContext.get().flow_run
        folder.mkdir(exist_ok=True)
        (folder / str(run.id)).write_text(state)
        with get_client(sync_client=True) as client:
            crash_dead_runs(folder)  # as another run does
            told.append(client.read_flow_run(run.id).state.name)
            (folder / str(run.id)).write_text(state)
            with is_alive(folder):
                assert (folder / str(run.id)).read_text() == str(run.state.id)
                told.append(client.read_flow_run(run.id).state.name)

    again(str(uuid4()))
    assert (told, list(folder.iterdir())) == (["Running"] * 2, [])
