"""[data] with a PUBLIC training set: two files, two files of persons, or a share of a bundled set; or without any.

Where others made the predictions nothing is trained: the columns of their table are the candidates.

The checks of single keys hold for every way of giving data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Annotated, Any, ClassVar

from dpbo_core.data.addresses import address_of, is_address
from dpbo_core.search.search_space import Value
from dpbo_core.study.reading import Section, among, at_least, limit, require

FILES = ("training", "validation", "n_validation", "target")
PERSON_FILES = ("training", "validation", "n_persons", "target")
PUBLIC_FACTS = ("n_training", "labels", "bounds")
MISSING = ("refuse", "mean")

MAX_RECORDS = 2**53  # every count up to it is a double
NRecords = Annotated[
    int,
    limit(lambda n: 1 <= n <= MAX_RECORDS, "give the public number of records of the validation file, at least 1"),
]
Share = Annotated[float, limit(lambda share: 0.0 < share < 1.0, "choose a share between 0 and 1, 0.5 say")]
Labels = Annotated[
    tuple[Value, ...],
    limit(lambda labels: len(set(labels)) == len(labels) >= 2, "give at least two different labels"),
]


def require_files(table: Mapping[str, Any], needed: Sequence[str]) -> None:
    """Refuse a [data] that lacks a key of `needed`.

    Raises:
        StudyInvalid: one is not.
    """
    lacking = [key for key in needed if key not in table]
    require(
        not lacking,
        f"[data] lacks {', '.join(lacking)}",
        cause="a study needs its training file, its validation file, its number of records (of persons, where each "
        "person's mean is to count once: n_persons) and the target",
        remedy='add the missing keys, or use a bundled set: source = "breast_cancer"',
    )


def refuse_files(table: Mapping[str, Any]) -> None:
    """Refuse keys of files (paths, sizes, target, workers) in the [data] of a bundled set.

    Raises:
        StudyInvalid: it is.
    """
    require(
        not any(key in table for key in (*FILES, "memory_limit", "workers")),
        "[data] names both a bundled source and files, or memory_limit or workers, which are of files",
        remedy="keep source and validation_share, or training, validation, n_validation and target",
    )


def check_places(training: str, validation: str = "") -> None:
    """Refuse training data at an address, a validation address with a password, or a path that no file can have.

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
    require(
        all(place.isprintable() for place in (training, validation) if not is_address(place)),
        "[data] names a file by characters that no name holds",
        remedy="write its path in letters, digits and signs",
    )


def check_target(target: str, ignore: Sequence[str] | None) -> None:
    """Refuse a target that is among the ignored columns.

    Raises:
        StudyInvalid: it is.
    """
    require(
        target not in (ignore or ()), f"[data] ignores its own target {target!r}", remedy="take it off the list"
    )


@dataclass(frozen=True, kw_only=True)
class PublicSection(Section):
    """What every [data] with a public training set may say.

    Attributes:
        sensitive: "validation", if it is said.
        ignore: columns that are no features.
        missing: what becomes of gaps in the others, "refuse" or "mean".
    """

    heading: ClassVar[str] = "data"
    sensitive: Annotated[str | None, among("validation")] = None
    ignore: tuple[str, ...] | None = None
    missing: Annotated[str | None, among(*MISSING)] = None


@dataclass(frozen=True)
class TwoFiles(PublicSection):
    """Two files, of which the training file is PUBLIC.

    Attributes:
        training: path.
        validation: path.
        target: the column to predict.
        memory_limit: GB of encoded validation records that are kept, in all processes together, where they are a
            folder of files; it changes no release, and no study's key.
        workers: processes of this machine that score the parts of a folder, and share long public work; no part of
            a study's key either.
    """

    training: str
    validation: str
    _: KW_ONLY
    target: str
    memory_limit: Annotated[
        float | None, at_least(0, "give the GB of validation records that may be kept in memory, 0 for none")
    ] = None
    workers: Annotated[int | None, at_least(1, "give a number of processes, one for each core, say")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_target(self.target, self.ignore)
        check_places(self.training, self.validation)


@dataclass(frozen=True, kw_only=True)
class PublicFiles(TwoFiles):
    """Two files: the training file is PUBLIC, and of the validation file the number of records is.

    Attributes:
        n_validation: m.
        validation_share: says nothing of files; it is part of every study's fingerprint.
    """

    n_validation: NRecords
    validation_share: float = 0.5


@dataclass(frozen=True, kw_only=True)
class PersonFiles(TwoFiles):
    """Two files: the training file is PUBLIC, and of the validation file the number of persons is, on the caller's
    word. How many records it has is as sensitive as what they hold.

    Attributes:
        n_persons: n_p, what the sum of the persons' means is divided by.
    """

    n_persons: Annotated[
        int,
        limit(
            lambda n: 1 <= n <= MAX_RECORDS, "give the public number of persons of the validation file, at least 1"
        ),
    ]


@dataclass(frozen=True)
class BundledData(PublicSection):
    """A bundled set by name, of which a share is the validation set; the training records are public.

    Attributes:
        source: its name.
        validation_share: in (0, 1).
    """

    source: str
    validation_share: Share = 0.5


PublicData = PublicFiles | PersonFiles | BundledData


def read_public(table: Mapping[str, Any]) -> PublicData:
    """The [data] section, checked, of a study whose training set is public: files, persons' files or bundled.

    Raises:
        StudyInvalid: together they are none of its three kinds.
    """
    if "n_persons" in table:
        return _person_files(table)
    require(
        not any(key in table for key in PUBLIC_FACTS),
        "[data] gives n_training, labels or bounds for a public training set",
        cause="they replace what would otherwise be read from the training file",
        remedy='add sensitive = "training", or remove them',
    )
    if "source" in table:
        refuse_files(table)
        return BundledData(**table)
    require_files(table, FILES)
    return PublicFiles(**table)


def _person_files(table: Mapping[str, Any]) -> PersonFiles:
    """The checked [data] of two files whose number of persons is public; n_validation beside it is refused."""
    require(
        "n_validation" not in table and "source" not in table,
        "[data] gives n_persons beside n_validation, or for a bundled set",
        cause="where each person's mean counts once, the number of records is private: nothing is divided by it",
        remedy="remove n_validation; or remove n_persons, and at most max_records_per_person records of each count",
    )
    require(
        "validation_share" not in table,
        "[data] gives validation_share beside n_persons",
        cause="it divides a bundled set, and says nothing of files",
        remedy="remove it",
    )
    require_files(table, PERSON_FILES)
    return PersonFiles(**table)


@dataclass(frozen=True)
class PredictionTable(Section):
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

    heading: ClassVar[str] = "data"
    predictions: str
    n_validation: NRecords
    target: str
    labels: Labels | None = None
    public: str | None = None
    ignore: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_target(self.target, self.ignore)


def read_predictions(table: Mapping[str, Any]) -> PredictionTable:
    """The [data] section, checked, of a study of predictions that were made elsewhere.

    Raises:
        StudyInvalid: one is missing, or belongs to another way of giving data.
    """
    keys = [item.name for item in fields(PredictionTable)]
    other = [key for key in table if key not in keys]
    require(
        not other,
        f"[data] gives {', '.join(other)} beside predictions",
        cause="of a table of predictions nothing is trained, and there is one sensitive file",
        remedy=f"keep {', '.join(keys)}",
    )
    lacking = [key for key in ("n_validation", "target") if key not in table]
    require(
        not lacking,
        f"[data] lacks {', '.join(lacking)}",
        cause="a table of predictions has a public number of records, and a column that says what is right",
        remedy="add the missing keys",
    )
    return PredictionTable(**table)
