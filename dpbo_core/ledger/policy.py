"""The owner's policy: whose file is whose, who may add one, and how much one study may ask for.

The owner is whoever sits at the command or the notebook. A run that Prefect started is somebody's who may start
runs, and may only do what the owner did before: it opens no cap, adds no file, and asks for no more than the cap's
largest ε. Facts of a dataset stand beside its cap, append-only, each under a heading and an item; a source once
with each mark that its file had:

| about | item | value |
|---|---|---|
| `max_records_per_person` | k, as text | {}: of its first spend, or of one that was recovered |
| `answers` | the publication | {"public": true}, or the range and the price of the noise |
| `recovered` | hash of a lost entry | {"reservation": number}, under which it was written again |
| `cap_set_by` | the account, in words | {}: who set the cap; none of old, or of a script that names nobody |
| `cap` | hash of a lost entry | {"epsilon_units", "delta_units"}: another cap it once had; the smaller holds |
| `source` | hash of what follows | {"kind", "name", "role", "mark", "path", "shared"}: what it may be scored on |
| `shares_people` | another dataset | {}: the owner said that the people of a file pay both |
| `largest_epsilon` | 10⁻¹², as text | {}: of a study that Prefect starts; the smallest holds |
| `a_day` | 10⁻¹², as text | {}: of all charges of 24 hours, where Prefect starts the last; the smallest holds |
| `allowed` | as of a source | as of a source: a training file or a saved model that Prefect's runs may read |
| `code` | an import path | {}: an estimator that Prefect's runs may import |
| `score` | an import path | {}: a function that the dataset's studies may be scored by |
| `validation_size` | share and number of rows | {"share", "rows"}: how one table was divided by position |
| `public` | as of a source | as of a source: a file that was read as public |
| `published` | as of a source | as of a source: a file that is public, says the owner |
| `learned` | a study's fingerprint | {"series", "releases"}: what its search begins with, fixed with its charge |
| `asked_by` | a study's fingerprint | {"by": text}: who charged it |
| `opened` | a study's fingerprint | {}: sensitive bytes were about to be opened under its charge |
| `taken_over` | a study's fingerprint | {"by", "spends"}: the corrected study that it pays for, and its plan |

A fact is written once. Rules that need to know something of a dataset put it here.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import sqlalchemy as sa

from dpbo_core.errors import PolicyRefused
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.charge import Caller
from dpbo_core.ledger.history import Writer, row_decoding, utc_now
from dpbo_core.ledger.schema import DATASET_FACTS, DATASETS
from dpbo_core.ledger.sources import (
    KINDS,
    PUBLIC_ROLE,
    ROLES,
    Kind,
    Role,
    Source,
    covers,
    filled,
    inode_of,
    is_pattern,
    marks_of,
    same_records,
    values_in,
)
from dpbo_core.privacy.guarantee import PUBLISHED_RECORDS, PrivacyGuarantee

RECORDS, ANSWERS, RECOVERED, CAP = "max_records_per_person", "answers", "recovered", "cap"
SOURCE, SHARES, LARGEST_EPSILON, A_DAY = "source", "shares_people", "largest_epsilon", "a_day"
VALIDATION_SIZE, READ_AS_PUBLIC, PUBLISHED = "validation_size", "public", "published"
ALLOWED, CODE, SCORE, CAP_SET_BY = "allowed", "code", "score", "cap_set_by"
MAX_CALLER_LENGTH = 300  # characters of who asked, or set a cap

# Built once: building a statement takes longer than running it, and a reservation is made while others wait.
FACTS_QUERY = sa.select(DATASET_FACTS.c.item, DATASET_FACTS.c.value).where(
    DATASET_FACTS.c.dataset == sa.bindparam("dataset"), DATASET_FACTS.c.about == sa.bindparam("about")
)
WRITTEN_QUERY = sa.select(DATASET_FACTS.c.item).where(
    *(DATASET_FACTS.c[name] == sa.bindparam(name) for name in ("dataset", "about", "item"))
)
NAMES_QUERY = sa.select(DATASETS.c.name).order_by(DATASETS.c.name)
ALL_FACTS_QUERY = sa.select(DATASET_FACTS.c.dataset, DATASET_FACTS.c.value).where(
    DATASET_FACTS.c.about == sa.bindparam("about")
)
UNCOMPARED_KINDS = ("memory", "bundled")  # no name says whose records they are; everybody has them


@row_decoding()
def facts_about(connection: sa.Connection, dataset: str, about: str) -> dict[str, Mapping[str, Any]]:
    """Return the dataset's facts under a heading such as "source" or "largest_epsilon": item → value."""
    rows = connection.execute(FACTS_QUERY, {"dataset": dataset, "about": about})
    facts = {row.item: row.value for row in rows}
    if not all(isinstance(value, Mapping) for value in facts.values()):
        raise TypeError
    return facts


@row_decoding()
def records_of(connection: sa.Connection, dataset: str) -> tuple[int, ...]:
    """Return every limit k of records per person that the dataset's charges assumed, ascending."""
    return tuple(sorted(int(item) for item in facts_about(connection, dataset, RECORDS)))


def write_fact(writer: Writer, dataset: str, about: str, item: str, value: Mapping[str, Any]) -> bool:
    """Record `value` for an `item` of the dataset under a heading, unless it has one; True if it was added."""
    key = {"dataset": dataset, "about": about, "item": item}
    if writer.connection.scalar(WRITTEN_QUERY, key) is not None:
        return False
    writer.write(DATASET_FACTS, key | {"value": dict(value), "written_at": utc_now()})
    return True


def templates_of(connection: sa.Connection, dataset: str) -> dict[str, Mapping[str, str]]:
    """Return the scheduled datasets' name patterns that this name fits, each with the values of its fields."""
    values = {name: values_in(name, dataset) for name in connection.scalars(NAMES_QUERY) if is_pattern(name)}
    return {name: fields for name, fields in values.items() if fields is not None}


@row_decoding()
def largest_epsilon(connection: sa.Connection, dataset: str, about: str = LARGEST_EPSILON) -> int | None:
    """The least ε, in 10⁻¹², set as limit of a Prefect run or (`A_DAY`) a day, for dataset or pattern; or None."""
    names = (dataset, *templates_of(connection, dataset))
    return min((int(item) for name in names for item in facts_about(connection, name, about)), default=None)


@dataclass(frozen=True)
class Approved:
    """A source that the ledger recorded for a dataset; `shared` where the owner said that others pay for it too."""

    dataset: str
    source: Source
    shared: bool = False


@row_decoding()
def sources_under(connection: sa.Connection, heading: str, sources: Iterable[Source] = ()) -> tuple[Approved, ...]:
    """Return all sources recorded under a heading, for every dataset, each with the marks (inodes) of its files.

    A mark is the inode that a file had when it was recorded. If one of `sources` has that inode now, the recorded
    path is examined again: the recorded file may be a hard link to it, or may be deleted and its inode reused.
    """
    inodes = {inode_of(mark) for source in sources for mark in source.all_marks}
    marks: dict[Approved, set[str]] = {}
    for dataset, value in connection.execute(ALL_FACTS_QUERY, {"about": heading}):
        names = ("kind", "name", "role", "mark", "path")
        kind, name, role, mark, path = (value[key] for key in names)
        if kind not in KINDS or role not in ROLES or not all(isinstance(value[key], str) for key in names):
            raise TypeError
        source = Source(cast("Kind", kind), name, cast("Role", role))
        current = marks.setdefault(Approved(dataset, source, value["shared"] is True), set())
        current |= {mark} if mark else set()
        current |= marks_of(path) if inode_of(mark) in inodes else set()
    return tuple(
        replace(item, source=replace(item.source, marks=frozenset(current))) for item, current in marks.items()
    )


def write_source(writer: Writer, heading: str, item: Approved, files: Mapping[str, str]) -> bool:
    """Record a file or table under a heading, a fact for each mark (inode) of its files; True if any is new."""
    source = item.source
    row = {"kind": source.kind, "name": source.name, "role": source.role}
    new = False
    for mark, path in (files or {"": ""}).items():
        lines = "\n".join((*row.values(), mark)).encode("utf-8", "surrogateescape")
        key = hashlib.sha256(lines).hexdigest()  # a path may be longer than a column
        new |= write_fact(
            writer, item.dataset, heading, key, row | {"mark": mark, "path": path, "shared": item.shared}
        )
    return new


def check_public(connection: sa.Connection, source: Source) -> None:
    """Refuse a source as public if it is a dataset's sensitive one and unpublished: its values could be printed."""
    published = sources_under(connection, PUBLISHED, (source,))
    for item in sources_under(connection, SOURCE, (source,)):
        if same_records(source, item.source) and not is_published(source, published, item.dataset):
            raise PolicyRefused(
                f"{source} is what dataset {item.dataset!r} is scored on, and would be read as public",
                cause="data.training and data.validation were exchanged, or somebody asked for another's records",
                remedy="name the public file; if its records are public after all, their owner says so: "
                f"dpbo budget publish {item.dataset} {source}",
            )


def _check_never_public(connection: sa.Connection, source: Source, dataset: str) -> None:
    """Refuse a sensitive source that was read as public and is unpublished: models and caches may hold it."""
    published = sources_under(connection, PUBLISHED, (source,))
    if source.kind in UNCOMPARED_KINDS or is_published(source, published, dataset):
        return
    read = sources_under(connection, READ_AS_PUBLIC, (source,))
    reader = next((item.dataset for item in read if same_records(source, item.source)), None)
    if reader is not None:
        raise PolicyRefused(
            f"{source} was read as public by a study of dataset {reader!r}, and would be protected now",
            cause="data.training and data.validation were exchanged; models that were trained on it may hold it",
            remedy="name another file; or say that its records are public: "
            f"dpbo budget publish {dataset} {source}, which every later release of the dataset lists",
        )


def check_sources(
    writer: Writer, sources: Sequence[Source], budget: PrivacyBudget, caller: Caller = Caller.OWNER
) -> None:
    """Record a study's sources and how its table is divided. A source that the owner's policy forbids is refused:
    then the caller must leave the transaction, so that nothing is written.
    """
    dataset = budget.dataset
    charged = [source for source in sources if source.role != PUBLIC_ROLE]
    approved = sources_under(writer.connection, SOURCE, charged) if charged else ()
    for source in charged:
        check_charged(source, approved, budget, caller)
        if not budget.public:
            _check_never_public(writer.connection, source, dataset)
            if source.division is not None:
                check_division(writer.connection, dataset, source.division.share, source.division.n_rows)
    for source in sorted(sources, key=lambda one: one.role == PUBLIC_ROLE):  # the study's own sensitive ones first
        new = Approved(dataset, source)
        if source.role == PUBLIC_ROLE:
            check_public(writer.connection, source)
            write_source(writer, READ_AS_PUBLIC, new, source.files)
            continue
        if source.division is not None and not budget.public:
            share, n = source.division.share, source.division.n_rows
            write_fact(writer, dataset, VALIDATION_SIZE, f"{share!r} of {n}", {"share": share, "rows": n})
        own = [item for item in approved if item.dataset == dataset and same_records(source, item.source)]
        own.sort(key=lambda item: item.source != source)  # itself, or else the folder or the pattern that it is of
        write_source(writer, SOURCE, own[0] if own else new, source.files)


def check_charged(source: Source, approved: Sequence[Approved], budget: PrivacyBudget, caller: Caller) -> None:
    """Refuse a sensitive source that the dataset was not scored on before, unless the caller may add it."""
    dataset = budget.dataset
    own = [item.source for item in approved if item.dataset == dataset]
    if any(same_records(source, other) for other in own):
        return
    check_unshared(source, approved, dataset)
    if caller is not Caller.OWNER:
        raise PolicyRefused(
            f"dataset {dataset!r} may not be scored on {source}",
            cause="its owner did not allow it, and a run that Prefect started cannot",
            remedy=f"its owner runs the study once, or: {_command(dataset, source)}",
        )
    earlier = next((other for other in own if other.role == source.role), None)
    if earlier is not None and not budget.public:
        raise _other_source(dataset, source, earlier)


def check_unshared(source: Source, approved: Sequence[Approved], dataset: str) -> None:
    """Refuse a sensitive source that is another dataset's too, unless its owner allowed the sharing."""
    other = next(iter(sharing(source, approved, dataset)), None)
    if other is not None:
        raise PolicyRefused(
            f"{source} is scored as dataset {other!r}, and this study calls it {dataset!r}",
            cause="a second name for the same records would be a second budget for the same people",
            remedy=f"set dataset = {other!r}; or, if its people are to pay both: "
            f"{_command(dataset, source)} --as shared",
        )


def sharing(source: Source, approved: Sequence[Approved], dataset: str) -> tuple[str, ...]:
    """The other datasets for which the same records were approved, sorted; none for tables in memory or bundled."""
    others = {item.dataset for item in approved if same_records(source, item.source)} - {dataset}
    return () if source.kind in UNCOMPARED_KINDS else tuple(sorted(others))


def _other_source(dataset: str, source: Source, earlier: Source) -> PolicyRefused:
    return PolicyRefused(
        f"dataset {dataset!r} is scored on {earlier}, and this study's {source.role} are {source}",
        cause="the study names another file than before, and whose people they are nobody said",
        remedy=f"if they are the same group of people: {_command(dataset, source)}; otherwise another dataset name",
    )


def is_published(source: Source, published: Sequence[Approved], dataset: str) -> bool:
    """Return whether the dataset's owner stated that all records of the source are public."""
    return any(item.dataset == dataset and covers(item.source, source) for item in published)


def check_same_sources(connection: sa.Connection, sources: Sequence[Source], dataset: str) -> None:
    """Refuse to continue a charged study on other files or tables than it began with."""
    approved = [item.source for item in sources_under(connection, SOURCE, sources) if item.dataset == dataset]
    for source in sources:
        if source.role == PUBLIC_ROLE:
            check_public(connection, source)
            continue
        own = [item for item in approved if item.role == source.role]
        if own and not any(same_records(source, other) for other in own):
            raise _other_source(dataset, source, own[0])


@row_decoding()
def check_division(connection: sa.Connection, dataset: str, share: float, n_rows: int) -> None:
    """Refuse another split share for a table divided by position, or a table that lost rows."""
    earlier = list(facts_about(connection, dataset, VALIDATION_SIZE).values())
    other = next((float(division["share"]) for division in earlier if division["share"] != share), None)
    if other is not None:
        raise PolicyRefused(
            f"dataset {dataset!r} is divided with validation_size = {other:g}, and this study says {share:g}",
            cause="with another share rows change sides: those of a smaller one's public half were protected, and "
            "those that a larger one protects were public",
            remedy=f"set validation_size = {other:g}",
        )
    most = max((int(division["rows"]) for division in earlier), default=0)
    if n_rows < most:
        raise PolicyRefused(
            f"dataset {dataset!r} was divided as a table of {most} rows, and this one has {n_rows}",
            cause="a row's position says whether it is protected, and where rows were deleted it may be public now",
            remedy="give the whole table in its order, new rows at its end; or two tables, divided as in the first "
            "study by its validation_rows_",
        )


def template_of(
    connection: sa.Connection, dataset: str, sources: Iterable[Source]
) -> tuple[str, tuple[Approved, ...]] | None:
    """Return the pattern that a run's name and sensitive sources match, and its sources, filled; None if none."""
    approved = sources_under(connection, SOURCE)
    sources = [source for source in sources if source.role != PUBLIC_ROLE]
    for name, values in templates_of(connection, dataset).items():
        own = tuple(
            Approved(dataset, replace(item.source, name=filled(item.source.name, values)), item.shared)
            for item in approved
            if item.dataset == name
        )
        if all(any(same_records(source, item.source) for item in own) for source in sources):
            return name, own
    return None


def as_published(connection: sa.Connection, dataset: str, guarantee: PrivacyGuarantee) -> PrivacyGuarantee:
    """Return the guarantee, with the assumption `published_records` if the owner published any of the dataset's."""
    name = PUBLISHED_RECORDS.name
    if name in guarantee.assumptions or not facts_about(connection, dataset, PUBLISHED):
        return guarantee
    return replace(guarantee, assumptions=(*guarantee.assumptions, name))


def unallowed_score(path: str, dataset: str, key: str = "score") -> PolicyRefused:
    """Return the error for a study whose score, estimator or other function the dataset's owner did not allow."""
    thing = "estimator" if key == "estimator" else "score"
    return PolicyRefused(
        f"the {key} {path!r} is not allowed by the owner's policy: dataset {dataset!r}'s owner did not allow it",
        cause="a study names it, and it would run beside the records",
        remedy=f"if you answer for it: dpbo budget allow {dataset} {path} --as {thing}; in Python give the "
        f"{'object' if thing == 'estimator' else 'function'}",
    )


def _command(dataset: str, source: Source) -> str:
    return f"dpbo budget allow {dataset} {'memory' if source.kind == 'memory' else source.name}"
