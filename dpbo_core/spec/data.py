"""[data]: a closed union, one frozen dataclass for each way of giving data, each with the keys it has."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from dpbo_core.data.addresses import address_of, is_address
from dpbo_core.errors import StudyInvalid
from dpbo_core.space.search_space import Value
from dpbo_core.spec.reading import one_of, require, typed_values, union_hints

MISSING = ("refuse", "mean")
SENSITIVE = ("validation", "training")
FILES = ("training", "validation", "n_validation", "target")
PERSON_FILES = ("training", "validation", "n_persons", "target")
PUBLIC_FACTS = ("n_training", "labels", "bounds")

Bounds = Mapping[str, tuple[float, ...]]


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
        _check_target(self.target, self.ignore)
        _check_n_validation(self.n_validation)
        _check_places(self.training, self.validation)


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
        _check_target(self.target, self.ignore)
        _check_places(self.training, self.validation)
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
        _check_share(self.validation_share)


@dataclass(frozen=True)
class SensitiveFiles:
    """Two files, both sensitive. Nothing is fitted to the training file: what is public of it is said here.

    Attributes:
        training: path.
        validation: path.
        n_validation: m.
        target: the column to predict.
        n_training: n.
        labels: the classes.
        bounds: [low, high] of each column; "*" for all others.
        validation_share: says nothing of files; it is part of every study's fingerprint.
        sensitive: "training".
    """

    training: str
    validation: str
    n_validation: int
    target: str
    n_training: int
    labels: tuple[Value, ...]
    bounds: Bounds
    validation_share: float = 0.5
    sensitive: Literal["training"] = "training"

    def __post_init__(self) -> None:
        _check_public_facts(self.n_training, self.labels, self.bounds)
        _check_n_validation(self.n_validation)
        _check_places(self.training, self.validation)


@dataclass(frozen=True)
class SensitiveTraining:
    """One sensitive file: models are trained on its records and scored on them.

    Attributes:
        training: path.
        target: the column to predict.
        n_training: n.
        labels: the classes.
        bounds: [low, high] of each column; "*" for all others.
        validation_share: says nothing of files; it is part of every study's fingerprint.
        sensitive: "training".
    """

    training: str
    target: str
    n_training: int
    labels: tuple[Value, ...]
    bounds: Bounds
    validation_share: float = 0.5
    sensitive: Literal["training"] = "training"

    def __post_init__(self) -> None:
        _check_public_facts(self.n_training, self.labels, self.bounds)
        _check_places(self.training)


@dataclass(frozen=True)
class SensitiveBundled:
    """A bundled set whose training records are taken for sensitive too.

    Attributes:
        source: its name.
        validation_share: in (0, 1).
        labels: the classes; the set's own where None.
        bounds: [low, high] of each column; the set's own where None.
        sensitive: "training".
    """

    source: str
    validation_share: float = 0.5
    labels: tuple[Value, ...] | None = None
    bounds: Bounds | None = None
    sensitive: Literal["training"] = "training"

    def __post_init__(self) -> None:
        if self.labels is not None:
            _check_labels(self.labels)
        _check_bounds(self.bounds or {})
        _check_share(self.validation_share)


@dataclass(frozen=True)
class PredictionTable:
    """A SENSITIVE file of what public models, each a candidate, said of every record: they are chosen by it, and
    nothing is trained.

    Attributes:
        predictions: path; a row a record, the columns of each candidate, and the target.
        n_validation: m, its number of records.
        target: the column that was to be predicted.
        labels: the classes, the one that a single column of probabilities is of last; None for a regression.
        public: path of a file with the same columns on PUBLIC records, if there is one.
        ignore: columns that are no predictions.
    """

    predictions: str
    n_validation: int
    target: str
    labels: tuple[Value, ...] | None = None
    public: str | None = None
    ignore: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.labels is not None:
            _check_labels(self.labels)
        _check_target(self.target, self.ignore)
        _check_n_validation(self.n_validation)


PublicData = PublicFiles | PersonFiles | BundledData
SensitiveData = SensitiveFiles | SensitiveTraining | SensitiveBundled
Bundled = BundledData | SensitiveBundled
DataSection = PublicData | SensitiveData | PredictionTable


def read_data(table: Any) -> DataSection:
    """[data] from its table: every key known and of its type, and together one of the ways of giving data.

    Raises:
        StudyInvalid: they are none.
    """
    given = typed_values(union_hints(get_args(DataSection)), table, "[data]")
    given = {key: value for key, value in given.items() if value is not None}
    if "predictions" in given:
        return _of_predictions(given)
    require("public" not in given, "[data] gives public without predictions", remedy="remove it")
    if "sensitive" in given:
        one_of("data.sensitive", given["sensitive"], SENSITIVE)
    if given.get("sensitive") == "training":
        return _sensitive(given)
    if "n_persons" in given:
        return _of_persons(given)
    require(
        not any(key in given for key in PUBLIC_FACTS),
        "[data] gives n_training, labels or bounds for a public training set",
        cause="they replace what would otherwise be read from the training file",
        remedy='add sensitive = "training", or remove them',
    )
    if "source" in given:
        _refuse_files(given)
        return BundledData(**given)
    _require_files(given, FILES)
    return PublicFiles(**given)


def _of_predictions(given: Mapping[str, Any]) -> PredictionTable:
    known = [item.name for item in fields(PredictionTable)]
    other = [key for key in given if key not in known]
    require(
        not other,
        f"[data] gives {', '.join(other)} beside predictions",
        cause="of a table of predictions nothing is trained, and there is one sensitive file",
        remedy=f"keep {', '.join(known)}",
    )
    lacking = [key for key in ("n_validation", "target") if key not in given]
    require(
        not lacking,
        f"[data] lacks {', '.join(lacking)}",
        cause="a table of predictions has a public number of records, and a column that says what is right",
        remedy="add the missing keys",
    )
    return PredictionTable(**given)


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
    _require_files(given, PERSON_FILES)
    return PersonFiles(**given)


def _sensitive(given: Mapping[str, Any]) -> SensitiveData:
    require(
        "n_persons" not in given,
        "[data] gives n_persons for a sensitive training set",
        cause="private training protects one record of the training set and one of the validation set",
        remedy="leave one record a person in each file, and leave n_persons out",
    )
    require(
        "ignore" not in given and "missing" not in given,
        "[data] gives ignore or missing for a sensitive training set",
        cause="nothing may be fitted to it, not even the mean that would fill a gap",
        remedy="drop the columns from the files, or fill the gaps there",
    )
    bundled = "source" in given
    if bundled == ("n_training" in given):
        raise _n_training(given.get("n_training"))
    if bundled:
        _refuse_files(given)
        return SensitiveBundled(**given)
    require(
        "labels" in given and "bounds" in given,
        "[data] lacks labels or bounds",
        cause="nothing is fitted to a sensitive training set, so what is public of it must be said",
        remedy='add labels = [0, 1] and [data.bounds] with "*" = [low, high] or one line a column',
    )
    alone = "validation" not in given and "n_validation" not in given
    _require_files(given, ("training", "target") if alone else FILES)
    return SensitiveTraining(**given) if alone else SensitiveFiles(**given)


def _refuse_files(given: Mapping[str, Any]) -> None:
    require(
        not any(key in given for key in FILES),
        "[data] names both a bundled source and files",
        remedy="keep source and validation_share, or training, validation, n_validation and target",
    )


def _require_files(given: Mapping[str, Any], needed: Sequence[str]) -> None:
    lacking = [key for key in needed if key not in given]
    require(
        not lacking,
        f"[data] lacks {', '.join(lacking)}",
        cause="a study needs its training file, its validation file, its number of records (of persons, where each "
        "person's mean is to count once: n_persons) and the target",
        remedy='add the missing keys, or use a bundled set: source = "breast_cancer"',
    )


def _check_public(sensitive: str | None, missing: str | None) -> None:
    if sensitive is not None:
        one_of("data.sensitive", sensitive, ("validation",))
    if missing is not None:
        one_of("data.missing", missing, MISSING)


def _check_target(target: str, ignore: Sequence[str] | None) -> None:
    require(
        target not in (ignore or ()), f"[data] ignores its own target {target!r}", remedy="take it off the list"
    )


def _check_places(training: str, validation: str = "") -> None:
    """The training data are a file; the validation data may be at an address, which holds no password."""
    if is_address(validation):
        address_of(validation)
    require(
        not is_address(training),
        "data.training is an address",
        cause="the validation table may lie in a database or a store; what models are trained on is a file",
        remedy="export it to CSV or Parquet",
    )


def _check_share(share: float) -> None:
    require(
        0.0 < share < 1.0,
        f"data.validation_share = {share:g}",
        remedy="choose a share between 0 and 1, 0.5 say",
    )


def _check_n_validation(n_validation: int) -> None:
    require(
        n_validation >= 1,
        f"data.n_validation = {n_validation}",
        remedy="give the public number of records of the validation file, at least 1",
    )


def _check_public_facts(n_training: int, labels: Sequence[Value], bounds: Bounds) -> None:
    if n_training < 1:
        raise _n_training(n_training)
    _check_labels(labels)
    _check_bounds(bounds)


def _n_training(n_training: int | None) -> StudyInvalid:
    return StudyInvalid(
        f"data.n_training = {n_training}",
        cause="a sensitive training file needs its public number of records; a bundled set has its own",
        remedy="give the number of records of the training file, at least 1",
    )


def _check_memory_limit(limit: float | None) -> None:
    require(
        limit is None or (math.isfinite(limit) and limit >= 0.0),
        f"data.memory_limit = {limit}",
        remedy="give the GB of validation records that may be kept in memory, 0 for none",
    )


def _check_labels(labels: Sequence[Value]) -> None:
    require(
        len(set(labels)) == len(labels) >= 2,
        f"data.labels = {list(labels)}",
        remedy="give at least two different labels",
    )


def _check_bounds(bounds: Bounds) -> None:
    for name, ends in bounds.items():
        require(
            len(ends) == 2 and all(math.isfinite(end) and abs(end) < 1e100 for end in ends) and ends[0] < ends[1],
            f"data.bounds {name!r} = {list(ends)}",
            remedy="give the public [low, high] of the column, low below high",
        )
