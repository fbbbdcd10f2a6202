"""`make look`: one tune, then every page that shows it, photographed by a headless Chromium into docs/pictures.

python -m audit.look [FOLDER]      (from tests/; Debian: apt-get install chromium)

MLflow's pages are photographed through the gate of `dpbo ui`, with the token it prints; Prefect's from a server of
the same version that is open to this machine while the pictures are taken, on the default port: 4200 must be free.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
from intruder import command, environment
from months import at, released

from audit.schedule import free_port
from dpbo.tasks.reporting.mlflow_store import COMPARISON_PAGE, EDITIONS_PAGE
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.study import StudySpec
from dpbo_core.study.final_training import FinalModel

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
         "--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4",
         "--disable-background-networking", "--disable-component-update", "--disable-sync")  # fmt: skip
PATIENCE = 120.0
STUDY = ROOT / "examples" / "breast_cancer.toml"


@dataclass(frozen=True)
class Shown:
    """Where a tuned study can be looked at; `mlflow` is the link that lets one in, to which a page is added."""

    folder: Path
    mlflow: str
    experiment: str
    study: str
    run_id: str
    release: dict
    editions: list[str]


def chromium() -> str | None:
    """The browser of this machine, if it has one."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def browse(url: str, *words: str, budget: int = 120_000) -> str:
    """What a headless browser prints for `url`."""
    with TemporaryDirectory() as profile:
        asked = [chromium(), *FLAGS, f"--user-data-dir={profile}", f"--virtual-time-budget={budget}", *words, url]
        return subprocess.run(asked, capture_output=True, text=True, timeout=PATIENCE, check=False).stdout


def photograph(url: str, path: Path, *, size: tuple[int, int] = (1400, 1000)) -> None:
    browse(url, f"--window-size={size[0]},{size[1]}", f"--screenshot={path}")


@contextmanager
def serving(folder: Path, *words: str, until: str) -> Iterator[Path]:
    """A server of its own session, from when `until` answers: the file of what it prints."""
    said = folder / "said.txt"
    with said.open("wb") as out:
        process = subprocess.Popen(
            words, cwd=folder, env=environment(folder), stdout=out, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
    try:
        end = time.monotonic() + PATIENCE
        while True:
            with suppress(httpx.HTTPError):
                if httpx.get(until, timeout=5.0).status_code == 200:
                    break
            if time.monotonic() > end or process.poll() is not None:
                raise TimeoutError(f"{until} does not answer")
            time.sleep(0.5)
        yield said
    finally:
        for how in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, how)
                process.wait(10)


@contextmanager
def shown(folder: Path, *editions: str) -> Iterator[Shown]:
    """Tune some editions of the example, and serve MLflow's page as `dpbo ui` does."""
    runs = []
    for edition in editions:
        text = STUDY.read_text().replace("[privacy]", f'edition = "{edition}"\n\n[privacy]', 1)
        text = text.replace('score = "sigmoid"\nsteepness = 10.0', 'score = "accuracy"')
        (folder / "study.toml").write_text(text)
        tune = command("tune", "study.toml", "--json", "--register")
        ran = subprocess.run(tune, cwd=folder, env=environment(folder), capture_output=True, text=True, check=True)
        document = json.loads(ran.stdout)
        runs.append(document["tracking"]["run_id"])
    port = free_port()
    page = f"http://127.0.0.1:{port}"
    with serving(folder, *command("ui", "--port", str(port)), until=f"{page}/health") as said:
        link = said.read_text().split("to read: ")[1].split("#")[0]  # with its token
        with httpx.Client(follow_redirects=True, timeout=30) as reader:
            reader.get(link)
            found = reader.get(f"{page}/ajax-api/2.0/mlflow/experiments/get-by-name?experiment_name=breast-cancer")
            run = reader.get(f"{page}/ajax-api/2.0/mlflow/runs/get?run_id={runs[-1]}").json()["run"]
        identity = found.json()["experiment"]["experiment_id"]
        tags = {tag["key"]: tag["value"] for tag in run["data"]["tags"]}
        yield Shown(folder, link, identity, tags["mlflow.parentRunId"], runs[-1], document, runs)


def report_page(folder: Path) -> Path:
    """The page of `dpbo report` on half a year of one study and a first release of another."""
    (folder / "mlruns").mkdir()
    ledger, now = PrivacyLedger(f"sqlite:///{folder / 'mlruns' / 'ledger.db'}"), datetime.now(UTC)
    tables, owner = tomllib.loads(STUDY.read_text()), "osei on the data office's server"
    del tables["budget"]
    del tables["model"]["steepness"]
    tables["model"]["score"] = "accuracy"  # one metric on the page
    tables["privacy"]["dataset"] = "cytology"
    with at(now - timedelta(days=160)):
        for dataset, epsilon in (("cytology", 14.0), ("emergency ward", 1.0)):
            cap = PrivacyBudget.of(dataset, epsilon=epsilon, delta=1e-5, accepts=("public_models",))
            ledger.set_budget(cap, set_by=owner)
    for month in range(6):
        day = now - timedelta(days=30 * (5 - month) + 2)
        tables["study"] |= {"name": "screening", "edition": f"{day:%Y-%m-%d}"}
        released(ledger, tables | {"evaluation": {"epsilon": 1.0}}, day)
    newest = ledger.editions("screening")[-1].release
    old = replace(newest, value=newest.value | {"hyperparameters": {"lambda": 1000.0}})  # of the model in use
    FinalModel.of_release(StudySpec.from_dict(tables), folder, old).save(folder / "old")
    compared = {"epsilon": 0.5, "against": str(folder / "old"), "accepts": ["public_models"]}
    released(ledger, tables | {"evaluation": compared}, day + timedelta(hours=2))
    tables["study"] |= {"name": "triage", "edition": "first"}
    tables["privacy"] |= {"dataset": "emergency ward", "epsilon": 0.9}
    released(ledger, tables, now - timedelta(days=3))
    subprocess.run(command("report", "--html", "site"), cwd=folder, env=environment(folder), check=True)
    return folder / "site" / "index.html"


def main() -> None:
    if chromium() is None:
        sys.exit("make look needs Chromium. On Debian or Ubuntu: apt-get install chromium")
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES
    target.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as name:
        photograph(report_page(Path(name)).as_uri(), target / "report.png", size=(1280, 1080))
    with TemporaryDirectory() as name:
        (folder := Path(name) / "clinic").mkdir()  # whose name is a tag in Prefect
        with shown(folder, "1", "2", "3", "4") as world:
            experiment = f"{world.mlflow}#/experiments/{world.experiment}"
            study, run = (f"{experiment}/runs/{name}" for name in (world.study, world.run_id))
            photograph(
                world.mlflow + EDITIONS_PAGE.format(world.experiment),
                target / "mlflow_experiment.png",
                size=(1400, 700),
            )
            photograph(f"{study}?workflowType=machine_learning", target / "mlflow_study.png", size=(1400, 1000))
            photograph(f"{run}?workflowType=machine_learning", target / "mlflow.png", size=(1500, 1500))
            together = world.mlflow + COMPARISON_PAGE.format(world.experiment)
            photograph(together, target / "mlflow_compare.png", size=(1400, 1250))
            photograph(
                f"{run}/artifacts/plots/posterior.png?workflowType=machine_learning",
                target / "mlflow_posterior.png",
            )
            models = f"{world.mlflow}#/models/breast-cancer?workflowType=machine_learning"
            photograph(models, target / "mlflow_model.png")
            place = next((folder / "mlruns" / "artifacts").glob(f"*/{world.run_id}/artifacts"))
            photograph((place / "release.html").as_uri(), target / "certificate.png", size=(1000, 3100))
            shutil.copy(place / "plots" / "trajectory.png", target / "release.png")
        server = (sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", "4200")
        with serving(folder, *server, until="http://127.0.0.1:4200/api/health"):
            runs = httpx.post(
                "http://127.0.0.1:4200/api/flow_runs/filter",
                json={"limit": 1, "sort": "START_TIME_DESC"},
                timeout=30,
            ).json()
            page = f"http://127.0.0.1:4200/runs/flow-run/{runs[0]['id']}"
            photograph(page, target / "prefect.png")
            asked = {"artifacts": {"key": {"any_": ["release-breast-cancer"]}}, "sort": "CREATED_DESC", "limit": 1}
            (said,) = httpx.post("http://127.0.0.1:4200/api/artifacts/filter", json=asked, timeout=30).json()
            page = f"http://127.0.0.1:4200/artifacts/artifact/{said['id']}"
            photograph(page, target / "prefect_artifacts.png")
    for picture in sorted(target.glob("*.png")):
        print(picture)


if __name__ == "__main__":
    main()
