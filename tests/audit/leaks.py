"""The canary campaign: planted secrets, every method, every way a run can go, every byte it left behind.

A scenario is a prelude that breaks something with an exception whose message holds the secrets, or an environment,
or a kill. Each runs all methods in one process with a Prefect home of its own; then every store, file and stream is
searched.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import tomli_w
from canary import forms_of_number, forms_of_text, rows_of, search
from intruder import environment
from worlds import PATH_ACCEPTS, PATHS, with_method

from dpbo_core.methods import METHODS
from dpbo_core.study import StudySpec, data_split

FEATURE, LABEL, OTHER = 73914.28571429, "zq7-canary-label", "0.123456789"

SCRIPT = """
import os, signal, sys
from dpbo_core.models.scoring.in_memory import Objective
from dpbo.flows.cli import app as cli
SECRET = "{feature} {label}"
calls = 0
{prelude}
open("../begun", "w").close()
for kind in {kinds!r}:
    sys.argv = ["dpbo", "tune", kind + ".toml", "--new-spend", *{words!r}]
    try:
        cli.main()
    except SystemExit:
        pass
"""
BREAK = """
honest = {target}
def broken(*arguments, **named):
    global calls
    calls += 1
    if calls % 4 == {when}:
        try:
            raise KeyError(arguments)
        except KeyError as cause:
            raise {error}(SECRET) from cause
    return honest(*arguments, **named)
{target} = broken
Objective.evaluate_all = None  # models are scored one by one
"""
DRAW = "from dpbo_core.ledger.ledger import Reservation\nfrom dpbo_core.mechanisms.noise import Noise\n"
KILL = """
honest = Objective.evaluate
def killed(self, model):
    global calls
    calls += 1
    if calls == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return honest(self, model)
Objective.evaluate, Objective.evaluate_all = killed, None  # models are scored one by one
"""
LEAKY = """
honest, kept = Objective.evaluate, []
def leaky(self, model):
    total = honest(self, model)
    kept.append(total.expose())
    leak(kept[-1])
    return total
Objective.evaluate, Objective.evaluate_all = leaky, None  # models are scored one by one
def leak(score):
    pass
"""
LEAKS = {  # how an exact score could get into each place
    "prefect/": """
def leak(score):
    from prefect import get_run_logger
    get_run_logger().warning("score %s", score)
""",
    "mlruns/mlflow.db": """
from mlflow import MlflowClient
honest_end = MlflowClient.set_terminated
def set_terminated(self, run_id, *arguments, **named):
    if kept:
        self.set_tag(run_id, "best", max(kept))
    honest_end(self, run_id, *arguments, **named)
MlflowClient.set_terminated = set_terminated
""",
    "mlruns/artifacts": """
from dpbo.tasks.reporting import mlflow_run
honest_pictures = mlflow_run.save_pictures
def save_pictures(release, account, folder):
    import pyarrow, pyarrow.parquet
    shown, undrawn = honest_pictures(release, account, folder)
    pyarrow.parquet.write_table(pyarrow.table({"score": [float(score) for score in kept]}), folder / "p.parquet")
    return [*shown, folder / "p.parquet"], undrawn
mlflow_run.save_pictures = save_pictures
""",
    "ledger": """
from dataclasses import replace
from dpbo_core.ledger.ledger import Reservation
honest_conclude = Reservation.conclude
def conclude(self, release, **named):
    return honest_conclude(self, replace(release, facts={**release.facts, "best": max(kept)}), **named)
Reservation.conclude = conclude
""",
    "stderr": """
def leak(score):
    print("scored", score, file=sys.__stderr__)
""",
    "tmp/": """
def leak(score):
    import bz2, pickle, tempfile
    with tempfile.NamedTemporaryFile(delete=False) as file:
        file.write(bz2.compress(pickle.dumps({"score": str(score)})))
""",
}


@dataclass(frozen=True)
class Scenario:
    """How a run goes wrong: code that runs first, words on the command line, variables of the environment."""

    prelude: str = ""
    words: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


def _broken(target: str, *, when: int = 2, error: str = "ValueError", before: str = "") -> str:
    return before + BREAK.format(target=target, when=when, error=error)


SCENARIOS = {
    "success and refusal": Scenario(),
    "json": Scenario(words=("--json",)),
    "scoring fails": Scenario(_broken("Objective.evaluate")),
    "scoring fails, --debug": Scenario(_broken("Objective.evaluate"), words=("--debug",)),
    "reading fails": Scenario(
        _broken("data_split.sensitive_half", when=1, before="from dpbo_core.study import data_split\n")
    ),
    "drawing fails": Scenario(_broken("Noise.release", when=1, before=DRAW)),
    "recording fails": Scenario(_broken("Reservation.record", when=1, error="OSError", before=DRAW)),
    "killed": Scenario(KILL),
    "debug logging": Scenario(
        _broken("Objective.evaluate"), environment={"PREFECT_LOGGING_LEVEL": "DEBUG", "PREFECT_DEBUG_MODE": "1"}
    ),
}


def planted(where: str) -> Scenario:
    """A run that writes exact scores where they must be found."""
    return Scenario(LEAKY + LEAKS[where])


@dataclass(frozen=True)
class World:
    """A folder with a study a method, a ledger, and everything that must not be seen."""

    run: Path
    secrets: Mapping[str, Iterable[bytes]]
    ledger: str | None = None

    def go(self, scenario: Scenario, kinds: Iterable[str] = (*METHODS, *PATHS, "too_dear")) -> dict[str, bytes]:
        """Run methods under a scenario; the two streams, and every cell of the ledger."""
        own = {} if self.ledger is None else {"DPBO_LEDGER_URL": self.ledger}
        script = SCRIPT.format(
            feature=FEATURE, label=LABEL, prelude=scenario.prelude, kinds=list(kinds), words=list(scenario.words)
        )
        begun = self.run.parent / "begun"  # outside of what is searched
        begun.unlink(missing_ok=True)
        with TemporaryFile() as out, TemporaryFile() as err:
            process = subprocess.Popen(
                [sys.executable, "-c", script],
                cwd=self.run,
                env=environment(self.run) | own | dict(scenario.environment),
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
            process.wait()
            with suppress(ProcessLookupError):  # what a killed run leaves behind
                os.killpg(process.pid, signal.SIGKILL)
            out.seek(0)
            err.seek(0)
            if not begun.exists():
                raise RuntimeError(f"the scenario itself is broken: {err.read().decode()[-500:]}")
            return {"stdout": out.read(), "stderr": err.read(), "ledger": b"\n".join(rows_of(self.ledger_url))}

    @property
    def ledger_url(self) -> str:
        """Where the ledger is: where the environment says, or where it is by default."""
        return self.ledger or f"sqlite:///{self.run / 'mlruns' / 'ledger.db'}"

    def found(self, streams: Mapping[str, bytes]) -> set[tuple[str, str]]:
        """(where, which) of every secret in what the run left behind."""
        return search(self.run, self.secrets, streams)


def make_world(tables: dict[str, Any], folder: Path, ledger: str | None = None) -> World:
    """Two CSV files with planted records, outside the searched folder, and the truth about them."""
    data, run = folder / "data", folder / "run"
    data.mkdir(parents=True)
    run.mkdir()
    rng = np.random.default_rng(5)

    def rows(n: int) -> list[str]:
        x = rng.normal(size=(n, 2))
        y = (x[:, 0] + rng.normal(size=n) > 0).astype(int)
        return [f"{a:.9f},{b:.9f},{c}" for (a, b), c in zip(x, y, strict=True)]

    validation = rows(50)
    validation[3], validation[7] = f"{FEATURE},{OTHER},1", f"0.5,0.25,{LABEL}"
    (data / "train.csv").write_text("\n".join(["a,b,ill", *rows(60)]) + "\n")
    (data / "validation.csv").write_text("\n".join(["a,b,ill", *validation]) + "\n")
    files = {"training": "../data/train.csv", "validation": "../data/validation.csv"}
    tables["data"] = files | {"n_validation": 50, "target": "ill"}
    tables["budget"]["epsilon"] = 30.0
    tables["study"]["accepts"] = list(PATH_ACCEPTS)  # the first of them opens the cap
    for kind in (*METHODS, *PATHS):
        (run / f"{kind}.toml").write_text(tomli_w.dumps(with_method(tables, kind)))
    spec = StudySpec.from_dict(tables)
    tables["privacy"]["epsilon"] = 29.0
    (run / "too_dear.toml").write_text(tomli_w.dumps(tables))
    return World(run, _secrets(spec, run), ledger)


def _secrets(spec: StudySpec, run: Path) -> dict[str, set[bytes]]:
    """The planted record raw and standardised, its label, and the true score of every candidate."""
    public = data_split.public_half(spec, run)
    objective, problem = data_split.sensitive_half(spec, run, public), public.problem
    center, scale = public.preprocessing.features[0].center_and_scale
    secrets = {
        "feature": forms_of_number(FEATURE),
        "standardised feature": forms_of_number((FEATURE - center) / scale),
        "label": forms_of_text(LABEL),
        "other feature": {OTHER.encode()},
    }
    for i in range(len(problem.candidates)):
        total = objective.evaluate(problem.train(i)).expose()
        secrets[f"score {i}"] = {str(total).encode()} | forms_of_number(total * problem.score_per_step)
    return secrets
