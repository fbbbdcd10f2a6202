"""The ways in: what another user of the machine, and a web page, try on every command that listens.

A way is tried many times; what counts is how often it got anything: an answer, a file, a byte, a change.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import tomli_w
from intruder import NOBODY, as_nobody, command, environment, family, lives, wait_until
from team import (
    ASKS,
    CANARY,
    LEFT_OPEN,
    READ,
    SERVE_ATTACK,
    UI_ATTACK,
    Running,
    link_of,
    look_around,
    make_store,
    make_team,
    ports_of,
    running,
)

from audit.browser import ELSEWHERE, browser, web_page
from audit.look import chromium
from audit.schedule import free_port
from audit.verdict import line
from dpbo.flows.prefect_runtime.schedule_server import SECRET_FILE_PREFIX, credentials

REFUSED = (401, 403, 404, 405, "closed", None)
HEADERS: list[dict[str, str]] = [
    {"Host": ELSEWHERE}, {"Host": "127.0.0.1"}, {"Host": "0.0.0.0"}, {"Host": "localhost.evil.example"},
    {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1:9"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, {"Sec-Fetch-Site": "same-site"},
]  # fmt: skip
NO_BROWSER = "no Chromium on this machine"


@dataclass(frozen=True)
class Way:
    """One way in: where, whose, what it is, how often it was tried, what it got; `skipped` says why it was not."""

    server: str
    who: str
    name: str
    tried: int
    got: tuple[str, ...] = ()
    skipped: str = ""


def words(way: Way) -> str:
    """A row of the table."""
    got = f"not run: {way.skipped}" if way.skipped else str(len(way.got))
    return line(way.server, way.who, way.name, f"{way.tried:,}", got)


def told(found: dict[str, Any]) -> tuple[str, ...]:
    """What of a second user's requests was answered otherwise than by a refusal."""
    return tuple(what for what, status in found.items() if status not in REFUSED)


BIND = """
got = []
for option in ("SO_REUSEADDR", "SO_REUSEPORT"):
    for where in ("127.0.0.1", "0.0.0.0", "127.0.0.2"):
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, getattr(socket, option), 1)
            try:
                s.bind((where, given["port"])); s.listen()
                if where != "127.0.0.2":
                    got.append(f"{option} {where}")
            except OSError:
                pass
for pid in given["pids"]:
    try:
        os.kill(pid, 0); got.append(f"signal {pid}")
    except OSError:
        pass
print(json.dumps(got))
"""
REPLAY = """
got = []
for url, headers in given["asks"]:
    for method in ("GET", "POST"):
        answer = httpx.request(method, url, headers=headers, json={} if method == "POST" else None, timeout=180)
        if answer.status_code < 400:
            got.append(f"{method} {url}")
print(json.dumps(got))
"""


def around(server: str, folder: Path, held: Running) -> Iterator[Way]:
    """What every server is tried with: its files and descriptors, its port, its processes."""
    pids = sorted(family(held.process.pid))
    read, _ = look_around(folder, held)
    got = [name for name in read if name not in LEFT_OPEN and "/artifacts/" not in name]
    yield Way(server, "second user", "files, descriptors, environment and memory", 4 * len(pids), tuple(got))
    got = as_nobody(BIND, port=held.port, pids=pids)
    yield Way(server, "second user", "listening on its port, signals", 6 + len(pids), tuple(got))


def by_headers(server: str, asks: Callable[[dict[str, str]], list[httpx.Response]]) -> Way:
    """A page's requests by their headers, each with the password or the cookie that no page has."""
    answers = [(str(headers), answer.status_code) for headers in HEADERS for answer in asks(headers)]
    got = tuple(f"{headers} {status}" for headers, status in answers if status != 403)
    return Way(server, "web page", "other Host, Origin or site, with the secret", len(answers), got)


def by_headers_without_password(server: str, api: str) -> Way:
    """A page's requests by their headers to Prefect's server, whose password no page elsewhere has or is sent."""
    paths = ("/flows/count", "/deployments/filter", "/admin/settings")
    got = [
        f"{headers} {path} {answer.status_code}"
        for headers in HEADERS
        for path in paths
        for answer in (httpx.post(f"{api}{path}", json={}, headers=headers, timeout=180),)
        if answer.status_code != 401
        or not {"access-control-allow-origin", "www-authenticate"}.isdisjoint(answer.headers)
    ]
    return Way(server, "web page", "other Host, Origin or site", len(HEADERS) * len(paths), tuple(got))


def by_browser(
    server: str, port: int, targets: list[dict[str, Any]], sockets: list[str], let_in: str, fronts: tuple[str, ...]
) -> list[Way]:
    """Chromium, whose user is let in, on pages that attack; three origins. `fronts` are pages that must refuse."""
    name = "CORS, frames, forms, pictures, sockets from another {}"
    if chromium() is None:
        return [Way(server, "web page", name.format(what), 0, skipped=NO_BROWSER) for what in ("port", "site")]
    ways = []
    with browser() as tab, web_page() as page:
        tab.open(let_in)
        for what, host in (("port", "127.0.0.1"), ("site", ELSEWHERE)):
            tab.open(f"http://{host}:{page}/")
            got = tab.attack(targets, sockets)
            ways.append(Way(server, "web page", name.format(what), 4 * len(targets) + len(sockets), tuple(got)))
        rebound = [target | {"url": target["url"].replace("127.0.0.1", ELSEWHERE)} for target in targets]
        shown = [target["url"] for target in rebound if target["method"] == "GET"]
        texts = [tab.open(url) for url in (*(f"http://{ELSEWHERE}:{port}{front}" for front in fronts), *shown)]
        got = [text for text in texts if not re.search("own address|Unauthorized", text)] + tab.attack(rebound, [])
        ways.append(Way(server, "web page", "a name rebound to this machine", 5 * len(targets), tuple(got)))
    return ways


def of_serve(folder: Path) -> Iterator[Way]:
    """`dpbo serve`: Prefect's server, its password, its page."""
    server = "dpbo serve"
    with running(folder, "serve", "nightly.toml", "--every", "1d", until="password in") as held:
        password = (folder / "prefect" / f"{SECRET_FILE_PREFIX}{held.port}").read_text().strip()
        found = as_nobody(SERVE_ATTACK, api=f"{held.url}/api", asks=ASKS)
        kinds = {"code as a deployment's pull step": " /deployments/", "the open pages under other paths": "path ",
                 "sockets of events and logs": "ws ", "other routes, under guessed passwords": " "}  # fmt: skip
        for name, part in kinds.items():
            mine = {what: found.pop(what) for what in list(found) if part in what}
            yield Way(server, "second user", name, len(mine), told(mine))
        yield from around(server, folder, held)

        yield by_headers_without_password(server, f"{held.url}/api")
        api = f"{held.url}/api"
        count = partial(httpx.post, f"{api}/flows/count", json={}, headers=credentials(password), timeout=180)
        before = count().text
        let_in = f"http://{password}@127.0.0.1:{held.port}/api/flows/count"  # as typed into the browser's own box
        targets = [{"method": "GET", "url": f"{api}/admin/settings"},
                   {"method": "POST", "url": f"{api}/flows/", "body": '{"name":"by-a-page"}'},
                   {"method": "POST", "url": f"{api}/flows/filter", "body": "{}"}]  # fmt: skip
        ws = api.replace("http", "ws")
        yield from by_browser(server, held.port, targets, [f"{ws}/events/out", f"{ws}/logs/out"], let_in, ())
        yield Way(server, "web page", "a flow made by any of these", 1, () if count().text == before else ("made",))


def of_ui(folder: Path) -> Iterator[Way]:
    """`dpbo ui`: the gate in front of MLflow."""
    run_id, hostile, _, client = make_store(folder)
    server = "dpbo ui"
    with running(folder, "ui", until="(Ctrl-C stops it)") as before:
        old = link_of(before).split("token=")[1]
    with running(folder, "ui", until="(Ctrl-C stops it)") as held:
        asks = [("GET", "/", None), ("GET", "/?token=guess", None), ("POST", READ + "/runs/search", {}),
                ("POST", READ + "/experiments/create", {"name": "x", "artifact_location": str(folder)}),
                ("POST", READ + "/experiments/delete", {"experiment_id": "1"}),
                ("POST", "/graphql", {"query": "{a}"}), ("GET", "/version", None),
                ("GET", f"/get-artifact?run_uuid={run_id}&path=release.json", None),
                ("GET", f"/get-artifact?run_uuid={hostile['elsewhere']}&path=validation.csv", None)]  # fmt: skip
        tmp, cookie = str(folder / "tmp"), f"dpbo-{held.port}"
        found, sockets = as_nobody(UI_ATTACK, url=held.url, asks=asks, cookie=cookie, tmp=tmp)
        found.pop("health")
        yield Way(server, "second user", "pages, files and changes, under guessed tokens", len(found), told(found))
        yield Way(server, "second user", "MLflow's own socket", 1, tuple(sockets))
        yield from around(server, folder, held)
        kept = [[f"{held.url}/?token={old}", {}], [f"{held.url}/version", {"Cookie": f"{cookie}={old}"}],
                [f"{held.url}/version", {"Authorization": f"Bearer {old}"}]]  # fmt: skip
        got = as_nobody(REPLAY, asks=kept)
        yield Way(server, "second user", "replay: the token of a page that has ended", 2 * len(kept), tuple(got))
        with httpx.Client(base_url=held.url, timeout=180, follow_redirects=True) as reader:
            reader.get(link_of(held))
            yield of_links(server, reader, hostile)
            yield of_writes(server, reader, client, run_id)
            cookies = dict(reader.cookies)

            def asked(headers: dict[str, str]) -> list[httpx.Response]:
                with httpx.Client(base_url=held.url, cookies=cookies, timeout=180) as c:
                    return [c.get("/version", headers=headers),
                            c.post(f"{READ}/runs/search", json={}, headers=headers)]  # fmt: skip

            yield by_headers(server, asked)
        targets = [{"method": "GET", "url": f"{held.url}{path}"} for path in (
            "/version", f"/get-artifact?run_uuid={run_id}&path=release.json",
            f"/get-artifact?run_uuid={run_id}&path=plots/noise.png")]  # fmt: skip
        posts = {"runs/search": '{"experiment_ids":["1"]}', "experiments/create": '{"name":"by-a-page"}'}
        targets += [{"method": "POST", "url": f"{held.url}{READ}/{at}", "body": text} for at, text in posts.items()]
        let_in = link_of(held)
        yield from by_browser(server, held.port, targets, [f"ws://127.0.0.1:{held.port}/"], let_in, ("/",))
        made = client.get_experiment_by_name("by-a-page")
        yield Way(server, "web page", "an experiment made by any of these", 1, () if made is None else ("made",))


def of_links(server: str, reader: httpx.Client, hostile: dict[str, str]) -> Way:
    """Artifact roots elsewhere, and symlinks inside the store, asked for by somebody with the link."""
    tried, got = 0, []
    for name, run_id in hostile.items():
        for path in ("validation.csv", "artifacts/validation.csv", "mlruns/ledger.db", "../validation.csv"):
            answer = reader.get("/get-artifact", params={"run_uuid": run_id, "path": path})
            tried += 1
            got += [f"{name} {path}"] * (answer.status_code != 404 or CANARY in answer.text)
        listed = reader.get(f"{READ}/artifacts/list", params={"run_uuid": run_id})
        tried += 1
        got += [f"{name} list"] * (listed.status_code != 404)
    return Way(server, "reader with the link", "symlinks and artifact roots elsewhere", tried, tuple(got))


def of_writes(server: str, reader: httpx.Client, client: Any, run_id: str) -> Way:
    """Changes by somebody with the link."""
    writes = [("POST", "experiments/create", {"name": "x"}), ("POST", "experiments/delete", {"experiment_id": "1"}),
              ("POST", "runs/delete", {"run_id": run_id}), ("POST", "runs/create", {"experiment_id": "1"}),
              ("POST", "runs/set-tag", {"run_id": run_id, "key": "a", "value": "b"}),
              ("DELETE", "registered-models/delete", {"name": "nightly"})]  # fmt: skip
    before = [str(dict(item)) for item in client.search_experiments(view_type=3)]
    got = [
        f"{method} {path}"
        for base in (f"{READ}/", "/api/2.0/mlflow/")
        for method, path, body in writes
        if reader.request(method, base + path, json=body).status_code != 403
    ]
    after = [str(dict(item)) for item in client.search_experiments(view_type=3)]
    return Way(server, "reader with the link", "changes", 2 * len(writes), (*got, *set(after) ^ set(before)))


LOOK = """
got = []
for pid in given["pids"]:
    for name in ("environ", "mem", "fd", "cwd"):
        place = Path(f"/proc/{pid}") / name
        try:
            list(place.iterdir()) if name in ("fd", "cwd") else place.open("rb").read(1)
            got.append(f"{pid} {name}")
        except OSError:
            pass
for top, folders, files in os.walk(given["folder"]):
    for name in files:
        try:
            Path(top, name).read_bytes(); got.append(os.path.join(top, name))
        except OSError:
            pass
print(json.dumps(got))
"""


KNOCK = """
found = []
for port in given["ports"]:
    for path in ("/api/flows/filter", "/api/admin/version", "/api/deployments/filter"):
        for headers in ({}, {"Authorization": "Basic " + base64.b64encode(b"admin:pass").decode()}):
            with suppress(httpx.TransportError):  # TLS without a certificate
                answer = httpx.post(f"http://127.0.0.1:{port}{path}", json={}, headers=headers, timeout=180)
                found.append(answer.status_code)
    with suppress(httpx.TransportError):
        hosted = {"headers": {"Host": "evil.example"}, "json": {}}
        found.append(httpx.post(f"http://127.0.0.1:{port}/api/flows/filter", **hosted).status_code)
print(json.dumps(found))
"""


def of_tune(folder: Path) -> Iterator[Way]:
    """`dpbo tune`: the server of one run, attacked while the command stands still; its password replayed later."""
    from test_run_server import password_of, servers

    server, held = "dpbo tune", folder / "said-tune.txt"
    with held.open("wb") as out:
        process = subprocess.Popen(
            command("tune", "nightly.toml"), cwd=folder, env=environment(folder), stdout=out, stderr=out,
            start_new_session=True,
        )  # fmt: skip
    held.chmod(0o600)
    try:
        wait_until(lambda: servers(family(process.pid)), alive=lambda: process.poll() is None)
        (child,) = servers(family(process.pid))
        wait_until(lambda: ports_of({child}), alive=lambda: process.poll() is None)
        os.kill(process.pid, signal.SIGSTOP)  # it goes on when the attack is over, however long that takes
        try:
            (port,) = ports_of({child})
            wait_until(lambda: answers(port))
            password, pids = password_of(child), sorted(family(process.pid))
            found = as_nobody(KNOCK, ports=[port])
            got = as_nobody(LOOK, pids=pids, folder=str(folder))
        finally:
            os.kill(process.pid, signal.SIGCONT)
        process.wait()
        yield Way(server, "second user", "the run's own server, under a guessed password and another Host",
                  len(found), told(dict(enumerate(found))))  # fmt: skip
        got = [name for name in got if Path(name).name not in LEFT_OPEN and "/err-" not in name]  # ours
        yield Way(server, "second user", "files, descriptors, environment and memory", 4 * len(pids), tuple(got))
        assert process.returncode == 0, held.read_text()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    with running(folder, "serve", "nightly.toml", "--every", "1d", until="password in") as other:
        asks = [[f"{other.url}/api/flows/filter", credentials(password)], [f"{other.url}/api/admin/version",
                credentials(password)]]  # fmt: skip
        got = as_nobody(REPLAY, asks=asks)
        name = "replay: the password of a run that has ended"
        yield Way("dpbo serve", "second user", name, 2 * len(asks), tuple(got))


def answers(port: int) -> bool:
    """Whether something speaks HTTP there."""
    with suppress(httpx.TransportError):
        return httpx.get(f"http://127.0.0.1:{port}/api/health", timeout=30).status_code == 200
    return False


def of_shared_folders(top: Path) -> Iterator[Way]:
    """`dpbo tune` in a folder where everybody may write: what somebody laid there before."""
    got, plants = [], {
        "mlruns as a link": "Path('mlruns').symlink_to(given['mine'])",
        "mlruns of his own": "Path('mlruns').mkdir(mode=0o777)",
        "Prefect's settings": "Path('prefect.toml').write_text('[logging]\\nconfig_path = \"x.yml\"\\n')",
        "an environment file": "Path('.env').write_text('PREFECT_LOGGING_SETTINGS_PATH=x.yml')",
    }  # fmt: skip
    for name, plant in plants.items():
        folder, mine = top / f"shared-{len(got)}-{name[:3]}-{len(name)}", top / f"his-{len(name)}"
        folder.mkdir()
        make_team(folder)
        folder.chmod(0o1777)
        mine.mkdir()
        os.chown(mine, NOBODY, NOBODY)
        script = f"os.chdir(given['folder'])\n{plant}\nprint('null')"
        as_nobody(script, folder=str(folder), mine=str(mine))
        around = environment(folder) | {"PREFECT_HOME": str(top / f"home-{len(name)}")}
        done = subprocess.run(
            command("tune", "nightly.toml"), cwd=folder, env=around, capture_output=True, text=True
        )
        if done.returncode != 2 or list(mine.iterdir()):
            got.append(name)
    yield Way(
        "dpbo tune", "second user", "links, stores and settings laid in a shared folder", len(plants), tuple(got)
    )


SQUAT = """
import threading
heard, s = [], socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
def serve():
    while True:
        c = s.accept()[0]; c.settimeout(20)
        with suppress(OSError):
            heard.append(c.recv(4096).decode(errors="replace"))
            c.sendall(b"HTTP/1.1 401 Unauthorized\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n")
        c.close()
threading.Thread(target=serve, daemon=True).start()
sys.stdin.readline()
print(json.dumps(heard), flush=True)
"""


def of_squatters(folder: Path) -> Iterator[Way]:
    """A port that another user took before the command came."""
    from intruder import DROP

    got = []
    for words_ in (("serve", "nightly.toml", "--every", "1d"), ("ui",)):
        squatter = subprocess.Popen(
            [sys.executable, "-c", DROP + SQUAT, "{}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert squatter.stdout is not None
        try:
            port = squatter.stdout.readline().strip()
            done = subprocess.run(command(*words_, "--port", port), cwd=folder, env=environment(folder),
                                  capture_output=True, text=True, check=False)  # fmt: skip
            heard, _ = squatter.communicate("\n")
        finally:
            squatter.kill()
            squatter.wait()
        got += [f"{words_[0]} went on"] * (done.returncode == 0)
        got += [f"{words_[0]} said {text[:80]}" for text in json.loads(heard) if "authorization" in text.lower()]
    yield Way(
        "dpbo serve, dpbo ui", "second user", "a port taken beforehand, to be told the password", 2, tuple(got)
    )


def of_docs() -> Iterator[Way]:
    """`make docs`: what it runs, as make itself says."""
    program, root = shutil.which("make"), Path(__file__).parents[2]
    if program is None:
        yield Way("make docs", "second user", "a server of the site", 0, skipped="no make on this machine")
        return
    said = subprocess.run([program, "-n", "docs"], cwd=root, capture_output=True, text=True, check=True).stdout
    got = tuple(line for line in said.splitlines() if "serve" in line or "http.server" in line)
    yield Way("make docs", "second user", "a server of the site (it builds files, and starts none)", 1, got)


# Planted: the same servers without what dpbo does around them.


def of_prefect_alone(folder: Path) -> Iterator[Way]:
    """`prefect server start`, as `dpbo serve` started it once."""
    port = free_port()
    words_ = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    with alone(folder, words_, f"http://127.0.0.1:{port}/api/health"):
        api = f"http://127.0.0.1:{port}/api"
        found = as_nobody(SERVE_ATTACK, api=api, asks=ASKS)
        yield Way("prefect server start", "second user", "every route", len(found), told(found))
        targets = [{"method": "POST", "url": f"{api}/flows/filter", "body": "{}"}]
        if chromium() is not None:
            with browser() as tab, web_page() as page:
                tab.open(f"http://{ELSEWHERE}:{page}/")
                got = tuple(tab.attack(targets, [f"ws://127.0.0.1:{port}/api/events/out"]))
            yield Way("prefect server start", "web page", "CORS from another site", 2, got)


def of_mlflow_alone(folder: Path, hostile: str) -> Iterator[Way]:
    """`mlflow server`, as `dpbo ui` started it once."""
    port = free_port()
    store = f"sqlite:///{folder / 'mlruns' / 'mlflow.db'}"
    words_ = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port),
              "--workers", "1", "--backend-store-uri", store, "--registry-store-uri", store]  # fmt: skip
    with alone(folder, words_, f"http://127.0.0.1:{port}/health"):
        url = f"http://127.0.0.1:{port}/get-artifact?run_uuid={hostile}&path=validation.csv"
        got = as_nobody(REPLAY.replace('("GET", "POST")', '("GET",)'), asks=[[url, {}]])
        yield Way("mlflow server", "second user", "an artifact root elsewhere", 1, tuple(got))


@contextmanager
def alone(folder: Path, words_: list[str], health: str) -> Iterator[None]:
    """A server of somebody else's command; nothing of it stays."""
    with ExitStack() as stack:
        out = stack.enter_context((folder / "said-alone.txt").open("wb"))
        around = environment(folder) | {"PREFECT_HOME": str(folder / "alone")}
        process = subprocess.Popen(words_, cwd=folder, env=around, stdout=out, stderr=out, start_new_session=True)
        known = {process.pid}
        try:

            def answering() -> bool:
                with suppress(httpx.TransportError):
                    return httpx.get(health, timeout=30).status_code == 200
                return False

            wait_until(answering, alive=lambda: process.poll() is None)
            known |= family(process.pid)
            yield
        finally:
            known |= family(process.pid)
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(60)
            for pid in known:
                if lives(pid):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            process.wait()


def edition(folder: Path, number: str) -> None:
    """The next edition of the team's study."""
    import tomllib

    study = tomllib.loads((folder / "nightly.toml").read_text())
    study["study"]["edition"] = number
    (folder / "nightly.toml").write_text(tomli_w.dumps(study))


def campaign() -> tuple[list[Way], list[Way]]:
    """(every way, the planted ones)."""
    with TemporaryDirectory(prefix="dpbo-audit-") as name:
        top = Path(name)
        top.chmod(0o755)
        folder = top / "team"
        folder.mkdir()
        make_team(folder)
        ways = [*of_serve(folder), *of_tune(folder), *of_squatters(folder)]
        edition(folder, "2")
        ways += [*of_ui(folder), *of_shared_folders(top), *of_docs()]
        from mlflow.tracking import MlflowClient

        client = MlflowClient(tracking_uri=f"sqlite:///{folder / 'mlruns' / 'mlflow.db'}")
        found = client.get_experiment_by_name("hostile elsewhere")
        (run,) = client.search_runs([found.experiment_id])
        planted = [*of_prefect_alone(folder), *of_mlflow_alone(folder, run.info.run_id)]
        return ways, planted
