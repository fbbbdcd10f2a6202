"""[watch]: for which fall of the released model's score to look again and again, for one price of its own."""

import math
from dataclasses import dataclass

from dpbo_core.spec.reading import check_name, require
from dpbo_core.spec.sections import LARGEST_EPSILON, check_epsilon


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
