"""The context of a private query: caller, ledger, folder of data paths, noise source, and workers."""

import warnings
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from dpbo_core.errors import SpendUseless
from dpbo_core.ledger.charge import Caller
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.mechanisms.noise import NoiseSource, OperatingSystemNoise
from dpbo_core.models.scoring.partitioned import Workers

OS_NOISE = OperatingSystemNoise()


class IfUseless(Enum):
    """Whether a new charge whose plan expects mostly noise is made, made with a warning, or refused."""

    SPEND = auto()
    WARN = auto()
    REFUSE = auto()

    def check(self, useless: str) -> None:
        """Warn or refuse where `useless` says why the plan expects mostly noise; nothing for "".

        Raises:
            SpendUseless: this is REFUSE; nothing was charged.
        """
        if useless and self is IfUseless.REFUSE:
            raise SpendUseless(useless)
        if useless and self is IfUseless.WARN:
            warnings.warn(useless, stacklevel=2)


@dataclass(frozen=True, eq=False, repr=False)
class QueryContext:
    """The context of a private query: everything about it but the query itself. The entry points create it once.

    Attributes:
        ledger: where budgets, draws and releases are.
        folder: the folder that a study's data paths are relative to.
        source: where noise comes from; the operating system unless a test says otherwise.
        caller: who asks; what only the owner may do is refused to an operator.
        workers: who scores the parts of a partitioned validation set; this process where None.
        scheduled: whether this is one run of a schedule, whose search begins with what earlier runs released.
        if_useless: what becomes of a first charge that is useless by its own plan.
        asked_by: who asks, as text, for the ledger.
        steps_seen: whether others see when each step begins and ends, as on a shared Prefect server.

    """

    ledger: PrivacyLedger
    folder: str | Path = "."
    source: NoiseSource = OS_NOISE
    caller: Caller = Caller.OWNER
    workers: Workers | None = None
    scheduled: bool = False
    if_useless: IfUseless = IfUseless.WARN
    asked_by: str = ""
    steps_seen: bool = False
