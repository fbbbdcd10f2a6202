"""What the owner approved, as facts of the ledger: sources and their marks, groups, the largest ε of one study.

The facts of a group stand under the dataset whose cap pays; a source says which member it is of.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import sqlalchemy as sa

from dpbo_core.accounting import policy
from dpbo_core.accounting.dataset_names import check_new_name
from dpbo_core.accounting.facts import (
    LARGEST,
    MARK,
    MEMBER,
    SCORE,
    SHARES,
    SOURCE,
    facts_about,
    write_fact,
)
from dpbo_core.accounting.legible import legible
from dpbo_core.accounting.patterns import filled, is_pattern, values_in
from dpbo_core.accounting.pen import Pen
from dpbo_core.accounting.policy import Approved, Use
from dpbo_core.accounting.sources import KINDS, ROLES, Kind, Role, Source, marks_of, same_records
from dpbo_core.accounting.tables import DATASET_FACTS, DATASETS
from dpbo_core.privacy.guarantee import PrivacyGuarantee

# Built once: building a statement takes longer than running it, and a reservation is made while others wait.
OF_ALL = sa.select(DATASET_FACTS.c.dataset, DATASET_FACTS.c.item, DATASET_FACTS.c.value).where(
    DATASET_FACTS.c.about == sa.bindparam("about")
)
ACCOUNT = sa.select(DATASET_FACTS.c.dataset).where(
    DATASET_FACTS.c.about == MEMBER, DATASET_FACTS.c.item == sa.bindparam("name")
)
MARKS = sa.select(DATASET_FACTS.c.dataset, DATASET_FACTS.c.item, DATASET_FACTS.c.value).where(
    DATASET_FACTS.c.about == MARK, DATASET_FACTS.c.item.startswith(sa.bindparam("file"))
)
NAMES = sa.union_all(
    sa.select(DATASETS.c.name), sa.select(DATASET_FACTS.c.item).where(DATASET_FACTS.c.about == MEMBER)
)


@dataclass(frozen=True)
class Approvals:
    """What is shown of a dataset beside its cap: sources, who pays with it, its group, its largest ε, scores."""

    sources: tuple[Approved, ...] = ()
    shares: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    largest: int | None = None
    scores: tuple[str, ...] = ()


NOTHING_APPROVED = Approvals()


def approvals_of(connection: sa.Connection, account: str) -> Approvals:
    """Everything that the owner approved for the dataset."""
    return Approvals(
        tuple(item for item in approved(connection) if item.account == account),
        tuple(sorted(facts_about(connection, account, SHARES))),
        tuple(sorted(facts_about(connection, account, MEMBER))),
        largest_of(connection, account),
        tuple(sorted(facts_about(connection, account, SCORE))),
    )


def account_named(connection: sa.Connection, name: str) -> str:
    """The dataset whose cap pays for studies of this name: itself, unless it is a member of a group."""
    found: str | None = connection.scalar(ACCOUNT, {"name": name})
    return name if found is None else found


def names_of(connection: sa.Connection) -> tuple[str, ...]:
    """Every name that studies may give: datasets, and members of groups."""
    return tuple(connection.scalars(NAMES).all())


@legible()
def approved(connection: sa.Connection, asked: Iterable[Source] = ()) -> tuple[Approved, ...]:
    """Every source that the ledger knows, with those marks that could be a mark of `asked`.

    A recorded file that once was the very inode of an asked one is looked at again: it may be its hard link, or be
    gone and its inode another file's by now.
    """
    found: dict[tuple[str, str], Approved] = {}
    for account, item, value in connection.execute(OF_ALL, {"about": SOURCE}):
        kind, role, name, dataset = (value[key] for key in ("kind", "role", "name", "dataset"))
        if kind not in KINDS or role not in ROLES or not (isinstance(name, str) and isinstance(dataset, str)):
            raise TypeError
        source = Source(cast("Kind", kind), name, cast("Role", role))
        found[account, item] = Approved(account, dataset, source, value.get("shared") is True)
    for mark in {mark for source in asked for mark in source.marks}:
        file = mark.rpartition(":")[0] + ":"
        for account, item, value in connection.execute(MARKS, {"file": file}).all():
            known = found[account, value["source"]]
            marks = {item} | {now for now in marks_of(known.source.name) if now.startswith(file)}
            known = replace(known, source=replace(known.source, marks=known.source.marks | marks))
            found[account, value["source"]] = known
    return tuple(found.values())


def check_sources(pen: Pen, use: Use, *, dataset: str, account: str, public: bool) -> None:
    """Every source of the study is the dataset's, or becomes so because its owner asks.

    Raises:
        PolicyRefused: nothing was written.
    """
    known = approved(pen.connection, use.sources)
    facts = {"dataset": dataset, "account": account}
    new = [
        source for source in use.sources if policy.is_new(source, known, **facts, owner=use.owner, public=public)
    ]
    for source in new:
        write_source(pen, Approved(account, dataset, source))
    for source in use.sources:
        _write_marks(pen, account, dataset, source)


def check_same_sources(connection: sa.Connection, use: Use, *, dataset: str, account: str) -> None:
    """A study that goes on is scored on what it began with.

    Raises:
        PolicyRefused: it is not.
    """
    known = approved(connection, use.sources)
    for source in use.sources:
        policy.still_own(source, known, dataset=dataset, account=account)


def allow(pen: Pen, dataset: str, source: Source, *, shared: bool) -> tuple[str, ...] | None:
    """The owner adds a source; whom its people pay too, or None if it was the dataset's already.

    Raises:
        PolicyRefused: it is another dataset's, and not said to be shared.
    """
    account, known = account_named(pen.connection, dataset), approved(pen.connection, (source,))
    own = [item.source for item in known if (item.account, item.dataset) == (account, dataset)]
    if any(item == source for item in own):
        return None
    others = sorted({item.account for item in policy.sharing(source, known, account=account)})
    if not shared:
        policy.check_unshared(source, known, dataset=dataset, account=account)
    write_source(pen, Approved(account, dataset, source, shared=bool(others)))
    _write_marks(pen, account, dataset, source)
    for other in others:
        for one, another in ((account, other), (other, account)):
            if another not in facts_about(pen.connection, one, SHARES):
                write_fact(pen, one, SHARES, another, {})
    return tuple(others)


def write_source(pen: Pen, item: Approved) -> None:
    """Record that a dataset may be scored on a source, as a row of its policy."""
    value = {"dataset": item.dataset, "kind": item.source.kind, "name": item.source.name, "role": item.source.role}
    write_fact(
        pen,
        item.account,
        SOURCE,
        _item(item.dataset, item.source),
        value | ({"shared": True} if item.shared else {}),
    )


def _write_marks(pen: Pen, account: str, dataset: str, source: Source) -> None:
    """What finds the file again under another name; only of a file that is recorded by its name."""
    item = _item(dataset, source)
    if item not in facts_about(pen.connection, account, SOURCE):
        return
    for mark in source.marks - facts_about(pen.connection, account, MARK).keys():
        write_fact(pen, account, MARK, mark, {"source": item})


def _item(dataset: str, source: Source) -> str:
    """A key of fixed length: a path may be longer than a column."""
    text = "\n".join((dataset, source.role, source.kind, source.name))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def add_members(pen: Pen, account: str, members: Iterable[str]) -> tuple[str, ...]:
    """Names whose studies the dataset's cap pays from now on; those that are new.

    Raises:
        PolicyRefused: a name has a cap of its own, is another group's, or looks like another.
    """
    taken = set(names_of(pen.connection))
    new = [name for name in dict.fromkeys(members) if name not in facts_about(pen.connection, account, MEMBER)]
    for name in new:
        if name in taken:
            raise policy.already_open(name, account, account_named(pen.connection, name))
        check_new_name(name, taken)
        write_fact(pen, account, MEMBER, name, {})
        taken.add(name)
    return tuple(new)


def allow_score(pen: Pen, dataset: str, path: str) -> bool:
    """The owner allows a score function by its import path; False if it was allowed already."""
    account = account_named(pen.connection, dataset)
    if path in facts_about(pen.connection, account, SCORE):
        return False
    write_fact(pen, account, SCORE, path, {})
    return True


@legible()
def largest_of(connection: sa.Connection, account: str) -> int | None:
    """The largest ε, in 10⁻¹², of a study that Prefect starts: the smallest that was ever set; None before any."""
    return min((int(item) for item in facts_about(connection, account, LARGEST)), default=None)


def set_largest(pen: Pen, account: str, units: int) -> bool:
    """Lower the largest ε of a study that Prefect starts, or set it; False if it is so already.

    Raises:
        PolicyRefused: it would be raised.
    """
    now = largest_of(pen.connection, account)
    if now == units:
        return False
    policy.check_lower(account, now, units)
    write_fact(pen, account, LARGEST, str(units), {})
    return True


def check_largest(
    connection: sa.Connection, use: Use, guarantees: Sequence[PrivacyGuarantee], *, account: str
) -> None:
    """A run that Prefect started asks for no more, all in all, than the owner said.

    Raises:
        PolicyRefused: it asks for more.
    """
    if not use.owner:
        policy.check_largest(account, largest_of(connection, account), guarantees, owner=False)


def template_of(
    connection: sa.Connection, dataset: str, sources: Iterable[Source]
) -> tuple[str, tuple[Approved, ...]] | None:
    """The dataset that the owner served under a name with fields, if this is one of its runs.

    Every source of the run must be one of the template's, with the fields that the name has filled alike.

    Returns:
        The template's name, and its sources as this run has them; None where there is no such template.
    """
    known = approved(connection)
    for name in filter(is_pattern, names_of(connection)):
        values = values_in(name, dataset)
        if values is None:
            continue
        here = [
            replace(item, source=replace(item.source, name=filled(item.source.name, values)))
            for item in known
            if item.account == name
        ]
        if all(any(same_records(asked, item.source) for item in here) for asked in sources):
            return name, tuple(replace(item, account=dataset, dataset=dataset) for item in here)
    return None
