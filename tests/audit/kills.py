"""Kill studies at random moments, run them again until they finish, and count what must be zero.

A child process runs a study; SIGKILL reaches it after a random time; the next child runs the very same study. In
the end there must be one reservation, each planned draw once, one release, the same to everyone who asks.
"""

import math
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from worlds import OPTIONS, PATH_ACCEPTS, PATHS

from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.study import StudySpec
from dpbo_core.study.resolve import plan_study
from dpbo_core.study.tuning import run_study

CONTEXT = multiprocessing.get_context("fork")  # the parent has imported everything: a child lives for a moment only
PATIENCE = 60  # attempts after which a study counts as one that cannot be finished
GROWTH = 1.1  # of a life from one attempt to the next: on a machine of any speed the last take minutes


def added(one: Any, other: Any) -> Any:
    """The sums of two campaigns' counts."""
    return type(one)(*(a + b for a, b in zip(vars(one).values(), vars(other).values(), strict=True)))


@dataclass(frozen=True)
class Figures:
    """What a campaign counted; all but the first two must be zero."""

    studies: int = 0
    kills: int = 0
    overspends: int = 0
    double_or_lost: int = 0
    unfinished: int = 0

    __add__ = added

    @property
    def clean(self) -> bool:
        return self.overspends == self.double_or_lost == self.unfinished == 0


def child(spec: StudySpec, url: str, outcome: Any) -> None:
    """Run the study and say its release, unless killed first."""
    outcome.send(run_study(spec, ledger=PrivacyLedger(url)).release.to_json())


def attempt(spec: StudySpec, url: str, life: float | None, together: int) -> tuple[int, list[Any]]:
    """`together` processes on one study, each killed after its own share of `life`; kills and what was shown.

    Nobody is killed where `life` is None.
    """
    running = []
    for _ in range(together):
        receive, send = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(target=child, args=(spec, url, send))
        process.start()
        send.close()
        deadline = math.inf if life is None else time.monotonic() + random.uniform(0.0, life)
        running.append((process, receive, deadline))
    kills, shown = 0, []
    for process, receive, deadline in sorted(running, key=lambda item: item[2]):
        process.join(None if deadline == math.inf else max(0.0, deadline - time.monotonic()))
        if process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.join()
        with suppress(EOFError):
            shown.append(receive.recv())
    return kills, shown


def one_study(spec: StudySpec, url: str, life: float, together: int) -> Figures:
    """Run, kill and run again until somebody finishes; then compare what was shown with what was recorded."""
    kills, shown, attempts = 0, [], 0
    while not shown and attempts < PATIENCE:
        killed, seen = attempt(spec, url, life * GROWTH**attempts, together)
        kills, attempts = kills + killed, attempts + 1
        shown += seen
    shown += attempt(spec, url, None, 1)[1]  # and asked once more, by a process that nobody kills
    ledger, plan = PrivacyLedger(url), plan_study(spec)
    (account,) = ledger.accounts(spec.privacy.dataset)
    planned = sum(spend.rho_units for spend in plan.spends)
    one_release = len(shown) >= 1 and all(release == shown[0] for release in shown)
    entries = [entry for entry in account.entries if entry.study == spec.name]
    return Figures(
        studies=1,
        kills=kills,
        overspends=int(account.spent.rho_units != planned),
        double_or_lost=int(not one_release or len(entries) != 1 or entries[0].released_at is None),
        unfinished=int(not shown),
    )


def campaign(
    spec: StudySpec,
    kinds: tuple[str, ...],
    url_of: Callable[[int], str],
    *,
    kills: int,
    together: int,
    life: float = 0.4,
) -> Figures:
    """Studies of every kind in turn, each on a dataset of its own, until at least `kills` processes were killed."""
    total, number = Figures(), 0
    while total.kills < kills:
        kind = kinds[number % len(kinds)]
        privacy = spec.privacy.replace(dataset=f"{spec.privacy.dataset}-{together}-{number}")
        study = spec.replace(
            name=f"killed-{together}-{number}",
            method="lipschitz" if kind in PATHS else kind,
            privacy=privacy,
            options=(OPTIONS | PATHS).get(kind, {}),
            accepts=PATH_ACCEPTS if kind in PATHS else spec.accepts,
        )
        total += one_study(study, url_of(number), life, together)
        number += 1
    return total
