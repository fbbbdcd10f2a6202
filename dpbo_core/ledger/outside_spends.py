"""Spends made by other tools: `Budget` books them in the ledger, against the cap that dpbo's own studies share.

| form | what is charged | needs |
|---|---|---|
| (ε, δ) | ε as randomised response, and δ | δ > 0: a cap that accepts `charge_fixed_beforehand` |
| ρ | ρ | a cap with δ > 0 |
| Rényi curve | ρ of its loss below a level, and the level's δ | as (ε, δ) |
| `dp_accounting` event | its ε and ρ if nothing is sampled; otherwise as a Rényi curve | as these |

The level is fixed from the declared price and the cap alone: δ of it is `delta`, or a hundredth of the cap's δ. A
cap on training records adds (ε, δ), so there every form becomes one pair at that δ. dpbo checks none of these
prices: each stands "as declared by CALLER, not checked by dpbo".
"""

import hashlib
import json
import math
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dpbo_core.errors import AlreadySpent, StudyInvalid, no_budget
from dpbo_core.ledger.accounting.account import DECLARED_METHOD, DECLARED_STANDING, Account, PrivacyBudget
from dpbo_core.ledger.accounting.composition import compose
from dpbo_core.ledger.address import ledger_url
from dpbo_core.ledger.charge import Charge, QueryKey
from dpbo_core.ledger.history import utc_now
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.privacy.amounts import from_units, spent_units
from dpbo_core.privacy.certified import CertificateRules, Worth
from dpbo_core.privacy.guarantee import (
    CHARGE_FIXED_BEFOREHAND,
    OTHER_TOOLS_NOISE,
    Evidence,
    NeighboringRelation,
    PrivacyGuarantee,
    PrivacyUnit,
    Standing,
)
from dpbo_core.privacy.named_parts import library_version
from dpbo_core.privacy.release import PrivacyPlan, Release, Spend
from dpbo_core.theorems import events
from dpbo_core.theorems.canonne_kamath_steinke_2020 import proposition_12_epsilon
from dpbo_core.theorems.loss_profile import LossProfile, renyi_rho

KIND, MECHANISM = DECLARED_METHOD, "declared by CALLER"
NEIGHBOURS = {"replace_one": "replace_one", "add_or_remove_one": "add_or_remove", "zero_out": "zero_out"}
N_LEVELS = 100  # the cap's δ over that of a spend which states none
STATED_DELTA = 1e-6  # at which ρ is stated as an ε where the cap has no δ
MAX_EPSILON, MAX_RHO = 4_000.0, 9e6  # whose ρ = ε²/2, in 10⁻¹², is a 64-bit integer in the ledger
MAX_TEXT_LENGTH = 200  # characters of a name

WORTH = {MECHANISM: Worth(lambda one: (None if one.epsilon_units is None else one.epsilon, one.rho), by_price=True)}


@dataclass(frozen=True)
class DeclaredSpend:
    """A spend in the ledger.

    Attributes:
        epsilon: ε that the receipt states.
        delta: δ that it holds at.
        what: what was asked, in the caller's words.
        name: the caller's name for it, or the number that the ledger gave it.
        replayed: whether it was booked before, so that nothing was charged now.
        overdrawn: whether the dataset's cap is exceeded, so that nothing more is admitted.
        receipt: the release that the ledger holds of it; `dpbo show` prints it, and signs it with `--out`.
    """

    epsilon: float
    delta: float
    what: str
    name: str
    replayed: bool
    overdrawn: bool
    receipt: Release


@dataclass(frozen=True)
class Price:
    """A declared price in one of four forms, and `delta` as the form says."""

    epsilon: float | None = None
    delta: float = 0.0
    rho: float | None = None
    renyi: Mapping[str, Sequence[float]] | None = None
    event: Any = None
    replaced_moves: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the price as plain JSON, checked. Two prices are the same if and only if this is."""
        stated = {"epsilon": self.epsilon, "rho": self.rho, "renyi": self.renyi, "event": self.event}
        forms = {name: value for name, value in stated.items() if value is not None}
        if len(forms) != 1:
            what = "a spend is priced in exactly one form"
            raise _bad_price(what, "give epsilon, rho, a Rényi curve or an event")
        moves = self.replaced_moves
        if moves is not None and not (type(moves) in (int, float) and 0.0 < moves < math.inf):
            raise _bad_price(f"replaced_moves is {moves!r}", "give a positive number")
        if not (type(self.delta) in (int, float) and 0.0 <= self.delta < 1.0):
            raise _bad_price(f"delta is {self.delta}", "give a number from 0 up to, and without, 1")
        ((form, value),) = forms.items()
        if form in ("epsilon", "rho"):
            if not (type(value) in (int, float) and 0.0 < value < math.inf):
                raise _bad_price(f"{form} is {value!r}", "give a positive number")
            if value > MAX_EPSILON:
                raise _bad_price(f"{form} is above {MAX_EPSILON:g}", "declare it as several spends, which add up")
            value = float(value)
        else:
            try:
                if form == "event":
                    value = events.event_json(value)
                else:
                    value = {name: list(map(float, value[name])) for name in ("orders", "costs")}
            except (ValueError, KeyError, TypeError) as error:
                raise _bad_price(f"the {form} cannot be read: {error}", "correct it, or declare (ε, δ)") from None
        return {form: value, "delta": float(self.delta), "replaced_moves": self.replaced_moves}

    def spends(self, budget: PrivacyBudget, unit: PrivacyUnit) -> tuple[Spend, ...]:
        """The spends that the ledger adds up, rounded up; StudyInvalid for a price that this cap cannot hold."""
        level = self.delta or from_units(budget.delta_units // N_LEVELS)
        try:
            parts = self._parts(budget.relation, level, pairs=unit is PrivacyUnit.TRAINING_RECORD)
        except (ValueError, KeyError, TypeError) as error:
            raise _bad_price(f"the price cannot be read: {error}", "correct it, or declare (ε, δ)") from None
        if any(number is not None and number > MAX_RHO for part in parts for number in part):
            raise _bad_price("the price has no finite ε at this δ", "give a larger --delta")
        names = ("price", "price of the Gaussian part")
        return tuple(_spend(name, *part) for name, part in zip(names, parts, strict=False))

    def _parts(
        self, relation: NeighboringRelation, level: float, *, pairs: bool
    ) -> list[tuple[float | None, float, float]]:
        """Return (ε or None, δ, ρ) of each spend; with `pairs`, of a single spend that is only (ε, δ)."""
        if self.epsilon is not None:
            return [(self.epsilon, self.delta, 0.5 * self.epsilon**2)]
        neighbours, moves = NEIGHBOURS.get(relation.value, ""), self.replaced_moves
        exact = (0.0, self.rho) if self.rho is not None else None
        if self.event is not None:
            if not neighbours:
                raise ValueError(f"an event has no price under {relation}")
            exact = events.exact_cost(self.event, neighbours=neighbours, replaced_moves=moves)
            if exact == (0.0, 0.0):
                raise ValueError("the event costs nothing")
        if exact is not None and not (pairs and exact[1] > 0.0):
            pure, rho = exact
            parts: list[tuple[float | None, float, float]] = [(pure, 0.0, 0.5 * pure**2)] if pure > 0.0 else []
            return [*parts, (None, 0.0, rho)] if rho > 0.0 else parts
        if level <= 0.0:
            raise ValueError("its ε needs a δ, and neither it nor the cap has one")
        if self.rho is not None:
            epsilon = proposition_12_epsilon(rho=self.rho, delta=level)
            return [(epsilon, level, 0.5 * epsilon**2)]
        if self.renyi is not None:
            curve = self.renyi["orders"], self.renyi["costs"]
            epsilon = LossProfile.of_renyi(*curve).epsilon(level) if pairs else math.inf
            rho = math.inf if pairs else renyi_rho(*curve, level)
        else:
            profile = LossProfile.of_event(self.event, neighbours=neighbours, replaced_moves=moves)
            epsilon = profile.epsilon(level) if pairs else math.inf
            rho = math.inf if pairs else profile.cut_rho(level)
        return [(epsilon, level, 0.5 * epsilon**2) if pairs else (None, level, rho)]


def _spend(what: str, epsilon: float | None, delta: float, rho: float) -> Spend:
    if math.inf in (epsilon, rho):
        raise ValueError("no finite price")
    units = None if epsilon is None else spent_units(epsilon)
    return Spend(what, MECHANISM, units, spent_units(delta), max(1, spent_units(rho)), 0.0, 0.0)


def _bad_price(what: str, remedy: str) -> StudyInvalid:
    return StudyInvalid(what, cause="the price of a spend is one number, curve or event", remedy=remedy)


class Budget:
    """A dataset's budget for work outside dpbo: every spend is charged before the work runs, and never refunded.

    Args:
        dataset: the budget's name in the ledger.
        ledger: the ledger's URL; None for that of the command.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from dpbo_core import Budget, PrivacyBudget, PrivacyLedger
        >>> folder = TemporaryDirectory()
        >>> url = f"sqlite:///{folder.name}/ledger.db"
        >>> PrivacyLedger(url).set_budget(PrivacyBudget.of("clinic", epsilon=5.0, delta=1e-5))
        True
        >>> with Budget("clinic", url).spending(epsilon=0.5, what="weekly counts", tool="opendp") as spend:
        ...     spend.epsilon
        0.5
    """

    def __init__(self, dataset: str, ledger: str | None = None) -> None:
        self.dataset, self._url = dataset, ledger

    def charge(
        self,
        *,
        what: str,
        epsilon: float | None = None,
        delta: float = 0.0,
        rho: float | None = None,
        renyi: Mapping[str, Sequence[float]] | None = None,
        event: Any = None,
        replaced_moves: float | None = None,
        name: str = "",
        tool: str = "",
        version: str = "",
        unit: PrivacyUnit | None = None,
        already_happened: bool = False,
    ) -> DeclaredSpend:
        """Book a spend made elsewhere, before its work runs. The same name and price again charge nothing.

        Args:
            what: what is asked, as text.
            epsilon: the price as (ε, `delta`). One of the four forms is given.
            delta: δ of that price; of another form, δ of the level at which its loss is cut.
            rho: the price in zero-concentrated differential privacy.
            renyi: a Rényi curve, {"orders": […], "costs": […]}.
            event: a `dp_accounting` event.
            replaced_moves: of an event under replace-one, how far one replaced record moves its sum.
            name: the caller's name for it; empty for a new spend every time.
            tool: what will run, "opendp" say.
            version: its version.
            unit: whom the price protects, where the dataset has no spend yet; a validation record if None.
            already_happened: record it even beyond the cap, which is then overdrawn.

        Raises:
            StudyInvalid: the price cannot be read, or this name was booked at another price.
            NoBudget, BudgetExceeded, BudgetRefused: nothing was charged.
            AssumptionNotAccepted: the cap keeps no δ for spends that are only (ε, δ).
        """
        price = Price(epsilon, delta, rho, renyi, event, replaced_moves)
        form = price.to_json()
        for label, text in (("what", what), ("name", name), ("tool", tool), ("version", version)):
            if len(text) > MAX_TEXT_LENGTH or not text.isprintable() or (label == "what" and not text.strip()):
                remedy = f"use 1 to {MAX_TEXT_LENGTH} printable characters"
                raise StudyInvalid(f"{label} is {text[:MAX_TEXT_LENGTH]!r}", remedy=remedy)
        ledger = PrivacyLedger(ledger_url(self._url))
        accounts = ledger.accounts(self.dataset)
        if not accounts:
            raise no_budget(self.dataset)
        (account,) = accounts
        budget, unit = account.budget, account.unit or unit or PrivacyUnit.VALIDATION_RECORD
        stated = {"price": form, "what": what, "tool": tool, "version": version}
        spends = price.spends(budget, unit)
        person = ledger.person(self.dataset) if unit is PrivacyUnit.PERSON else None
        guarantee = _guarantee(budget, unit, spends, person, already_happened=already_happened)
        identity = ["declared spend", self.dataset, name or secrets.token_hex(16)]
        fingerprint = hashlib.sha256(json.dumps(identity).encode()).hexdigest()
        key = QueryKey(fingerprint, self.dataset, what, name or fingerprint[:16], KIND)
        charge = Charge(
            key,
            PrivacyPlan(guarantee, spends),
            max_records_per_person=account.records[-1] if account.records else 1,
            resolved={KIND: stated},
        )
        receipt = Release(
            {**stated, "standing": DECLARED_STANDING},
            guarantee,
            spends,
            what,
            key.edition,
            KIND,
            self.dataset,
            {"version": library_version(), "booked_at": utc_now()},
            OTHER_TOOLS_NOISE,
        )
        booked, new = ledger.book(charge, receipt, beyond_cap=already_happened)
        (account,) = ledger.accounts(self.dataset)
        overdrawn = not account.budget.admits(account.spent, account.unit, account.filtered)
        return DeclaredSpend(
            booked.guarantee.epsilon, booked.guarantee.delta, what, key.edition, not new, overdrawn, booked
        )

    @contextmanager
    def spending(self, *, what: str, name: str = "", **price: Any) -> Iterator[DeclaredSpend]:
        """Charge a spend as `charge` does, and run the block. A named spend enters its block at most once.

        Raises:
            AlreadySpent: a spend of this name was booked before, even if its block failed or was killed: its price
                paid for one run, and another one would draw fresh noise.
        """
        spend = self.charge(what=what, name=name, **price)
        if spend.replayed:
            raise AlreadySpent(
                f"the spend {name!r} of dataset {self.dataset!r} was booked before",
                cause="its block ran, failed or was killed, and one price pays for one run",
                remedy="use what that run released; or give the new run another name, for a new price",
            )
        yield spend


def plan_of(price: Price, account: Account) -> PrivacyPlan:
    """Return what a declared spend would be charged to this account: its spends, and its receipt's guarantee."""
    price.to_json()
    unit = account.unit or PrivacyUnit.VALIDATION_RECORD
    spends = price.spends(account.budget, unit)
    return PrivacyPlan(_guarantee(account.budget, unit, spends, None, already_happened=False), spends)


def _guarantee(
    budget: PrivacyBudget,
    unit: PrivacyUnit,
    spends: tuple[Spend, ...],
    person: str | None,
    *,
    already_happened: bool,
) -> PrivacyGuarantee:
    """Return what the receipt states: (ε, δ) of the spends together, by the caller's word."""
    total = compose(spends)
    epsilon, delta = total.epsilon(budget.conversion_for(unit) or STATED_DELTA)
    needed = already_happened or (total.delta_units > 0 and unit is not PrivacyUnit.TRAINING_RECORD)
    assumptions = (CHARGE_FIXED_BEFOREHAND.name,) if needed else ()
    evidence = Evidence(Standing.DECLARED, DECLARED_STANDING)
    return PrivacyGuarantee(epsilon, delta, unit, budget.relation, assumptions, evidence, person)


def certificate_rules(release: Release) -> CertificateRules:
    """Return what the receipt of a declared spend must state: its own spends, whose prices are taken as printed."""
    return CertificateRules(
        {spend.what: (MECHANISM,) for spend in release.spends},
        0.0,
        units=tuple(PrivacyUnit),
        relations=tuple(NeighboringRelation),
    )
