"""[data]: what every way of giving data is, and the checks that several of them share."""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple, Self

from pydantic import BeforeValidator, PlainValidator

from dpbo_core.data.addresses import address_of, is_address
from dpbo_core.problem.reading import require
from dpbo_core.problem.section import PlainList, Section, checked, limited

MAX_RECORDS = 2**53  # every count up to it is a double


class Foreign(NamedTuple):
    """Keys of [data] that a way of giving data refuses, and its message."""

    keys: tuple[str, ...]
    what: str
    cause: str
    remedy: str = "remove it"


class DataKind(Section):
    """A way of giving data: a class with the keys that it has. `claims` says which table is its own.

    Attributes:
        foreign: keys of other ways that it refuses, in this order.
        lacking: the cause and the remedy where it lacks a key.
    """

    heading: ClassVar[str] = "data"
    foreign: ClassVar[tuple[Foreign, ...]] = ()
    lacking: ClassVar[tuple[str, str]] = (
        "a study needs its training file, its validation file, its number of records (of persons, where each "
        "person's mean is to count once: n_persons) and the target",
        'add the missing keys, or use a bundled set: source = "breast_cancer"',
    )

    @classmethod
    def claims(cls, table: Mapping[str, Any]) -> bool:
        """Whether a [data] with these keys is given this way."""
        raise NotImplementedError

    @classmethod
    def read(cls, table: Mapping[str, Any]) -> Self:
        """The section that a [data] states which this class claims.

        Raises:
            StudyInvalid: a key belongs to another way of giving data or is missing, or a value does not fit.
        """
        for refused in cls.foreign:
            present = any(key in table for key in refused.keys)
            require(not present, refused.what, cause=refused.cause, remedy=refused.remedy)
        fields = cls.model_fields.items()
        lacking = [key for key, field in fields if field.is_required() and key not in table]
        cause, remedy = cls.lacking
        require(not lacking, f"[data] lacks {', '.join(lacking)}", cause=cause, remedy=remedy)
        return super().read(table)


BUNDLED_ALONE = Foreign(
    ("training", "validation", "n_validation", "target", "memory_limit", "workers"),
    "[data] names both a bundled source and files, or memory_limit or workers, which are of files",
    "",
    "keep source and validation_share, or training, validation, n_validation and target",
)


def _check_place(place: Any) -> Any:
    """The path or address as it is; refused if it is a path that no file can have."""
    require(
        not isinstance(place, str) or place.isprintable() or is_address(place),
        "[data] names a file by characters that no name holds",
        remedy="write its path in letters, digits and signs",
    )
    return place


def _check_labels(labels: tuple[Any, ...]) -> None:
    """Refuse labels of which there are fewer than two, or that hold one twice."""
    remedy = "give at least two different labels"
    require(len(set(labels)) == len(labels) >= 2, f"{{key}} = {str(labels)[:60]}", remedy=remedy)


def _pairs(value: Any) -> dict[str, tuple[float, ...]] | None:
    """A table of lists of numbers, which are taken for floats."""
    if value is None:
        return None
    ok = isinstance(value, Mapping) and all(
        isinstance(item, list | tuple) and all(type(end) in (int, float) for end in item) for item in value.values()
    )
    require(ok, "{where} is not a table of lists of numbers")
    return {str(key): tuple(float(end) for end in item) for key, item in value.items()}


def _check_bounds(bounds: Mapping[str, tuple[float, ...]]) -> None:
    """Refuse bounds on columns that are not two finite numbers in order."""
    for name, ends in bounds.items():
        require(
            len(ends) == 2 and all(math.isfinite(end) and abs(end) < 1e100 for end in ends) and ends[0] < ends[1],
            f"{{key}} {name!r} = {list(ends)}",
            remedy="give the public [low, high] of the column, low below high",
        )


def count_of(people: str) -> Any:
    """The limits of a public number of records or persons."""
    return limited(f"give the public number of {people} of the validation file, at least 1", ge=1, le=MAX_RECORDS)


Place = Annotated[str, BeforeValidator(_check_place)]
NRecords = Annotated[int, count_of("records")]
Share = Annotated[float, limited("choose a share between 0 and 1, 0.5 say", gt=0, lt=1)]
Labels = Annotated[PlainList, checked(_check_labels)]
Bounds = Annotated[Mapping[str, tuple[float, ...]], PlainValidator(_pairs), checked(_check_bounds)]


def check_places(training: str, validation: str = "") -> None:
    """Refuse training data at an address, and a validation address with a password.

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
    """Refuse a target that is among the ignored columns.

    Raises:
        StudyInvalid: it is.
    """
    require(
        target not in (ignore or ()), f"[data] ignores its own target {target!r}", remedy="take it off the list"
    )
