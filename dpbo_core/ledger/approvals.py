"""The owner's approvals, as facts of the ledger: sources and their marks, groups, the largest ε of one study.

The facts of a group stand under the dataset whose cap pays; a source says which member it is of.
"""

import hashlib
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, cast

import sqlalchemy as sa

from dpbo_core.errors import PolicyRefused
from dpbo_core.ledger import policy
from dpbo_core.ledger.charge import Caller
from dpbo_core.ledger.dataset_metadata import (
    LARGEST,
    MARK,
    MEMBER,
    PUBLISHED,
    READ_AS_PUBLIC,
    SCORE,
    SHARES,
    SOURCE,
    VALIDATION_SIZE,
    facts_about,
    write_fact,
)
from dpbo_core.ledger.history import row_decoding
from dpbo_core.ledger.policy import Approved, Dataset
from dpbo_core.ledger.schema import DATASET_FACTS, DATASETS
from dpbo_core.ledger.sources import (
    KINDS,
    PUBLIC,
    ROLES,
    Division,
    Kind,
    Role,
    Source,
    file_source,
    marks_of,
    same_records,
)
from dpbo_core.ledger.writer import Writer
from dpbo_core.name_patterns import filled, is_pattern, values_in
from dpbo_core.privacy.amounts import from_units
from dpbo_core.privacy.assumption import PUBLISHED_RECORDS
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
    """Everything that the owner of a dataset approved.

    Attributes:
        sources: what it may be scored on.
        published: the files whose records are public on the owner's word.
        shares: other datasets that the same people pay.
        members: other names whose studies its cap pays.
        largest: ε in 10⁻¹² of a study that Prefect starts; None for no limit.
        scores: import paths of the functions that its studies may be scored by.
    """

    sources: tuple[Approved, ...] = ()
    published: tuple[str, ...] = ()
    shares: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    largest: int | None = None
    scores: tuple[str, ...] = ()


NOTHING_APPROVED = Approvals()


def approvals_of(connection: sa.Connection, account: str) -> Approvals:
    """Everything that the owner approved for the dataset."""
    return Approvals(
        tuple(item for item in approved_sources(connection) if item.account == account),
        tuple(
            sorted({item.source.name for item in public_files(connection, PUBLISHED) if item.account == account})
        ),
        tuple(sorted(facts_about(connection, account, SHARES))),
        tuple(sorted(facts_about(connection, account, MEMBER))),
        largest_of(connection, account),
        tuple(sorted(facts_about(connection, account, SCORE))),
    )


def account_named(connection: sa.Connection, name: str) -> str:
    """The dataset whose cap pays for studies of this name: itself, unless it is a member of a group."""
    group: str | None = connection.scalar(ACCOUNT, {"name": name})
    return name if group is None else group


def names_of(connection: sa.Connection) -> tuple[str, ...]:
    """Every name that studies may give: datasets, and members of groups."""
    return tuple(connection.scalars(NAMES).all())


@row_decoding()
def approved_sources(connection: sa.Connection, sources: Iterable[Source] = ()) -> tuple[Approved, ...]:
    """Every source in the ledger, with those marks that could be a mark of `sources`.

    A recorded file that once was the very inode of one of them is looked at again: it may be its hard link, or be
    gone and its inode another file's by now.
    """
    items: dict[tuple[str, str], Approved] = {}
    for account, item, value in connection.execute(OF_ALL, {"about": SOURCE}):
        kind, role, name, dataset = (value[key] for key in ("kind", "role", "name", "dataset"))
        if kind not in KINDS or role not in ROLES or not (isinstance(name, str) and isinstance(dataset, str)):
            raise TypeError
        source = Source(cast("Kind", kind), name, cast("Role", role))
        items[account, item] = Approved(account, dataset, source, value.get("shared") is True)
    for file in _inodes(sources):
        for account, mark, value in connection.execute(MARKS, {"file": file}).all():
            approved = items[account, value["source"]]
            marks = {mark} | {current for current in marks_of(value["name"]) if current.startswith(file)}
            source = replace(approved.source, marks=approved.source.marks | marks)
            items[account, value["source"]] = replace(approved, source=source)
    return tuple(items.values())


@row_decoding()
def public_files(connection: sa.Connection, about: str, sources: Iterable[Source] = ()) -> tuple[Approved, ...]:
    """Every file that was read as public, or was published, whichever `about` says, with its marks.

    As in `approved_sources`, one that may be one of `sources` under another name is looked at again.
    """
    inodes, items = _inodes(sources), []
    for account, _, value in connection.execute(OF_ALL, {"about": about}):
        name, dataset, marks = value["name"], value["dataset"], frozenset(value["marks"])
        if not all(isinstance(text, str) for text in (name, dataset, *marks)):
            raise TypeError
        if inodes & {_inode(mark) for mark in marks}:
            marks |= file_source(name).all_marks
        items.append(Approved(account, dataset, Source("file", name, PUBLIC, marks)))
    return tuple(items)


def _inode(mark: str) -> str:
    """The "device:inode:" that a mark begins with."""
    return mark.rpartition(":")[0] + ":"


def _inodes(sources: Iterable[Source]) -> set[str]:
    return {_inode(mark) for source in sources for mark in source.all_marks}


def write_public_file(writer: Writer, about: str, source: Source, dataset: Dataset) -> bool:
    """Write down a file that is read as public, or is published, as `about` says; False if it was before."""
    marks = sorted(source.all_marks)
    item = _digest(dataset.name, source.name, *marks)
    value = {"dataset": dataset.name, "name": source.name, "marks": marks}
    return write_fact(writer, dataset.account, about, item, value)


def check_public(connection: sa.Connection, source: Source) -> None:
    """A source to be read as public is no dataset's, or was published; the ONE place that decides so.

    Raises:
        PolicyRefused: it is one's.
    """
    published = public_files(connection, PUBLISHED, (source,))
    policy.check_public(source, approved_sources(connection, (source,)), published)


def check_sources(
    writer: Writer, sources: Sequence[Source], dataset: Dataset, caller: Caller = Caller.OWNER, *, public: bool
) -> None:
    """Every sensitive source of the study is the dataset's, or becomes so because its owner asks; no public one is.

    The files read as public are written down, and so is the division of one table.

    Raises:
        PolicyRefused: the transaction is to be left, and then nothing was written.
    """
    if not sources:
        return  # nothing to read the ledger for, while others wait
    charged = [source for source in sources if source.role != PUBLIC]
    approved = approved_sources(writer.connection, charged)
    read, published = (public_files(writer.connection, about, charged) for about in (READ_AS_PUBLIC, PUBLISHED))
    new = [source for source in charged if policy.is_new(source, approved, dataset, caller=caller, public=public)]
    for source in charged:
        if not public:
            policy.check_never_public(source, read, published, dataset)
            if source.division is not None:
                _divide(writer, source.division, dataset)
    for source in new:
        write_source(writer, Approved(dataset.account, dataset.name, source))
    for source in charged:
        _write_marks(writer, dataset, source, approved)
    for source in sources:
        if source.role == PUBLIC:
            check_public(writer.connection, source)
            write_public_file(writer, READ_AS_PUBLIC, source, dataset)


def as_published(connection: sa.Connection, account: str, guarantee: PrivacyGuarantee) -> PrivacyGuarantee:
    """The guarantee with what it rests on where the owner published records of the dataset."""
    name = PUBLISHED_RECORDS.name
    if name in guarantee.assumptions or not facts_about(connection, account, PUBLISHED):
        return guarantee
    return replace(guarantee, assumptions=(*guarantee.assumptions, name))


@row_decoding()
def divisions(connection: sa.Connection, account: str) -> tuple[Division, ...]:
    """The divisions of one table of the dataset in all earlier studies."""
    facts = facts_about(connection, account, VALIDATION_SIZE).values()
    return tuple(Division(float(value["share"]), int(value["rows"])) for value in facts)


def _divide(writer: Writer, division: Division, dataset: Dataset) -> None:
    """The rows that a dataset protects by their positions stay protected; its first study fixes the share."""
    share, n_rows = division.share, division.n_rows
    policy.check_division(share, n_rows, divisions(writer.connection, dataset.account), dataset=dataset.name)
    value = {"share": share, "rows": n_rows}
    write_fact(writer, dataset.account, VALIDATION_SIZE, f"{share!r} of {n_rows}", value)


def check_same_sources(connection: sa.Connection, sources: Sequence[Source], dataset: Dataset) -> None:
    """A study that goes on is scored on what it began with.

    Raises:
        PolicyRefused: it is not.
    """
    approved = approved_sources(connection, sources)
    for source in sources:
        if source.role == PUBLIC:
            check_public(connection, source)
        else:
            policy.check_own(source, approved, dataset)


def allow(writer: Writer, dataset: Dataset, source: Source, *, shared: bool) -> tuple[str, ...] | None:
    """The owner adds a source; whom its people pay too, or None if it was the dataset's already.

    Raises:
        PolicyRefused: it is another dataset's, and not said to be shared.
    """
    approved = approved_sources(writer.connection, (source,))
    if any(item.is_of(dataset) and item.source == source for item in approved):
        return None
    others = sorted({item.account for item in policy.sharing(source, approved, dataset)})
    if not shared:
        policy.check_unshared(source, approved, dataset)
    write_source(writer, Approved(dataset.account, dataset.name, source, shared=bool(others)))
    _write_marks(writer, dataset, source)
    for other in others:
        for one, another in ((dataset.account, other), (other, dataset.account)):
            write_fact(writer, one, SHARES, another, {})
    return tuple(others)


def write_source(writer: Writer, item: Approved) -> None:
    """Record that a dataset may be scored on a source, as a row of its policy."""
    source = item.source
    value: dict[str, Any] = {"dataset": item.dataset, "kind": source.kind, "name": source.name, "role": source.role}
    value |= {"shared": True} if item.shared else {}
    write_fact(writer, item.account, SOURCE, _item(item.dataset, source), value)


def _write_marks(writer: Writer, dataset: Dataset, source: Source, approved: Iterable[Approved] = ()) -> None:
    """Write the marks by which the file, or a part of the folder, is recognised under another name.

    They stand under the name that is recorded: the file's own, or the folder's or the pattern's that it is of.
    """
    own = (item.source for item in approved if item.is_of(dataset))
    recorded = facts_about(writer.connection, dataset.account, SOURCE)
    items = (_item(dataset.name, one) for one in (source, *(one for one in own if same_records(source, one))))
    item = next((item for item in items if item in recorded), None)
    names = {mark: name for name, mark in source.parts.items()} | dict.fromkeys(source.marks, source.name)
    if item is not None:
        for mark, name in names.items():
            write_fact(writer, dataset.account, MARK, mark, {"source": item, "name": name})


def _item(dataset: str, source: Source) -> str:
    return _digest(dataset, source.role, source.kind, source.name)


def _digest(*lines: str) -> str:
    """A key of fixed length: a path may be longer than a column."""
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def add_members(writer: Writer, account: str, members: Set[str]) -> None:
    """Names whose studies the dataset's cap pays from now on.

    Raises:
        PolicyRefused: a name has a cap of its own, or is another group's.
    """
    new = members - facts_about(writer.connection, account, MEMBER).keys()
    name = min(new & set(names_of(writer.connection)), default=None)
    if name is not None:
        payer = account_named(writer.connection, name)
        own = "has a cap of its own" if payer == name else f"is in the group {payer!r}"
        raise PolicyRefused(
            f"dataset {name!r} {own} and cannot join {account!r}",
            cause="a group is opened before any of its members; what was spent stays where it was spent",
            remedy="open the group under names that are new",
        )
    for name in sorted(new):
        write_fact(writer, account, MEMBER, name, {})


@row_decoding()
def largest_of(connection: sa.Connection, account: str) -> int | None:
    """The largest ε, in 10⁻¹², of a study that Prefect starts: the smallest that was ever set; None before any."""
    return min((int(item) for item in facts_about(connection, account, LARGEST)), default=None)


def set_largest(writer: Writer, account: str, units: int) -> None:
    """Lower the largest ε of a study that Prefect starts, or set it.

    Raises:
        PolicyRefused: it would be raised.
    """
    current = largest_of(writer.connection, account)
    if current is not None and units > current:
        raise PolicyRefused(
            f"a study of dataset {account!r} that Prefect starts may ask for {from_units(current):g}, which is "
            "never raised",
            cause="--largest-epsilon was set lower before",
            remedy="let its owner run larger studies with dpbo tune",
        )
    write_fact(writer, account, LARGEST, str(units), {})


def template_of(
    connection: sa.Connection, dataset: str, sources: Iterable[Source]
) -> tuple[str, tuple[Approved, ...]] | None:
    """The dataset that the owner served under a name with fields, if this is one of its runs.

    Every source of the run must be one of the template's, with the fields that the name has filled alike.

    Returns:
        The template's name, and its sources as this run has them; None where there is no such template.
    """
    approved, sources = approved_sources(connection), [source for source in sources if source.role != PUBLIC]
    for name in filter(is_pattern, names_of(connection)):
        values = values_in(name, dataset)
        if values is None:
            continue
        own = [
            Approved(dataset, dataset, replace(item.source, name=filled(item.source.name, values)), item.shared)
            for item in approved
            if item.account == name
        ]
        if all(any(same_records(source, item.source) for item in own) for source in sources):
            return name, tuple(own)
    return None
