"""What the owner approved, as facts of the ledger: sources and their marks, groups, the largest ε of one study.

The facts of a group stand under the dataset whose cap pays; a source says which member it is of.
"""

import hashlib
from collections.abc import Iterable, Set
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
from dpbo_core.ledger.policy import Approved
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
    """What is shown of a dataset beside its cap: its sources, who pays with it, its group, its largest ε, scores.

    `published` are the files whose records are public on the owner's word.
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
        tuple(item for item in approved(connection) if item.account == account),
        tuple(sorted({item.source.name for item in remembered(connection, PUBLISHED) if item.account == account})),
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


@row_decoding()
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
    for mark in {mark for source in asked for mark in source.all_marks}:
        file = mark.rpartition(":")[0] + ":"
        for account, item, value in connection.execute(MARKS, {"file": file}).all():
            known = found[account, value["source"]]
            marks = {item} | {now for now in marks_of(value["name"]) if now.startswith(file)}
            known = replace(known, source=replace(known.source, marks=known.source.marks | marks))
            found[account, value["source"]] = known
    return tuple(found.values())


@row_decoding()
def remembered(connection: sa.Connection, about: str, asked: Iterable[Source] = ()) -> tuple[Approved, ...]:
    """Every file that was read as public, or was published, whichever `about` says, with its marks.

    As in `approved`, one that may be an asked one under another name is looked at again.
    """
    inodes = {mark.rpartition(":")[0] for source in asked for mark in source.all_marks}
    found = []
    for account, _, value in connection.execute(OF_ALL, {"about": about}):
        name, dataset, marks = value["name"], value["dataset"], frozenset(value["marks"])
        if not all(isinstance(text, str) for text in (name, dataset, *marks)):
            raise TypeError
        if inodes & {mark.rpartition(":")[0] for mark in marks}:
            marks |= file_source(name).all_marks
        found.append(Approved(account, dataset, Source("file", name, PUBLIC, marks)))
    return tuple(found)


def remember(writer: Writer, about: str, source: Source, *, dataset: str, account: str) -> bool:
    """Write down a file that is read as public, or is published, as `about` says; False if it was before."""
    marks = sorted(source.all_marks)
    item = _digest(dataset, source.name, *marks)
    return write_fact(writer, account, about, item, {"dataset": dataset, "name": source.name, "marks": marks})


def check_public(connection: sa.Connection, source: Source) -> None:
    """What would be read as public is no dataset's, or was published; the ONE place that decides so.

    Raises:
        PolicyRefused: it is one's.
    """
    known, published = approved(connection, (source,)), remembered(connection, PUBLISHED, (source,))
    policy.check_public(source, known, published)


def check_sources(
    writer: Writer,
    sources: tuple[Source, ...],
    caller: Caller = Caller.OWNER,
    *,
    dataset: str,
    account: str,
    public: bool,
) -> None:
    """Every sensitive source of the study is the dataset's, or becomes so because its owner asks; no public one is.

    What is read as public is remembered, and so is how one table was divided.

    Raises:
        PolicyRefused: the transaction is to be left, and then nothing was written.
    """
    if not sources:
        return  # nothing to read the ledger for, while others wait
    facts = {"dataset": dataset, "account": account}
    charged = [source for source in sources if source.role != PUBLIC]
    known, read = approved(writer.connection, charged), remembered(writer.connection, READ_AS_PUBLIC, charged)
    published = remembered(writer.connection, PUBLISHED, charged)
    new = [source for source in charged if policy.is_new(source, known, **facts, caller=caller, public=public)]
    for source in charged:
        if not public:
            policy.check_never_public(source, read, published, **facts)
            if source.division is not None:
                _divide(writer, source.division, **facts)
    for source in new:
        write_source(writer, Approved(account, dataset, source))
    for source in charged:
        _write_marks(writer, account, dataset, source, known)
    for source in sources:
        if source.role == PUBLIC:
            check_public(writer.connection, source)
            remember(writer, READ_AS_PUBLIC, source, **facts)


def as_published(connection: sa.Connection, account: str, guarantee: PrivacyGuarantee) -> PrivacyGuarantee:
    """The guarantee with what it rests on where the owner published records of the dataset."""
    name = PUBLISHED_RECORDS.name
    if name in guarantee.assumptions or not facts_about(connection, account, PUBLISHED):
        return guarantee
    return replace(guarantee, assumptions=(*guarantee.assumptions, name))


@row_decoding()
def divisions(connection: sa.Connection, account: str) -> tuple[Division, ...]:
    """How one table of the dataset was divided in each study before."""
    facts = facts_about(connection, account, VALIDATION_SIZE).values()
    return tuple(Division(float(value["share"]), int(value["rows"])) for value in facts)


def _divide(writer: Writer, division: Division, *, dataset: str, account: str) -> None:
    """The rows that a dataset protects by their positions stay protected; its first study fixes the share."""
    share, n_rows = division.share, division.n_rows
    policy.check_division(share, n_rows, divisions(writer.connection, account), dataset=dataset)
    write_fact(writer, account, VALIDATION_SIZE, f"{share!r} of {n_rows}", {"share": share, "rows": n_rows})


def check_same_sources(
    connection: sa.Connection, sources: tuple[Source, ...], *, dataset: str, account: str
) -> None:
    """A study that goes on is scored on what it began with.

    Raises:
        PolicyRefused: it is not.
    """
    known = approved(connection, sources)
    for source in sources:
        if source.role == PUBLIC:
            check_public(connection, source)
        else:
            policy.still_own(source, known, dataset=dataset, account=account)


def allow(writer: Writer, dataset: str, source: Source, *, shared: bool) -> tuple[str, ...] | None:
    """The owner adds a source; whom its people pay too, or None if it was the dataset's already.

    Raises:
        PolicyRefused: it is another dataset's, and not said to be shared.
    """
    account, known = account_named(writer.connection, dataset), approved(writer.connection, (source,))
    own = [item.source for item in known if (item.account, item.dataset) == (account, dataset)]
    if any(item == source for item in own):
        return None
    others = sorted({item.account for item in policy.sharing(source, known, account=account)})
    if not shared:
        policy.check_unshared(source, known, dataset=dataset, account=account)
    write_source(writer, Approved(account, dataset, source, shared=bool(others)))
    _write_marks(writer, account, dataset, source)
    for other in others:
        for one, another in ((account, other), (other, account)):
            write_fact(writer, one, SHARES, another, {})
    return tuple(others)


def write_source(writer: Writer, item: Approved) -> None:
    """Record that a dataset may be scored on a source, as a row of its policy."""
    source = item.source
    value: dict[str, Any] = {"dataset": item.dataset, "kind": source.kind, "name": source.name, "role": source.role}
    value |= {"shared": True} if item.shared else {}
    write_fact(writer, item.account, SOURCE, _item(item.dataset, source), value)


def _write_marks(
    writer: Writer, account: str, dataset: str, source: Source, known: Iterable[Approved] = ()
) -> None:
    """What finds the file, or a part of the folder, again under another name.

    They stand under the name that is recorded: the file's own, or the folder's or the pattern's that it is of.
    """
    own = (item.source for item in known if (item.account, item.dataset) == (account, dataset))
    recorded = facts_about(writer.connection, account, SOURCE)
    items = (_item(dataset, one) for one in (source, *(one for one in own if same_records(source, one))))
    item = next((item for item in items if item in recorded), None)
    names = {mark: name for name, mark in source.parts.items()} | dict.fromkeys(source.marks, source.name)
    if item is not None:
        for mark, name in names.items():
            write_fact(writer, account, MARK, mark, {"source": item, "name": name})


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
    now = largest_of(writer.connection, account)
    if now is not None and units > now:
        raise PolicyRefused(
            f"a study of dataset {account!r} that Prefect starts may ask for {from_units(now):g}, which is never "
            "raised",
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
    known, sources = approved(connection), [source for source in sources if source.role != PUBLIC]
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
