"""`dpbo ui`: who gets in, what may be asked, whose files are shown. test_intruder.py attacks the real servers."""

import asyncio
import json
import os
import sys
from pathlib import Path

import httpx
import pytest

from dpbo.flows.cli.gate import Gate, only_reads
from dpbo.flows.cli.serving import HostChecks
from dpbo_core.errors import DpboError

PORT, TOKEN = 5055, "a-token-of-the-test"
READ = "/ajax-api/2.0/mlflow"


def graphql(text, **more):
    return json.dumps({"query": text, **more}).encode()


def test_graphql_reads_and_opens_no_artifact():
    run = "query GetRun($i: MlflowGetRunInput!) { mlflowGetRun(input: $i) { run { info { ...Info } } } }"
    assert only_reads(graphql(run + " fragment Info on MlflowRunInfo { runId }"))
    assert only_reads(graphql("{ a: mlflowSearchRuns(input: {experimentIds: []}) { apiError { code } } }"))
    refused = [
        "mutation { mlflowSearchRuns(input: {}) { runs { info { runId } } } }",
        "query A { mlflowGetRun { apiError { code } } } mutation B { mlflowSearchRuns { apiError { code } } }",
        "subscription { mlflowGetRun { apiError { code } } }",
        '{ mlflowListArtifacts(input: {runId: "x"}) { files { path } } }',
        '{ mlflowGetRun: mlflowListArtifacts(input: {runId: "x"}) { files { path } } }',
        "{ ...on Query { mlflowListArtifacts { files { path } } } }",
        "{ ...All } fragment All on Query { mlflowListArtifacts { files { path } } }",
        "{ __schema { types { name } } }",
        "{ test(inputString: \"x\") { output } }",
        "{", "", "{ a " * 9000, "{" * 5000,
    ]  # fmt: skip
    for text in refused:
        assert not only_reads(graphql(text)), text
    for body in (b"", b"[]", b"[{}]", b"{}", b'{"query": 1}', b'{"query": null}', b"\xff", b"[" * 10**5):
        assert not only_reads(body)


@pytest.fixture
def store(tmp_path):
    """A store with one run's artifacts, a curator's folder beside it, and every kind of link between them."""
    root = tmp_path / "mlruns" / "artifacts"
    (root / "r1" / "artifacts" / "plots").mkdir(parents=True)
    (root / "r1" / "artifacts" / "release.json").write_text("{}")
    (root / "r1" / "artifacts" / "plots" / "a.png").write_bytes(b"png")
    secret = tmp_path / "private"
    secret.mkdir()
    (secret / "validation.csv").write_text("secret")
    (root / "r1" / "artifacts" / "link.csv").symlink_to(secret / "validation.csv")
    (root / "r1" / "artifacts" / "folder").symlink_to(secret)
    (root / "r2").symlink_to(secret)
    os.mkfifo(root / "r1" / "artifacts" / "pipe")
    return tmp_path, root


def ask(store, *requests, location="mlruns/artifacts/r1/artifacts"):
    """Answers of a gate to (method, path, options), one reader; and what MLflow's server was asked."""
    base, root = store
    asked = []

    def mlflow(request):
        asked.append(request)
        if request.url.path == "/api/2.0/mlflow/runs/get":
            return httpx.Response(200, json={"run": {"info": {"artifact_uri": location}}})
        return httpx.Response(200, text="from mlflow", headers={"set-cookie": "its=own", "server": "x"})

    async def go():
        inner = httpx.AsyncClient(transport=httpx.MockTransport(mlflow), base_url=f"http://127.0.0.1:{PORT}")
        gate = HostChecks(Gate(inner, base=base, artifacts=root, port=PORT, token=TOKEN), PORT)
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(gate), base_url=f"http://127.0.0.1:{PORT}", follow_redirects=False
        ) as reader:
            return [await reader.request(method, path, **options) for method, path, options in requests]

    return asyncio.run(go()), asked


LET_IN = ("GET", f"/?token={TOKEN}", {})


def test_the_token_becomes_a_cookie_of_this_port(store):
    tries = ("/", "/?token=guess", f"/x?a=1&token={TOKEN}&b=%26", "/")
    (locked, wrong, entered, page), asked = ask(store, *(("GET", path, {}) for path in tries))
    assert (locked.status_code, wrong.status_code) == (403, 403)
    assert "dpbo ui" in locked.text
    assert TOKEN not in locked.text
    assert entered.status_code == 303
    assert entered.headers["location"] == "/x?a=1&b=%26"
    assert TOKEN not in entered.headers["location"]
    cookie = entered.headers["set-cookie"]
    assert cookie.startswith(f"dpbo-{PORT}={TOKEN};")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert page.text == "from mlflow"
    assert len(asked) == 1  # nobody else's request reached it
    assert "cookie" not in asked[0].headers
    assert "set-cookie" not in page.headers
    (answer,), _ = ask(store, ("GET", f"//evil.example/?token={TOKEN}", {}))  # a redirect stays here
    assert not answer.headers.get("location", "/").startswith("//")


ELSEWHERE = (
    {"Host": "evil.example"}, {"Host": "127.0.0.1"}, {"Host": f"127.0.0.1:{PORT}.evil.example"}, {"Origin": "null"},
    {"Origin": "http://evil.example"}, {"Origin": "http://127.0.0.1:9999"}, {"Origin": f"https://127.0.0.1:{PORT}"},
    {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"},
)  # fmt: skip


def test_a_web_page_elsewhere_gets_nothing_even_with_the_cookie(store):
    gets = [("GET", "/", {"headers": headers}) for headers in ELSEWHERE]
    posts = [("POST", f"{READ}/runs/search", {"headers": headers, "json": {}}) for headers in ELSEWHERE]
    (_, *answers), asked = ask(store, LET_IN, *gets, *posts)
    assert ([answer.status_code for answer in answers], asked) == ([403] * 2 * len(ELSEWHERE), [])
    for answer in answers:
        assert not {"access-control-allow-origin", "access-control-allow-credentials"} & set(answer.headers)


READS = [
    "/", "/version", "/static-files/static/js/main.1.js", f"{READ}/runs/get",
    f"{READ}/metrics/get-history-bulk-interval", f"{READ}/registered-models/search",
]  # fmt: skip
SEARCHES = [f"{READ}/{what}/search" for what in ("runs", "experiments", "logged-models", "traces")]
ELSE = [
    f"{READ}/experiments/create", f"{READ}/runs/delete", "/api/2.0/mlflow/runs/search",
    f"{READ}/upload-artifact", "/ajax-api/3.0/mlflow/gateway-proxy", "/ajax-api/3.0/jobs/search",
    "/ajax-api/3.0/mlflow/jobs/", "/ajax-api/2.0/mlflow-artifacts/artifacts/x", "/v1/traces",
    "/static-files/%2e%2e/secret", "/static-files//etc", f"{READ}/runs/search/", f"{READ}/webhooks/list/search",
    f"{READ}/get-trace-artifact", "/get-artifact/x", f"{READ}/runs/%2e%2e/experiments/search",
]  # fmt: skip


def test_what_the_pages_read_passes_and_all_else_does_not(store):
    reads = [("GET", path, {}) for path in READS]
    reads += [("POST", path, {"json": {}}) for path in (*SEARCHES, f"{READ}/experiments/search-datasets")]
    others = [(method, path, {}) for path in ELSE for method in ("GET", "POST", "DELETE", "PUT", "PATCH", "HEAD")]
    others += [(method, path, {}) for path in READS for method in ("PUT", "PATCH", "DELETE", "OPTIONS")]
    answers, asked = ask(store, LET_IN, *reads, *others)
    codes = [answer.status_code for answer in answers[1:]]
    assert codes == [200] * len(reads) + [403] * len(others)
    assert [(request.method, request.url.path) for request in asked] == [read[:2] for read in reads]


def test_the_page_hears_of_no_gateway_and_none_is_asked(store):
    place, options = f"{READ}/gateway-proxy", {"params": {"gateway_path": "x"}}
    (_, get, post), asked = ask(store, LET_IN, ("GET", place, options), ("POST", place, {}))
    assert (get.status_code, get.json(), post.status_code, asked) == (200, {"endpoints": []}, 403, [])


def test_inside_only_reading_passes(store):
    writes = [("POST", f"{READ}/experiments/create", {"json": {"name": "x", "artifact_location": "/"}}),
              ("POST", f"{READ}/experiments/delete", {"json": {"experiment_id": "1"}}),
              ("PUT", "/api/2.0/mlflow-artifacts/artifacts/x", {"content": b"x"}),
              ("DELETE", f"{READ}/registered-models/delete", {}),
              ("POST", "/graphql", {"content": graphql("mutation { mlflowSearchRuns { apiError { code } } }")}),
              ("POST", f"{READ}/runs/search", {"content": b"x" * (2**20 + 1)})]  # fmt: skip
    own = {"headers": {"Origin": f"http://127.0.0.1:{PORT}", "Sec-Fetch-Site": "same-origin"}, "json": {"n": 1}}
    answers, asked = ask(store, LET_IN, *writes, ("POST", f"{READ}/runs/search", own))
    assert [answer.status_code for answer in answers] == [303, *[403] * len(writes), 200]
    (passed,) = asked
    assert json.loads(passed.content) == {"n": 1}
    policy = answers[-1].headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert answers[-1].headers["x-content-type-options"] == "nosniff"


def test_artifacts_pass_by_the_gates_own_hand(store):
    file = ("GET", "/get-artifact", {"params": {"run_uuid": "r1", "path": "release.json"}})
    answers, asked = ask(store, LET_IN, file, ("GET", f"{READ}/artifacts/list", {"params": {"run_uuid": "r1"}}))
    assert [answer.status_code for answer in answers] == [303, 200, 200]
    assert answers[1].headers["content-disposition"] == "attachment"
    assert [item["path"] for item in answers[-1].json()["files"]] == ["plots", "release.json"]
    assert {request.url.path for request in asked} == {"/api/2.0/mlflow/runs/get"}  # never for a file
    plots = ("GET", f"{READ}/artifacts/list", {"params": {"run_uuid": "r1", "path": "plots"}})
    (_, folder), _ = ask(store, LET_IN, plots)
    assert folder.json()["files"] == [{"path": "plots/a.png", "is_dir": False, "file_size": 3}]


@pytest.mark.parametrize(
    "location", ["mlruns/artifacts/r1/artifacts", "{root}/r1/artifacts", "file://{root}/r1/artifacts"]
)
def test_the_stores_own_root_is_served_however_it_is_written(store, location):
    asked = ("GET", "/get-artifact", {"params": {"run_uuid": "r1", "path": "release.json"}})
    answers, _ = ask(store, LET_IN, asked, location=location.format(root=store[1]))
    assert (answers[1].headers["content-type"], answers[1].content) == ("application/json", b"{}")


def artifacts(store, *paths, **location):
    """(Status, whether a secret is in it) of each answer to who asks for these artifacts of a run."""
    asks = [("GET", "/get-artifact", {"params": {"run_uuid": "r1", "path": path}}) for path in paths]
    answers, _ = ask(store, LET_IN, *asks, **location)
    return [(answer.status_code, "secret" in answer.text) for answer in answers[1:]]


ROOTS = ("/", "/etc", "private", "{base}/private", "file://{base}/private", "mlruns", "mlruns/artifacts/r2",
         "mlruns/artifacts/../../private", "s3://b/x", "mlflow-artifacts:/r1", "file://host/etc", "file:///etc",
         "a\0b", "", "file:///tmp/%2e%2e/etc", "dbfs:/x", "mlruns/artifactsx")  # fmt: skip


def test_a_root_elsewhere_is_not_the_stores(store):
    for root in ROOTS:
        answers = artifacts(store, "validation.csv", "passwd", "etc/passwd", location=root.format(base=store[0]))
        assert answers == [(404, False)] * 3, root


def test_no_link_is_followed(store):
    paths = ("link.csv", "folder/validation.csv", "pipe", "", "absent", "release.json/x", "..", "../x",
             "/etc/passwd", "plots//a.png", "plots/./a.png", "plots\\a.png", "a\0",
             "../../../private/validation.csv")  # fmt: skip
    assert artifacts(store, *paths) == [(404, False)] * len(paths)


def test_a_team_server_is_named_and_nothing_is_started(here, monkeypatch, capsys):
    from dpbo.flows.cli.app import ui

    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://mlflow.example/team/")
    ui(5000)
    assert capsys.readouterr().out == "MLflow, at the server of MLFLOW_TRACKING_URI: https://mlflow.example/team\n"


def test_a_taken_port_is_a_letter(here):
    from dpbo.flows.cli.serving import listening
    from dpbo.flows.prefect_runtime.schedule_server import owners

    with listening(0) as held:
        host, port = held.getsockname()
        assert host == "127.0.0.1"
        assert owners(port) == {os.geteuid()}
        with pytest.raises(DpboError, match=f"port {port}"), listening(port):
            pass


LEASHED = """
import os, sys, time
from pathlib import Path
from dpbo.flows.cli.leashed_process import LeashedProcess
inner = "import os, subprocess, sys, time;"
inner += " p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
inner += " open('pids', 'w').write(f'{os.getpid()} {p.pid}'); time.sleep(600)"
held = LeashedProcess([sys.executable, "-c", inner], log=2, env=os.environ, cwd=Path())
while not (Path("pids").exists() and Path("pids").read_text().count(" ")):
    time.sleep(0.02)
print("ready", flush=True)
if sys.argv[1] == "close":
    held.close()
else:
    time.sleep(600)
"""


@pytest.mark.parametrize("how", ["close", "TERM", "KILL", "leash"])
def test_what_is_leashed_ends_with_its_starter(tmp_path, how):
    """Child and grandchild, whether the starter closes, is asked to stop or is killed; or the leash is."""
    import signal
    import subprocess

    from intruder import family, lives, wait_until

    starter = subprocess.Popen(
        [sys.executable, "-c", LEASHED, how], cwd=tmp_path, stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    try:
        assert starter.stdout.readline() == b"ready\n"
        pids = [int(word) for word in (tmp_path / "pids").read_text().split()]
        if how == "leash":
            (leash,) = (pid for pid in family(starter.pid) - {starter.pid, *pids})
            os.kill(leash, signal.SIGTERM)
        elif how != "close":
            starter.send_signal(getattr(signal, f"SIG{how}"))
        wait_until(lambda: not any(map(lives, pids)))
    finally:
        starter.kill()
        starter.wait()
        starter.stdout.close()
