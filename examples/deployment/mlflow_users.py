"""MLflow's users, from the settings of its administrator and of each of them: python mlflow_users.py

For root, once.
"""

import base64
import json
import sys
import urllib.request
from pathlib import Path

SETTINGS = Path("/etc/dpbo")
CREATE = "http://127.0.0.1:5000/api/2.0/mlflow/users/create"


def settings(account: str) -> dict[str, str]:
    """The file of an account's settings."""
    lines = (SETTINGS / f"{account}.env").read_text(encoding="ascii").splitlines()
    return dict(line.split("=", 1) for line in lines)


def create(name: str, password: str, administrator: str) -> None:
    """A user, by the administrator's password."""
    known = base64.b64encode(f"admin:{administrator}".encode()).decode()
    body = json.dumps({"username": name, "password": password}).encode()
    headers = {"Authorization": f"Basic {known}", "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(CREATE, body, headers), timeout=60):
        sys.stdout.write(f"{name} is a user of MLflow\n")


if __name__ == "__main__":
    for account in ("curator", "operator", "viewer"):
        create(
            settings(account)["MLFLOW_TRACKING_USERNAME"],
            settings(account)["MLFLOW_TRACKING_PASSWORD"],
            settings("mlflow")["MLFLOW_AUTH_ADMIN_PASSWORD"],
        )
