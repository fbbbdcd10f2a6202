"""What the ways of giving data in [data] have in common: the keys of two files, and the checks of single keys."""

from collections.abc import Mapping, Sequence
from typing import Any

from dpbo_core.data.addresses import address_of, is_address
from dpbo_core.space.search_space import Value
from dpbo_core.spec.reading import require

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
