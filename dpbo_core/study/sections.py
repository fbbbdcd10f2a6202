"""The sections of a study beside its data and model: [privacy], [budget], [space], [search] and its queries."""

import math
import re
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator

from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.sources import filled_at
from dpbo_core.privacy.guarantee import NeighboringRelation
from dpbo_core.search import DEFAULT_N_STEPS
from dpbo_core.study.section import (
    TUPLE_VALIDATOR,
    Name,
    PlainList,
    Section,
    StatedList,
    StatedTable,
    checked,
    limited,
    require,
)

MAX_EPSILON, MAX_CAP = 4000.0, 1e6  # the ledger counts ε, and ρ of about ε²/2, in 64 bits of 10⁻¹²
RESERVED_DATASETS = ("allow", "export", "publish", "recover", "set", "verify")


def check_epsilon(epsilon: float, largest: float = MAX_EPSILON) -> None:
    """Refuse an ε that is not positive, finite and at most `largest`."""
    require(
        math.isfinite(epsilon) and epsilon > 0,
        f"{{key}} = {epsilon} is no privacy level",
        cause="ε must be positive and finite",
        remedy=EPSILON_REMEDY,
    )
    require(
        epsilon <= largest,
        f"{{key}} = {epsilon:g} protects nothing",
        cause="a factor of e^ε beyond any meaning",
        remedy="start with 1.0; declare a dataset public if it needs no protection",
    )


def _check_delta(delta: float) -> None:
    require(
        0.0 <= delta < 1.0,
        f"{{key}} = {delta} is no privacy level",
        cause="δ is a probability, at least 0 and below 1",
        remedy=DELTA_REMEDY,
    )


DELTA_REMEDY = "choose one far below 1/(number of records), 1e-6 say"
EPSILON_REMEDY = "start with 1.0; smaller protects more"
EPSILON_LIMITS = limited(EPSILON_REMEDY, schema={"exclusiveMinimum": 0.0, "maximum": MAX_CAP})
Epsilon = Annotated[float, EPSILON_LIMITS, checked(check_epsilon)]
Delta = Annotated[
    float, limited(DELTA_REMEDY, schema={"minimum": 0.0, "exclusiveMaximum": 1.0}), checked(_check_delta)
]


Neighbours = Annotated[
    Literal["replace_one", "add_or_remove", "zero_out"],
    AfterValidator(lambda name: None if name == "replace_one" else name),  # the default, however it is written
]


class PrivacySection(Section):
    """[privacy]: the study's TOTAL (ε, δ), on whose budget, and how many records one person may own (k).

    Without `person` k is the owner's word, and the unit is one record. With it k is enforced from that column of
    the validation file: whatever a person has beyond k records scores a constant, and the unit is the person. Where
    [data] says `n_persons`, each person's mean counts once, and there is no k. `neighbours`: which data sets are
    neighbours, "replace_one" unless it says another; the number of records is then public as stated. `anyway`: what
    the plan calls useless is charged without a question; it does not change which study it is.
    """

    heading: ClassVar[str] = "privacy"
    dataset: Name
    epsilon: Epsilon
    delta: Delta | None = None
    max_records_per_person: Annotated[
        int, limited("give the largest number of validation records one person may own, at least 1", ge=1)
    ] = 1
    person: Name | None = None
    neighbours: Neighbours | None = None
    anyway: bool | None = None

    @property
    def relation(self) -> NeighboringRelation:
        """The relation of neighbouring data sets that [privacy] names, for records."""
        return NeighboringRelation(self.neighbours or "replace_one")

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
    epsilon: Annotated[float, EPSILON_LIMITS, checked(lambda epsilon: check_epsilon(epsilon, MAX_CAP))]
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
        """The least and largest value of a numeric axis; None if the axis lists its values."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def condition(self) -> tuple[str, tuple[Any, ...]] | None:
        """The axis this one depends on and the values at which it exists; None if it always does."""
        if self.when is None:
            return None
        ((parent, values),) = self.when.items()
        return parent, values if isinstance(values, tuple) else (values,)


MAX_STEPS = 100_000


class SearchSection(Section):
    """[search]: the search's own settings. The seed is the search's alone; noise is never seeded.

    `steps`: 20 where left out; 40 for a trajectory that ends in a final choice.
    `learn_from` = "editions": the search begins with what earlier editions of the study released. Where it is left
    out a schedule's runs do, and other studies begin afresh. `one_pass`: all of Λ is scored in one pass over the
    records when the first score is needed, and looked up afterwards; it changes no release, and no study's key.
    """

    heading: ClassVar[str] = "search"
    steps: Annotated[int | None, limited(f"ask for 1 to {MAX_STEPS:,} steps; 20 is usual", ge=1, le=MAX_STEPS)] = (
        None
    )
    acquisition: Literal["ucb", "ei"] = "ucb"
    beta: Annotated[
        float | None, limited("give a number of at least 0, or leave it out for the theoretical one", ge=0)
    ] = None
    kernel: Literal["matern52", "se"] = "matern52"
    lengthscale: (
        Annotated[float, limited('give a positive length in the unit cube (0.3, say) or "fit"', gt=0)]
        | Literal["fit"]
    ) = 0.3
    seed: Annotated[int, limited("choose one from 0 to 4294967295", ge=0, lt=2**32)] = 0
    candidates: Literal["grid", "sobol"] = "grid"
    n_candidates: Annotated[int, limited("ask for at least 1", ge=1)] = 256
    learn_from: Literal["editions", "nothing"] | None = None
    one_pass: bool | None = None

    def check(self) -> None:
        """Refuse a number of candidates where a grid decides it."""
        require(
            self.candidates != "grid" or self.n_candidates == SearchSection.model_fields["n_candidates"].default,
            f"search.n_candidates = {self.n_candidates} beside a grid, which has as many candidates as its points",
            cause='candidates = "grid" is the default',
            remedy='set candidates = "sobol", or give points in [space] instead',
        )

    @property
    def n_steps(self) -> int:
        """The number of steps of the search as [search] states it, else 20, whatever the method."""
        return self.steps or DEFAULT_N_STEPS


MOST_BINS, MOST_GROUPS, MOST_SCORES, MOST_POOLED = 256, 50, 100_000, 366
Cost = Annotated[float, limited("give two positive numbers, in one unit", gt=0)]
THRESHOLD_PATTERN = re.compile(r"cost=(\d+(?:\.\d+)?):(\d+(?:\.\d+)?)|recall=(0?\.\d+)")


def threshold_goal(text: str) -> tuple[str, float]:
    """Return ("cost", 10.0) for "cost=10:1" (a miss costs ten false alarms), ("recall", 0.9) for "recall=0.9"."""
    stated = THRESHOLD_PATTERN.fullmatch(text)
    cost, other, recall = (float(number or 1.0) for number in stated.groups()) if stated else (0.0, 0.0, 0.0)
    if min(cost, other, recall) <= 0.0:
        raise StudyInvalid(
            f"evaluation.threshold = {text!r} is no cost and no recall",
            remedy="give cost=10:1 (a positive that is missed, a false alarm), or recall=0.9",
        )
    return ("cost", cost / other) if text.startswith("cost") else ("recall", recall)


COLUMN = "column:"  # before the name of a column that holds a champion's predictions


class EvaluationSection(Section):
    """[evaluation]: on top of [privacy], and no part of the study's own key.

    Attributes:
        epsilon: ε of the whole report.
        edition: a new edition spends budget again.
        bins: of the decision values, or of the errors of a regression; from public facts where None.
        group: a column of the validation file that the report is also given by.
        groups: its PUBLIC categories; every other value is the group "other".
        false_positive_cost: of flagging a negative.
        false_negative_cost: of missing a positive.
        prevalence: share of positives where the model will be used; that of the records where None.
        repair: true to mend the model's probabilities and threshold from the report, at no cost.
        threshold: of the repaired model, "cost=10:1" or "recall=0.9"; the model's own where None.
        against: the champion to compare the model with, instead of a report: the folder of a saved model, a
            ".skops" file of an estimator, an address in MLflow ("models:/readmission@champion"), or "column:NAME"
            of the validation file, which holds another model's predictions.
        margin: how much worse than the champion still counts as not worse, in units of the score.
        score: by which the two are compared, such as "roc_auc"; the study's own where None.
        accepts: what you answer for beside the study's own `accepts`: "public_models" of a saved champion,
            "rowwise_predictions" of a column.
    """

    heading: ClassVar[str] = "evaluation"
    epsilon: Epsilon | None = None
    edition: Name = "1"
    bins: Annotated[int | None, limited(f"ask for 2 to {MOST_BINS} bins, or leave it out", ge=2, le=MOST_BINS)] = (
        None
    )
    group: Name | None = None
    groups: PlainList | None = None
    false_positive_cost: Cost | None = None
    false_negative_cost: Cost | None = None
    prevalence: Annotated[float | None, limited("give a share between 0 and 1", gt=0, lt=1)] = None
    repair: bool | None = None
    threshold: str | None = None
    against: str | None = None
    margin: Cost | None = None
    score: str | None = None
    accepts: Annotated[tuple[str, ...], TUPLE_VALIDATOR] = ()

    @property
    def champion_folder(self) -> str | None:
        """The folder or file of the champion, relative to the study's own; None for none, or for a column."""
        return None if self.against is None or self.against.startswith(COLUMN) else self.against

    def check(self) -> None:
        """Refuse a threshold without a repair, groups without a column, one cost of two, a lone margin or score."""
        for name in ("margin", "score"):
            require(
                getattr(self, name) is None or self.against is not None,
                f"[evaluation] states a {name}, and names no champion to compare with",
                remedy=f'add against = "…", the model in use; or remove {name}',
            )
        if self.threshold is not None:
            threshold_goal(self.threshold)
            require(
                bool(self.repair),
                "[evaluation] states a threshold, and repairs nothing",
                remedy="add repair = true",
            )
        require(
            self.groups is None or self.group is not None,
            "[evaluation] lists groups, and names no column",
            remedy='add group = "…", the column of the validation file that holds them',
        )
        groups = self.groups or ()
        require(
            self.groups is None or (0 < len(set(groups)) == len(groups) <= MOST_GROUPS),
            f"evaluation.groups lists {len(groups)} categories, or one of them twice",
            remedy=f"list each category once, 1 to {MOST_GROUPS} of them; every other value is the group other",
        )
        require(
            (self.false_positive_cost is None) == (self.false_negative_cost is None),
            "[evaluation] gives one cost of the two",
            remedy="give false_positive_cost and false_negative_cost, in one unit",
        )


class WatchSection(Section):
    """[watch]: on top of [privacy], and no part of the study's own key. What is None is asked of the command.

    Attributes:
        drop: the fall that is to be seen, in units of the score.
        epsilon: ε of ALL looks up to and including the first alarm.
        edition: a new edition is a new watch and a new spend.
        least_records: a table with fewer is refused; the study's own number where None.
        reference: what the score is compared with, as `dpbo show` has it; the released score where None.
        table: today's sensitive file, which may hold a field that a look's time fills ({date}); the study's
            validation file where None.
        pool: how many of the last files that `table` names are read as one table; one where None.
    """

    heading: ClassVar[str] = "watch"
    drop: Annotated[
        float | None, limited("give how far the score may fall before somebody is told, 0.02 say", gt=0)
    ] = None
    epsilon: Epsilon | None = None
    edition: Name = "1"
    least_records: Annotated[
        int | None, limited("give the fewest records that a table will ever have, 2 or more", ge=2)
    ] = None
    reference: Annotated[
        float | None, limited("give the score to compare with, or leave it out: the released score")
    ] = None
    table: Annotated[
        str | None, limited("name today's file, or leave it out: the study's validation file", pattern=r"\S")
    ] = None
    pool: Annotated[
        int | None, limited(f"give 2 to {MOST_POOLED} tables, or leave it out: one", ge=2, le=MOST_POOLED)
    ] = None

    def at(self, moment: datetime) -> "WatchSection":
        """Return the section with `table`'s date fields filled for `moment`, UTC; unchanged with `pool`."""
        if self.table is None or self.pool is not None:
            return self
        return self.replace(table=filled_at(self.table, moment))


class ObjectiveSection(Section):
    """[objective]: the study's whole (ε, δ) is for these scores, instead of a search of ours.

    Attributes:
        scores: n, how many different questions are answered.
        choice_share: s, the share of the budget kept for a choice on exact scores; 0 chooses by what was released.
        edition: of the questions; another edition spends budget again.
    """

    heading: ClassVar[str] = "objective"
    scores: Annotated[
        int, limited(f"give how many scores the search may ask for, 1 to {MOST_SCORES:,}", ge=1, le=MOST_SCORES)
    ]
    choice_share: Annotated[float, limited("give a share from 0 to below 1", ge=0, lt=1)] = 0.0
    edition: Name = "1"


def no_epsilon() -> StudyInvalid:
    """Return the error for an evaluation whose price ε is not stated."""
    return StudyInvalid(
        "no ε is stated for the evaluation",
        cause="a report is a spend of its own, on top of [privacy]",
        remedy="add [evaluation] with epsilon = 0.5, say, or give --epsilon 0.5",
    )
