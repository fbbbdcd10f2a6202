"""Prefect's server of one command: what it is told, and where its password is; `make intruder` attacks it."""

import base64
import json
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
import tomli_w
from intruder import command, environment, family, lives
from prefect.settings import PREFECT_API_URL, get_current_settings, temporary_settings
from prefect.task_runners import ProcessPoolTaskRunner
from sklearn.datasets import load_breast_cancer

from dpbo.flows.prefect_runtime.fanning_out import OwnProcesses
from dpbo.flows.prefect_runtime.settings import check_prefect_settings
from dpbo_core.errors import StudyInvalid

AUTH = "PREFECT_SERVER_API_AUTH_STRING="


def words_of(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return []


def servers(pids):
    """Those of the processes that are a Prefect server: ours, or the one that Prefect starts itself."""
    found = set()
    for pid in pids:
        words = words_of(pid)
        ours = "dpbo.flows.prefect_runtime.prefect_app" in words[:4]  # not its leash, which names it further on
        if ours or any("prefect.server.api.server" in word for word in words):
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
    from dpbo.flows.prefect_runtime.temporary_server import locked_server

    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}), locked_server():
        assert get_current_settings().api.url == "http://127.0.0.1:9/api"
        assert get_current_settings().api.auth_string is None


@pytest.mark.parametrize("runner", [OwnProcesses, ProcessPoolTaskRunner])
def test_the_thread_that_passes_events_on_knows_the_server(runner, monkeypatch):
    """Prefect's own does not: it would start one more server, without a password."""
    seen, looked = [], threading.Event()

    def look(self):
        seen.append(get_current_settings().api.url)
        looked.set()

    monkeypatch.setattr(ProcessPoolTaskRunner, "_forward_subprocess_messages", look)
    before = get_current_settings().api.url
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}), runner(max_workers=1).duplicate():
        assert looked.wait(180)
    assert seen == ["http://127.0.0.1:9/api" if runner is OwnProcesses else before]


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
@pytest.mark.parametrize("what", ["tune", "compare"])
def test_a_command_with_task_processes_has_one_locked_server(here, tables, what):
    """Every task run is recorded, whoever ran it; the password is in no file, argument or stream."""
    if what == "tune":
        tables["study"]["method"], tables["method"] = "private_grid", {"evaluate": "public_shortlist"}
        tables["privacy"]["delta"], tables["space"]["lambda"]["points"] = 0.0, 4
        table = load_breast_cancer(as_frame=True).frame
        for name, half in (("training.csv", table[::2]), ("validation.csv", table[1::2])):
            half.to_csv(here / name, index=False)
        tables["data"] = {"training": "training.csv", "validation": "validation.csv", "n_validation": len(half),
                          "target": "target"}  # fmt: skip
        (here / "study.toml").write_text(tomli_w.dumps(tables))
        words = ("tune", "study.toml", "--json", "--workers", "2")
        tasks = {"cross-validate candidates": 4, "search on public data": 1,
                 "try out trainings": 1, "reserve the budget": 1, "search step": 4, "draw the release": 1,
                 "train the final model": 1, "show the release": 1}  # fmt: skip
    else:
        words = ("compare", "--json", "--repetitions", "2", "--only", "breast_cancer")
        tasks = {"measure": 1, "train every candidate": 1, "compare on one data set": 4, "show the comparison": 1}
    streams, password, said = run_watched(here, words)
    assert isinstance(json.loads(streams[0]), dict)
    assert recorded(here) == tasks
    assert places_of(password, here, streams, said) == set()
    (here / "planted").write_text(f"the password is {password}")
    assert places_of(password, here, streams, said) == {str(here / "planted")}


TWICE = """
from prefect import flow, task
from dpbo.flows.prefect_runtime.temporary_server import locked_server
from dpbo.flows.prefect_runtime.settings import without_heartbeat
from dpbo.flows.prefect_runtime.prefect_page import wait_until_recorded
@task
def work(): pass
@flow(log_prints=False)
def story():
    work()
    wait_until_recorded(1)
for _ in range(2):
    with locked_server(), without_heartbeat():
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


STORY = """
import httpx, sys
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
