"""[evaluation] and [watch]: what is asked about the released model, each for a price of its own."""

import math
from dataclasses import dataclass

from dpbo_core.space.search_space import Value
from dpbo_core.spec.reading import check_name, require
from dpbo_core.spec.sections import LARGEST_EPSILON, check_epsilon

MOST_BINS, MOST_GROUPS = 256, 50


@dataclass(frozen=True)
class EvaluationSection:
    """[evaluation]: on top of [privacy], and no part of the study's own key.

    Attributes:
        epsilon: ε of the whole report.
        edition: a new edition is a new spend.
        bins: of the decision values, or of the errors of a regression; from public facts where None.
        group: a column of the validation file that the report is also given by.
        groups: its PUBLIC categories; every other value is the group "other".
        false_positive_cost: of flagging a negative.
        false_negative_cost: of missing a positive.
        prevalence: share of positives where the model will be used; that of the records where None.
    """

    epsilon: float | None = None
    edition: str = "1"
    bins: int | None = None
    group: str | None = None
    groups: tuple[Value, ...] | None = None
    false_positive_cost: float | None = None
    false_negative_cost: float | None = None
    prevalence: float | None = None

    def __post_init__(self) -> None:
        check_name("evaluation.edition", self.edition)
        if self.epsilon is not None:
            check_epsilon("evaluation.epsilon", self.epsilon, LARGEST_EPSILON)
        require(
            self.bins is None or 2 <= self.bins <= MOST_BINS,
            f"evaluation.bins = {self.bins}",
            remedy=f"ask for 2 to {MOST_BINS} bins, or leave it out",
        )
        if self.group is not None:
            check_name("evaluation.group", self.group)
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
        costs = (self.false_positive_cost, self.false_negative_cost)
        require(
            (costs[0] is None) == (costs[1] is None),
            "[evaluation] gives one cost of the two",
            remedy="give false_positive_cost and false_negative_cost, in one unit",
        )
        require(
            all(cost is None or (math.isfinite(cost) and cost > 0.0) for cost in costs),
            f"the costs of [evaluation] are {costs[0]} and {costs[1]}",
            remedy="give two positive numbers, in one unit",
        )
        require(
            self.prevalence is None or 0.0 < self.prevalence < 1.0,
            f"evaluation.prevalence = {self.prevalence}",
            remedy="give a share between 0 and 1",
        )


@dataclass(frozen=True)
class WatchSection:
    """[watch]: on top of [privacy], and no part of the study's own key. What is None is asked of the command.

    Attributes:
        drop: the fall that is to be seen, in units of the score.
        epsilon: ε of ALL looks up to and including the first alarm.
        edition: a new edition is a new watch and a new spend.
        least_records: a table with fewer is refused; the study's own number where None.
        reference: what the score is compared with, as `dpbo show` has it; the released score where None.
        table: today's sensitive file, which may hold a field that a look's time fills ({date}); the study's
            validation file where None.
    """

    drop: float | None = None
    epsilon: float | None = None
    edition: str = "1"
    least_records: int | None = None
    reference: float | None = None
    table: str | None = None

    def __post_init__(self) -> None:
        check_name("watch.edition", self.edition)
        if self.epsilon is not None:
            check_epsilon("watch.epsilon", self.epsilon, LARGEST_EPSILON)
        require(
            self.drop is None or (math.isfinite(self.drop) and self.drop > 0.0),
            f"watch.drop = {self.drop}",
            remedy="give how far the score may fall before somebody is told, 0.02 say",
        )
        require(
            self.least_records is None or self.least_records >= 2,
            f"watch.least_records = {self.least_records}",
            remedy="give the fewest records that a table will ever have, 2 or more",
        )
        require(
            self.reference is None or math.isfinite(self.reference),
            "watch.reference is no number",
            remedy="give the score to compare with, or leave it out: the released score",
        )
        require(
            self.table is None or bool(self.table.strip()),
            "watch.table names no file",
            remedy="name today's file, or leave it out: the study's validation file",
        )
