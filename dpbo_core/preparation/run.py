"""One run of a private query: which ledger pays, who asks, where noise comes from."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dpbo_core.ledger.charge import Caller
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.mechanisms.noise import NoiseSource, OperatingSystemNoise
from dpbo_core.scoring.partitioned import Workers

OS_NOISE = OperatingSystemNoise()


def at_once() -> None:
    """Do nothing before a first charge: the default in place of a confirmation."""


def warn(useless: str) -> None:
    """Issue a Python warning that the study about to be charged is useless."""
    warnings.warn(useless, stacklevel=2)


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """Everything about a private query that is not the query: decided once, at the front door.

    Attributes:
        ledger: where budgets, draws and releases are.
        folder: the folder that a study's data paths are relative to.
        source: where noise comes from; the operating system unless a test says otherwise.
        caller: who asks; what only the owner may do is refused to an operator.
        workers: who scores the parts of a partitioned validation set; this process where None.
        scheduled: whether this is one run of a schedule, whose search begins with what earlier runs released.
        before_charge: called before a first charge; refuses by raising.
        consent: called before a first charge that its own plan calls useless, with why; refuses by raising.
        asked_by: who asks, in words, for the ledger.
        steps_seen: whether others see when each step begins and ends, as on a Prefect server that was there before.
    """

    ledger: PrivacyLedger
    folder: str | Path = "."
    source: NoiseSource = OS_NOISE
    caller: Caller = Caller.OWNER
    workers: Workers | None = None
    scheduled: bool = False
    before_charge: Callable[[], None] = at_once
    consent: Callable[[str], object] = warn
    asked_by: str = ""
    steps_seen: bool = False
