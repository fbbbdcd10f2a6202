"""The Prefect server of `dpbo serve`, by its parts: its password, its address, whom it trusts, how it dies."""

import os
import socket
import stat
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from answering import answering
from intruder import NOBODY, as_nobody, family, wait_until
from prefect.settings import get_current_settings

from dpbo.flows.cli import doctor
from dpbo.flows.prefect_runtime import run_server
from dpbo.flows.prefect_runtime import run_server as run_server_module
from dpbo.flows.prefect_runtime import schedule_server as server_module
from dpbo.flows.prefect_runtime.run_server import PrefectProcess, api_url, bound_socket
from dpbo.flows.prefect_runtime.schedule_server import (
    SECRET_FILE_PREFIX,
    credentials,
    is_owned_by_user,
    loopback_server,
    owners,
    password_in,
    standing,
)
from dpbo_core.errors import DpboError, StudyInvalid


def test_the_password_is_ours_alone_and_its_servers(tmp_path):
    """The next server on the port has another: a page that stayed open tells the old one to whoever listens."""
    first, path = password_in(tmp_path / "home", 4200, is_new=True)
    assert password_in(tmp_path / "home", 4200) == (first, path)
    assert password_in(tmp_path / "home", 4201, is_new=True)[0] != first
    assert password_in(tmp_path / "home", 4200) == (first, path)
    assert password_in(tmp_path / "home", 4200, is_new=True)[0] != first
    assert len(first) >= 43  # 256 bits
    assert len(list((tmp_path / "home").iterdir())) == 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(("prefect", "sqlalchemy", "idle"), [("3.8.8", "2.1.0", True), ("3.8.8", "2.0.58", False),
                                                             ("3.9.0", "2.1.9", False)])  # fmt: skip
def test_a_server_that_would_make_no_scheduled_run_is_refused(tmp_path, monkeypatch, prefect, sqlalchemy, idle):
    """Before it is started, and by the doctor."""
    monkeypatch.setattr(server_module, "version", {"prefect": prefect, "sqlalchemy": sqlalchemy}.get)
    started = []
    monkeypatch.setattr(server_module, "PrefectProcess", lambda *_, **__: started.append(1) or 1 / 0)
    with (
        pytest.raises(DpboError if idle else ZeroDivisionError),
        bound_socket(0) as held,
        server_module._lasting_server(held, tmp_path, tmp_path / "log"),
    ):
        pass
    assert bool(started) is not idle
    (verdict, *_) = [
        finding.verdict for finding in doctor._findings_of(doctor._versions) if finding.what == "versions"
    ]
    assert (verdict == "wrong") is idle


@pytest.mark.parametrize("what", ["readable", "writable", "link", "short", "folder", "another's"])
def test_a_password_that_others_could_know_is_refused(tmp_path, what):
    path = tmp_path / f"{SECRET_FILE_PREFIX}4200"
    if what == "link":
        (tmp_path / "elsewhere").write_text("x" * 43)
        (tmp_path / "elsewhere").chmod(0o600)
        path.symlink_to(tmp_path / "elsewhere")
    elif what == "folder":
        path.mkdir()
    else:
        path.write_text("short" if what == "short" else "x" * 43)
        path.chmod({"readable": 0o640, "writable": 0o602}.get(what, 0o600))
        if what == "another's":
            if os.geteuid() != 0:
                pytest.skip("only root can give a file away")
            os.chown(path, NOBODY, NOBODY)
    with pytest.raises(DpboError, match="not a password that only you can know"):
        password_in(tmp_path, 4200)
    if what != "folder":
        assert password_in(tmp_path, 4200, is_new=True)[0] != "x" * 43
        assert stat.S_IMODE(path.lstat().st_mode) == 0o600
    if what == "link":
        assert (tmp_path / "elsewhere").read_text() == "x" * 43


@contextmanager
def pretending(password, asked=None):
    """What answers as a Prefect server does, with a password or without: its port; `asked` has the headers."""

    def respond(method, headers, body):
        if method == "GET":
            return 200, b"true"
        if asked is not None:
            asked.append(dict(headers))
        if password is None or headers.get("Authorization") == credentials(password)["Authorization"]:
            return 200, b"0"
        return 401, b'"no"'

    with answering(respond) as port:
        yield port


def refused_by(server, words):
    """The message with which it is refused to use or start this server."""
    with pytest.raises(DpboError, match=words) as refused, server:
        pass
    return refused.value.message()


@pytest.fixture
def nothing_configured(monkeypatch):
    monkeypatch.setattr(server_module, "configured_api", lambda: None)


def test_a_server_without_a_password_is_not_adopted(tmp_path, nothing_configured):
    with pretending(None) as port:
        assert "--trust-server" in refused_by(loopback_server(tmp_path, port=port, home=tmp_path), "asks nobody")
        with loopback_server(tmp_path, port=port, home=tmp_path, trust=True) as trusted:
            assert (trusted.started, trusted.api) == (False, f"http://127.0.0.1:{port}/api")


def test_a_server_with_our_password_is_adopted_and_with_another_not(tmp_path, nothing_configured):
    passwords = []

    def respond(method, headers, body):
        known = [credentials(password)["Authorization"] for password in passwords]
        return (200, b"0") if headers.get("Authorization") in known else (401, b'"no"')

    with answering(respond) as port:
        passwords.append(password_in(tmp_path, port, is_new=True)[0])
        with loopback_server(tmp_path, port=port, home=tmp_path) as ours:
            assert (ours.started, ours.auth) == (False, passwords[0])
        assert standing(ours.api, {}) == "locked"
        refused_by(
            loopback_server(tmp_path, port=port, home=tmp_path / "another"), "no Prefect server that knows us"
        )


def test_a_configured_server_must_ask_too(tmp_path, monkeypatch):
    for password, refused in ((None, True), ("theirs", False)):
        asked = []
        with pretending(password, asked) as port:
            api = f"http://127.0.0.1:{port}/api"
            monkeypatch.setattr(server_module, "configured_api", lambda api=api: api)
            if refused:
                refused_by(loopback_server(tmp_path, port=1, home=tmp_path), "asks nobody")
            with loopback_server(tmp_path, port=1, home=tmp_path, trust=refused) as server:
                assert (server.api, server.auth) == (api, None)
            assert all("Authorization" not in headers for headers in asked)
    monkeypatch.setattr(server_module, "configured_api", lambda: "http://127.0.0.1:9/api")
    refused_by(loopback_server(tmp_path, port=1, home=tmp_path), "no Prefect server answers")


SQUATTER = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
held = socket.socket(); held.bind(("127.0.0.1", 0)); held.listen()
print(held.getsockname()[1], flush=True)
heard = held.accept()[0].recv(65536)
print(heard, flush=True)
"""


def test_another_users_program_on_our_port_is_told_nothing(tmp_path, nothing_configured):
    """It would be sent the password, and would decide what the schedule runs."""
    if os.geteuid() != 0:
        pytest.skip("a second user listens: only root can become one")
    squatter = subprocess.Popen([sys.executable, "-c", SQUATTER], stdout=subprocess.PIPE, text=True)
    try:
        port = int(squatter.stdout.readline())
        assert owners(port) == {NOBODY}
        assert not is_owned_by_user(port)
        refused_by(loopback_server(tmp_path, port=port, home=tmp_path), "not known to be yours")
        with socket.create_connection(("127.0.0.1", port)) as marker:  # the first that it ever heard
            marker.sendall(b"the test itself")
        assert squatter.stdout.readline() == "b'the test itself'\n"
    finally:
        squatter.kill()
        squatter.wait()
        squatter.stdout.close()
    assert list(tmp_path.iterdir()) == []


def test_the_port_is_held_while_the_server_is_started_again():
    """Between two lives of the child nobody else can listen where clients send the password."""
    held = bound_socket(0)
    with held:
        port = held.getsockname()[1]
        assert bound_socket(port) is None
        for reuse in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            with socket.socket() as other:
                other.setsockopt(socket.SOL_SOCKET, reuse, 1)
                with pytest.raises(OSError, match="in use"):
                    other.bind(("127.0.0.1", port))


TAKE = """
got = []
for options in ((), ("SO_REUSEADDR",), ("SO_REUSEPORT",), ("SO_REUSEADDR", "SO_REUSEPORT")):
    for where in ("127.0.0.1", "0.0.0.0"):
        with socket.socket() as s:
            for option in options:
                s.setsockopt(socket.SOL_SOCKET, getattr(socket, option), 1)
            try:
                s.bind((where, given["port"])); s.listen(); got.append([options, where])
            except OSError:
                pass
print(json.dumps(got))
"""


def test_nobody_takes_the_port_of_a_runs_server_that_died(monkeypatch):
    """Its clients would send the password, what is released, and their trust to whoever listens."""

    class Dead:
        def __init__(self, held, *_, **__):
            self.api = api_url(held.getsockname()[1])

        def wait_until_ready(self):
            return True

        def close(self):
            pass

    monkeypatch.setattr(run_server_module, "PrefectProcess", Dead)
    monkeypatch.setattr(run_server_module, "configured_api", lambda: None)
    with run_server_module.run_server():
        port = int(get_current_settings().api.url.rpartition(":")[2].removesuffix("/api"))
        with socket.socket() as client, pytest.raises(ConnectionRefusedError):
            client.connect(("127.0.0.1", port))
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with pytest.raises(OSError, match="in use"):
                other.bind(("127.0.0.1", port))
        if os.geteuid() == 0:
            assert as_nobody(TAKE, port=port) == []


def test_a_server_makes_files_for_its_owner_alone_whatever_a_scripts_umask_is(tmp_path, monkeypatch):
    """As the database of Prefect, by a script that opens `owners_terminal`."""
    monkeypatch.setattr(run_server, "SERVER_CODE", "open('made', 'w').close()")
    before = os.umask(0o022)
    try:
        with (tmp_path / "log").open("wb") as log:
            with bound_socket(0) as held:
                server = PrefectProcess(held, "password", home=tmp_path, log=log, settings={})
            assert not server.wait_until_ready()
            server.close()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o600


FOLLOWER = """
import os, subprocess, sys, time
code = "import sys, time; from dpbo.flows.prefect_runtime.flow_runs import follow; follow(sys.argv[1]);"
code += " print('up', flush=True); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", code, sys.argv[1].format(pid=os.getpid())])
time.sleep(600)
"""


@pytest.mark.parametrize(("starter", "ends"), [("{pid}", True), ("1", False), ("x", False)])
def test_a_run_follows_the_process_that_serves_it_and_nobody_else(starter, ends):
    parent = subprocess.Popen([sys.executable, "-c", FOLLOWER, starter], stdout=subprocess.PIPE)
    try:
        assert parent.stdout.readline() == b"up\n"
        (child,) = family(parent.pid) - {parent.pid}
        parent.kill()
        parent.wait()
        if ends:
            wait_until(lambda: not Path(f"/proc/{child}/cmdline").exists() or not is_follower(child))
        else:
            assert is_follower(child)
            os.kill(child, 9)
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()


def is_follower(pid):
    try:
        return b"dpbo.flows.prefect_runtime.flow_runs" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@pytest.mark.parametrize(("name", "text"), [
    ("prefect.toml", ""),
    ("pyproject.toml", "[tool.prefect.logging]\nconfig_path = 'evil.yml'\n"), ("pyproject.toml", "[tool\n"),
    (".env", "prefect_logging_settings_path=evil.yml\n"),
])  # fmt: skip
def test_settings_beside_a_study_are_refused(here, name, text):
    from dpbo.flows.prefect_runtime.flow_runs import refuse_folder_settings

    refuse_folder_settings(here)
    (here / "pyproject.toml").write_text("[tool.ruff]\n[project]\nname = 'x'\n")
    (here / ".env").write_text("DATABASE=x\n")
    refuse_folder_settings(here)
    (here / name).write_text(text)
    with pytest.raises(StudyInvalid, match=name.replace(".", r"\.")):
        refuse_folder_settings(here)
