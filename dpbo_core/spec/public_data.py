"""[data] with a PUBLIC training set: two files, two files of persons, or a share of a bundled set.

The checks of single keys hold for every way of giving data.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpbo_core.data.addresses import address_of, is_address
from dpbo_core.space.search_space import Value
from dpbo_core.spec.reading import one_of, require

FILES = ("training", "validation", "n_validation", "target")


def require_files(given: Mapping[str, Any], needed: Sequence[str]) -> None:
    """Every key of `needed` is given.

    Raises:
        StudyInvalid: one is not.
    """
    lacking = [key for key in needed if key not in given]
    require(
        not lacking,
        f"[data] lacks {', '.join(lacking)}",
        cause="a study needs its training file, its validation file, its number of records (of persons, where each "
        "person's mean is to count once: n_persons) and the target",
        remedy='add the missing keys, or use a bundled set: source = "breast_cancer"',
    )


def refuse_files(given: Mapping[str, Any]) -> None:
    """A bundled set is not given by files too.

    Raises:
        StudyInvalid: it is.
    """
    require(
        not any(key in given for key in FILES),
        "[data] names both a bundled source and files",
        remedy="keep source and validation_share, or training, validation, n_validation and target",
    )


def check_places(training: str, validation: str = "") -> None:
    """The training data are a file; the validation data may be at an address, which holds no password.

    Raises:
        StudyInvalid: it is not so.
    """
    if is_address(validation):
        address_of(validation)
    require(
        not is_address(training),
        "data.training is an address",
        cause="the validation table may lie in a database or a store; what models are trained on is a file",
        remedy="export it to CSV or Parquet",
    )


def check_target(target: str, ignore: Sequence[str] | None) -> None:
    """The target is no column that is ignored.

    Raises:
        StudyInvalid: it is.
    """
    require(
        target not in (ignore or ()), f"[data] ignores its own target {target!r}", remedy="take it off the list"
    )


def check_share(share: float) -> None:
    """The share of a bundled set that is validated on leaves something on both sides.

    Raises:
        StudyInvalid: it does not.
    """
    require(
        0.0 < share < 1.0,
        f"data.validation_share = {share:g}",
        remedy="choose a share between 0 and 1, 0.5 say",
    )


def check_n_validation(n_validation: int) -> None:
    """The public number of validation records is one.

    Raises:
        StudyInvalid: it is not.
    """
    require(
        n_validation >= 1,
        f"data.n_validation = {n_validation}",
        remedy="give the public number of records of the validation file, at least 1",
    )


def check_labels(labels: Sequence[Value]) -> None:
    """The classes are two or more, and different.

    Raises:
        StudyInvalid: they are not.
    """
    require(
        len(set(labels)) == len(labels) >= 2,
        f"data.labels = {list(labels)}",
        remedy="give at least two different labels",
    )


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
