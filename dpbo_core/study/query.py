"""A private query of sensitive records, its context, and the only way from its price to its release.

    query = PrivateQuery(key, plan, draws=…, sources=…)
    release = replay(key, context)                 asked before: the same release, which costs nothing
    charge = charged(query, context)               the whole price, durably, before any record's content is used
    outcome = charge.draw(spend, mechanism, exact)   drawn once, recorded with its spend before it is shown
    charge.conclude(query.release(value, charge.standing))   recorded once

`charged` is the only place that reserves. A rerun takes over its own reservation, reads recorded draws back and
goes on after them; what was reserved is never given back.
"""

import hashlib
import json
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any, TypeVar

from dpbo_core.errors import DpboError, LedgerDamaged, MechanismRefused, SpendUseless
from dpbo_core.ledger.accounting.account import Account
from dpbo_core.ledger.accounting.admission import Price
from dpbo_core.ledger.accounting.composition import price_of
from dpbo_core.ledger.charge import Caller, Charge, QueryKey, WarmStart
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.reservation import Check, Reservation
from dpbo_core.mechanisms.noise import (
    Mechanism,
    Noise,
    NoiseSource,
    OperatingSystemNoise,
    rehearse_draws,
    standing_of,
)
from dpbo_core.methods.contract import Draws
from dpbo_core.models.scoring.partitioned import Workers
from dpbo_core.privacy.guarantee import PrivacyGuarantee
from dpbo_core.privacy.named_parts import library_version
from dpbo_core.privacy.release import Release, Spend
from dpbo_core.privacy.sensitive import Message, Opaque, Sensitive, messages, sealed

OS_NOISE = OperatingSystemNoise()


class IfUseless(Enum):
    """Whether a new charge whose plan expects mostly noise is made, made with a warning, or refused."""

    SPEND = auto()
    WARN = auto()
    REFUSE = auto()

    def check(self, useless: str) -> None:
        """Warn or refuse where `useless` says why the plan expects mostly noise; nothing for ""."""
        if useless and self is IfUseless.REFUSE:
            raise SpendUseless(useless)
        if useless and self is IfUseless.WARN:
            warnings.warn(useless, stacklevel=2)


@dataclass(frozen=True, eq=False, repr=False)
class QueryContext:
    """The context of a private query: everything about it but the query itself. The entry points create it once."""

    ledger: PrivacyLedger  # where budgets, draws and releases are
    folder: str | Path = "."  # that a study's data paths are relative to
    source: NoiseSource = OS_NOISE  # where noise comes from; the operating system unless a test says otherwise
    caller: Caller = Caller.OWNER  # who asks; what only the owner may do is refused to an operator
    workers: Workers | None = None  # who scores the parts of a partitioned validation set; this process where None
    scheduled: bool = False  # whether this is a run of a schedule, which begins with what earlier ones released
    if_useless: IfUseless = IfUseless.WARN  # what becomes of a first charge that is useless by its own plan
    asked_by: str = ""  # who asks, as text, for the ledger
    steps_seen: bool = False  # whether others see when each step begins and ends, as on a shared Prefect server


T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class PrivateQuery(Charge):
    """A query of sensitive records: its key, its price, its draws with their mechanisms, where its records are."""

    # of the plan, each with its mechanism; with one of another size, at the same price, where the number of values
    # to be noised is private, or not known yet
    draws: Draws = ()
    useless: str = ""  # why its plan, from public facts alone, expects mostly noise; "" if it does not

    def release(self, value: Mapping[str, Any], standing: str, facts: Mapping[str, Any] | None = None) -> Release:
        """Return an unrecorded `Release` of `value`, in plain JSON, and public `facts`, at this query's price.

        "injected" as the noise's `standing` voids the guarantee.
        """
        return Release(
            value=value,
            guarantee=self.plan.guarantee.as_drawn(standing),
            spends=self.plan.spends,
            study=self.key.study,
            edition=self.key.edition,
            method=self.key.method,
            dataset=self.key.dataset,
            facts={"version": library_version(), **(facts or {})},
            noise=standing,
        )


class Charged(Opaque):
    """A query that was paid for: it is drawn, recorded and concluded through this, in the curator's process."""

    __slots__ = ("_reservation", "noise")

    def __init__(self, reservation: Reservation, noise: Noise) -> None:
        self._reservation, self.noise = reservation, noise

    @property
    def standing(self) -> str:
        """Where the noise comes from: "operating_system", or "injected" by the caller."""
        return self._reservation.noise

    @property
    def warm_start(self) -> WarmStart | None:
        """The earlier editions' releases that the search begins with, fixed when charged; None: it never learns."""
        return self._reservation.warm_start

    def recorded(self, what: str) -> Mapping[str, Any] | None:
        """Return the outcome of the noise draw named `what`; None if the ledger has none."""
        return self._reservation.recorded(what)

    def open(self) -> None:
        """Record durably that sensitive bytes are about to be opened; refused if the charge was taken over."""
        self._reservation.open()

    def draw(
        self,
        spend: Spend,
        mechanism: Mechanism[T],
        exact: Callable[[], Sensitive[T]],
        *,
        message: Message | None = None,
        **public: int | str,
    ) -> Mapping[str, Any]:
        """Return a noise draw's outcome: as recorded or, if none, `exact()` noised now and recorded with `public`.

        `message`: what may leave of an error of `exact`; nothing leaves of any other. A rerun continues.
        """
        damage = messages(LedgerDamaged)
        outcome = sealed(lambda: self.noise.recorded(spend), message=damage)
        if outcome is None:
            sealed(lambda: self.noise.prepare_draws([(spend, mechanism)]))
            value = sealed(exact, message=message)
            outcome = sealed(lambda: self.noise.release(spend, mechanism, value, **public), message=damage)
        return outcome

    def record(
        self, spend: Spend, outcome: Callable[[], Mapping[str, Any]], *, check: Check | None = None
    ) -> Mapping[str, Any]:
        """Return what is recorded under this spend; if nothing, `outcome()`, recorded now unless `check` raises.

        `check` sees, in that transaction, what the query recorded before, and refuses by raising.
        """
        return self._reservation.record(spend, outcome, check=check)

    def as_published(self, guarantee: PrivacyGuarantee) -> PrivacyGuarantee:
        """The guarantee as a release states it: ε = ∞ if noise was injected, and what the owner published since."""
        return self._reservation.assumed(guarantee.as_drawn(self.standing))

    def conclude(self, release: Release, *, check: Check | None = None) -> Release:
        """Return the release, recorded now unless `check` raises, or read back as it was recorded first.

        Of an error the ledger's own message leaves, and nothing else.
        """
        return sealed(
            lambda: self._reservation.conclude(release, check=check), message=messages(DpboError, LedgerDamaged)
        )


def fingerprint_of(facts: Any) -> str:
    """Return the SHA-256 in hex of public facts in plain JSON, as a query's fingerprint."""
    text = json.dumps(facts, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def replay(key: QueryKey, context: QueryContext) -> Release | None:
    """Return the recorded release of the query with this key; None if there is none. Nothing is spent."""
    return context.ledger.release_of(key.fingerprint)


def charged(query: PrivateQuery, context: QueryContext, *follow_ups: PrivateQuery) -> Charged:
    """Return the charge of a query and its follow-ups, reserved now, or of an earlier run that is resumed.

    Args:
        query: whose public part is done; no record's content was used.
        context: which ledger pays, who asks, where noise comes from.
        follow_ups: what will be asked of the same records afterwards: charged together, or nothing is.

    Raises:
        BudgetRefused, PolicyRefused, AssumptionNotAccepted, StudyInvalid, LedgerDamaged: nothing was charged.
        MechanismRefused: its draws cost more than its plan guarantees; nothing was charged.
        SpendUseless: its plan expects mostly noise, and the context refuses that; nothing was charged.
    """
    for one in (query, *follow_ups):
        _check_guarantee(one)
        rehearse_draws(one.draws)
    library_version()  # read here: a release states it, and after the reservation nothing public is looked up
    if context.ledger.reserved(query.key.fingerprint) is None:
        context.if_useless.check(together(query, *follow_ups))
        _check_room_together(context, query, *follow_ups)
    reservation = context.ledger.reserve(
        query, *follow_ups, noise=standing_of(context.source), caller=context.caller, asked_by=context.asked_by
    )
    return Charged(reservation, Noise(context.source, reservation))


def together(*queries: PrivateQuery) -> str:
    """Return why the plans of some queries expect mostly noise, in one text; "" where none does."""
    return "; ".join(query.useless for query in queries if query.useless)


def _check_room_together(context: QueryContext, query: PrivateQuery, *follow_ups: PrivateQuery) -> None:
    if not follow_ups:
        return
    accounts = context.ledger.accounts(query.key.dataset)
    account = next(iter(accounts), None) or (None if query.cap is None else Account.opened(query.cap))
    price = Price(account, {one.key.study: one.plan for one in (query, *follow_ups)})
    if price.refusal is not None:
        raise price.refusal


def _check_guarantee(query: PrivateQuery) -> None:
    """Refuse a query whose planned draws cost more together than its guarantee; a refuted one claims nothing."""
    guarantee = query.plan.guarantee
    if guarantee.evidence.refuted or guarantee.epsilon == math.inf:
        return
    epsilon, delta = price_of(query.plan.spends, guarantee.epsilon, guarantee.delta)
    if not (epsilon <= guarantee.epsilon * (1.0 + 1e-12) and delta <= guarantee.delta * (1.0 + 1e-12)):
        raise MechanismRefused(
            f"the draws cost (ε, δ) = ({epsilon:.6g}, {delta:.6g}), and their plan guarantees "
            f"({guarantee.epsilon:g}, {guarantee.delta:g})",
            cause="a kind of query whose prices do not add up to its guarantee",
            remedy="split the guarantee's ε among its draws, in whole units; nothing was charged",
        )


def resumed(key: QueryKey, context: QueryContext) -> Charged:
    """Return a charged query by its key, to record its conclusion at no cost; raises if it was never charged."""
    reservation = context.ledger.resumed(key)
    return Charged(reservation, Noise(context.source, reservation))
