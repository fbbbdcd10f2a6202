"""What a run that Prefect started may name: files, tables, models and code that the dataset's owner allowed.

Nothing is opened, connected to or imported here. The owner allows a thing by name, by the approval of a study as it
stands, or by running a study that names it; `grants` says which names that covers.

| heading | thing |
|---|---|
| `SOURCE`, `READ_AS_PUBLIC` | what the owner's own studies were charged for, and read as public |
| `ALLOWED` | a training file, or a folder of a saved model |
| `CODE` | the import path of an estimator |
| `SCORE` | the import path of a function |
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from dpbo_core.errors import PolicyRefused
from dpbo_core.ledger.accounts import cap_of, cap_refusal
from dpbo_core.ledger.dataset_metadata import (
    A_DAY,
    ALLOWED,
    CODE,
    READ_AS_PUBLIC,
    SCORE,
    SOURCE,
    facts_about,
    largest_epsilon,
    templates_of,
)
from dpbo_core.ledger.history import row_decoding
from dpbo_core.ledger.name_patterns import filled, is_pattern, values_in
from dpbo_core.ledger.policy import sources_under, unallowed_score
from dpbo_core.ledger.schema import RESERVATIONS
from dpbo_core.ledger.sources import MODEL_ROLE, PUBLIC_ROLE, Source, grants
from dpbo_core.privacy.amounts import from_units, spent_units

SPENT_SINCE_QUERY = sa.select(RESERVATIONS.c.guarantee).where(
    RESERVATIONS.c.dataset == sa.bindparam("dataset"), RESERVATIONS.c.reserved_at > sa.bindparam("since")
)


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
    """Refuse a study that names a file or code which the dataset's owner did not allow, or a missing file.

    Raises:
        PolicyRefused: something is not allowed, or there is no cap. A missing file is refused like a forbidden
            one, so that nobody learns which files exist.
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
    """Refuse a Prefect run that exceeds one of the owner's limits: the sum of its `charges` (ε) the limit for a
    run, or `epsilon`, the part charged now, the limit for a day.
    """
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
    charged = [
        row["epsilon"] for row in connection.scalars(SPENT_SINCE_QUERY, {"dataset": dataset, "since": since})
    ]
    spent = [float("inf") if amount is None else float(amount) for amount in charged]
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
