"""[evaluation]: what is asked about the released model, for a price of its own."""

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
