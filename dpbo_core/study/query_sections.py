"""[evaluation], [watch] and [objective]: what is asked beside a tune, each for a price of its own."""

import re
from datetime import datetime
from typing import Annotated, ClassVar

from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.name_patterns import filled_at
from dpbo_core.study.section import Name, PlainList, Section, limited, require
from dpbo_core.study.sections import Epsilon

MOST_BINS, MOST_GROUPS, MOST_SCORES, MOST_POOLED = 256, 50, 100_000, 366
Cost = Annotated[float, limited("give two positive numbers, in one unit", gt=0)]
THRESHOLD = re.compile(r"cost=(\d+(?:\.\d+)?):(\d+(?:\.\d+)?)|recall=(0?\.\d+)")


def threshold_goal(text: str) -> tuple[str, float]:
    """("cost", 10.0) for "cost=10:1", a miss as ten false alarms; ("recall", 0.9) for "recall=0.9"."""
    stated = THRESHOLD.fullmatch(text)
    cost, other, recall = (float(number or 1.0) for number in stated.groups()) if stated else (0.0, 0.0, 0.0)
    if min(cost, other, recall) <= 0.0:
        raise StudyInvalid(
            f"evaluation.threshold = {text!r} is no cost and no recall",
            remedy="give cost=10:1 (a positive that is missed, a false alarm), or recall=0.9",
        )
    return ("cost", cost / other) if text.startswith("cost") else ("recall", recall)


class EvaluationSection(Section):
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
        repair: true to mend the model's probabilities and threshold from the report, at no price.
        threshold: of the repaired model, "cost=10:1" or "recall=0.9"; the model's own where None.
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

    def check(self) -> None:
        """Refuse a threshold without a repair, groups without a column, and one cost of the two."""
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
        """The section with date fields in `table` filled for `moment`, UTC; unchanged without it or with `pool`."""
        if self.table is None or self.pool is not None:
            return self
        return self.replace(table=filled_at(self.table, moment))


class ObjectiveSection(Section):
    """[objective]: the study's whole (ε, δ) is for these scores, in the place of a search of ours.

    Attributes:
        scores: n, how many different questions are answered.
        choice_share: s, the share of the budget kept for a choice on exact scores; 0 chooses by what was released.
        edition: of the questions; another one is another spend.
    """

    heading: ClassVar[str] = "objective"
    scores: Annotated[
        int, limited(f"give how many scores the search may ask for, 1 to {MOST_SCORES:,}", ge=1, le=MOST_SCORES)
    ]
    choice_share: Annotated[float, limited("give a share from 0 to below 1", ge=0, lt=1)] = 0.0
    edition: Name = "1"


def no_epsilon() -> StudyInvalid:
    """The error for an evaluation whose price ε is not stated."""
    return StudyInvalid(
        "no ε is stated for the evaluation",
        cause="a report is a spend of its own, on top of [privacy]",
        remedy="add [evaluation] with epsilon = 0.5, say, or give --epsilon 0.5",
    )
