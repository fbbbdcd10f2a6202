"""What a score's file declares of it: everything that the rest of the house asks about a score by its name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Numbers:
    """The numbers that a study gives for its score.

    Attributes:
        steepness: slope of a margin score.
        shares: the public share of every class, in the order of the classes.
        error_bound: E, None where the study leaves it out.
    """

    steepness: float
    shares: tuple[float, ...] = ()
    error_bound: float | None = None


@dataclass(frozen=True)
class Declared:
    """A score by its name.

    Attributes:
        name: in a study.
        earns: what one record scores, for the page that lists scores.
        between: the ends of that, likewise.
        of_margin: the score of a certified linear model's margin; None where it has none.
        of_outcome: the score of what any other estimator predicts; None where it has none.
        of_pairs: the score where it is a count of pairs; None where it is none.
        regression: whether the target is a number.
        needs: keys of [model] that it cannot do without.
        allows: keys of [model] that it may have beside these.
    """

    name: str
    earns: str
    between: str
    of_margin: Callable[[Numbers], Any] | None = None
    of_outcome: Callable[[Numbers], Any] | None = None
    of_pairs: Callable[[Numbers], Any] | None = None
    regression: bool = False
    needs: tuple[str, ...] = ()
    allows: tuple[str, ...] = ()
