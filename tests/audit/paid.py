"""Releases paid for while something beside them fails, ledgers and stores that fall silent, and what leaves."""

import copy
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import sqlalchemy as sa
import tomli_w
from conftest import STUDY

from audit.accounts import study, team
from audit.leaks import LABEL, Scenario, make_world
from audit.rows import ledger_in
from dpbo_core.errors import DpboError
from dpbo_core.ledger.charge import Charge

MATHTEXT = "a dataset whose name reads as mathematics"


def arrived() -> dict[str, bool]:
    """Whether the release could be read, at once and later, whatever failed."""
    from test_publishing import FAILURES, delete_experiment

    from dpbo.flows.cli.show import recorded_release
    from dpbo.flows.prefect_runtime.flow_runs import disable_heartbeat
    from dpbo.flows.prefect_runtime.run_server import run_server
    from dpbo.flows.private_flow import owners_terminal
    from dpbo.flows.tune import tune_privately
    from dpbo.tasks.tuning import publish

    came: dict[str, bool] = {}
    with team(), run_server(), disable_heartbeat(), owners_terminal(), \
            patch.object(publish, "retry_delay_seconds", [0, 0, 0]):  # fmt: skip
        budget = {"epsilon": 20.0}

        def tuned(name: str, dataset: str = "people", *, broken: str = "") -> None:
            edition = str(len(came))
            spec = study(edition, privacy={"dataset": dataset, "epsilon": 1.0}, budget=budget)
            if broken:
                with patch(broken, side_effect=ZeroDivisionError):
                    result = tune_privately(spec).result
            else:
                result = tune_privately(spec).result
            shown, _ = recorded_release(f"nightly:{edition}")
            came[name] = shown == result.release and tune_privately(spec).result.release == shown

        for name, (broken, _) in FAILURES.items():
            tuned(name, broken=broken)
        with patch("dpbo.flows.run_end.find_release", side_effect=lambda *_: delete_experiment() or 1 / 0):
            tuned("its experiment, deleted meanwhile")
    with team(), run_server(), disable_heartbeat(), owners_terminal():
        budget = {"epsilon": 20.0}
        tuned(MATHTEXT, "claims_$10k_$50k")
    return came


def waits() -> dict[str, float]:
    """Seconds until a message: a ledger, and MLflow's store, on a PostgreSQL that is silent."""
    from test_ledger import SYSTEM, key, plan
    from test_ledger_silent import accepting, stopped

    from dpbo.tasks.reporting.mlflow_store import check_target, open_store
    from dpbo_core.ledger.accounting.account import PrivacyBudget
    from dpbo_core.ledger.ledger import PrivacyLedger

    taken: dict[str, float] = {}

    @contextmanager
    def timed(name: str) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        except DpboError:
            taken[name] = time.monotonic() - begun
        else:
            taken[name] = float("inf")  # no message

    for name, answer in (("accepts and never answers", b""), ("no encryption, then nothing", b"N")):
        with accepting(answer) as port:
            url = f"postgresql+psycopg://somebody@127.0.0.1:{port}/people"
            with timed(f"ledger, {name}"):
                PrivacyLedger(url)
            with timed(f"MLflow, {name}"):
                told(check_target("people", url))
    with TemporaryDirectory(prefix="dpbo-audit-") as name, ledger_in("PostgreSQL", Path(name)) as url:
        ledger = PrivacyLedger(url)
        ledger.set_budget(PrivacyBudget.of("d", epsilon=1.0, delta=0.0))
        beside = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)
        with beside.connect() as connection:
            connection.exec_driver_sql("CREATE DATABASE pictures")
        shown = sa.make_url(url).set(database="pictures").render_as_string(hide_password=False)
        open_store(shown)  # its tables
        processes = postgres_of(Path(name) / "postgresql")
        with stopped(processes), timed("MLflow, stopped"):
            told(check_target("people", shown))
        with stopped(processes), timed("ledger, stopped after the connection"):
            ledger.reserve(Charge(key(), plan(0.25)), noise=SYSTEM)
    return taken


def told(warning: str) -> None:
    """A warning is a message too."""
    if warning:
        raise DpboError(warning)


def postgres_of(folder: Path) -> Callable[[], list[int]]:
    """The processes of the server whose data lie in `folder`."""
    import psutil

    main = psutil.Process(int((folder / "postmaster.pid").read_text().split()[0]))
    return lambda: [main.pid, *(child.pid for child in main.children())]


def outward() -> list[str]:
    """Connections of a whole tune that leave the machine."""
    from test_nothing_leaves import connections

    with TemporaryDirectory(prefix="dpbo-audit-") as name:
        folder = Path(name)
        (folder / "study.toml").write_text(tomli_w.dumps(STUDY))
        inward, found = connections(folder)
        assert len(inward) > 4  # it counts
        return list(found)


ABORT = """
import resource
ceiling = resource.getrlimit(resource.RLIMIT_CORE)[1]
resource.setrlimit(resource.RLIMIT_CORE, (ceiling, ceiling))
honest = Objective.evaluate
def aborts(self, model):
    global calls
    calls += 1
    if calls == 3:
        os.abort()
    return honest(self, model)
Objective.evaluate, Objective.evaluate_all = aborts, None  # models are scored one by one
"""
FAIL = """
def fails(self, *arguments):
    raise KeyError(SECRET)
Objective.evaluate, Objective.evaluate_all = fails, None
"""


def canaries() -> set[tuple[str, str]]:
    """Planted values found after a crash and a failure: in a core, a pickle, a temporary file, any file."""
    found = set()
    for prelude in (ABORT, FAIL):
        with TemporaryDirectory(prefix="dpbo-audit-") as name:
            world = make_world(copy.deepcopy(STUDY), Path(name))
            streams = world.go(Scenario(prelude), ("private_grid",))
            found |= world.found(streams)
            cores = [core for core in Path(name).rglob("core*") if core.is_file()]
            found |= {(str(core), "a core") for core in cores if LABEL.encode() in core.read_bytes()}
    return found
