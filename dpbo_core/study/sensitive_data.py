"""[data] with a SENSITIVE training set: nothing is fitted to it, and what is public of it is said here."""

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Literal

from dpbo_core.errors import StudyInvalid
from dpbo_core.study.public_data import (
    FILES,
    MAX_RECORDS,
    Labels,
    NRecords,
    Share,
    check_places,
    refuse_files,
    require_files,
)
from dpbo_core.study.reading import Section, require


def _check_n_training(_: str, n_training: int) -> None:
    """Refuse a number of training records below 1, or above what can be counted."""
    if not 1 <= n_training <= MAX_RECORDS:
        raise _bad_n_training(n_training)


def _check_bounds(key: str, bounds: Mapping[str, tuple[float, ...]]) -> None:
    """Refuse bounds on columns that are not two finite numbers in order."""
    for name, ends in bounds.items():
        require(
            len(ends) == 2 and all(math.isfinite(end) and abs(end) < 1e100 for end in ends) and ends[0] < ends[1],
            f"{key} {name!r} = {list(ends)}",
            remedy="give the public [low, high] of the column, low below high",
        )


Bounds = Annotated[Mapping[str, tuple[float, ...]], _check_bounds]


@dataclass(frozen=True)
class SensitiveSection(Section):
    """A sensitive training file. Nothing is fitted to it: what is public of it is said here.

    Attributes:
        training: path.
        target: the column to predict.
        n_training: n.
        labels: the classes.
        bounds: [low, high] of each column; "*" for all others.
        validation_share: says nothing of files; it is part of every study's fingerprint.
        sensitive: "training".
    """

    heading: ClassVar[str] = "data"
    training: str
    _: KW_ONLY
    target: str
    n_training: Annotated[int, _check_n_training]
    labels: Labels
    bounds: Bounds
    validation_share: float = 0.5
    sensitive: Literal["training"] = "training"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_places(self.training)

    @property
    def named_columns(self) -> frozenset[str]:
        """The columns that the study names, which messages about a sensitive header may repeat."""
        return frozenset({self.target, *self.bounds})


@dataclass(frozen=True)
class SensitiveFiles(SensitiveSection):
    """Two files, both sensitive.

    Attributes:
        validation: path.
        n_validation: m.
    """

    validation: str
    n_validation: NRecords

    def __post_init__(self) -> None:
        super().__post_init__()
        check_places(self.training, self.validation)


class SensitiveTraining(SensitiveSection):
    """One sensitive file: models are trained on its records and scored on them."""


@dataclass(frozen=True)
class SensitiveBundled(Section):
    """A bundled set whose training records are taken for sensitive too.

    Attributes:
        source: its name.
        validation_share: in (0, 1).
        labels: the classes; the set's own where None.
        bounds: [low, high] of each column; the set's own where None.
        sensitive: "training".
    """

    heading: ClassVar[str] = "data"
    source: str
    validation_share: Share = 0.5
    labels: Labels | None = None
    bounds: Bounds | None = None
    sensitive: Literal["training"] = "training"


SensitiveData = SensitiveFiles | SensitiveTraining | SensitiveBundled


def read_sensitive(table: Mapping[str, Any]) -> SensitiveData:
    """The [data] section, checked, of a study whose training set is sensitive.

    Raises:
        StudyInvalid: together they are none of its three kinds.
    """
    require(
        "n_persons" not in table,
        "[data] gives n_persons for a sensitive training set",
        cause="private training protects one record of the training set and one of the validation set",
        remedy="leave one record a person in each file, and leave n_persons out",
    )
    require(
        "ignore" not in table and "missing" not in table,
        "[data] gives ignore or missing for a sensitive training set",
        cause="nothing may be fitted to it, not even the mean that would fill a gap",
        remedy="drop the columns from the files, or fill the gaps there",
    )
    require(
        "memory_limit" not in table and "workers" not in table,
        "[data] gives memory_limit or workers for a sensitive training set",
        cause="they are of validation records in a folder of files, and private training keeps its in memory",
        remedy="remove it",
    )
    bundled = "source" in table
    if bundled == ("n_training" in table):
        raise _bad_n_training(table.get("n_training"))
    if bundled:
        refuse_files(table)
        return SensitiveBundled(**table)
    require(
        "labels" in table and "bounds" in table,
        "[data] lacks labels or bounds",
        cause="nothing is fitted to a sensitive training set, so what is public of it must be said",
        remedy='add labels = [0, 1] and [data.bounds] with "*" = [low, high] or one line a column',
    )
    alone = "validation" not in table and "n_validation" not in table
    require_files(table, ("training", "target") if alone else FILES)
    return SensitiveTraining(**table) if alone else SensitiveFiles(**table)


def _bad_n_training(n_training: int | None) -> StudyInvalid:
    """The error for a public number of training records that is missing, below 1, or stated of a bundled set."""
    return StudyInvalid(
        f"data.n_training = {n_training}",
        cause="a sensitive training file needs its public number of records; a bundled set has its own",
        remedy="give the number of records of the training file, at least 1",
    )
