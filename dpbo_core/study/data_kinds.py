"""The kinds of [data]: a PUBLIC training set, predictions that others made, or a SENSITIVE training set.

A public set is two files, two files of persons, or a share of a bundled set. Where others made the predictions
nothing is trained: the columns of their table are the candidates. To a sensitive set nothing is fitted, and what is
public of it is said here.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from dpbo_core.study.data_section import (
    BUNDLED_REFUSAL,
    FILES_NEEDED_MESSAGE,
    MAX_RECORDS,
    PREDICTIONS_REFUSAL,
    Bounds,
    BundledSection,
    DataSection,
    Labels,
    Names,
    NRecords,
    Place,
    Refusal,
    count_of,
)
from dpbo_core.study.section import limited, require

if TYPE_CHECKING:
    from dpbo_core.methods.problem import TrainingFacts
    from dpbo_core.study.spec import StudySpec

CANDIDATE_AXIS = "candidate"  # the one axis of a study of predictions
PUBLIC_FACTS_REFUSAL = Refusal(
    ("n_training", "labels", "bounds"),
    "[data] gives n_training, labels or bounds for a public training set",
    "they replace what would otherwise be read from the training file",
    'add sensitive = "training", or remove them',
)


class PublicSection(DataSection):
    """What every [data] with a public training set may say.

    Attributes:
        sensitive: "validation", if it is said.
        ignore: columns that are no features.
        missing: what becomes of gaps in the others, "refuse" or "mean".
        missing_target: what becomes of PUBLIC records without a label, "refuse" or "drop". A sensitive one keeps
            its place, and scores the constant.
    """

    foreign: ClassVar[tuple[Refusal, ...]] = (PUBLIC_FACTS_REFUSAL,)

    sensitive: Literal["validation"] | None = None
    ignore: Names | None = None
    missing: Literal["refuse", "mean"] | None = None
    missing_target: Literal["refuse", "drop"] | None = None


class TwoFiles(PublicSection):
    """Two files, of which the training file is PUBLIC.

    Attributes:
        training: path.
        validation: path.
        target: the column to predict.
        memory_limit: GB of encoded validation records that are kept, in all processes together, where they are a
            folder of files or a large Parquet file; it changes no release, and no study's key.
        workers: processes of this machine that score the parts of a folder or a large file, and share long public
            work; no part of a study's key either.
    """

    training: Place
    validation: Place
    target: str
    memory_limit: Annotated[
        float | None, limited("give the GB of validation records that may be kept in memory, 0 for none", ge=0)
    ] = None
    workers: Annotated[int | None, limited("give a number of processes, one for each core, say", ge=1)] = None

    @property
    def divided(self) -> "TwoFiles":
        """The section itself: both files may be folders of files."""
        return self


class PublicFiles(TwoFiles):
    """Two files: the training file is PUBLIC, and of the validation file the number of records is.

    Attributes:
        n_validation: m.
        validation_share: says nothing of files; it is part of every study's fingerprint.
    """

    needed: ClassVar[tuple[Refusal, ...]] = (
        Refusal(("training", "validation", "n_validation", "target"), *FILES_NEEDED_MESSAGE),
    )

    n_validation: NRecords
    validation_share: float = 0.5


class PersonFiles(TwoFiles):
    """Two files: the training file is PUBLIC, and of the validation file the number of persons is, on the caller's
    word. How many records it has is as sensitive as what they hold.

    Attributes:
        n_persons: n_p, what the sum of the persons' means is divided by.
    """

    marks: ClassVar[tuple[str, ...]] = ("n_persons",)
    size_key: ClassVar[str] = ""
    foreign: ClassVar[tuple[Refusal, ...]] = (
        Refusal(
            ("n_validation", "source"),
            "[data] gives n_persons beside n_validation, or for a bundled set",
            "where each person's mean counts once, the number of records is private: nothing is divided by it",
            "remove n_validation; or remove n_persons, and at most max_records_per_person records of each count",
        ),
        Refusal(
            ("validation_share",),
            "[data] gives validation_share beside n_persons",
            "it divides a bundled set, and says nothing of files",
        ),
        PUBLIC_FACTS_REFUSAL,
    )
    needed: ClassVar[tuple[Refusal, ...]] = (Refusal(("training", "validation", "target"), *FILES_NEEDED_MESSAGE),)

    n_persons: Annotated[int, count_of("persons")]

    def check_study(self, study: "StudySpec") -> None:
        """Refuse a study without a column of persons, or with a limit of records per person."""
        super().check_study(study)
        privacy = study.privacy
        require(
            privacy.person is not None,
            f"data.n_persons = {self.n_persons} without privacy.person",
            cause="each person's mean counts once, and no column says whose a record is",
            remedy='add person = "column" to [privacy], or give n_validation instead of n_persons',
        )
        require(
            privacy.max_records_per_person == 1,
            f"privacy.max_records_per_person = {privacy.max_records_per_person} beside data.n_persons",
            cause="all records of a person count, as their mean, so nothing limits their number",
            remedy="leave max_records_per_person out; or give n_validation, and at most so many of each count",
        )


class BundledData(BundledSection, PublicSection):
    """A bundled set by name, of which a share is the validation set; the training records are public."""

    foreign: ClassVar[tuple[Refusal, ...]] = (PUBLIC_FACTS_REFUSAL, BUNDLED_REFUSAL)


class PredictionTable(DataSection):
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

    marks: ClassVar[tuple[str, ...]] = ("predictions",)
    training_key: ClassVar[str] = "public"
    validation_key: ClassVar[str] = "predictions"
    foreign: ClassVar[tuple[Refusal, ...]] = (
        Refusal(
            (
                *("training", "validation", "n_training", "n_persons", "source", "validation_share", "sensitive"),
                *("bounds", "missing", "missing_target", "memory_limit", "workers"),
            ),
            "[data] gives {keys} beside predictions",
            "of a table of predictions nothing is trained, and there is one sensitive file",
            "keep predictions, n_validation, target, labels, public, ignore",
        ),
    )
    needed: ClassVar[tuple[Refusal, ...]] = (
        Refusal(
            ("n_validation", "target"),
            "[data] lacks {keys}",
            "a table of predictions has a public number of records, and a column that says what is right",
            "add the missing keys",
        ),
    )

    predictions: str
    n_validation: NRecords
    target: str
    labels: Labels | None = None
    public: str | None = None
    ignore: Names | None = None

    def check_study(self, study: "StudySpec") -> None:
        """Refuse a study whose estimator, candidates' names or labels do not fit the table."""
        what, cause, remedy = PREDICTIONS_REFUSAL
        require(not study.model.trained, what, cause=cause, remedy=remedy)
        axis = study.space.get(CANDIDATE_AXIS)
        names = axis.values if axis is not None and len(study.space) == 1 and axis.when is None else None
        require(
            names is not None
            and all(isinstance(name, str) and name.strip() == name != "" for name in names)
            and len(set(names)) == len(names),
            "[space] of a table of predictions names its candidates, and this one does not",
            cause="its one axis is `candidate`, whose values are the candidates' names, each once",
            remedy=f'write {CANDIDATE_AXIS} = {{ values = ["small", "large"] }}',
        )
        require(
            study.model.regression == (self.labels is None),
            f"the score {study.model.score_name!r} "
            + ("is of numbers, and data.labels names classes" if self.labels else "is of classes"),
            cause="nothing is read from a sensitive table, so that the classes must be said",
            remedy="remove labels" if self.labels else 'add labels = ["no", "yes"] to [data]',
        )


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
        import dpbo_core.data.bundled as bundled
        from dpbo_core.methods.problem import TrainingFacts

        classes = self.labels or bundled.public_facts(self.bundled_name)[0]
        names = bundled.SETS[self.bundled_name].columns if self.bundled_name in bundled.SETS else ()
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
    """One sensitive file: models are trained on its records and scored on them.

    Attributes:
        n_persons: PUBLIC number of people, where a column names them; it divides the score.
    """

    foreign: ClassVar[tuple[Refusal, ...]] = FOREIGN_KEYS[1:]
    needed: ClassVar[tuple[Refusal, ...]] = (*REQUIRED_KEYS, Refusal(("training", "target"), *FILES_NEEDED_MESSAGE))
    size_key: ClassVar[str] = "n_training"
    has_validation: ClassVar[bool] = False
    names_people: ClassVar[bool] = True

    n_persons: Annotated[int | None, count_of("persons")] = None

    @property
    def n_scored(self) -> int:
        """The number of records that count in the score: one of each person, where a column names them."""
        return self.n_persons or self.n_training

    @property
    def person_count(self) -> None:
        """None: of each person the first record counts, and no mean; a neighbour has as many records."""
        return

    def check_study(self, study: "StudySpec") -> None:
        """Refuse people without their number, and a number without people."""
        super().check_study(study)
        require(
            (study.privacy.person is None) == (self.n_persons is None) and (self.n_persons or 0) <= self.n_training,
            "privacy.person and data.n_persons go together, and n_persons is n_training at most",
            cause="one record of each person counts in the score, which a stated number of people divides",
            remedy="give both, or neither; a few too many or too few only shift the score",
        )


class SensitiveBundled(BundledSection, SensitiveTrainingSet):
    """A bundled set whose training records are taken for sensitive too."""

    foreign: ClassVar[tuple[Refusal, ...]] = (*FOREIGN_KEYS, OWN_SIZE_REFUSAL, BUNDLED_REFUSAL)

    @property
    def public_bounds(self) -> Mapping[str, tuple[float, ...]]:
        """The range of each column, as the study says or else as is known of the bundled set."""
        import dpbo_core.data.bundled as bundled

        return self.bounds or bundled.public_facts(self.source)[1]
