"""Prefect's server of one command: what it is told, and where its password is; `make intruder` attacks it."""

import asyncio
import base64
import inspect
import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from contextlib import nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import ANY

import httpx
import pytest
import tomli_w
from answering import answering
from intruder import command, environment, family, lives
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, get_current_settings, temporary_settings
from sklearn.datasets import load_breast_cancer
from test_seconds import typed

from dpbo.flows.prefect_runtime.flow_runs import check_prefect_settings, quiet_environment
from dpbo.flows.prefect_runtime.run_server import _send_pending_records, answers, run_server
from dpbo.flows.private_flow import at_the_terminal, owners_terminal
from dpbo_core.errors import DpboError, StudyInvalid
from dpbo_core.ledger.ledger import PrivacyLedger

DEAD = "http://127.0.0.1:9/api"
AUTH = "PREFECT_SERVER_API_AUTH_STRING="


def words_of(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return []


def servers(pids):
    """Those of the processes that are a Prefect server."""
    found = set()
    for pid in pids:
        if any("prefect.server.api.server" in word for word in words_of(pid)):
            found.add(pid)
    return found


def password_of(pid):
    """As the server was given it."""
    (found,) = (
        text.removeprefix(AUTH)
        for text in Path(f"/proc/{pid}/environ").read_text().split("\0")
        if text.startswith(AUTH)
    )
    return found


def test_a_configured_server_is_used_and_no_other_started():
    with answering(lambda *_: (200, b"true")) as port:
        api = f"http://127.0.0.1:{port}/api"
        with temporary_settings({PREFECT_API_URL: api}), run_server():
            assert get_current_settings().api.url == api
            assert get_current_settings().api.auth_string is None


@pytest.mark.parametrize("how", ["environment", "profile"])
def test_a_server_that_does_not_answer_is_named_before_a_cap_is_opened(here, tables, how):
    """Without a proxy's help, too: HTTP_PROXY names one that is not there."""
    (here / "study.toml").write_text(tomli_w.dumps(tables))
    around = environment(here) | {"HTTP_PROXY": "http://127.0.0.1:9"}
    around.pop("NO_PROXY", None)
    if how == "environment":
        around["PREFECT_API_URL"] = DEAD
    else:
        text = f'active = "mine"\n[profiles.mine]\nPREFECT_API_URL = "{DEAD}"\n'
        (here / "prefect" / "profiles.toml").write_text(text)
    done = subprocess.run(command("tune", "study.toml"), cwd=here, env=around, capture_output=True, text=True)
    assert (done.returncode, f"no Prefect server answers at {DEAD}" in done.stderr) == (1, True), done.stderr
    assert PrivacyLedger(f"sqlite:///{here / 'mlruns' / 'ledger.db'}").accounts() == ()


@pytest.mark.parametrize("given", [None, "team:wrong", "team:right"])
def test_a_server_that_asks_for_a_password_is_refused_with_the_variable_to_set(given):
    right = "Basic " + base64.b64encode(b"team:right").decode()

    def respond(_, headers, __):
        return (200, b"true") if headers.get("Authorization") == right else (401, b"")

    def of_health(method, headers, body):  # which a server tells everybody
        return (200, b"true") if asked.append(headers) or len(asked) == 1 else respond(method, headers, body)

    asked = []
    with answering(of_health) as port:
        api = {PREFECT_API_URL: f"http://127.0.0.1:{port}/api", PREFECT_API_AUTH_STRING: given}
        refused = (
            nullcontext() if given == "team:right" else pytest.raises(DpboError, match="PREFECT_API_AUTH_STRING")
        )
        with temporary_settings(api), refused, run_server():
            pass
    assert not any("wrong" in str(line) for line in asked)


def test_requests_to_this_machine_never_go_through_a_proxy(monkeypatch):
    """Prefect's client and ours: a proxy that is told of none, whatever stood in NO_PROXY before."""
    monkeypatch.setenv("NO_PROXY", "corp.example")
    monkeypatch.delenv("no_proxy", raising=False)
    told = []
    with (
        answering(lambda *asked: told.append(asked) or (502, b"")) as proxy,
        answering(lambda *_: (200, b"true")) as port,
    ):
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy}")
        assert answers(f"http://127.0.0.1:{port}/api")  # before NO_PROXY is set, too
        assert not answers("http://elsewhere.example/api")
        assert len(told) == 1
        quiet_environment()
        assert httpx.get(f"http://127.0.0.1:{port}/api").status_code == 200
        assert len(told) == 1
    assert os.environ["NO_PROXY"] == os.environ["no_proxy"] == "corp.example,127.0.0.1,localhost"


def run_watched(folder, words):
    """(streams, password, words of every argv) of a whole command; `make intruder` attacks its server."""
    process = subprocess.Popen(
        command(*words), cwd=folder, env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    streams = []
    reader = threading.Thread(target=lambda: streams.extend(process.communicate()))
    reader.start()
    said, known, passwords = set(), set(), set()
    try:
        while reader.is_alive():
            pids = family(process.pid)
            said |= {word for pid in pids for word in words_of(pid)}
            for server in servers(pids) - known:
                known.add(server)
                passwords.add(password_of(server))
            reader.join(0.1)
    finally:
        process.kill()
        reader.join()
    assert process.returncode == 0, streams[1]
    assert len(known) == 1  # its task processes start none of their own
    assert not any(lives(pid) for pid in known)
    (password,) = passwords
    return streams, password, said


def places_of(password, folder, streams, said):
    """Where a password is, in either of its forms."""
    forms = [password.encode(), base64.b64encode(password.encode()).rstrip(b"=")]
    texts = {"stdout": streams[0], "stderr": streams[1], "argv": "\0".join(said).encode()}
    texts |= {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name for name, text in texts.items() if any(form in text for form in forms)}


def recorded(folder):
    """How often Prefect's database has a finished task run of each name."""
    with sqlite3.connect(folder / "prefect" / "prefect.db") as base:
        rows = base.execute("select name, state_type from task_run").fetchall()
    assert {state for _, state in rows} == {"COMPLETED"}
    return Counter("search step" if name.startswith("step ") else name.rsplit("-", 1)[0] for name, _ in rows)


@pytest.mark.slow
def test_a_command_with_task_processes_has_one_locked_server(here, tables):
    """Every task run is recorded, whoever ran it; the password is in no file, argument or stream."""
    tables["study"]["method"], tables["method"] = "private_grid", {"evaluate": "public_shortlist"}
    tables["privacy"]["delta"], tables["space"]["lambda"]["points"] = 0.0, 4
    table = load_breast_cancer(as_frame=True).frame
    for name, half in (("training.csv", table[::2]), ("validation.csv", table[1::2])):
        half.to_csv(here / name, index=False)
    tables["data"] = {"training": "training.csv", "validation": "validation.csv", "n_validation": len(half),
                      "target": "target", "workers": 2}  # fmt: skip
    (here / "study.toml").write_text(tomli_w.dumps(tables))
    words = ("tune", "study.toml", "--json")
    tasks = {"cross-validate candidates": 4, "search on public data": 1,
             "try out trainings": 1, "reserve the budget": 1, "search step": 4, "draw the release": 1,
             "train the final model": 1, "show the release": 1}  # fmt: skip
    streams, password, said = run_watched(here, words)
    assert isinstance(json.loads(streams[0]), dict)
    assert recorded(here) == tasks
    assert places_of(password, here, streams, said) == set()
    (here / "planted").write_text(f"the password is {password}")
    assert places_of(password, here, streams, said) == {str(here / "planted")}


TWICE = """
from prefect import flow, task
from dpbo.flows.prefect_runtime.run_server import _send_pending_records, run_server
from dpbo.flows.prefect_runtime.flow_runs import disable_heartbeat
from dpbo.flows.run_end import wait_until_recorded
@task
def work(): pass
@flow(log_prints=False)
def story():
    work()
    wait_until_recorded(1)
for _ in range(2):
    with run_server(), disable_heartbeat():
        story()
"""


@pytest.mark.slow
def test_one_program_may_have_one_after_another(here):
    """Each with its own password; nothing of the first is asked again."""
    (here / "twice.py").write_text(TWICE)
    around = environment(here) | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "twice.py"], cwd=here, env=around, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "401" not in done.stderr
    assert recorded(here) == {"work": 2}


def test_prefects_own_server_is_refused_inside_a_flow(monkeypatch):
    monkeypatch.setattr("prefect.context.FlowRunContext.get", lambda: SimpleNamespace(flow_run=object()))
    with temporary_settings(restore_defaults={PREFECT_API_URL}), pytest.raises(StudyInvalid, match="asks nobody"):
        check_prefect_settings()
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        check_prefect_settings()


@pytest.mark.usefixtures("prefect_server")
def test_where_a_loop_runs_what_is_left_is_sent_all_the_same(monkeypatch):
    """In a notebook Prefect's own drain returns a coroutine, which nobody awaits: lines and events were lost."""
    drained = []
    for worker in (EventsWorker, APILogWorker):
        honest = worker.drain_all.__func__

        def drain_all(cls, *given, honest=honest, **options):
            drained.append((cls, result := honest(cls, *given, **options)))
            return result

        monkeypatch.setattr(worker, "drain_all", classmethod(drain_all))

    async def cell():
        _send_pending_records()

    asyncio.run(cell())
    assert [worker for worker, _ in drained] == [EventsWorker, APILogWorker]
    assert not any(inspect.isawaitable(result) for _, result in drained)


NAMES = """
import sys
def watch(event, args):
    if event == "socket.getaddrinfo" and args[0] not in ("127.0.0.1", "localhost"):
        open("names", "a").write(f"{args[0]}\\n")
sys.addaudithook(watch)
"""


@pytest.mark.slow
def test_a_flow_of_ones_own_looks_up_no_name_and_loses_no_line_in_a_notebook(here, tables):
    """Prefect's telemetry looked one up; a script and a cell do this, which no command of ours has prepared."""
    (here / "study.toml").write_text(tomli_w.dumps(tables))
    (here / "hook").mkdir()
    (here / "hook" / "sitecustomize.py").write_text(NAMES)
    (here / "pipeline.py").write_text(
        STORY.replace("    print(*pipeline())", "    async def cell(): print(*pipeline())\n    asyncio.run(cell())")
    )
    silent = ("CI", "DO_NOT_TRACK", "GITHUB_ACTIONS")
    around = {name: value for name, value in environment(here).items() if name not in silent}
    around["PYTHONPATH"] = os.pathsep.join((str(here / "hook"), str(Path(__file__).parents[2])))
    words = [sys.executable, "-W", "always:coroutine", "pipeline.py", "owner"]
    done = subprocess.run(words, cwd=here, env=around, capture_output=True, text=True)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "401 False"), done.stderr
    assert "never awaited" not in done.stderr
    assert not (here / "names").exists()


STORY = """
import asyncio, httpx, sys
from contextlib import nullcontext
from prefect import flow
from prefect.settings import get_current_settings
from dpbo import owners_terminal, tune_privately
from dpbo_core import read_study
@flow
def pipeline():
    result = tune_privately(read_study("study.toml")).result
    api = get_current_settings().api.url
    return httpx.post(f"{api}/flows/filter", json={}).status_code, result.replayed
with owners_terminal() if sys.argv[1] == "owner" else nullcontext():
    print(*pipeline())
"""


@pytest.mark.slow
@pytest.mark.parametrize("who", ["owner", "nobody who said so"])
def test_a_flow_of_ones_own_has_a_locked_server_or_is_refused(here, tables, databases, who):
    """Prefect's own temporary server let another user of the machine cancel the run."""
    (here / "study.toml").write_text(tomli_w.dumps(tables))
    (here / "pipeline.py").write_text(STORY)
    around = environment(here) | {"PYTHONPATH": str(Path(__file__).parents[2])}
    around["PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"] = "300"
    databases.prefect(here / "prefect" / "prefect.db")
    words = [sys.executable, "pipeline.py", who]
    done = subprocess.run(words, cwd=here, env=around, capture_output=True, text=True)
    if who == "owner":
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "401 False"), done.stderr
    else:
        assert done.returncode == 1
        assert "StudyInvalid: Prefect started a server for this flow that asks nobody" in done.stderr
        assert not (here / "mlruns" / "ledger.db").exists()


@pytest.mark.parametrize("how", ["--direct", "DPBO_PREFECT"])
def test_without_prefect_the_same_flow_functions_run_here(here, tables, how):
    """Prefect is not even imported, nobody is reached; the release, its report and their replay are as ever."""
    tables["study"]["method"], tables["space"]["lambda"]["points"] = "private_grid", 4
    tables["evaluation"] = {"epsilon": 0.5}
    Path("study.toml").write_text(tomli_w.dumps(tables))
    words = ["tune", "study.toml", "--json", *([how] if how == "--direct" else ())]
    around = {"DPBO_PREFECT": "off"} if how == "DPBO_PREFECT" else {}
    (code, out, err, loaded, asked), (*again, _, _) = typed((words, around), (words, around))
    released = json.loads(out)
    assert (code, released["replayed"], "without Prefect" in err) == (0, False, True), err
    assert "mlflow" in loaded
    assert "prefect" not in loaded
    assert "socket.connect" not in asked
    assert released["tracking"]["run_id"]
    assert released["evaluation"]["value"]["metrics"]
    assert (again[0], json.loads(again[1])) == (0, released | {"replayed": True, "evaluation": ANY})
    (account,) = PrivacyLedger(f"sqlite:///{Path('mlruns/ledger.db').resolve()}").accounts("people")
    assert [entry.study for entry in account.entries] == ["trial", "trial/evaluation"]


def test_without_prefect_a_script_of_the_owners_has_no_server(monkeypatch):
    monkeypatch.setenv("DPBO_PREFECT", "off")
    monkeypatch.setattr("dpbo.flows.private_flow.run_server", None)
    with owners_terminal():
        assert at_the_terminal()


def test_a_refusal_without_prefect_is_the_same_refusal(dpbo, tables):
    tables["budget"]["epsilon"] = 0.5
    Path("study.toml").write_text(tomli_w.dumps(tables))
    code, out, err = dpbo("tune", "study.toml", "--direct")
    assert (code, out, os.environ.get("DPBO_PREFECT", "")) == (3, "", "")
    assert "limit is ε = 0.5" in " ".join(err.split())
