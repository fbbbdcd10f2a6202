"""The durable history of every guarantee: reserve first, record each draw once, never give back.

The protocol, keyed by a study's fingerprint (its whole spec, its edition and the public training data):

    reserve    the whole plan, durably, before any record's content is used
    record     a draw, its spend and its outcome in ONE transaction, committed before a byte of it is shown
    conclude   the release, once
    rerun      takes over its own reservation, reads recorded draws back, continues after them

A corrected study may take over an unfinished reservation under which nothing sensitive was opened (`reservation`).
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from dpbo_core.errors import StudyInvalid, no_budget
from dpbo_core.ledger import policy, reservation
from dpbo_core.ledger.accounting import admission
from dpbo_core.ledger.accounting.account import ASKED_FACT, LEARNED, PrivacyBudget
from dpbo_core.ledger.accounting.composition import compose, draws_in
from dpbo_core.ledger.accounts import DatasetAccount, StoredEntries, account_of, cap_of, dataset_with_cap, draws_of
from dpbo_core.ledger.charge import Caller, Charge, QueryKey
from dpbo_core.ledger.history import Writer, row_decoding, utc_now
from dpbo_core.ledger.lookup import CHARGED_QUERY, check_recovered, warm_start_of
from dpbo_core.ledger.owners_ledger import OwnersLedger, References, check_allowed, check_limits
from dpbo_core.ledger.policy import (
    ANSWERS,
    MAX_CALLER_LENGTH,
    NAMES_QUERY,
    RECORDS,
    SCORE,
    facts_about,
    records_of,
    write_fact,
)
from dpbo_core.ledger.reservation import Reservation, recorded_release
from dpbo_core.ledger.schema import RESERVATIONS
from dpbo_core.ledger.sources import Source
from dpbo_core.privacy.guarantee import OPERATING_SYSTEM, PrivacyGuarantee, PrivacyUnit
from dpbo_core.privacy.release import Release

__all__ = ["PrivacyLedger", "QueryKey", "Reservation"]


class _RollbackError(Exception):
    """Raised to leave a transaction of which nothing is to stay."""


class PrivacyLedger(OwnersLedger):
    """The ledger in one database: a SQLite file, or a PostgreSQL database that a team shares.

    Raises:
        LedgerDamaged: an old copy of it was restored.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from dpbo_core import PrivacyBudget, PrivacyLedger
        >>> folder = TemporaryDirectory()
        >>> ledger = PrivacyLedger(f"sqlite:///{folder.name}/ledger.db")
        >>> ledger.set_budget(PrivacyBudget.of("clinic", epsilon=5.0, delta=1e-5))
        True
        >>> (account,) = ledger.accounts("clinic")
        >>> account.budget.epsilon_units, account.entries
        (5000000000000, ())
    """

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._entries_cache: dict[str, StoredEntries] = {}

    def check_allowed(self, dataset: str, references: References) -> None:
        """Refuse a study, whoever runs it, that names what its dataset's owner did not allow; nothing is opened."""
        with self._store.reading() as connection:
            check_allowed(connection, dataset, references)

    def allows_score(self, dataset: str, path: str) -> bool:
        """Return whether the dataset's owner allowed studies to use the function at import path `path` as score."""
        with self._store.reading() as connection:
            return path in facts_about(connection, dataset, SCORE)

    def check_public(self, source: Source) -> None:
        """Refuse to read a source as public if a dataset is scored on it, unless its owner published it."""
        with self._store.reading() as connection:
            policy.check_public(connection, source)

    def check_division(self, dataset: str, share: float, n_rows: int) -> None:
        """Refuse another split share, or fewer rows, than a sensitive dataset's table was divided with before.

        Call it before any row of the public half is read: under another share it may have been sensitive.
        """
        budget = self.budget(dataset)
        if budget is None or not budget.public:
            with self._store.reading() as connection:
                policy.check_division(connection, dataset, share, n_rows)

    def budget(self, dataset: str) -> PrivacyBudget | None:
        """Return the dataset's budget cap; None if there is none."""
        with self._store.reading() as connection:
            return cap_of(connection, dataset)

    def reserve(
        self, charge: Charge, *follow_ups: Charge, noise: str, caller: Caller = Caller.OWNER, asked_by: str = ""
    ) -> Reservation:
        """Charge a query's whole plan, and its follow-ups', at once, refused beyond the cap or the owner's policy;
        or return the charge that it made before. `noise` is "operating_system" or, not private, "injected".

        Args:
            charge: the query's.
            follow_ups: what will be asked of the same records afterwards: charged in the same transaction, all
                of it or nothing, and taken over when it is asked. The owner's largest ε holds for the sum.
            noise: standing of the noise source, "operating_system" or "injected".
            caller: who asks; an operator where the ledger's file is another account's.
            asked_by: the same in words, which stand beside the charge.

        Raises:
            StudyInvalid: its cap is not the one that the dataset has.
            LedgerDamaged: what the tables say is not what the history sealed; nothing was charged.
            NoBudget, BudgetExceeded, EvidenceRefuted, NoiseNotPrivate, BudgetRefused: nothing was charged.
            PolicyRefused: the owner's policy says no; nothing was charged.
            AssumptionNotAccepted: the dataset's cap was not opened with an assumption of the plan.
        """
        caller = caller if self.is_ours else Caller.OPERATOR
        with self._store.writing() as writer:
            charges = (charge, *follow_ups)
            guarantees = [one.plan.guarantee for one in charges]
            numbers = [self._charged(writer, one, guarantees, noise, caller, asked_by) for one in charges]
            for key in (one.key for one in charges if asked_by):
                write_fact(writer, key.dataset, ASKED_FACT, key.fingerprint, {"by": asked_by[:MAX_CALLER_LENGTH]})
            warm_start = warm_start_of(writer.connection, charge.key.fingerprint)
        return Reservation(
            self._store,
            numbers[0],
            charge.key,
            noise,
            since=writer.last,
            warm_start=warm_start,
            until_released=charge.until_released,
        )

    def book(self, charge: Charge, receipt: Release, *, beyond_cap: bool = False) -> tuple[Release, bool]:
        """Charge a spend made elsewhere and record its receipt, in one transaction, or read back the one booked.

        Returns the receipt, and whether it was booked now. `beyond_cap` charges what happened already.
        """
        caller = Caller.OWNER if self.is_ours else Caller.OPERATOR
        with self._store.writing() as writer:
            before = writer.connection.execute(CHARGED_QUERY, {"fingerprint": charge.key.fingerprint}).one_or_none()
            if before is None:
                number = self._charged(
                    writer, charge, (charge.plan.guarantee,), OPERATING_SYSTEM, caller, beyond_cap=beyond_cap
                )
            elif before.resolved != charge.resolved:
                raise StudyInvalid(
                    f"the spend {charge.key.edition!r} was booked with another price, tool or description",
                    cause="a name stands for one spend of a dataset",
                    remedy="give the other spend a name of its own",
                )
            else:
                number = int(before.id)
            return recorded_release(writer, self._store.identity, number, charge.key, receipt), before is None

    def person(self, dataset: str) -> str | None:
        """The column that tells persons apart in the dataset's guarantees; None if they are about records."""
        with self._store.writing() as writer:
            return writer.totals_of(dataset).person

    def check_room(self, charge: Charge) -> None:
        """Refuse, as `reserve` would, a query of the owner that could not be charged now. Nothing is written."""
        with suppress(_RollbackError), self._store.writing() as writer:
            self._charged(writer, charge, (charge.plan.guarantee,), OPERATING_SYSTEM, Caller.OWNER)
            raise _RollbackError

    def _charged(
        self,
        writer: Writer,
        charge: Charge,
        guarantees: Sequence[PrivacyGuarantee],
        noise: str,
        caller: Caller,
        asked_by: str = "",
        *,
        beyond_cap: bool = False,
    ) -> int:
        """Return the number of the query's charge, made now within cap and policy unless it exists."""
        key, plan, k = charge.key, charge.plan, charge.max_records_per_person
        budget = dataset_with_cap(writer, key.dataset, charge.cap, charge.sources, caller, set_by=asked_by)
        if budget is None:
            raise no_budget(key.dataset)
        dataset, spends = key.dataset, [spend.to_json() for spend in plan.spends]
        check_recovered(writer.connection, self.url, dataset)
        before = writer.connection.execute(CHARGED_QUERY, {"fingerprint": key.fingerprint}).one_or_none()
        if before is not None:
            writer.check_whole()  # its draws are read back, and one that is missing would be drawn again
            reservation.check_not_taken(writer.connection, key)
            if (reservation.planned_spends(writer.connection, dataset, before), before.noise) != (spends, noise):
                raise StudyInvalid(
                    "this study edition was reserved with another plan",
                    cause="another version of dpbo, or another noise source, started it",
                    remedy="give the study a new edition, which spends budget again, or finish it with the "
                    "version that started it",
                )
            policy.check_same_sources(writer.connection, charge.sources, dataset)
            return int(before.id)
        guarantee = policy.as_published(writer.connection, dataset, plan.guarantee)
        totals = writer.totals_of(dataset)  # a cap may have been opened just now
        asked_for, earlier, paid = reservation.TakeoverRequest(key, guarantee, spends, noise), None, spends
        if charge.resolved.get(reservation.MARKS_OPENING) and not budget.public:
            earlier = reservation.charge_to_take_over(writer, asked_for, totals.filter)
        resolved = dict(charge.resolved)
        if earlier is not None:  # which was charged for, and stays so
            paid, resolved = [], resolved | {reservation.TAKES_OVER: earlier}
        cost = compose(() if earlier is not None else plan.spends)
        fixed = records_of(writer.connection, dataset)
        request = admission.Request(cost, draws_in(paid), plan.guarantee, noise, k)
        if not beyond_cap:
            admission.admit(
                budget, totals, request, fixed=fixed, drawn=lambda: draws_of(writer.connection, dataset)
            )
        if caller is not Caller.OWNER:
            prices = [guarantee.epsilon for guarantee in guarantees]
            check_limits(writer.connection, dataset, prices, plan.guarantee.epsilon)
        policy.check_sources(writer, charge.sources, budget, caller)
        if earlier is not None:
            reservation.take_over(writer, earlier, asked_for)
        row = asdict(key) | asdict(cost) | {"resolved": resolved, "unit": guarantee.unit.value}
        row |= {"guarantee": guarantee.to_json(), "spends": paid, "noise": noise, "reserved_at": utc_now()}
        number = writer.write(RESERVATIONS, row)
        if not (fixed or budget.public or guarantee.unit is PrivacyUnit.PERSON):
            write_fact(writer, dataset, RECORDS, str(k), {})
        if charge.warm_start is not None:
            write_fact(writer, dataset, LEARNED, key.fingerprint, asdict(charge.warm_start))
        return number

    def answer_terms(self, dataset: str, publication: str) -> Mapping[str, Any] | None:
        """The recorded terms (noise, price) of answers about a published table; None before the first answer."""
        with self._store.reading() as connection:
            return facts_about(connection, dataset, ANSWERS).get(publication)

    def fix_answers(self, dataset: str, publication: str, way: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the recorded terms of answers about a published table; `way`, recorded now, if there are none."""
        with self._store.writing() as writer:
            write_fact(writer, dataset, ANSWERS, publication, way)
            return facts_about(writer.connection, dataset, ANSWERS)[publication]

    def resumed(self, key: QueryKey) -> Reservation:
        """Return the existing charge of this query, whose draws can then become a release; raises without one."""
        with self._store.writing() as writer:
            writer.check_whole()
            row = writer.connection.execute(CHARGED_QUERY, {"fingerprint": key.fingerprint}).one_or_none()
            if row is None:
                raise writer.differs("a study that has draws has no reservation")
        return Reservation(self._store, int(row.id), key, str(row.noise), since=writer.last)

    def accounts(self, dataset: str | None = None) -> tuple[DatasetAccount, ...]:
        """The account (cap, charges, releases) of `dataset`, or where None of each; empty if it has no cap."""
        with self._store.reading() as connection, row_decoding():
            names = [name for name in connection.scalars(NAMES_QUERY).all() if dataset in (None, name)]
            return tuple(
                account_of(connection, cap, self._store.reading, self._entries_cache)
                for name in names
                if (cap := cap_of(connection, name)) is not None
            )
