"""What `dpbo watch` does, between its words and its screen."""

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from dpbo.flows.cli.commands import OWNER_ALONE, check_padding, run_here
from dpbo.flows.cli.durations import seconds
from dpbo.flows.cli.screens.error_message import print_warnings
from dpbo.flows.cli.show import is_there
from dpbo.flows.prefect_runtime.requested_study import refuse_fields
from dpbo.flows.prefect_runtime.settings import Stores, quiet_environment
from dpbo_core.accounting.accounts import Account
from dpbo_core.accounting.ledger import PrivacyLedger
from dpbo_core.accounting.patterns import filled_at
from dpbo_core.errors import DpboError, StudyInvalid
from dpbo_core.spec import WatchSection
from dpbo_core.study.study_file import read_study

if TYPE_CHECKING:
    from dpbo.flows.watch import Watched
    from dpbo_core.evaluation.watch.watching import WatchPlan
    from dpbo_core.spec import StudySpec


def wanted(path: Path, **given: float | str | None) -> WatchSection:
    """The study's [watch], with what the command's words say in its place.

    Raises:
        StudyInvalid: a value that a watch cannot have.
    """
    section = read_study(path).watch or WatchSection()
    said = {name: value for name, value in given.items() if value is not None}
    return replace(section, **said)  # type: ignore[arg-type]  # the words' own types


def plan(path: Path, section: WatchSection) -> "WatchPlan":
    """The price of a watch and how it errs, from public files and the ledger. Charges nothing."""
    study = _asked(path)
    from dpbo_core.evaluation.watch.watching import plan_watch

    return plan_watch(study, ledger=PrivacyLedger(Stores().ledger), folder=path.parent, section=section)


def look(
    path: Path, section: WatchSection, *, name: str | None, retune: bool, pad: float
) -> "tuple[Watched, Account]":
    """One look as a Prefect flow; its bit, and its dataset's account afterwards.

    A look without a name is today's, UTC. What could not be published is told on standard error; the bit stands.

    Raises:
        DpboError: as a message. StudyInvalid: the study is not tuned yet, among others.
    """
    check_padding(pad)
    study, now = _asked(path), datetime.now(UTC)
    called = name or filled_at("{date}", now)
    if section.table is not None:
        section = replace(section, table=filled_at(section.table, now))
    quiet_environment()
    folder = os.path.relpath(str(path.parent))

    def flow() -> "Watched":
        from dpbo.flows.watch import watch_privately

        return watch_privately(study, called, folder, section, retune, pad)

    watched = run_here(study.name, flow, lambda what: _recorded_all_the_same(study, section, folder, called, what))
    print_warnings(watched.warnings)
    (account,) = PrivacyLedger(Stores().ledger).accounts(study.privacy.dataset)
    return watched, account


def serve(
    path: Path,
    section: WatchSection,
    *,
    cron: str | None,
    every: str | None,
    port: int,
    pad: float,
    retune: bool,
    trust: bool,
) -> None:
    """Look on a schedule until stopped.

    Raises:
        StudyInvalid: not exactly one schedule, or one that cannot be read.
    """
    if (cron is None) == (every is None):
        raise StudyInvalid(
            "a watch needs to know when it looks: --every, --cron or --once, and one of them",
            remedy="add --every 1d, or --once to look now",
        )
    check_padding(pad)
    interval = None if every is None else seconds(every)
    _asked(path)
    quiet_environment()
    from dpbo.flows import watch_schedule as story
    from dpbo.flows.prefect_runtime.prefect_store import create_prefect_store

    os.umask(OWNER_ALONE)
    create_prefect_store()
    try:
        story.serve_watch(path, section, cron=cron, every=interval, port=port, pad=pad, retune=retune, trust=trust)
    except DpboError:  # some of them are ValueErrors too
        raise
    except ValueError:
        pass
    else:
        return
    raise StudyInvalid(f"--cron {cron!r} is no schedule", remedy='write five fields, "0 6 * * *" say')


def _asked(path: Path) -> "StudySpec":
    """The study.

    Raises:
        StudyInvalid: it cannot be read; or there is no ledger here, so that it has released nothing.
    """
    study = read_study(path)
    refuse_fields(study)
    if not is_there(Stores().ledger):
        raise StudyInvalid(
            f"there is no ledger here, so the study {study.name!r} has released no model yet",
            cause="it is not tuned, or another folder's ledger was meant",
            remedy="run dpbo tune first, or change to the folder that holds mlruns",
        )
    return study


def _recorded_all_the_same(
    study: "StudySpec", section: WatchSection, folder: str, name: str, what: str
) -> DpboError | None:
    """The message where a run ended in an error, `what`, after its bit was recorded; None if it was not."""
    from dpbo_core.evaluation.watch.looks import open_look
    from dpbo_core.evaluation.watch.recorded_looks import Look

    try:
        found = open_look(study, ledger=PrivacyLedger(Stores().ledger), name=name, folder=folder, section=section)
    except DpboError:
        return None
    if not isinstance(found, Look):
        return None
    return DpboError(
        f"look {name!r} is recorded ({'ALARM' if found.alarm else 'holds'}), and Prefect failed after it ({what})",
        cause="Prefect's server or its database went away before it was told that the run was over",
        remedy="the same command again publishes it, reads nothing and spends nothing",
    )
