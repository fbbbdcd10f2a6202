"""[data]: the base class of all kinds of [data] (two files, a bundled set, …), and the checks that they share."""

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Self

from pydantic import BeforeValidator, PlainValidator

from dpbo_core.data.addresses import is_address, parse_address
from dpbo_core.study.section import TUPLE_VALIDATOR, PlainList, Section, checked, limited, require

if TYPE_CHECKING:
    from dpbo_core.data import Table
    from dpbo_core.methods.problem import TrainingFacts
    from dpbo_core.study.data_kinds import TwoFiles
    from dpbo_core.study.spec import StudySpec

PREDICTIONS_REFUSAL = (
    'estimator = "predictions" and [data] predictions go together, and the study has one of them',
    "a table of predictions is scored as it is; a model is trained on a training file",
    'write [data] predictions = "file.csv" and [model] estimator = "predictions", or neither',
)
MAX_RECORDS = 2**53  # every count up to it is a double


class Refusal(NamedTuple):
    """The error message of a kind of [data] if one of `keys` is present, or if one is missing."""

    keys: tuple[str, ...]
    what: str
    cause: str
    remedy: str = "remove it"


class DataSection(Section):
    """A kind of [data]: each subclass has the keys of its kind as fields. The properties read those that it has."""

    heading: ClassVar[str] = "data"
    marks: ClassVar[tuple[str, ...]] = ()  # it is of this kind if one of these keys is present; () for the default
    foreign: ClassVar[tuple[Refusal, ...]] = ()  # keys of other kinds that it refuses, in this order
    needed: ClassVar[tuple[Refusal, ...]] = ()  # keys that it needs, in this order
    training_key: ClassVar[str] = "training"  # of the training file, or of public predictions; "" for neither
    validation_key: ClassVar[str] = "validation"  # of the sensitive records; "" where no file holds them
    size_key: ClassVar[str] = "n_validation"  # of the number m of records that are scored; "" where it is private
    sensitive_training: ClassVar[bool] = False  # whether the training records are sensitive too
    names_people: ClassVar[bool] = True  # whether a column of the records may say whose they are
    has_validation: ClassVar[bool] = True  # whether other records are scored than models are trained on

    @classmethod
    def claims(cls, table: Mapping[str, Any]) -> bool:
        """Return whether a [data] with these keys is of this kind, if no kind tried before has claimed it."""
        alike = "predictions" in table or (table.get("sensitive") == "training") == cls.sensitive_training
        return alike and (not cls.marks or any(key in table for key in cls.marks))

    @classmethod
    def read(cls, table: Mapping[str, Any]) -> Self:
        """Return the table [data] of a study as a section of this class, which is one way of giving data."""
        for refused in cls.foreign:
            present = [key for key in refused.keys if key in table]
            what = refused.what.replace("{keys}", ", ".join(present))
            require(not present, what, cause=refused.cause, remedy=refused.remedy)
        for needed in cls.needed:
            lacking = [key for key in needed.keys if key not in table]
            what = needed.what.replace("{keys}", ", ".join(lacking))
            require(not lacking, what, cause=needed.cause, remedy=needed.remedy)
        return super().read(table)

    def check(self) -> None:
        """Refuse a target that is ignored, training data at an address, and an address that holds a password."""
        target = "" if self.bundled_name else self.target_column
        what = f"[data] ignores its own target {target!r}"
        require(not target or target not in self.ignored, what, remedy="take it off the list")
        if is_address(self.validation_file):
            parse_address(self.validation_file)
        require(
            not is_address(self.training_file),
            f"data.{self.training_key} is an address",
            cause="the validation table may lie in a database or a store; what models are trained on is a file",
            remedy="export it to CSV or Parquet",
        )

    def check_study(self, study: "StudySpec") -> None:
        """Refuse a study whose other sections do not fit this way of giving data."""
        what, cause, remedy = PREDICTIONS_REFUSAL
        require(study.model.trained, what, cause=cause, remedy=remedy)

    def _stated(self, key: str) -> Any:
        """Return the value of a key; None if this kind of [data] has no such key, or the study leaves it out."""
        return getattr(self, key) if key in type(self).model_fields else None

    @property
    def n_scored(self) -> int | None:
        """The number m of records that are scored; None if persons are averaged: then m is private."""
        number: int | None = self._stated(self.size_key)
        return number

    @property
    def person_count(self) -> int | None:
        """The stated number n_p of persons, each of whom counts once; None if records are averaged."""
        number: int | None = self._stated("n_persons")
        return number

    @property
    def n_trained(self) -> int | None:
        """The number n of training records, where the section says it."""
        number: int | None = self._stated("n_training")
        return number

    @property
    def training_file(self) -> str:
        """The path of the training file, or of public predictions; "" for neither."""
        return self._stated(self.training_key) or ""

    @property
    def validation_file(self) -> str:
        """The path or address of the sensitive records that are scored; "" where no file holds them."""
        return self._stated(self.validation_key) or ""

    @property
    def public_file(self) -> str:
        """The path of the one file that is read as public; "" where there is none."""
        return "" if self.sensitive_training else self.training_file

    @property
    def has_public_records(self) -> bool:
        """Whether there are public records to score candidates on."""
        return bool(self.bundled_name or self.training_file)

    @property
    def bundled_name(self) -> str:
        """The name of a bundled set; "" where the data are in files."""
        return self._stated("source") or ""

    @property
    def target_column(self) -> str:
        """The column to predict."""
        return self._stated("target") or ""

    @property
    def ignored(self) -> tuple[str, ...]:
        """The columns that are no features."""
        return self._stated("ignore") or ()

    @property
    def fills_gaps(self) -> bool:
        """Whether gaps are filled with the mean of the public training records."""
        return bool(self._stated("missing") == "mean")

    @property
    def drops_unlabelled(self) -> bool:
        """Whether public training records without a label are left out."""
        return bool(self._stated("missing_target") == "drop")

    @property
    def public_bounds(self) -> Mapping[str, tuple[float, ...]]:
        """What the study says of the range of each column of a SENSITIVE training set, by its name."""
        return self._stated("bounds") or {}

    @property
    def named_columns(self) -> frozenset[str] | None:
        """The columns of a sensitive header that the study names and messages may repeat; None if it is public."""
        return frozenset({self.target_column, *self.public_bounds}) if self.sensitive_training else None

    @property
    def facts(self) -> "TrainingFacts | None":
        """What is public of a SENSITIVE training set; None of a public one."""
        return None

    @property
    def divided(self) -> "TwoFiles | None":
        """The section itself where its files may be folders, whose parts are read one by one; else None."""
        return None

    def tables(self) -> "tuple[Table, Table] | None":
        """Return the training and the validation records of a bundled set, read; None if they are in files."""
        return None

    @property
    def lasting(self) -> Self:
        """The section without memory_limit and workers, which do not enter the study's fingerprint."""
        files = {"memory_limit", "workers"} & type(self).model_fields.keys()
        return self.replace(**dict.fromkeys(files))

    def filled(self, fill: Callable[[str], str]) -> Self:
        """Return the section with its paths as `fill` gives them."""
        paths = {key: self._stated(key) for key in (self.training_key, self.validation_key)}
        return self.replace(**{key: fill(path) for key, path in paths.items() if path is not None})

    def with_records(self, n_records: int) -> Self:
        """Return the section with another public number of records that are scored; it must state one of a file."""
        return self.replace(**{self.size_key: n_records})


class BundledSection(DataSection):
    """A bundled set by name, of which a share is the validation set.

    Attributes:
        source: its name.
        validation_share: in (0, 1).
    """

    marks: ClassVar[tuple[str, ...]] = ("source",)
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

    def tables(self) -> "tuple[Table, Table]":
        """Return the training and the validation records, read."""
        from dpbo_core.data import bundled

        return bundled.load(self.source, self.validation_share)


FILES_NEEDED_MESSAGE = (
    "[data] lacks {keys}",
    "a study needs its training file, its validation file, its number of records (of persons, where each person's "
    "mean is to count once: n_persons) and the target",
    'add the missing keys, or use a bundled set: source = "breast_cancer"',
)
BUNDLED_REFUSAL = Refusal(
    ("training", "validation", "n_validation", "target", "memory_limit", "workers"),
    "[data] names both a bundled source and files, or memory_limit or workers, which are of files",
    "",
    "keep source and validation_share, or training, validation, n_validation and target",
)


def _check_place(place: Any) -> Any:
    require(
        not isinstance(place, str) or place.isprintable() or is_address(place),
        "[data] names a file by characters that no name holds",
        remedy="write its path in letters, digits and signs",
    )
    return place


def _check_labels(labels: tuple[Any, ...]) -> None:
    remedy = "give at least two different labels"
    require(len(set(labels)) == len(labels) >= 2, f"{{key}} = {str(labels)[:60]}", remedy=remedy)


def _pairs(value: Any) -> dict[str, tuple[float, ...]] | None:
    """Return a table of lists of numbers, which are taken for floats."""
    if value is None:
        return None
    ok = isinstance(value, Mapping) and all(
        isinstance(item, list | tuple) and all(type(end) in (int, float) for end in item) for item in value.values()
    )
    require(ok, "{where} is not a table of lists of numbers")
    return {str(key): tuple(float(end) for end in item) for key, item in value.items()}


def _check_bounds(bounds: Mapping[str, tuple[float, ...]]) -> None:
    for name, ends in bounds.items():
        require(
            len(ends) == 2 and all(math.isfinite(end) and abs(end) < 1e100 for end in ends) and ends[0] < ends[1],
            f"{{key}} {name!r} = {list(ends)}",
            remedy="give the public [low, high] of the column, low below high",
        )


def count_of(people: str) -> Any:
    """Return the limits of a public number of records or persons."""
    return limited(f"give the public number of {people} of the validation file, at least 1", ge=1, le=MAX_RECORDS)


Place = Annotated[str, BeforeValidator(_check_place)]
NRecords = Annotated[int, count_of("records")]
Names = Annotated[tuple[str, ...], TUPLE_VALIDATOR]
Labels = Annotated[PlainList, checked(_check_labels)]
Bounds = Annotated[Mapping[str, tuple[float, ...]], PlainValidator(_pairs), checked(_check_bounds)]
