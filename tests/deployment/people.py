"""What people and programs ask of the deployment: a command as an account, a request, a database's rows."""

import base64
import subprocess
import time
from pathlib import Path

import httpx

from deployment.machine import CHECKOUT, words

PREFECT, MLFLOW = "http://127.0.0.1:4200/api", "http://127.0.0.1:5000"
SERVER = "/run/dpbo-postgresql"
PATIENCE = 300.0


def shell(line, *, code=0):
    """A line of the page, as root in the checkout: what it printed. `code` None: whatever it ends with."""
    done = subprocess.run(
        ["bash", "-c", line], cwd=CHECKOUT, env=words(), capture_output=True, text=True, timeout=1800
    )
    if code is not None and done.returncode != code:
        raise AssertionError(f"{line}\nended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout + done.stderr


def may(account, *command):
    """Whether a command succeeds as one of the system's accounts."""
    held = ["setpriv", f"--reuid={account}", f"--regid={account}", "--init-groups", *command]
    return (
        subprocess.run(held, env=words() | {"HOME": "/"}, cwd="/", capture_output=True, check=False).returncode == 0
    )


def settings(account):
    """The file of settings of one of the deployment's accounts."""
    return dict(line.split("=", 1) for line in Path(f"/etc/dpbo/{account}.env").read_text().splitlines())


def basic(known):
    return {"Authorization": "Basic " + base64.b64encode(known.encode()).decode()}


def prefect(path, body, known=None):
    """Status of a POST to Prefect, by a stranger or with what an account sends."""
    headers = {} if known is None else basic(settings(known)["PREFECT_API_AUTH_STRING"])
    return httpx.post(f"{PREFECT}{path}", json=body, headers=headers, timeout=60).status_code


def mlflow(path, body=None, known=None, headers=None):
    """The answer of MLflow's interface; a GET without `body`."""
    sent = dict(headers or {})
    if known is not None:
        found = settings(known)
        sent |= basic(f"{found['MLFLOW_TRACKING_USERNAME']}:{found['MLFLOW_TRACKING_PASSWORD']}")
    with httpx.Client(base_url=MLFLOW, headers=sent, timeout=60) as client:
        return client.get(path) if body is None else client.post(path, json=body)


def rows(database, query):
    """Of a database, as its administrator reads them: one line a row."""
    line = f'runuser -u postgres -- psql -h {SERVER} -At -d {database} -c "{query}"'
    return shell(line).splitlines()


def until(done, seconds=PATIENCE):
    """Whether it holds within so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if done():
                return True
        except (AssertionError, httpx.HTTPError):
            pass
        time.sleep(0.5)
    return False
