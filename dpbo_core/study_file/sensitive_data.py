"""[data] with a SENSITIVE training set: nothing is fitted to it, and what is public of it is said here."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from dpbo_core.errors import StudyInvalid
from dpbo_core.problem.reading import require
from dpbo_core.problem.section import checked
from dpbo_core.study_file.data_section import (
    BUNDLED_ALONE,
    MAX_RECORDS,
    Bounds,
    BundledSection,
    DataSection,
    Foreign,
    Labels,
    NRecords,
    Place,
    check_places,
)

if TYPE_CHECKING:
    from dpbo_core.problem.problem import TrainingFacts
    from dpbo_core.study_file.study import StudySpec

FOREIGN = (
    Foreign(
        ("n_persons",),
        "[data] gives n_persons for a sensitive training set",
        "private training protects one record of the training set and one of the validation set",
        "leave one record a person in each file, and leave n_persons out",
    ),
    Foreign(
        ("ignore", "missing"),
        "[data] gives ignore or missing for a sensitive training set",
        "nothing may be fitted to it, not even the mean that would fill a gap",
        "drop the columns from the files, or fill the gaps there",
    ),
    Foreign(
        ("memory_limit", "workers"),
        "[data] gives memory_limit or workers for a sensitive training set",
        "they are of validation records in a folder of files, and private training keeps its in memory",
    ),
)


def _check_n_training(n_training: int) -> None:
    """Refuse a number of training records below 1, or above what can be counted."""
    if not 1 <= n_training <= MAX_RECORDS:
        raise _bad_n_training(n_training)


class SensitiveTrainingSet(DataSection):
    """A training set that is sensitive: private training protects its records, one by one."""

    foreign: ClassVar[tuple[Foreign, ...]] = FOREIGN
    sensitive_training: ClassVar[bool] = True
    names_people: ClassVar[bool] = False

    labels: Labels | None = None
    bounds: Bounds | None = None

    @property
    def public_bounds(self) -> Mapping[str, tuple[float, ...]]:
        """What the study says of the range of each column."""
        return self.bounds or {}

    def check_study(self, study: "StudySpec") -> None:
        """Refuse a model without private training, and anything about persons."""
        require(
            study.model.estimator in ("logistic", "softmax"),
            f"{study.model.estimator} cannot be trained privately here",
            cause="the training set is sensitive, so training itself must be differentially private",
            remedy='use estimator = "logistic" (two classes) or "softmax"',
        )
        two = self.labels is None or len(self.labels) == 2
        require(
            study.model.estimator == "softmax" or two,
            f"a logistic model separates two classes, and data.labels names {len(self.labels or ())}",
            remedy='use estimator = "softmax"',
        )
        privacy, cause = study.privacy, FOREIGN[0].cause
        require(
            privacy.person is None,
            f"privacy.person = {privacy.person!r} with a sensitive training set",
            cause=cause,
            remedy="leave person out, and leave one record a person in each file",
        )
        require(
            privacy.max_records_per_person == 1,
            f"privacy.max_records_per_person = {privacy.max_records_per_person} with a sensitive training set",
            cause=cause,
            remedy="leave one record a person in each file, and leave the key out",
        )


class SensitiveSection(SensitiveTrainingSet):
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

    paths: ClassVar[tuple[str, ...]] = ("training",)

    training: Place
    target: str
    n_training: Annotated[int, checked(_check_n_training)]
    labels: Labels
    bounds: Bounds
    validation_share: float = 0.5
    sensitive: Literal["training"] = "training"

    def check(self) -> None:
        """Refuse a training file at an address."""
        check_places(self.training)

    @property
    def training_file(self) -> str:
        """The path of the sensitive training file."""
        return self.training

    @property
    def target_column(self) -> str:
        """The column to predict."""
        return self.target

    @property
    def facts(self) -> "TrainingFacts":
        """The stated size and classes of the training file."""
        from dpbo_core.problem.problem import TrainingFacts

        return TrainingFacts(self.n_training, self.labels, scored=not self.has_validation)

    @classmethod
    def read(cls, table: Mapping[str, Any]) -> Self:
        """The section that a [data] with a sensitive training file states.

        Raises:
            StudyInvalid: a key belongs to another way of giving data or is missing, or a value does not fit.
        """
        if "n_training" not in table:
            raise _bad_n_training(None)
        require(
            "labels" in table and "bounds" in table,
            "[data] lacks labels or bounds",
            cause="nothing is fitted to a sensitive training set, so what is public of it must be said",
            remedy='add labels = [0, 1] and [data.bounds] with "*" = [low, high] or one line a column',
        )
        return super().read(table)

    @property
    def named_columns(self) -> frozenset[str]:
        """The columns that the study names, which messages about a sensitive header may repeat."""
        return frozenset({self.target, *self.bounds})


class SensitiveFiles(SensitiveSection):
    """Two files, both sensitive.

    Attributes:
        validation: path.
        n_validation: m.
    """

    paths: ClassVar[tuple[str, ...]] = ("training", "validation")

    validation: Place
    n_validation: NRecords

    def check(self) -> None:
        """Refuse a training file at an address, and a validation address with a password."""
        check_places(self.training, self.validation)

    @property
    def n_scored(self) -> int:
        """The stated number m of validation records."""
        return self.n_validation

    @property
    def validation_file(self) -> str:
        """The path or address of the validation file."""
        return self.validation

    @classmethod
    def claims(cls, table: Mapping[str, Any]) -> bool:
        """Whether a [data] is of a sensitive training file and a validation file."""
        return table.get("sensitive") == "training" and ("validation" in table or "n_validation" in table)


class SensitiveTraining(SensitiveSection):
    """One sensitive file: models are trained on its records and scored on them."""

    has_validation: ClassVar[bool] = False

    @property
    def n_scored(self) -> int:
        """The stated number of training records, which are scored."""
        return self.n_training

    @classmethod
    def claims(cls, table: Mapping[str, Any]) -> bool:
        """Whether a [data] is of a sensitive training file alone: what no other sensitive training set claims."""
        return table.get("sensitive") == "training"


class SensitiveBundled(BundledSection, SensitiveTrainingSet):
    """A bundled set whose training records are taken for sensitive too.

    Attributes:
        labels: the classes; the set's own where None.
        bounds: [low, high] of each column; the set's own where None.
        sensitive: "training".
    """

    foreign: ClassVar[tuple[Foreign, ...]] = (*FOREIGN, BUNDLED_ALONE)

    sensitive: Literal["training"] = "training"

    @property
    def public_bounds(self) -> Mapping[str, tuple[float, ...]]:
        """The range of each column, as the study says or else as is known of the bundled set."""
        from dpbo_core.data import bundled

        return self.bounds or bundled.public_facts(self.source)[1]

    @property
    def facts(self) -> "TrainingFacts":
        """The size, classes and feature names of the bundled set's training records."""
        from dpbo_core.data import bundled
        from dpbo_core.problem.problem import TrainingFacts

        classes = self.labels or bundled.public_facts(self.source)[0]
        return TrainingFacts(self.n_trained, classes, bundled.FEATURES[self.source])

    @classmethod
    def claims(cls, table: Mapping[str, Any]) -> bool:
        """Whether a [data] names a bundled set for a sensitive training set."""
        return table.get("sensitive") == "training" and "source" in table

    @classmethod
    def read(cls, table: Mapping[str, Any]) -> Self:
        """The section that a [data] states of a bundled set.

        Raises:
            StudyInvalid: a key belongs to another way of giving data or is missing, or a value does not fit.
        """
        if "n_training" in table:
            raise _bad_n_training(table["n_training"])
        return super().read(table)


def _bad_n_training(n_training: int | None) -> StudyInvalid:
    """The error for a public number of training records that is missing, below 1, or stated of a bundled set."""
    return StudyInvalid(
        f"data.n_training = {n_training}",
        cause="a sensitive training file needs its public number of records; a bundled set has its own",
        remedy="give the number of records of the training file, at least 1",
    )
