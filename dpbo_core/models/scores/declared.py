"""What a score's file declares: everything that the other modules need to know of a score by its name.

`NaturalUnit` converts a mean score to the unit that people know: a loss, or the values of a user's own function.

| symbol | name here | meaning | shape |
|---|---|---|---|
| f | `score` | the mean score, in [0, G]; more is better, whatever it is a score of | scalar |
| z | `zero` | what f = 0 is in the natural unit: E for a loss clipped at E | scalar |
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dpbo_core.errors import StudyInvalid


@dataclass(frozen=True)
class Numbers:
    """The numbers that a study gives for its score."""

    steepness: float  # slope of a margin score
    shares: tuple[float, ...] = ()  # the public share of every class, in the order of the classes
    error_bound: float | None = None  # E, None if the study leaves it out

    def __post_init__(self) -> None:
        if self.shares:
            check_shares(self.shares)


def check_shares(shares: Sequence[float]) -> None:
    """Refuse class shares unless there are two or more, each above 0, that add up to 1 within 0.001."""
    positive = len(shares) > 1 and all(math.isfinite(share) and share > 0.0 for share in shares)
    if not positive or abs(sum(shares) - 1.0) > 1e-3:
        raise StudyInvalid(
            "model.class_shares are not the shares of at least two classes",
            cause="a share is 0 or missing, or they do not add up to 1",
            remedy="write the public share of every class, such as { no = 0.9, yes = 0.1 }",
        )


@dataclass(frozen=True)
class Declared:
    """A score by its name."""

    name: str  # in a study
    earns: str  # what one record scores, for the page that lists scores
    between: str  # the ends of that, likewise
    # the score of a certified linear model's margin; None if it has none
    of_margin: Callable[[Numbers], Any] | None = None
    # the score of what any other estimator predicts; None if it has none
    of_outcome: Callable[[Numbers], Any] | None = None
    # the score where it is a count of pairs; None if it is not one
    of_pairs: Callable[[Numbers], Any] | None = None
    called: str = "a score"  # what a sentence calls one, with its article
    regression: bool = False  # whether the target is a number
    needs: tuple[str, ...] = ()  # keys of [model] that it cannot do without
    allows: tuple[str, ...] = ()  # keys of [model] that it may have beside these


FUNCTION = Declared(
    "a user's own function",
    earns="f(truth, prediction), clipped",
    between="`score_low` and `score_high`",
    needs=("score_low", "score_high"),
)


@dataclass(frozen=True)
class NaturalUnit:
    """The unit in which people read a mean score f: z + f if more is better, z − f if it is a loss."""

    zero: float = 0.0
    greater_is_better: bool = True

    def of(self, score: float) -> float:
        """Return a mean score converted to the unit in which people read it: where that is a loss, the loss."""
        return self.zero + (score if self.greater_is_better else -score)

    def metric(self, name: str, score: float | None, interval: Sequence[float] | None) -> dict[str, Any]:
        """Return a score and its interval converted to the metric `name` (a loss, say), as plain JSON.

        Args:
            name: of the metric.
            score: with its noise, so perhaps outside its range; None if none is stated.
            interval: of the score, low before high, or None.
        """
        ends = None if interval is None else sorted(self.of(end) for end in interval)
        return {
            "name": name,
            "value": None if score is None else self.of(score),
            "greater_is_better": self.greater_is_better,
            "interval": ends,
        }
