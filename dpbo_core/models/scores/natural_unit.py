"""A score in the unit that people know it by: a loss, where less is better; a function of one's own, from its low.

| symbol | name here | meaning | shape |
|---|---|---|---|
| f | `score` | the mean score, in [0, G]; more is better, whatever it is a score of | scalar |
| z | `zero` | what f = 0 is in the natural unit: E for a loss clipped at E | scalar |
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class NaturalUnit:
    """z + f where more is better; z − f where less is."""

    zero: float = 0.0
    greater_is_better: bool = True

    def of(self, score: float) -> float:
        """The score in its natural unit."""
        return self.zero + (score if self.greater_is_better else -score)

    def metric(self, name: str, score: float, interval: Sequence[float] | None) -> dict[str, Any]:
        """What a release says beside its score, as plain JSON.

        Args:
            name: of the metric.
            score: with its noise, so perhaps outside its range.
            interval: of the score, low before high, or None.
        """
        ends = None if interval is None else sorted(self.of(end) for end in interval)
        return {
            "name": name,
            "value": self.of(score),
            "greater_is_better": self.greater_is_better,
            "interval": ends,
        }
