"""[data] with a SENSITIVE training set: nothing is fitted to it, and what is public of it is said here."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from dpbo_core.study.data_section import (
    BUNDLED_REFUSAL,
    FILES_NEEDED_MESSAGE,
    MAX_RECORDS,
    Bounds,
    BundledSection,
    DataSection,
    Labels,
    Names,
    NRecords,
    Place,
    Refusal,
)
from dpbo_core.study.section import limited, require

if TYPE_CHECKING:
    from dpbo_core.methods.problem import TrainingFacts
    from dpbo_core.study.spec import StudySpec

ONE_RECORD_MESSAGE = "private training protects one record of the training set and one of the validation set"
SIZE_REMEDY = "give the number of records of the training file, at least 1"
FOREIGN_KEYS = (
    Refusal(
        ("n_persons",),
        "[data] gives n_persons for a sensitive training set",
        ONE_RECORD_MESSAGE,
        "leave one record a person in each file, and leave n_persons out",
    ),
    Refusal(
        ("missing", "missing_target"),
        "[data] gives missing or missing_target for a sensitive training set",
        "nothing may be fitted to it, not even the mean that would fill a gap",
        "fill the gaps in the files",
    ),
    Refusal(
        ("memory_limit", "workers"),
        "[data] gives memory_limit or workers for a sensitive training set",
        "they are of validation records in a folder of files, and private training keeps its in memory",
    ),
)
OWN_SIZE_REFUSAL = Refusal(
    ("n_training",), "data.n_training is given for a bundled set", "a bundled set has its own"
)
REQUIRED_KEYS = (
    Refusal(
        ("n_training",), "data.n_training is missing", "how many records are trained on is public", SIZE_REMEDY
    ),
    Refusal(
        ("labels", "bounds"),
        "[data] lacks labels or bounds",
        "nothing is fitted to a sensitive training set, so what is public of it must be said",
        'add labels = [0, 1] and [data.bounds] with "*" = [low, high] or one line a column',
    ),
)


class SensitiveTrainingSet(DataSection):
    """A training set that is sensitive: private training protects its records, or the people of a column.

    Each person's first record is trained on and scored; what else that person has, or names nobody, keeps its place
    and adds nothing. Replacing all records of one person, in their places, by those of one person not otherwise
    present empties one place at most and fills one. Which places they are moves no sum further, and tells no
    algorithm apart that takes records in any order: one record is replaced. Every private training here sums over
    records, or draws each place by itself with one chance, and allows for rounding in any order of summation.

    Attributes:
        sensitive: "training".
        labels: the classes; a bundled set's own where None.
        bounds: [low, high] of each column, "*" for all others; a bundled set's own where None.
        ignore: columns that are no features.
    """

    foreign: ClassVar[tuple[Refusal, ...]] = FOREIGN_KEYS
    sensitive_training: ClassVar[bool] = True
    names_people: ClassVar[bool] = False

    sensitive: Literal["training"] = "training"
    labels: Labels | None = None
    bounds: Bounds | None = None
    ignore: Names | None = None

    @property
    def facts(self) -> "TrainingFacts":
        """The size and classes of the training records, and of a bundled set its feature names."""
        from dpbo_core.data import bundled
        from dpbo_core.methods.problem import TrainingFacts

        classes = self.labels or bundled.public_facts(self.bundled_name)[0]
        names = bundled.FEATURE_COLUMNS.get(self.bundled_name, ())
        return TrainingFacts(self.n_trained or 0, classes, names, scored=not self.has_validation)

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
        privacy = study.privacy
        require(
            privacy.person is None or self.names_people,
            f"privacy.person = {privacy.person!r} with a sensitive training set",
            cause=ONE_RECORD_MESSAGE,
            remedy="leave person out, and leave one record a person in each file; one file alone may have persons",
        )
        require(
            privacy.person is None or (privacy.person != self.target_column and privacy.neighbours is None),
            f"privacy.person = {privacy.person!r} is the target, or stands beside privacy.neighbours",
            cause="a person's records are replaced in their places",
            remedy="name the column that says whose record it is, and leave neighbours out",
        )
        require(
            privacy.max_records_per_person == 1,
            f"privacy.max_records_per_person = {privacy.max_records_per_person} with a sensitive training set",
            cause=ONE_RECORD_MESSAGE,
            remedy="leave one record a person in each file, and leave the key out",
        )


class SensitiveSection(SensitiveTrainingSet):
    """A sensitive training file. Nothing is fitted to it: what is public of it is said here.

    Attributes:
        training: path.
        target: the column to predict.
        n_training: n.
        validation_share: says nothing of files; it is part of every study's fingerprint.
    """

    training: Place
    target: str
    n_training: Annotated[int, limited(SIZE_REMEDY, ge=1, le=MAX_RECORDS)]
    labels: Labels
    bounds: Bounds
    validation_share: float = 0.5


class SensitiveFiles(SensitiveSection):
    """Two files, both sensitive.

    Attributes:
        validation: path.
        n_validation: m.
    """

    marks: ClassVar[tuple[str, ...]] = ("validation", "n_validation")
    needed: ClassVar[tuple[Refusal, ...]] = (
        *REQUIRED_KEYS,
        Refusal(("training", "validation", "n_validation", "target"), *FILES_NEEDED_MESSAGE),
    )

    validation: Place
    n_validation: NRecords


class SensitiveTraining(SensitiveSection):
    """One sensitive file: models are trained on its records and scored on them."""

    needed: ClassVar[tuple[Refusal, ...]] = (*REQUIRED_KEYS, Refusal(("training", "target"), *FILES_NEEDED_MESSAGE))
    size_key: ClassVar[str] = "n_training"
    has_validation: ClassVar[bool] = False
    names_people: ClassVar[bool] = True


class SensitiveBundled(BundledSection, SensitiveTrainingSet):
    """A bundled set whose training records are taken for sensitive too."""

    foreign: ClassVar[tuple[Refusal, ...]] = (*FOREIGN_KEYS, OWN_SIZE_REFUSAL, BUNDLED_REFUSAL)

    @property
    def public_bounds(self) -> Mapping[str, tuple[float, ...]]:
        """The range of each column, as the study says or else as is known of the bundled set."""
        from dpbo_core.data import bundled

        return self.bounds or bundled.public_facts(self.source)[1]
