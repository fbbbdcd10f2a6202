"""The servers that dpbo starts, as it starts them, attacked by a second user of the machine and by web pages.

The folder around them can be entered by everybody, so that nothing but what dpbo itself does keeps anybody out.
"""

import os
import shutil
import signal
import tempfile
from pathlib import Path

import httpx
import pytest
from intruder import as_nobody, family, lives, wait_until
from team import (
    ASKS,
    LEFT_OPEN,
    READ,
    SERVE_ATTACK,
    UI_ATTACK,
    deployment,
    link_of,
    look_around,
    make_store,
    make_team,
    port_is_free,
    ports_of,
    running,
)

from dpbo.flows.prefect_runtime.loopback import owners
from dpbo.flows.prefect_runtime.server import NAME, credentials

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
    return (folder / "prefect" / NAME).read_text().strip()


def test_a_second_user_reaches_nothing_of_prefect(served):
    found = as_nobody(SERVE_ATTACK, api=f"{served.url}/api", asks=ASKS)
    assert len(found) == 5 * len(ASKS) + 5 + 8
    let_in = {what: status for what, status in found.items() if status not in (401, 404, 403, "closed")}
    assert let_in == {}
    assert all(status == 401 for what, status in found.items() if " /admin" in what or " /flows/" in what)


def test_the_attack_is_real_for_who_has_the_password(served, password):
    """The same requests with the password do what they ask: whoever holds it can run code as the worker."""
    api = f"{served.url}/api"
    assert deployment(api, {}) == 401
    assert deployment(api, credentials(password)) in (200, 201)


def test_a_second_user_reads_neither_files_nor_memory_nor_the_password(served, password, folder):
    read, words = look_around(folder, served)
    assert read == LEFT_OPEN
    assert "dpbo.flows.prefect_runtime.prefect_app" in words
    assert password not in words
    assert password not in served.text()


def test_the_page_asks_its_own_port(served):
    said = httpx.get(f"{served.url}/ui-settings").json()
    assert said["api_url"] == f"{served.url}/api"
    assert said["auth"] == "BASIC"
    policy = httpx.get(served.url, follow_redirects=True).headers["content-security-policy"]
    assert str(served.port) in policy
    assert "http" not in policy.replace(f"http://127.0.0.1:{served.port}", "").replace(
        f"http://localhost:{served.port}", ""
    )


def test_another_folders_server_is_found_and_used(served, password, folder):
    """A second schedule on the same port: the same user's, with the same password."""
    from dpbo.flows.prefect_runtime.server import LoopbackServer

    with LoopbackServer(folder, port=served.port, home=folder / "prefect") as found:
        assert (found.started, found.auth) == (False, password)


def test_a_server_that_is_killed_comes_again_and_one_whose_schedule_is_killed_goes(folder, password, served):
    with running(folder, "serve", "nightly.toml", "--every", "1d", until="password in") as other:
        before = family(other.process.pid) - {other.process.pid}
        for pid in before:
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
        assert port_is_free(other.port)


@pytest.fixture(scope="module")
def store(folder):
    return make_store(folder)


@pytest.fixture(scope="module")
def page(folder, store):
    with running(folder, "ui", until="(Ctrl-C stops it)") as server:
        yield server


def test_a_second_user_reaches_nothing_of_mlflow(page, store, folder):
    run_id, hostile, *_ = store
    asks = [("GET", "/", None), ("GET", "/?token=guess", None), ("POST", READ + "/runs/search", {}),
            ("POST", READ + "/experiments/create", {"name": "x", "artifact_location": str(folder)}),
            ("POST", READ + "/experiments/delete", {"experiment_id": "1"}), ("POST", "/graphql", {"query": "{a}"}),
            ("GET", f"/get-artifact?run_uuid={run_id}&path=release.json", None), ("GET", "/version", None),
            ("GET", f"/get-artifact?run_uuid={hostile['elsewhere']}&path=validation.csv", None)]  # fmt: skip
    found, sockets = as_nobody(
        UI_ATTACK, url=page.url, asks=asks, cookie=f"dpbo-{page.port}", tmp=str(folder / "tmp")
    )
    assert found.pop("health") == "OK"
    assert set(found.values()) == {403}
    assert len(found) == 3 * len(asks)
    assert sockets == []  # nor by MLflow's own socket
    read, words = look_around(folder, page)
    assert [name for name in read if "/artifacts/" not in name] == LEFT_OPEN
    token = link_of(page).split("token=")[1]
    assert "mlflow" in words
    assert token not in words
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
