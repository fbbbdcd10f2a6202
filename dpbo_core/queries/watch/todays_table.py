"""Today's table: where it lies, how many records it has, and how they are scored.

How many records a table has is public, as a study's `n_validation` is, and read with its header before anything is
drawn; where each person counts once (`n_persons`) it is private, and the stated number of persons stands for it.
Nothing else of a table can be a reason to refuse it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from dpbo_core import data
from dpbo_core.data.addresses import place_of
from dpbo_core.data.read_mode import SENSITIVE_FILE
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.sources import Source
from dpbo_core.preparation.data_split import check_presence, sensitive_half, sources_of
from dpbo_core.preparation.public_half import PublicHalf
from dpbo_core.preparation.sizes import n_validation
from dpbo_core.problem.problem import Problem
from dpbo_core.scoring.in_memory import Scorer
from dpbo_core.scoring.partitioned import parts_of
from dpbo_core.study_file import PersonFiles, PredictionTable, PublicFiles, SensitiveData, StudySpec


@dataclass(frozen=True, eq=False, repr=False)
class TodaysTable:
    """One table of a study, of whatever size, none of whose records was read.

    Attributes:
        spec: the study, as it would be written for this table.
        folder: its paths are relative to it.
        n: how many records it has, or the stated number of persons; public.
    """

    spec: StudySpec
    folder: str | Path
    n: int

    def sources(self) -> tuple[Source, ...]:
        """Where its records come from, for the owner's policy."""
        return sources_of(self.spec, self.folder)

    def opened(self, public: PublicHalf) -> Callable[[], Scorer]:
        """How its records are read, once the look began; what that raises is to be sealed."""
        return lambda: sensitive_half(self.spec, self.folder, public)


def todays_table(spec: StudySpec, folder: str | Path, public: PublicHalf, named: str | None) -> TodaysTable:
    """The table of today's look: its presence and header are checked.

    Args:
        spec: the study.
        folder: the folder that its paths are relative to.
        public: its public half.
        named: today's file; the study's own validation file where None.

    Raises:
        StudyInvalid: it is missing, or has other columns. No record's content was looked at.
    """
    files = spec.data
    if isinstance(files, PublicFiles | PersonFiles) and named is not None:
        files = replace(files, validation=named)
    elif named is not None:
        raise StudyInvalid(
            "watch.table names a file, and the study's data are no files",
            cause="a bundled set has one table",
            remedy="leave table out",
        )
    if isinstance(files, PublicFiles):
        files = replace(files, n_validation=_n_records(files, folder))
    today = replace(spec, data=files)
    check_presence(today, folder, public)
    return TodaysTable(today, folder, stated_size(today))


def stated_size(spec: StudySpec) -> int:
    """m, or n_p, as the study says."""
    size = spec.data.n_persons if isinstance(spec.data, PersonFiles) else n_validation(spec)
    return size or 1


def counted_of(problem: Problem) -> str:
    """Whose records count, and how many of each: what makes two watches of one model different."""
    if problem.n_persons is not None:
        return f"persons by {problem.person}"
    return f"{problem.max_records_per_person} of {problem.person or 'each'}"


def check_watchable(spec: StudySpec) -> None:
    """There is a public model to watch, on records that it was not trained on.

    Raises:
        StudyInvalid: the training set is sensitive.
    """
    if isinstance(spec.data, PredictionTable):
        raise StudyInvalid(
            "a study of predictions made elsewhere has no model to watch",
            cause="it released which candidate is best; tomorrow's predictions would be another table",
            remedy="give each day's table an edition of its own",
        )
    if isinstance(spec.data, SensitiveData):
        raise StudyInvalid(
            "models of a sensitive training set cannot be watched",
            cause="they are private releases of their own, and no public set says what to expect",
            remedy="watch a study whose training set is public",
        )


def _n_records(files: PublicFiles, folder: str | Path) -> int:
    """How many records the headers of the validation file, or of its parts, say there are."""
    path = place_of(folder, files.validation)
    parts = parts_of(path, shown_as=files.validation) or (path,)
    headers = [data.read_header(part, mode=SENSITIVE_FILE, shown_as=files.validation) for part in parts]
    return sum(header.n_records for header in headers)
