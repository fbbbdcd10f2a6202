"""A platform as a team has it: Prefect's own server behind a password, a process worker, an MLflow server."""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from audit.schedule import free_port
from intruder import command
from made_once import empty_prefect_database

PASSWORD = "team:s3cret"
POOL = "private"


@dataclass(frozen=True)
class Platform:
    """The address of a server, and the environment in which its users work."""

    folder: Path
    around: dict[str, str]

    def run(self, *words, code=0, **settings):
        """Standard output of a module's command, which ends with `code`."""
        done = subprocess.run(
            [sys.executable, "-m", *map(str, words)], cwd=self.folder, env=self.around | settings,
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == code, (words, done.stdout[-3000:], done.stderr[-3000:])
        return done.stdout

    def dpbo(self, *words, code=0, **settings):
        """Both streams of a command of ours, which ends with `code`."""
        call, around = command(*words), self.around | settings
        done = subprocess.run(call, cwd=self.folder, env=around, capture_output=True, text=True)
        assert done.returncode == code, (words, done.stdout[-3000:], done.stderr[-3000:])
        return done.stdout, done.stderr

    @contextmanager
    def started(self, *words, environment=None, **settings):
        """A process of a module's command, which ends with the context, and all that it started.

        It has this platform's environment, or another one, and some settings more.
        """
        log = self.folder / f"{words[0]}-{words[1]}.log"
        with log.open("ab") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", *map(str, words)], cwd=self.folder,
                env=(environment or self.around) | settings, stdout=out,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def client(self):
        """A client of the server, in this process."""
        import httpx

        user, _, password = PASSWORD.partition(":")
        return httpx.Client(base_url=self.around["PREFECT_API_URL"], auth=(user, password), timeout=60)

    def flow_run(self, run):
        """The run of this id, as the server has it."""
        with self.client() as client:
            return client.get(f"/flow_runs/{run}").json()

    def logs(self, run):
        """The log lines of a run that the server has: level and message."""
        with self.client() as client:
            asked = {"logs": {"flow_run_id": {"any_": [run]}}, "limit": 200}
            return [(line["level"], line["message"]) for line in client.post("/logs/filter", json=asked).json()]

    def events(self, name, of=1):
        """At least `of` events of this name, waited for."""
        asked = {"filter": {"event": {"name": [name]}}, "limit": 50}

        def there():
            with self.client() as client:
                found = client.post("/events/filter", json=asked).json()["events"]
            return found if len(found) >= of else None

        return until(there)


def until(question, seconds=240.0):
    """The answer, once it is not None or False; how long a busy machine takes says nothing."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if answer := question():
            return answer
        time.sleep(0.2)
    raise AssertionError("it did not come")


@contextmanager
def platform(folder, **settings):
    """Prefect's own server, behind a password, and an environment that names it."""
    home = folder / "prefect"
    home.mkdir()
    shutil.copy(empty_prefect_database(), home / "prefect.db")
    port = free_port()
    theirs = ("DPBO_", "PREFECT_", "MLFLOW_")
    around = {name: value for name, value in os.environ.items() if not name.startswith(theirs)}
    around |= {
        "PREFECT_HOME": str(home),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_API_AUTH_STRING": PASSWORD,
        "PREFECT_SERVER_API_AUTH_STRING": PASSWORD,
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_LOGGING_LEVEL": "ERROR",
        "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_FLUSH_INTERVAL": "0.2",
        "PREFECT_SERVER_CONCURRENCY_INITIAL_DEPLOYMENT_LEASE_DURATION": "60",
        "PREFECT_SERVER_DEPLOYMENTS_CONCURRENCY_SLOT_WAIT_SECONDS": "1",
        "PREFECT_WORKER_QUERY_SECONDS": "1",
        "PREFECT_LOGGING_TO_API_BATCH_INTERVAL": "0.5",
        "NO_PROXY": "127.0.0.1,localhost",
        "XDG_STATE_HOME": str(folder / "state"),
        "DO_NOT_TRACK": "1",
        "PYTHONWARNINGS": "ignore",
    }
    made = Platform(folder, around | settings)
    with made.started("prefect", "server", "start", "--port", str(port), "--no-ui"):

        def answers():
            import httpx

            with suppress(httpx.HTTPError), made.client() as client:
                return client.get("/health").status_code == 200

        until(answers)
        yield made


@contextmanager
def worker(made, **settings):
    """A process worker on the pool `private`."""
    with made.started("prefect", "worker", "start", "--pool", POOL, "--type", "process", **settings):
        yield


@contextmanager
def mlflow_server(made):
    """MLflow's own server, behind a password: the settings that name it."""
    port, user, password = free_port(), "admin", "an0ther-s3cret"
    found = {
        "MLFLOW_TRACKING_URI": f"http://127.0.0.1:{port}",
        "MLFLOW_TRACKING_USERNAME": user,
        "MLFLOW_TRACKING_PASSWORD": password,
    }
    (made.folder / "tracking").mkdir()
    (made.folder / "tracking" / "auth.ini").write_text(
        "[mlflow]\ndefault_permission = READ\nadmin_username = admin\n"
        f"admin_password = {password}\ndatabase_uri = sqlite:///{made.folder}/tracking/auth.db\n"
        "authorization_function = mlflow.server.auth:authenticate_request_basic_auth\n"
    )
    settings = {
        "MLFLOW_BACKEND_STORE_URI": f"sqlite:///{made.folder}/tracking/mlflow.db",
        "MLFLOW_AUTH_CONFIG_PATH": str(made.folder / "tracking" / "auth.ini"),
        "MLFLOW_FLASK_SERVER_SECRET_KEY": password,
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # a dozen processes that nothing here asks for
    }
    kept = str(made.folder / "tracking" / "artifacts")
    words = ("--port", port, "--app-name", "basic-auth", "--artifacts-destination", kept, "--workers", "1")
    with made.started("mlflow", "server", *words, **settings):
        until(lambda: answers(found["MLFLOW_TRACKING_URI"]))
        yield found


def answers(url):
    """Whether an MLflow server does."""
    import httpx

    with suppress(httpx.HTTPError):
        return httpx.get(f"{url}/health").status_code == 200
    return False


def mlflow_editions(found, experiment):
    """The editions' runs that an experiment of this name has on an MLflow server."""
    import httpx

    auth = (found["MLFLOW_TRACKING_USERNAME"], found["MLFLOW_TRACKING_PASSWORD"])
    with httpx.Client(base_url=f"{found['MLFLOW_TRACKING_URI']}/api/2.0/mlflow", auth=auth, timeout=60) as client:
        named = client.get("/experiments/get-by-name", params={"experiment_name": experiment}).json()
        asked = {"experiment_ids": [named["experiment"]["experiment_id"]], "filter": "tags.`dpbo.kind` = 'edition'"}
        return client.post("/runs/search", json=asked).json()["runs"]
