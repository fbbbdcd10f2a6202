"""The durable history of every guarantee: reserve first, record each draw once, never give back.

The protocol, keyed by a study's fingerprint (its whole spec, its edition and the public training data):

    reserve    the whole plan, durably, before any record's content is used
    record     a draw, its spend and its outcome in ONE transaction, committed before a byte of it is shown
    conclude   the release, once
    rerun      takes over its own reservation, reads recorded draws back, continues after them
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from dpbo_core.accounting import admission
from dpbo_core.accounting.account import ASKED, LEARNED, Totals
from dpbo_core.accounting.budget import PrivacyBudget
from dpbo_core.accounting.composition import compose
from dpbo_core.accounting.renyi_filter import draws_in
from dpbo_core.errors import PolicyRefused, no_budget
from dpbo_core.ledger import policy
from dpbo_core.ledger.accounts import (
    DatasetAccount,
    account_of,
    cap_of,
    cap_row,
    check_sealed,
    dataset_named,
    dataset_with_cap,
    draws_of,
    open_cap,
)
from dpbo_core.ledger.charge import Caller, Charge, QueryKey
from dpbo_core.ledger.dataset_metadata import (
    A_DAY,
    ALLOWED,
    ANSWERS,
    CODE,
    RECORDS,
    SCORE,
    Dataset,
    account_named,
    add_members,
    facts_about,
    largest_of,
    records_of,
    set_largest,
    write_fact,
)
from dpbo_core.ledger.history import row_decoding
from dpbo_core.ledger.lookup import CHARGED, RecordedStudies, warm_start_of
from dpbo_core.ledger.operators import Code, References, check_allowed, check_rate
from dpbo_core.ledger.recovery import check_recovered
from dpbo_core.ledger.reservation import Reservation
from dpbo_core.ledger.schema import DATASETS
from dpbo_core.ledger.sources import Source
from dpbo_core.ledger.writer import Writer, utc_now
from dpbo_core.privacy.amounts import allowed_units
from dpbo_core.privacy.guarantee import PrivacyGuarantee
from dpbo_core.privacy.noise_standing import OPERATING_SYSTEM
from dpbo_core.privacy.unit import PrivacyUnit

__all__ = ["PrivacyLedger", "QueryKey", "Reservation"]
MOST_WORDS = 300  # characters of who asked


class PrivacyLedger(RecordedStudies):
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

    @property
    def is_ours(self) -> bool:
        """Whether this process runs under the account that owns the ledger's file.

        Of a PostgreSQL ledger the owner is every role that its server lets write.
        """
        return self._store.is_ours

    @contextmanager
    def _owner_writing(self) -> Iterator[Writer]:
        """A write transaction for what only the owner may do.

        Raises:
            PolicyRefused: the ledger's file belongs to another account.
        """
        with self._store.writing() as writer:
            if not self.is_ours:
                raise PolicyRefused(
                    "only the owner of the ledger may decide this",
                    cause="the ledger's file belongs to another account of this machine",
                    remedy="run it as that account",
                )
            yield writer

    def set_budget(
        self,
        budget: PrivacyBudget,
        *,
        sources: tuple[Source, ...] = (),
        members: tuple[str, ...] = (),
        largest_epsilon: float | None = None,
        a_day: float | None = None,
    ) -> bool:
        """Open a cap; True if it is new, False if the very same cap was open already.

        Args:
            budget: the cap.
            sources: what the dataset may be scored on.
            members: other names whose studies this cap pays, since their people are the same.
            largest_epsilon: the most that a study which Prefect starts may ask for.
            a_day: the most that all charges of 24 hours may come to, where Prefect starts the last.

        Raises:
            StudyInvalid: the dataset has another cap. A cap never changes.
            PolicyRefused: a source is another dataset's, or a member has a cap of its own.
        """
        with self._owner_writing() as writer:
            existing = cap_of(writer.connection, budget.dataset)
            if existing is None:
                open_cap(writer, budget)
            elif existing != budget:
                raise admission.another_cap(existing)
            add_members(writer, budget.dataset, set(members))
            for source in sources:
                policy.allow(writer, Dataset(budget.dataset, budget.dataset), source)
            if largest_epsilon is not None:
                set_largest(writer, budget.dataset, allowed_units(largest_epsilon))
            if a_day is not None:
                set_largest(writer, budget.dataset, allowed_units(a_day), A_DAY)
        return existing is None

    def allow(self, dataset: str, source: Source) -> bool:
        """The owner adds a source to what a dataset may be scored on; False if it was its own already.

        Raises:
            NoBudget: the dataset has no cap.
            PolicyRefused: the source is another dataset's.
        """
        with self._owner_writing() as writer:
            return policy.allow(writer, dataset_named(writer.connection, dataset), source)

    def allow_shared(self, dataset: str, source: Source) -> tuple[str, ...] | None:
        """Allow a source whose people also pay other datasets: those; None if it was this one's already.

        Raises:
            NoBudget: the dataset has no cap.
        """
        with self._owner_writing() as writer:
            return policy.allow_shared(writer, dataset_named(writer.connection, dataset), source)

    def allow_code(self, dataset: str, code: Code) -> bool:
        """Allow a function as a score, or an estimator for Prefect's runs; False if it was allowed already.

        Args:
            dataset: which has a cap.
            code: "ourpackage.scores.utility" or "ourpackage.models:Net", as studies write it. It is not imported.

        Raises:
            NoBudget: the dataset has no cap.
            StudyInvalid: it is no such path.
        """
        path = policy.import_path(code.path)
        written = code.path if code.heading == CODE else path
        with self._owner_writing() as writer:
            return write_fact(writer, dataset_named(writer.connection, dataset).account, code.heading, written, {})

    def allow_reading(self, dataset: str, source: Source) -> bool:
        """Let runs that Prefect starts read a training file or a saved model; False if they could already.

        Raises:
            NoBudget: the dataset has no cap.
            PolicyRefused: it is what a dataset is scored on.
        """
        with self._owner_writing() as writer:
            own = dataset_named(writer.connection, dataset)
            policy.check_public(writer.connection, source)
            return policy.write_source(writer, ALLOWED, policy.Approved(own.account, dataset, source), source.files)

    def check_allowed(self, dataset: str, references: References) -> None:
        """Refuse a study that names anything which the owner did not allow to runs that others start.

        Raises:
            PolicyRefused: something is not allowed, or cannot be read; nothing was opened or imported.
        """
        with self._store.reading() as connection:
            check_allowed(connection, dataset, references)

    def allows_score(self, dataset: str, path: str) -> bool:
        """Whether the owner allowed the dataset's studies a function as their score."""
        with self._store.reading() as connection:
            return path in facts_about(connection, account_named(connection, dataset), SCORE)

    def check_public(self, source: Source) -> None:
        """Refuse to read a source as public if a dataset is scored on it, unless its owner published it.

        Raises:
            PolicyRefused: one is.
        """
        with self._store.reading() as connection:
            policy.check_public(connection, source)

    def check_division(self, dataset: str, share: float, n_rows: int) -> None:
        """Refuse another split share than earlier studies divided this dataset's table with, or a shorter table.

        To be asked before a row of the public half is looked at, which may have been sensitive. A public dataset's
        table is divided anyhow.

        Raises:
            PolicyRefused: it was divided with another, or had more rows.
        """
        budget = self.budget(dataset)
        if budget is not None and budget.public:
            return
        with self._store.reading() as connection:
            one = Dataset(dataset, account_named(connection, dataset))
            policy.check_division(connection, one, share, n_rows)

    def publish(self, dataset: str, source: Source) -> bool:
        """Record the owner's statement that a file's records are public; False if it was recorded already.

        It is never taken back, and every later release of the dataset lists `published_records`.

        Args:
            dataset: which has a cap.
            source: the file, or the folder of Parquet files.

        Raises:
            NoBudget: the dataset has no cap.
        """
        with self._owner_writing() as writer:
            return policy.publish(writer, dataset_named(writer.connection, dataset), source)

    def approve(
        self,
        dataset: str,
        cap: PrivacyBudget | None,
        sources: tuple[Source, ...],
        estimators: tuple[str, ...] = (),
    ) -> None:
        """Approve, as the owner, the cap, sources and estimators of studies that others will start.

        Raises:
            StudyInvalid: `cap` is not the cap that the dataset has.
            PolicyRefused: the dataset's name or a source of it is another's.
        """
        with self._owner_writing() as writer:
            own, budget = dataset_with_cap(writer, dataset, cap, sources)
            if budget is not None:  # without one, its runs are refused
                policy.check_sources(writer, sources, own, budget)
                for path in estimators:
                    write_fact(writer, own.account, CODE, path, {})

    def budget(self, dataset: str) -> PrivacyBudget | None:
        """The dataset's cap, if it has one."""
        with self._store.reading() as connection:
            return cap_of(connection, dataset)

    def reserve(
        self, charge: Charge, *follow_ups: Charge, noise: str, caller: Caller = Caller.OWNER, asked_by: str = ""
    ) -> Reservation:
        """Charge the whole plan of a query, or take over the reservation that this very query made before.

        Args:
            charge: the query's.
            follow_ups: what will be asked of the same records afterwards: charged in the same transaction, all
                of it or nothing, and taken over when it is asked. The owner's largest ε holds for the sum.
            noise: standing of the noise source, "operating_system" or "injected".
            caller: who asks; an operator where the ledger's file is another account's.
            asked_by: the same in words, which stand beside the charge.

        Returns:
            The query's reservation, with the warm start that was fixed when it was first charged.

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
            numbers = [self._charged(writer, one, guarantees, noise, caller) for one in charges]
            for one in charges:
                if asked_by:
                    account = account_named(writer.connection, one.key.dataset)
                    write_fact(writer, account, ASKED, one.key.fingerprint, {"by": asked_by[:MOST_WORDS]})
            warm_start = warm_start_of(writer.connection, charge.key.fingerprint)
        return Reservation(
            self._store,
            numbers[0],
            charge.key,
            noise,
            warm_start=warm_start,
            until_released=charge.until_released,
        )

    def check_room(self, charge: Charge) -> None:
        """Raise, as `reserve` would, if the owner's query could not be charged now; nothing is written.

        Raises: as `reserve`.
        """
        with self._store.writing() as writer:  # of which nothing is written: totals are checked as for a charge
            name = charge.key.dataset
            account = account_named(writer.connection, name)
            check_sealed(writer, account)
            budget = cap_of(writer.connection, account)
            if budget is None and policy.template_of(writer.connection, name, charge.sources) is not None:
                return
            if budget is not None and charge.cap is not None:
                admission.check_cap(budget, charge.cap)
            totals = writer.totals_of(account)
            if budget is None:
                budget = charge.cap
                if budget is None:
                    raise no_budget(name)
                totals = totals.after(DATASETS.name, cap_row(budget))  # an order is fixed as the cap is opened
            _admit(writer, account, budget, charge, OPERATING_SYSTEM, totals)
            own = Dataset(name, account)
            policy.approved_sources(writer.connection, charge.sources, own, budget, Caller.OWNER)

    def _charged(
        self,
        writer: Writer,
        charge: Charge,
        guarantees: Sequence[PrivacyGuarantee],
        noise: str,
        caller: Caller,
    ) -> int:
        """The number of the query's reservation, made in this transaction or before."""
        key, plan = charge.key, charge.plan
        dataset, budget = dataset_with_cap(writer, key.dataset, charge.cap, charge.sources, caller)
        if budget is None:
            raise no_budget(key.dataset)
        account, spends = dataset.account, [spend.to_json() for spend in plan.spends]
        check_recovered(writer.connection, self._url, dataset)
        before = writer.connection.execute(CHARGED, {"fingerprint": key.fingerprint}).one_or_none()
        if before is not None:
            writer.check_whole()  # its draws are read back, and one that is missing would be drawn again
            if (before.spends, before.noise) != (spends, noise):
                raise admission.another_plan()
            policy.check_same_sources(writer.connection, charge.sources, dataset)
            return int(before.id)
        totals = writer.totals_of(account)  # a cap may have been opened just now
        fixed = _admit(writer, account, budget, charge, noise, totals)
        if caller is not Caller.OWNER:
            policy.check_largest(account, largest_of(writer.connection, account), guarantees)
            check_rate(writer.connection, account, plan.guarantee.epsilon)
        policy.check_sources(writer, charge.sources, dataset, budget, caller)
        row = asdict(key) | asdict(compose(plan.spends)) | {"dataset": account, "resolved": dict(charge.resolved)}
        guarantee = policy.as_published(writer.connection, account, plan.guarantee)
        row |= {"unit": plan.guarantee.unit.value, "guarantee": guarantee.to_json(), "spends": spends}
        number = writer.reserve(row | {"noise": noise, "reserved_at": utc_now()})
        if not (fixed or budget.public or plan.guarantee.unit is PrivacyUnit.PERSON):
            write_fact(writer, account, RECORDS, str(charge.max_records_per_person), {})
        if charge.warm_start is not None:
            write_fact(writer, account, LEARNED, key.fingerprint, charge.warm_start.to_json())
        return number

    def way_of_answers(self, dataset: str, publication: str) -> Mapping[str, Any] | None:
        """The recorded terms on which a published table's rows are answered; None before the first answer."""
        with self._store.reading() as connection:
            account = account_named(connection, dataset)
            return facts_about(connection, account, ANSWERS).get(publication)

    def fix_answers(self, dataset: str, publication: str, way: Mapping[str, Any]) -> Mapping[str, Any]:
        """Record the terms on which a published table's rows are answered, unless some are: those in force."""
        with self._store.writing() as writer:
            account = account_named(writer.connection, dataset)
            fixed = facts_about(writer.connection, account, ANSWERS).get(publication)
            if fixed is None:
                write_fact(writer, account, ANSWERS, publication, way)
        return way if fixed is None else fixed

    def resumed(self, key: QueryKey) -> Reservation:
        """The existing reservation of this very query, to conclude what was recorded.

        Raises:
            LedgerDamaged: it made none, or the history is not what the tables say.
        """
        with self._store.writing() as writer:
            writer.check_whole()
            row = writer.connection.execute(CHARGED, {"fingerprint": key.fingerprint}).one_or_none()
            if row is None:
                raise writer.differs("a study that has draws has no reservation")
        return Reservation(self._store, int(row.id), key, str(row.noise))

    def accounts(self, dataset: str | None = None) -> tuple[DatasetAccount, ...]:
        """Every dataset's account, or the one that pays for one dataset; empty if the name is unknown."""
        with self._store.reading() as connection, row_decoding():
            if dataset is not None:
                dataset = account_named(connection, dataset)
            names = connection.scalars(sa.select(DATASETS.c.name).order_by(DATASETS.c.name))
            caps = [cap_of(connection, name) for name in names.all() if dataset in (None, name)]
            return tuple(account_of(connection, cap) for cap in caps if cap is not None)


def _admit(
    writer: Writer, account: str, budget: PrivacyBudget, charge: Charge, noise: str, totals: Totals
) -> tuple[int, ...]:
    """Refuse the query if the cap does not admit it; the record limits k of the account's earlier spends."""
    plan, fixed = charge.plan, records_of(writer.connection, account)
    draws = draws_in([spend.to_json() for spend in plan.spends])
    request = admission.Request(compose(plan.spends), draws, plan.guarantee, noise, charge.max_records_per_person)
    admission.admit(budget, totals, request, fixed=fixed, drawn=lambda: draws_of(writer.connection, account))
    return fixed
