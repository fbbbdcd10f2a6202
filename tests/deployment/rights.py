"""Who reaches what: files, ports, databases, pages, and what an operator and a viewer can do."""

from pathlib import Path

import httpx

from deployment.nightly import OPERATE, entries
from deployment.people import may, mlflow, prefect, rows, settings, shell
from deployment.told import check

ACCOUNTS = ("prefect", "mlflow", "curator", "operator", "viewer")
ROLES = {"curator": "dpbo", "operator": "dpbo", "prefect": "dpbo_prefect", "mlflow": "dpbo_mlflow"}
SEARCH = "/api/2.0/mlflow/experiments/search?max_results=5"
# what an owner decides of a dataset; what a run learned from is written down as it is charged, and is no decision
DECIDED = (
    "SELECT * FROM datasets ORDER BY name",
    "SELECT * FROM dataset_facts WHERE about <> 'learned' ORDER BY dataset, about, item",
)
SHIPPED = {"Authorization": "Basic YWRtaW46cGFzc3dvcmQxMjM0"}  # admin:password1234


def secrets():
    """Every file and folder with something to hide, for every account: who can read it."""
    owners = {f"/etc/dpbo/{account}.env": account for account in ACCOUNTS}
    owners |= {"/var/lib/dpbo/prefect": "prefect", "/var/lib/dpbo/mlflow": "mlflow", "/srv/dpbo": "curator"}
    owners |= {"/var/lib/dpbo/postgresql": "postgres"}
    people = {account: f"dpbo-{account}" for account in ACCOUNTS} | {"postgres": "postgres", "nobody": "nobody"}
    readers = {place: [who for who, name in people.items() if may(name, "test", "-r", place)] for place in owners}
    wrong = {place: found for place, found in readers.items() if found != [owners[place]]}
    told = f"{len(owners)} secrets and folders, {len(people)} accounts: each is read by its owner alone"
    check(told, not wrong, wrong)


def servers():
    """What each answers to a stranger, and what listens at all."""
    ask = ("/flow_runs/filter", {})
    seen = [prefect(*ask), prefect(*ask, "curator")]
    check("Prefect: 401 without its password, 200 with it", seen == [401, 200], seen)
    page = httpx.get("http://127.0.0.1:4200/", timeout=60, follow_redirects=True)
    check("Prefect's page is there", page.status_code == 200 and "<html" in page.text, page.status_code)
    found = rows("dpbo_prefect", "SELECT extname FROM pg_extension WHERE extname = 'pg_trgm'")
    found += [*rows("dpbo_prefect", "SELECT count(*) FROM flow_run"), *Path("/var/lib/dpbo/prefect").rglob("*.db")]
    check("Prefect keeps its runs in PostgreSQL, with pg_trgm, and in no file", found == ["pg_trgm", "0"], found)
    seen = [mlflow(SEARCH, known=who, headers=sent).status_code
            for who, sent in ((None, {}), ("viewer", {}), (None, SHIPPED))]  # fmt: skip
    check(
        "MLflow: 401 without a password, 200 to a viewer, 401 to admin:password1234", seen == [401, 200, 401], seen
    )
    other = mlflow(SEARCH, known="viewer", headers={"Host": "evil.example"}).status_code
    make = ("/api/2.0/mlflow/experiments/create", {"name": "x"}, "viewer", {"Origin": "https://evil.example"})
    seen = [other, mlflow(*make).status_code]
    check("MLflow: 403 under another name, and to another page", seen == [403, 403], seen)
    tables = [Path(f"/proc/net/{kind}").read_text().splitlines()[1:] for kind in ("tcp", "tcp6")]
    seen = sorted({row.split()[1] for table in tables for row in table if row.split()[3] == "0A"})
    loopback = [f"0100007F:{port:04X}" for port in (4200, 5000)]
    check("what listens: two ports of the loopback, and nothing of PostgreSQL's", seen == loopback, seen)
    _ways_into_postgresql()


def _ways_into_postgresql():
    tried = {}
    for account in (*(f"dpbo-{name}" for name in ACCOUNTS), "nobody"):
        for role, base in (ROLES | {"postgres": "dpbo"}).items():
            reach = f"psql -h /run/dpbo-postgresql -U {role} -d {base} -c 'SELECT 1'"
            tried[account, role] = may(account, "sh", "-c", reach)
    seen = {way for way, done in tried.items() if done} ^ {(f"dpbo-{role}", role) for role in ROLES}
    check(f"{len(tried)} ways into PostgreSQL: each account as its own role, and no other", not seen, seen)


def operator():
    """An operator schedules, and neither raises a cap nor becomes somebody else."""
    paused = "SELECT paused FROM deployment"
    shell(f"{OPERATE} pause")
    seen = rows("dpbo_prefect", paused)
    shell(f"{OPERATE} resume")
    seen += rows("dpbo_prefect", paused)
    check("an operator pauses the schedule and resumes it", seen == ["t", "f"], seen)
    seen = shell("dpbo-as operator dpbo budget")
    check("an operator reads the ledger", "breast-cancer" in seen, seen)
    before = [rows("dpbo", query) for query in DECIDED]
    asked = ("breast-cancer --epsilon 50 --delta 1e-5", "others --epsilon 5 --delta 1e-5",
             "breast-cancer --epsilon 5 --delta 1e-5 --largest-epsilon 9")  # fmt: skip
    for words in asked:
        shell(f"! dpbo-as operator dpbo budget set {words}")
    after = [rows("dpbo", query) for query in DECIDED]
    check("an operator raises no cap, opens none and sets no largest ε", after == before, (before, after))
    tried = [
        "sudo -n -u dpbo-curator id",
        "sudo -n -u dpbo-prefect id",
        "sudo -n id",
        "sudo -n -u dpbo-prefect /usr/local/bin/dpbo-operate run --param study=x.toml",
        "sudo -n -u dpbo-prefect PYTHONPATH=/tmp /usr/local/bin/dpbo-operate run",
    ]
    seen = [line for line in tried if may("dpbo-operator", *line.split())]
    check("an operator becomes nobody else, and gives a run nothing of their own", not seen, seen)


def viewer():
    """A viewer reads MLflow's pages; neither viewer nor operator changes a thing there, nor reaches Prefect."""
    found = mlflow("/api/2.0/mlflow/experiments/get-by-name?experiment_name=breast-cancer", known="viewer").json()
    mine = found["experiment"]["experiment_id"]
    # the study's own run, above those of its editions, is no entry of the ledger
    editions = {"experiment_ids": [mine], "filter": "tags.`dpbo.kind` = 'edition'"}
    shown = mlflow("/api/2.0/mlflow/runs/search", editions, "viewer").json()["runs"]
    page = mlflow("/", known="viewer").status_code
    check("a viewer reads MLflow's pages and runs", (page, len(shown)) == (200, entries()), (page, len(shown)))
    run = shown[0]["info"]["run_id"]
    seen = mlflow(f"/api/2.0/mlflow/artifacts/list?run_id={run}", known="viewer").text
    check("a viewer sees a release's artifacts", "release.json" in seen, seen)
    changes = [
        ("runs/delete", {"run_id": run}),
        ("runs/log-metric", {"run_id": run, "key": "a", "value": 1, "timestamp": 1}),
        ("experiments/delete", {"experiment_id": mine}),
        ("users/create", {"username": "eve", "password": "a" * 20}),
    ]
    seen = [mlflow(f"/api/2.0/mlflow/{path}", body, who).status_code
            for who in ("viewer", "operator") for path, body in changes]  # fmt: skip
    check("neither viewer nor operator changes a run, an experiment or a user", set(seen) == {403}, seen)
    seen = [name for who in ("viewer", "operator") for name in settings(who) if "PREFECT" in name or "KEY" in name]
    check("neither has Prefect's password or the ledger's key", not seen, seen)
