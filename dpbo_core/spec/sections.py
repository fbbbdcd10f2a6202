"""The tables of a study file, each a frozen dataclass that refuses impossible values."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dpbo_core.space.search_space import Value
from dpbo_core.spec.reading import check_name, one_of, require

MISSING = ("refuse", "mean")
SENSITIVE = ("validation", "training")
ACQUISITIONS = ("ucb", "ei", "thompson")
KERNELS = ("matern52", "se")
CANDIDATE_KINDS = ("grid", "sobol")
LARGEST_EPSILON, LARGEST_CAP = 4000.0, 1e6  # the ledger counts ε, and ρ of about ε²/2, in 64 bits of 10⁻¹²
RESERVED_DATASETS = ("set", "export", "verify")


@dataclass(frozen=True)
class PrivacySection:
    """[privacy]: the study's TOTAL (ε, δ), on whose budget, and how many records one person may own (k).

    Without `person` k is the owner's word, and the unit is one record. With it k is enforced from that column of
    the validation file: whatever a person has beyond k records scores a constant, and the unit is the person.
    """

    dataset: str
    epsilon: float
    delta: float | None = None
    max_records_per_person: int = 1
    person: str | None = None

    def __post_init__(self) -> None:
        check_name("privacy.dataset", self.dataset)
        require(
            self.dataset not in RESERVED_DATASETS,
            f"privacy.dataset = {self.dataset!r} is a word of the command line",
            remedy="give the dataset another name",
        )
        check_epsilon("privacy.epsilon", self.epsilon, LARGEST_EPSILON)
        if self.delta is not None:
            _check_delta("privacy.delta", self.delta)
        require(
            self.max_records_per_person >= 1,
            f"privacy.max_records_per_person = {self.max_records_per_person}",
            remedy="give the largest number of validation records one person may own, at least 1",
        )
        if self.person is not None:
            check_name("privacy.person", self.person)


@dataclass(frozen=True)
class BudgetSection:
    """[budget]: the dataset's cap, set at its first use."""

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        check_epsilon("budget.epsilon", self.epsilon, LARGEST_CAP)
        _check_delta("budget.delta", self.delta)


@dataclass(frozen=True)
class DataSection:
    """[data]: two files and the public number of validation records, or a bundled set by name.

    Where the training set is sensitive too, its number of records is public, and so are the labels and the bounds
    of each column ("*" for all others): nothing is fitted to it. A validation file is then optional; without one,
    models are scored on the training records. `ignore` names columns that are no features; `missing` says what
    becomes of gaps in the others.
    """

    training: str | None = None
    validation: str | None = None
    n_validation: int | None = None
    target: str | None = None
    source: str | None = None
    validation_share: float = 0.5
    sensitive: str | None = None
    n_training: int | None = None
    labels: tuple[Value, ...] | None = None
    bounds: Mapping[str, tuple[float, ...]] | None = None
    ignore: tuple[str, ...] | None = None
    missing: str | None = None

    def __post_init__(self) -> None:
        if self.sensitive is not None:
            one_of("data.sensitive", self.sensitive, SENSITIVE)
        if self.missing is not None:
            one_of("data.missing", self.missing, MISSING)
        require(
            self.target not in (self.ignore or ()),
            f"[data] ignores its own target {self.target!r}",
            remedy="take it off the list",
        )
        require(
            not self.trains_privately or (self.ignore is None and self.missing is None),
            "[data] gives ignore or missing for a sensitive training set",
            cause="nothing may be fitted to it, not even the mean that would fill a gap",
            remedy="drop the columns from the files, or fill the gaps there",
        )
        if self.trains_privately:
            self._check_public_facts()
        else:
            facts = (self.n_training, self.labels, self.bounds)
            require(
                all(item is None for item in facts),
                "[data] gives n_training, labels or bounds for a public training set",
                cause="they replace what would otherwise be read from the training file",
                remedy='add sensitive = "training", or remove them',
            )
        files = (self.training, self.validation, self.n_validation, self.target)
        if self.source is not None:
            require(
                all(item is None for item in files),
                "[data] names both a bundled source and files",
                remedy="keep source and validation_share, or training, validation, n_validation and target",
            )
            require(
                0.0 < self.validation_share < 1.0,
                f"data.validation_share = {self.validation_share:g}",
                remedy="choose a share between 0 and 1, 0.5 say",
            )
            return
        alone = self.trains_privately and self.validation is None and self.n_validation is None
        missing = [
            name
            for name, item in zip(("training", "validation", "n_validation", "target"), files, strict=True)
            if item is None and not (alone and name in ("validation", "n_validation"))
        ]
        require(
            not missing,
            f"[data] lacks {', '.join(missing)}",
            cause="a study needs its training file, its validation file, their number of records and the target",
            remedy='add the missing keys, or use a bundled set: source = "breast_cancer"',
        )
        require(
            alone or (self.n_validation is not None and self.n_validation >= 1),
            f"data.n_validation = {self.n_validation}",
            remedy="give the public number of records of the validation file, at least 1",
        )

    @property
    def trains_privately(self) -> bool:
        """Whether the training set is sensitive."""
        return self.sensitive == "training"

    def _check_public_facts(self) -> None:
        files = self.source is None
        require(
            files == (self.n_training is not None) and (self.n_training is None or self.n_training >= 1),
            f"data.n_training = {self.n_training}",
            cause="a sensitive training file needs its public number of records; a bundled set has its own",
            remedy="give the number of records of the training file, at least 1",
        )
        require(
            not files or (self.labels is not None and self.bounds is not None),
            "[data] lacks labels or bounds",
            cause="nothing is fitted to a sensitive training set, so what is public of it must be said",
            remedy='add labels = [0, 1] and [data.bounds] with "*" = [low, high] or one line a column',
        )
        labels = self.labels if self.labels is not None else (0, 1)
        require(
            len(set(labels)) == len(labels) >= 2,
            f"data.labels = {list(labels)}",
            remedy="give at least two different labels",
        )
        for name, ends in (self.bounds or {}).items():
            require(
                len(ends) == 2
                and all(math.isfinite(end) and abs(end) < 1e100 for end in ends)
                and ends[0] < ends[1],
                f"data.bounds {name!r} = {list(ends)}",
                remedy="give the public [low, high] of the column, low below high",
            )


@dataclass(frozen=True)
class AxisSection:
    """One axis of [space]: low and high (with log, integer, points), or values; `when` it exists, if not always."""

    low: float | None = None
    high: float | None = None
    log: bool = False
    integer: bool = False
    points: int | None = None
    values: tuple[Value, ...] | None = None
    when: Mapping[str, Value | tuple[Value, ...]] | None = None

    def __post_init__(self) -> None:
        require(
            self.when is None or len(self.when) == 1,
            f"an axis of [space] depends on {len(self.when or ())} axes",
            remedy='write when = { kernel = "rbf" }, one axis with one value or a list of values',
        )
        numeric = self.low is not None and self.high is not None
        require(
            numeric != (self.values is not None),
            "an axis of [space] has neither low and high nor values, or both",
            remedy='write { low = 1e-4, high = 10.0, log = true, points = 64 } or { values = ["a", "b"] }',
        )
        require(
            self.points is None or self.points >= 1,
            f"an axis of [space] has {self.points} points",
            remedy="give at least 1 point",
        )

    @property
    def condition(self) -> tuple[str, tuple[Value, ...]] | None:
        """The axis this one depends on and the values at which it exists; None where it always does."""
        if self.when is None:
            return None
        ((parent, values),) = self.when.items()
        return parent, values if isinstance(values, tuple) else (values,)


@dataclass(frozen=True)
class SearchSection:
    """[search]: the search's own settings. The seed is the search's alone; noise is never seeded."""

    steps: int = 20
    acquisition: str = "ucb"
    beta: float | None = None
    kernel: str = "matern52"
    lengthscale: float | str = 0.3
    seed: int = 0
    candidates: str = "grid"
    n_candidates: int = 256

    def __post_init__(self) -> None:
        require(self.steps >= 1, f"search.steps = {self.steps}", remedy="ask for at least 1 step; 20 is usual")
        require(self.steps <= 100_000, f"search.steps = {self.steps}", remedy="ask for at most 100,000 steps")
        one_of("search.acquisition", self.acquisition, ACQUISITIONS)
        one_of("search.kernel", self.kernel, KERNELS)
        one_of("search.candidates", self.candidates, CANDIDATE_KINDS)
        require(self.n_candidates >= 1, f"search.n_candidates = {self.n_candidates}", remedy="ask for at least 1")
        require(0 <= self.seed < 2**32, f"search.seed = {self.seed}", remedy="choose one from 0 to 4294967295")
        if isinstance(self.lengthscale, str):
            one_of("search.lengthscale", self.lengthscale, ("fit",))
        else:
            require(
                math.isfinite(self.lengthscale) and self.lengthscale > 0,
                f"search.lengthscale = {self.lengthscale}",
                remedy='give a positive length in the unit cube (0.3, say) or "fit"',
            )
        if self.beta is not None:
            require(
                math.isfinite(self.beta) and self.beta >= 0,
                f"search.beta = {self.beta}",
                remedy="give a number of at least 0, or leave it out for the theoretical one",
            )


def check_epsilon(key: str, epsilon: float, largest: float) -> None:
    """A privacy level: positive, finite, and not beyond all meaning."""
    require(
        math.isfinite(epsilon) and epsilon > 0,
        f"{key} = {epsilon} is no privacy level",
        cause="ε must be positive and finite",
        remedy="start with 1.0; smaller protects more",
    )
    require(
        epsilon <= largest,
        f"{key} = {epsilon:g} protects nothing",
        cause="a factor of e^ε beyond any meaning",
        remedy="start with 1.0; declare a dataset public if it needs no protection",
    )


def _check_delta(key: str, delta: float) -> None:
    require(
        0.0 <= delta < 1.0,
        f"{key} = {delta} is no privacy level",
        cause="δ is a probability, at least 0 and below 1",
        remedy="choose one far below 1/(number of records), 1e-6 say",
    )
