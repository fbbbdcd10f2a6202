"""[data]: what every way of giving data is, and the checks that several of them share."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Self

from pydantic import BeforeValidator, PlainValidator

from dpbo_core.data.addresses import address_of, is_address
from dpbo_core.problem.reading import require
from dpbo_core.problem.section import PlainList, Section, checked, limited

if TYPE_CHECKING:
    from dpbo_core.data import Table
    from dpbo_core.problem.problem import TrainingFacts
    from dpbo_core.study_file.public_data import TwoFiles
    from dpbo_core.study_file.study import StudySpec

NO_PREDICTIONS = (
    'estimator = "predictions" and [data] predictions go together, and the study has one of them',
    "a table of predictions is scored as it is; a model is trained on a training file",
    'write [data] predictions = "file.csv" and [model] estimator = "predictions", or neither',
)
MAX_RECORDS = 2**53  # every count up to it is a double


class Foreign(NamedTuple):
    """Keys of [data] that a way of giving data refuses, and its message."""

    keys: tuple[str, ...]
    what: str
    cause: str
    remedy: str = "remove it"


class DataSection(Section):
    """A way of giving data: a class with the keys that it has. `claims` says which table is its own.

    What follows `read` is what others ask of a way of giving data; here it is answered as most would.

    Attributes:
        paths: the fields that hold a path, in which a schedule may fill the time.
        sensitive_training: whether the training records are sensitive too.
        names_people: whether a column of the records may say whose they are.
        has_validation: whether the records that are scored are others than those that models are trained on.
        foreign: keys of other ways that it refuses, in this order.
        lacking: the cause and the remedy where it lacks a key.
    """

    heading: ClassVar[str] = "data"
    paths: ClassVar[tuple[str, ...]] = ()
    sensitive_training: ClassVar[bool] = False
    names_people: ClassVar[bool] = True
    has_validation: ClassVar[bool] = True
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

    def check_study(self, study: "StudySpec") -> None:
        """Refuse a study whose other sections do not fit this way of giving data."""
        what, cause, remedy = NO_PREDICTIONS
        require(study.model.trained, what, cause=cause, remedy=remedy)

    @property
    def n_scored(self) -> int | None:
        """The stated number m of records that are scored; None where persons are averaged: then m is private."""
        raise NotImplementedError

    @property
    def person_count(self) -> int | None:
        """The stated number n_p of persons, each of whom counts once; None where records are averaged."""
        return None

    @property
    def n_public(self) -> int | None:
        """The number of PUBLIC training records where no file needs to be opened for it; else None."""
        return None

    @property
    def training_file(self) -> str:
        """The path of the training file, or of public predictions; "" for neither."""
        return ""

    @property
    def validation_file(self) -> str:
        """The path or address of the sensitive records that are scored; "" where no file holds them."""
        return ""

    @property
    def public_file(self) -> str:
        """The path of the one file that is read as public; "" where there is none."""
        return "" if self.sensitive_training else self.training_file

    @property
    def has_public_records(self) -> bool:
        """Whether there are public records to score candidates on."""
        return True

    @property
    def target_column(self) -> str:
        """The column to predict."""
        raise NotImplementedError

    @property
    def bundled_name(self) -> str:
        """The name of a bundled set; "" where the data are in files."""
        return ""

    @property
    def ignored(self) -> tuple[str, ...]:
        """The columns that are no features."""
        return ()

    @property
    def fills_gaps(self) -> bool:
        """Whether gaps are filled with the mean of the public training records."""
        return False

    @property
    def named_columns(self) -> frozenset[str] | None:
        """The columns of a sensitive header that the study names and messages may repeat; None if it is public."""
        return None

    @property
    def divided(self) -> "TwoFiles | None":
        """The section itself where its files may be folders, whose parts are read one by one; else None."""
        return None

    @property
    def facts(self) -> "TrainingFacts | None":
        """What is public of a SENSITIVE training set; None of a public one."""
        return None

    @property
    def public_bounds(self) -> Mapping[str, tuple[float, ...]]:
        """What the study says of the range of each column of a SENSITIVE training set, by its name."""
        return {}

    @property
    def lasting(self) -> Self:
        """The section without what is no part of the study's fingerprint."""
        return self

    def tables(self) -> "tuple[Table, Table] | None":
        """The training and the validation records of a bundled set, read; None where they are in files."""
        return None

    def filled(self, fill: Callable[[str], str]) -> Self:
        """The section with its paths as `fill` gives them."""
        paths = {name: getattr(self, name) for name in self.paths}
        return self.replace(**{name: fill(path) for name, path in paths.items() if path is not None})

    def with_records(self, _: int) -> Self:
        """The section with another public number of records; as it is where it states none of a file."""
        return self


BUNDLED_ALONE = Foreign(
    ("training", "validation", "n_validation", "target", "memory_limit", "workers"),
    "[data] names both a bundled source and files, or memory_limit or workers, which are of files",
    "",
    "keep source and validation_share, or training, validation, n_validation and target",
)


class BundledSection(DataSection):
    """A bundled set by name, of which a share is the validation set.

    Attributes:
        source: its name.
        validation_share: in (0, 1).
    """

    names_people: ClassVar[bool] = False

    source: str
    validation_share: Annotated[float, limited("choose a share between 0 and 1, 0.5 say", gt=0, lt=1)] = 0.5

    @property
    def n_scored(self) -> int:
        """The number m of records of the validation share."""
        from dpbo_core.data import bundled

        return bundled.validation_size(self.source, self.validation_share)

    @property
    def n_trained(self) -> int:
        """The number n of the other records, which models are trained on."""
        from dpbo_core.data import bundled

        return bundled.n_records(self.source) - self.n_scored

    @property
    def target_column(self) -> str:
        """The column to predict, which is the bundled set's own."""
        from dpbo_core.data import bundled

        return bundled.TARGET

    @property
    def bundled_name(self) -> str:
        """The name of the bundled set."""
        return self.source

    def tables(self) -> "tuple[Table, Table]":
        """The training and the validation records of the bundled set, read."""
        from dpbo_core.data import bundled

        return bundled.load(self.source, self.validation_share)


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
