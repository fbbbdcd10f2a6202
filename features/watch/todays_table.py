"""Today's table: where it lies, how many records it has, and how they are scored.

How many records a table has is public, as a study's `n_validation` is, and read with its header before anything is
drawn; where each person counts once (`n_persons`) it is private, and the stated number of persons stands for it.
Nothing else of a table can be a reason to refuse it.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from glob import glob
from itertools import chain
from pathlib import Path

from dpbo.features.watch.terms import Terms
from dpbo_core.data import read_header
from dpbo_core.data.addresses import is_address, list_parts, parse_place
from dpbo_core.data.header import SENSITIVE_FILE
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.sources import Source, is_pattern, values_in, written_anyhow
from dpbo_core.methods.problem import Problem
from dpbo_core.models.scoring.in_memory import Scorer
from dpbo_core.privacy.guarantee import ROWS_IN_ONE_TABLE
from dpbo_core.study import StudySpec, WatchSection
from dpbo_core.study.data_files import check_distinct
from dpbo_core.study.data_split import check_presence, each_file, identified_sources, sensitive_half
from dpbo_core.study.public_half import PublicHalf


@dataclass(frozen=True, eq=False, repr=False)
class TodaysTable:
    """One table of a study, of whatever size, none of whose records was read."""

    spec: StudySpec  # the study, as it would be written for this table
    folder: str | Path  # its paths are relative to it
    n: int  # how many records it has, or the stated number of persons; public
    pooled: tuple[str, ...] = ()  # the files that are read as this one table; empty if it is one

    def sources(self) -> tuple[Source, ...]:
        """The files and addresses that the table's records come from, to be checked by the owner's policy."""
        every = [identified_sources(spec, self.folder) for spec in each_file(self.spec, self.pooled)]
        return tuple(dict.fromkeys(chain.from_iterable(every)))

    def opened(self, public: PublicHalf) -> Callable[[], Scorer]:
        """A function that reads the table into a sealed scorer of its records; the caller seals its errors."""
        return lambda: sensitive_half(self.spec, self.folder, public, pooled=self.pooled)


def todays_table(
    spec: StudySpec,
    folder: str | Path,
    public: PublicHalf,
    section: WatchSection,
    terms: Terms,
    read_before: Collection[str] = (),
) -> TodaysTable:
    """The table that today's look reads, its presence and columns checked, of any size; no record is read."""
    named = section.table
    if terms.pool == 1 or spec.data.divided is None:
        if named is not None and spec.data.divided is None:
            raise StudyInvalid(
                "watch.table names a file, and the study's data are no files",
                cause="a bundled set has one table",
                remedy="leave table out",
            )
        (today,) = each_file(spec, () if named is None else (named,))
        today = _counted(today, folder)
        check_presence(today, folder, public)
        return TodaysTable(today, folder, stated_size(today))
    names = tables_of(section, folder)  # a pool: the newest files, to be read as one table
    if not names or section.pool is None:
        raise StudyInvalid(
            f"the last {terms.pool} tables are read as one, but no file name holds a date",
            cause="a pool is the newest files whose names hold the time: day-{date}.csv; or none is there yet",
            remedy=f'give --pool {terms.pool} --table "day-{{date}}.csv", or the same under [watch]',
        )
    if spec.data.person_count is not None:
        fitting = [name for name in read_before if values_in(str(section.table), Path(name).as_posix()) is not None]
        _check_whole(names, section.pool, [name for name in fitting if not (Path(folder) / name).exists()])
    each = [_counted(one, folder) for one in each_file(spec, names)]
    for one in each:
        check_presence(one, folder, public)
    check_distinct((), tuple(Path(folder) / name for name in names), display_name="the pool")
    if spec.data.person_count is None:
        data = spec.data.with_records(sum(one.data.n_scored or 0 for one in each))
    else:
        data = spec.data.replace(n_persons=terms.least_records)
    today = spec.replace(data=data)
    return TodaysTable(today, folder, stated_size(today), names)


def _check_whole(names: tuple[str, ...], pool: int, gone: list[str]) -> None:
    """Refuse a pool of persons that lacks a file: who is in it would count as nothing, which looks like a fall."""
    missing = sorted(name for name in gone if name > names[0])
    if missing or len(names) < pool:
        what = f"{', '.join(missing)} is not there" if missing else f"only {', '.join(names)} is there"
        raise StudyInvalid(
            f"the last {pool} tables are read as one, and {what}",
            cause="a file was removed, moved or renamed, or was not written yet; how many persons are in a pool is "
            "stated and not counted, so whoever is in a missing file would be missing from the score",
            remedy="put the file back; or look when the tables of the pool are there",
        )


def tables_of(section: WatchSection, folder: str | Path) -> tuple[str, ...]:
    """Return the files that a watch names, of a pattern the newest, oldest first; empty if it names none."""
    table = section.table
    if section.pool is None:
        return () if table is None else (table,)
    if table is None or not is_pattern(table) or is_address(table):
        raise StudyInvalid(
            "a pool reads the newest files of a name that holds the time, and watch.table is none",
            cause="which tables belong together is read from their names",
            remedy='give --table "day-{date}.csv", say; to pool rows of a database write a query that does',
        )
    there = glob(written_anyhow(table), root_dir=folder)  # noqa: PTH207  an absolute one too
    return tuple(sorted(name for name in there if values_in(table, Path(name).as_posix())))[-section.pool :]


def rows_in_pool(problem: Problem, pool: int, accepts: Collection[str]) -> int:
    """Return the most records that one person can have in a pool of tables.

    It is k if each person counts once (a column names them, or their number is stated), or if `accepts` says that
    nobody is in two tables; else k for every table.
    """
    k, counted = problem.max_records_per_person, problem.person is not None or problem.n_persons is not None
    return k if counted or ROWS_IN_ONE_TABLE.name in accepts else pool * k


def least_of(spec: StudySpec, section: WatchSection) -> int:
    """The fewest records or persons that a private check may read, by default the study's number for each table."""
    if section.pool is not None and section.least_records is None and spec.data.person_count is not None:
        raise StudyInvalid(
            f"how many different persons {section.pool} tables have together is not stated",
            cause="each person counts once in a pool, and who comes again is in several tables",
            remedy="write least_records under [watch]: the persons of a pool",
        )
    return section.least_records or stated_size(spec) * (section.pool or 1)


def stated_size(spec: StudySpec) -> int:
    """Return the number of records m, or of persons n_p, that the study states."""
    return spec.data.person_count or spec.data.n_scored or 1


def counted_of(problem: Problem) -> str:
    """Return which records count, as text, as a part of the watch's key."""
    if problem.n_persons is not None:
        return f"persons by {problem.person}"
    return f"{problem.max_records_per_person} of {problem.person or 'each'}"


def check_watchable(spec: StudySpec) -> None:
    """Refuse a study that trains no model on public data: of a sensitive training set, or of given predictions."""
    if not spec.model.trained:
        raise StudyInvalid(
            "a study of predictions made elsewhere has no model to watch",
            cause="it released which candidate is best; tomorrow's predictions would be another table",
            remedy="give each day's table an edition of its own",
        )
    if spec.data.sensitive_training:
        raise StudyInvalid(
            "models of a sensitive training set cannot be watched",
            cause="they are private releases of their own, and no public set says what to expect",
            remedy="watch a study whose training set is public",
        )


def _counted(spec: StudySpec, folder: str | Path) -> StudySpec:
    """The study with its validation files' number of records, by their headers; as it is if that is private."""
    shown, files = spec.data.validation_file, spec.data.divided
    if files is None or files.person_count is not None:
        return spec
    path = parse_place(folder, shown)
    parts = list_parts(path, display_name=shown) or (path,)
    headers = [read_header(part, mode=SENSITIVE_FILE, display_name=shown) for part in parts]
    return spec.replace(data=files.with_records(sum(header.n_records for header in headers)))
