"""[data] with a PUBLIC training set: two files, two files of persons, or a share of a bundled set."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpbo_core.spec.data_checks import (
    FILES,
    check_n_validation,
    check_places,
    check_share,
    check_target,
    refuse_files,
    require_files,
)
from dpbo_core.spec.reading import one_of, require

MISSING = ("refuse", "mean")
PERSON_FILES = ("training", "validation", "n_persons", "target")
PUBLIC_FACTS = ("n_training", "labels", "bounds")


@dataclass(frozen=True)
class PublicFiles:
    """Two files: the training file is PUBLIC, and of the validation file the number of records is.

    Attributes:
        training: path.
        validation: path.
        n_validation: m.
        target: the column to predict.
        validation_share: says nothing of files; it is part of every study's fingerprint.
        sensitive: "validation", if it is said.
        ignore: columns that are no features.
        missing: what becomes of gaps in the others, "refuse" or "mean".
        memory_limit: GB of encoded validation records that are kept, in all processes together, where they are a
            folder of files; it changes no release, and no study's key.
    """

    training: str
    validation: str
    n_validation: int
    target: str
    validation_share: float = 0.5
    sensitive: str | None = None
    ignore: tuple[str, ...] | None = None
    missing: str | None = None
    memory_limit: float | None = None

    def __post_init__(self) -> None:
        _check_memory_limit(self.memory_limit)
        _check_public(self.sensitive, self.missing)
        check_target(self.target, self.ignore)
        check_n_validation(self.n_validation)
        check_places(self.training, self.validation)


@dataclass(frozen=True)
class PersonFiles:
    """Two files: the training file is PUBLIC, and of the validation file the number of persons is, on the caller's
    word. How many records it has is as sensitive as what they hold.

    Attributes:
        training: path.
        validation: path.
        n_persons: n_p, what the sum of the persons' means is divided by.
        target: the column to predict.
        sensitive: "validation", if it is said.
        ignore: columns that are no features.
        missing: what becomes of gaps in the others, "refuse" or "mean".
        memory_limit: GB of encoded validation records that are kept, in all processes together, where they are a
            folder of files; it changes no release, and no study's key.
    """

    training: str
    validation: str
    n_persons: int
    target: str
    sensitive: str | None = None
    ignore: tuple[str, ...] | None = None
    missing: str | None = None
    memory_limit: float | None = None

    def __post_init__(self) -> None:
        _check_memory_limit(self.memory_limit)
        _check_public(self.sensitive, self.missing)
        check_target(self.target, self.ignore)
        check_places(self.training, self.validation)
        require(
            self.n_persons >= 1,
            f"data.n_persons = {self.n_persons}",
            remedy="give the public number of persons of the validation file, at least 1",
        )


@dataclass(frozen=True)
class BundledData:
    """A bundled set by name, of which a share is the validation set; the training records are public.

    Attributes:
        source: its name.
        validation_share: in (0, 1).
        sensitive: "validation", if it is said.
        ignore: columns that are no features.
        missing: what becomes of gaps in the others, "refuse" or "mean".
    """

    source: str
    validation_share: float = 0.5
    sensitive: str | None = None
    ignore: tuple[str, ...] | None = None
    missing: str | None = None

    def __post_init__(self) -> None:
        _check_public(self.sensitive, self.missing)
        check_share(self.validation_share)


PublicData = PublicFiles | PersonFiles | BundledData


def read_public(given: Mapping[str, Any]) -> PublicData:
    """[data] with a public training set, from the keys that are given.

    Raises:
        StudyInvalid: together they are none of its three kinds.
    """
    if "n_persons" in given:
        return _of_persons(given)
    require(
        not any(key in given for key in PUBLIC_FACTS),
        "[data] gives n_training, labels or bounds for a public training set",
        cause="they replace what would otherwise be read from the training file",
        remedy='add sensitive = "training", or remove them',
    )
    if "source" in given:
        refuse_files(given)
        return BundledData(**given)
    require_files(given, FILES)
    return PublicFiles(**given)


def _of_persons(given: Mapping[str, Any]) -> PersonFiles:
    require(
        "n_validation" not in given and "source" not in given,
        "[data] gives n_persons beside n_validation, or for a bundled set",
        cause="where each person's mean counts once, the number of records is private: nothing is divided by it",
        remedy="remove n_validation; or remove n_persons, and at most max_records_per_person records of each count",
    )
    require(
        "validation_share" not in given,
        "[data] gives validation_share beside n_persons",
        cause="it divides a bundled set, and says nothing of files",
        remedy="remove it",
    )
    require_files(given, PERSON_FILES)
    return PersonFiles(**given)


def _check_public(sensitive: str | None, missing: str | None) -> None:
    if sensitive is not None:
        one_of("data.sensitive", sensitive, ("validation",))
    if missing is not None:
        one_of("data.missing", missing, MISSING)


def _check_memory_limit(limit: float | None) -> None:
    require(
        limit is None or (math.isfinite(limit) and limit >= 0.0),
        f"data.memory_limit = {limit}",
        remedy="give the GB of validation records that may be kept in memory, 0 for none",
    )
