"""The decisions of a ledger's owner: caps, limits, what is public, and what a run that Prefect started may name.

Nothing is opened, connected to or imported here. The owner allows a thing by name, by the approval of a study as it
stands, or by running a study that names it; `grants` says which names that covers, and `policy` has the headings.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from dpbo_core.errors import PolicyRefused, StudyInvalid, no_budget
from dpbo_core.ledger.accounting import admission
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.accounts import cap_of, cap_refusal, dataset_with_cap, open_cap
from dpbo_core.ledger.history import Writer, row_decoding
from dpbo_core.ledger.lookup import RecordedStudies
from dpbo_core.ledger.policy import (
    A_DAY,
    ALLOWED,
    CODE,
    LARGEST_EPSILON,
    PUBLISHED,
    READ_AS_PUBLIC,
    SCORE,
    SHARES,
    SOURCE,
    Approved,
    check_public,
    check_sources,
    check_unshared,
    facts_about,
    largest_epsilon,
    sharing,
    sources_under,
    templates_of,
    unallowed_score,
    write_fact,
    write_source,
)
from dpbo_core.ledger.schema import RESERVATIONS
from dpbo_core.ledger.sources import MODEL_ROLE, PUBLIC_ROLE, Source, filled, grants, is_pattern, values_in
from dpbo_core.privacy.amounts import allowed_units, from_units, spent_units

SPENT_SINCE_QUERY = sa.select(RESERVATIONS.c.guarantee).where(
    RESERVATIONS.c.dataset == sa.bindparam("dataset"), RESERVATIONS.c.reserved_at > sa.bindparam("since")
)
MAX_PATH_LENGTH = 512  # characters of a path


@dataclass(frozen=True)
class Code:
    """An import path that a study names; `key` says what for: an estimator, or one of several functions."""

    key: str
    path: str

    @property
    def heading(self) -> str:
        """The heading of the ledger's facts under which this kind of code (score, estimator) is allowed."""
        return CODE if self.key == "estimator" else SCORE


@dataclass(frozen=True)
class References:
    """Everything outside itself that a study names."""

    sources: tuple[Source, ...] = ()  # files, folders, tables and bundled sets, each with its role
    code: tuple[Code, ...] = ()  # import paths, without those that are trusted whoever names them


def check_allowed(connection: sa.Connection, dataset: str, references: References) -> None:
    """Refuse a study that names a file or code which the dataset's owner did not allow, or a dataset without a cap.

    A missing file is refused like a forbidden one, so that nobody learns which files exist.
    """
    names = (dataset, *templates_of(connection, dataset))
    for code in references.code:
        if not any(code.path in facts_about(connection, name, code.heading) for name in names):
            raise unallowed_score(code.path, dataset, code.key)
    if not any(cap_of(connection, name) for name in names):
        raise cap_refusal(dataset)
    sources = [  # that the dataset or its name pattern may use, fields filled
        replace(item.source, name=filled(item.source.name, values))
        for heading in (SOURCE, READ_AS_PUBLIC, ALLOWED)
        for item in sources_under(connection, heading, references.sources)
        if (values := {} if item.dataset == dataset else values_in(item.dataset, dataset)) is not None
    ]
    for source in references.sources:
        plain = source.kind == "file" and not is_pattern(source.name)
        unreadable = plain and not os.access(source.name, os.R_OK)
        if unreadable or not any(grants(one, source) for one in sources):
            raise not_allowed(dataset, source)


def not_allowed(dataset: str, source: Source) -> PolicyRefused:
    """The error for a file that an operator may not use or that is missing, alike; also for a table or a host."""
    word = {PUBLIC_ROLE: " --as training", MODEL_ROLE: " --as model"}.get(source.role, "")
    return PolicyRefused(
        f"the {source.role} that this study names are not allowed by the owner's policy",
        cause="a run that Prefect started reads, connects to and imports what the dataset's owner allowed, and "
        "nothing was opened; or what is allowed cannot be read where the run stands",
        remedy=f"its owner runs the study once, or: dpbo budget allow {dataset} FILE{word}",
    )


@row_decoding()
def check_limits(connection: sa.Connection, dataset: str, charges: Sequence[float], epsilon: float) -> None:
    """Refuse a Prefect run whose `charges` (ε) exceed the owner's limit of a run, or `epsilon` that of a day."""
    most = largest_epsilon(connection, dataset)
    if _beyond(charges, most):
        together = " with what is reserved beside it" if len(charges) > 1 else ""
        raise PolicyRefused(
            f"this study asks for ε = {sum(charges):g}{together}, and one of dataset {dataset!r} that Prefect "
            f"starts may ask for {from_units(most or 0):g}",
            cause="its owner set --largest-epsilon",
            remedy="ask for less in [privacy], or let its owner run it",
        )
    most = largest_epsilon(connection, dataset, A_DAY)
    if most is None:
        return
    since = (datetime.now(UTC) - timedelta(days=1)).isoformat(timespec="seconds")
    charged = connection.scalars(SPENT_SINCE_QUERY, {"dataset": dataset, "since": since})
    spent = [float("inf") if row["epsilon"] is None else float(row["epsilon"]) for row in charged]
    if _beyond((*spent, epsilon), most):
        raise PolicyRefused(
            f"this study asks for ε = {epsilon:g}, and ε = {sum(spent):g} of the {from_units(most):g} that dataset "
            f"{dataset!r} may spend in a day was charged within the last 24 hours",
            cause="its owner set --a-day, which holds for what Prefect starts",
            remedy="run it later, or let its owner run it",
        )


def _beyond(amounts: Sequence[float], most: int | None) -> bool:
    """Return whether the ε in `amounts` add up to more than `most` (in 10⁻¹²); False if it is None: no limit."""
    return most is not None and not (sum(amounts) < float("inf") and sum(map(spent_units, amounts)) <= most)


class OwnersLedger(RecordedStudies):
    """A ledger's records with what only its owner may write.

    Raises:
        PolicyRefused: every method, where the ledger's file belongs to another account.
        NoBudget: every method that allows or publishes something, where the dataset has no cap.
    """

    @property
    def is_ours(self) -> bool:
        """Whether this process runs under the account that owns the ledger's file; always on a server."""
        return self._store.is_ours

    @contextmanager
    def _owner_writing(self, dataset: str | None = None) -> Iterator[Writer]:
        with self._store.writing() as writer:
            if not self.is_ours:
                raise PolicyRefused(
                    "only the owner of the ledger may decide this",
                    cause="the ledger's file belongs to another account of this machine",
                    remedy="run it as that account",
                )
            if dataset is not None and cap_of(writer.connection, dataset) is None:
                raise no_budget(dataset)
            yield writer

    def set_budget(
        self,
        budget: PrivacyBudget,
        *,
        sources: tuple[Source, ...] = (),
        largest_epsilon: float | None = None,
        a_day: float | None = None,
        set_by: str = "",
    ) -> bool:
        """Open a dataset's cap, record its sources and limits (None: unchanged); False if the same cap was open.

        Args:
            budget: the cap.
            sources: what the dataset may be scored on.
            largest_epsilon: the most that a study which Prefect starts may ask for.
            a_day: the most that all charges of 24 hours may come to, where Prefect starts the last.
            set_by: who opens the cap, in words, for whoever asks later who approved it.

        Raises:
            StudyInvalid: the dataset has another cap. A cap never changes.
            PolicyRefused: a source is another dataset's, or a limit would be raised.
        """
        with self._owner_writing() as writer:
            existing = cap_of(writer.connection, budget.dataset)
            if existing is None:
                open_cap(writer, budget, set_by)
            elif existing != budget:
                raise admission.another_cap_error(existing)
            for source in sources:
                _allow(writer, budget.dataset, source)
            for about, epsilon in ((LARGEST_EPSILON, largest_epsilon), (A_DAY, a_day)):
                if epsilon is not None:
                    _lower(writer, budget.dataset, about, allowed_units(epsilon))
        return existing is None

    def approve(
        self,
        dataset: str,
        cap: PrivacyBudget | None,
        sources: tuple[Source, ...],
        estimators: tuple[str, ...] = (),
        *,
        set_by: str = "",
    ) -> None:
        """Record cap, sources and estimators of studies that others will start; nothing without a cap."""
        with self._owner_writing() as writer:
            budget = dataset_with_cap(writer, dataset, cap, sources, set_by=set_by)
            if budget is not None:  # without one, its runs are refused
                check_sources(writer, sources, budget)
                for path in estimators:
                    write_fact(writer, dataset, CODE, path, {})

    def allow(self, dataset: str, source: Source) -> bool:
        """Add a source that a dataset may be scored on; False if it was its own; another's is refused."""
        with self._owner_writing(dataset) as writer:
            return _allow(writer, dataset, source)

    def allow_shared(self, dataset: str, source: Source) -> tuple[str, ...] | None:
        """Allow a source whose people pay other datasets too: returns those; None if it was allowed already."""
        with self._owner_writing(dataset) as writer:
            approved = sources_under(writer.connection, SOURCE, (source,))
            if any(item.dataset == dataset and item.source == source for item in approved):
                return None
            others = sharing(source, approved, dataset)
            write_source(writer, SOURCE, Approved(dataset, source, shared=bool(others)), source.files)
            for other in others:
                for one, another in ((dataset, other), (other, dataset)):
                    write_fact(writer, one, SHARES, another, {})
            return others

    def allow_code(self, dataset: str, code: Code) -> bool:
        """Allow a function as a score, or an estimator for Prefect's runs; False if it was allowed already."""
        path = code.path.replace(":", ".")
        names = path.split(".")
        if (
            len(names) < 2
            or len(path) > MAX_PATH_LENGTH
            or not all(name.isidentifier() and name[0] != "_" for name in names)
        ):
            raise StudyInvalid(
                f"{code.path!r} is not the import path of a function",
                cause="a package, a dot and a name are needed, and no name may start with an underscore",
                remedy='write it like "ourpackage.scores.utility"',
            )
        with self._owner_writing(dataset) as writer:
            return write_fact(writer, dataset, code.heading, code.path if code.heading == CODE else path, {})

    def allow_reading(self, dataset: str, source: Source) -> bool:
        """Let Prefect's runs read a training file or saved model; False if they could; refused if sensitive."""
        with self._owner_writing(dataset) as writer:
            check_public(writer.connection, source)
            return write_source(writer, ALLOWED, Approved(dataset, source), source.files)

    def publish(self, dataset: str, source: Source) -> bool:
        """State for ever that the records of a file, or folder, are public; False if that was stated before.

        It is never taken back, and every later release of the dataset lists `published_records`.
        """
        with self._owner_writing(dataset) as writer:
            return write_source(writer, PUBLISHED, Approved(dataset, source), source.files)


def _allow(writer: Writer, dataset: str, source: Source) -> bool:
    approved = sources_under(writer.connection, SOURCE, (source,))
    if any(item.dataset == dataset and item.source == source for item in approved):
        return False
    check_unshared(source, approved, dataset)
    return write_source(writer, SOURCE, Approved(dataset, source), source.files)


def _lower(writer: Writer, dataset: str, about: str, units: int) -> None:
    """Record the largest ε, in 10⁻¹², of a Prefect run or (`A_DAY`) a day; a larger one than before is refused."""
    current = largest_epsilon(writer.connection, dataset, about)
    if current is not None and units > current:
        what, option = {LARGEST_EPSILON: ("one", "--largest-epsilon"), A_DAY: ("a day of them", "--a-day")}[about]
        raise PolicyRefused(
            f"of studies of dataset {dataset!r} that Prefect starts {what} may ask for {from_units(current):g}, "
            "which is never raised",
            cause=f"{option} was set lower before",
            remedy="let its owner run larger studies with dpbo tune",
        )
    write_fact(writer, dataset, about, str(units), {})
