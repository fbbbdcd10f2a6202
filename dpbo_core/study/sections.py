"""[privacy], [budget] and the axes of [space]: the sections of every study."""

import math
from typing import Annotated, Any, ClassVar

from dpbo_core.study.section import Name, Section, StatedList, StatedTable, checked, limited, require

LARGEST_EPSILON, LARGEST_CAP = 4000.0, 1e6  # the ledger counts ε, and ρ of about ε²/2, in 64 bits of 10⁻¹²
RESERVED_DATASETS = ("allow", "export", "publish", "recover", "set", "verify")


def check_epsilon(key: str, epsilon: float, largest: float = LARGEST_EPSILON) -> None:
    """Refuse an ε that is not positive, finite and at most `largest`."""
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


def _check_delta(delta: float) -> None:
    """Refuse a δ that is no probability below 1."""
    require(
        0.0 <= delta < 1.0,
        f"{{key}} = {delta} is no privacy level",
        cause="δ is a probability, at least 0 and below 1",
        remedy=SMALL_DELTA,
    )


SMALL_DELTA = "choose one far below 1/(number of records), 1e-6 say"
START = limited("start with 1.0; smaller protects more")
Epsilon = Annotated[float, START, checked(lambda epsilon: check_epsilon("{key}", epsilon))]
Delta = Annotated[float, limited(SMALL_DELTA), checked(_check_delta)]


class PrivacySection(Section):
    """[privacy]: the study's TOTAL (ε, δ), on whose budget, and how many records one person may own (k).

    Without `person` k is the owner's word, and the unit is one record. With it k is enforced from that column of
    the validation file: whatever a person has beyond k records scores a constant, and the unit is the person. Where
    [data] says `n_persons`, each person's mean counts once, and there is no k. `anyway`: what the plan calls
    useless is charged without a question; no part of what makes a study another.
    """

    heading: ClassVar[str] = "privacy"
    dataset: Name
    epsilon: Epsilon
    delta: Delta | None = None
    max_records_per_person: Annotated[
        int, limited("give the largest number of validation records one person may own, at least 1", ge=1)
    ] = 1
    person: Name | None = None
    anyway: bool | None = None

    def check(self) -> None:
        """Refuse a dataset's name that is a word of the command line."""
        require(
            self.dataset not in RESERVED_DATASETS,
            f"privacy.dataset = {self.dataset!r} is a word of the command line",
            remedy="give the dataset another name",
        )


class BudgetSection(Section):
    """[budget]: the dataset's cap, set at its first use.

    `editions`: how many releases it is planned for. Where it is left out a schedule's runs count what the cap
    holds, and another study is taken for the only one.
    """

    heading: ClassVar[str] = "budget"
    epsilon: Annotated[float, START, checked(lambda epsilon: check_epsilon("{key}", epsilon, LARGEST_CAP))]
    delta: Delta = 0.0
    editions: Annotated[
        int | None, limited("give the number of releases that the cap is planned for, at least 1", ge=1)
    ] = None


class AxisSection(Section):
    """One axis of [space]: low and high (with log, integer, points), or values; `when` it exists, if not always."""

    heading: ClassVar[str] = "space"
    low: Annotated[float | None, limited(allow_inf_nan=True)] = None
    high: Annotated[float | None, limited(allow_inf_nan=True)] = None
    log: bool = False
    integer: bool = False
    points: int | None = None
    values: StatedList | None = None
    when: StatedTable | None = None

    def check(self) -> None:
        """Refuse an axis with neither two ends nor values, without points, or that depends on several axes."""
        require(
            self.when is None or len(self.when) == 1,
            f"an axis of [space] depends on {len(self.when or ())} axes",
            remedy='write when = { kernel = "rbf" }, one axis with one value or a list of values',
        )
        require(
            (self.ends is not None) != (self.values is not None),
            "an axis of [space] has neither low and high nor values, or both",
            remedy='write { low = 1e-4, high = 10.0, log = true, points = 64 } or { values = ["a", "b"] }',
        )
        require(
            self.points is None or self.points >= 1,
            f"an axis of [space] has {self.points} points",
            remedy="give at least 1 point",
        )

    @property
    def ends(self) -> tuple[float, float] | None:
        """The least and largest value of a numeric axis; None where the axis lists its values."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def condition(self) -> tuple[str, tuple[Any, ...]] | None:
        """The axis this one depends on and the values at which it exists; None where it always does."""
        if self.when is None:
            return None
        ((parent, values),) = self.when.items()
        return parent, values if isinstance(values, tuple) else (values,)
