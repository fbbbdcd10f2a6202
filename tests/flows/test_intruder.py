"""The servers that dpbo starts, as it starts them: their words, their ports, and how they end.

The folder around them can be entered by everybody, so that nothing but what dpbo itself does keeps anybody out.
"""

import os
import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from intruder import family, lives, wait_until
from team import link_of, look_around, make_store, make_team, port_is_free, ports_of, running

from dpbo.flows.prefect_runtime.schedule_server import SECRET_FILE_PREFIX, credentials, owners

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder():
    made = Path(tempfile.mkdtemp(prefix="dpbo-test-"))
    make_team(made)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="module")
def served(folder):
    with running(folder, "serve", "nightly.toml", "--every", "1d", until="password in") as server:
        yield server


@pytest.fixture(scope="module")
def password(served, folder):
    return password_of(folder, served)


def password_of(folder, server):
    return (folder / "prefect" / f"{SECRET_FILE_PREFIX}{server.port}").read_text().strip()


def test_the_page_asks_its_own_port(served):
    said = httpx.get(f"{served.url}/ui-settings").json()
    assert said["api_url"] == f"{served.url}/api"
    assert said["auth"] == "BASIC"
    for origin in ("http://evil.example", "null", f"http://127.0.0.1:{served.port + 1}", served.url):
        answer = httpx.get(f"{served.url}/api/health", headers={"Origin": origin})
        assert answer.headers.get("access-control-allow-origin") == (origin if origin == served.url else None)


def test_a_server_that_is_killed_comes_again_and_one_whose_schedule_is_killed_goes(folder, served):
    with running(folder, "serve", "nightly.toml", "--every", "1d", until="password in") as other:
        before, password = family(other.process.pid) - {other.process.pid}, password_of(folder, other)
        assert password != password_of(folder, served)
        for pid in before:
            with suppress(ProcessLookupError):  # a library's own command lives for a moment
                os.kill(pid, signal.SIGKILL)
        assert not port_is_free(other.port)
        api = f"{other.url}/api/flows/count"
        answer = httpx.post(api, json={}, headers=credentials(password), timeout=180)  # it waits in the socket
        assert answer.status_code == 200
        assert httpx.post(api, json={}).status_code == 401
        after = family(other.process.pid) - {other.process.pid}
        assert after
        assert not after & before
        other.process.kill()
        other.process.wait()
        wait_until(lambda: not any(map(lives, after)))
        wait_until(lambda: port_is_free(other.port))  # a process's threads hold its socket a moment longer


@pytest.fixture(scope="module")
def store(folder):
    return make_store(folder)


@pytest.fixture(scope="module")
def page(folder, store):
    with running(folder, "ui", until="(Ctrl-C stops it)") as server:
        yield server


def test_no_secret_is_among_the_words_of_a_process(served, password, page, folder):
    """What a second user is answered, reads and reaches there is tried by `make intruder`."""
    for server, secret in ((served, password), (page, link_of(page).split("token=")[1])):
        assert secret not in look_around(folder, server)[1]
    assert password not in served.text()
    assert ports_of(family(page.process.pid)) == {page.port}


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP, signal.SIGINT])
def test_mlflow_ends_with_its_gate(folder, store, how):
    before = set((folder / "tmp").glob("dpbo-*"))
    with running(folder, "ui", until="(Ctrl-C stops it)") as server:
        children = family(server.process.pid) - {server.process.pid}
        assert len(children) >= 3  # the leash, MLflow's command, its worker
        assert owners(server.port) == {os.geteuid()}
        server.process.send_signal(how)
        wait_until(lambda: server.process.poll() is not None)
        wait_until(lambda: not any(map(lives, children)))
        assert port_is_free(server.port)
        if how != signal.SIGKILL:
            assert server.process.returncode == 0
            assert set((folder / "tmp").glob("dpbo-*")) <= before  # its folder is gone
