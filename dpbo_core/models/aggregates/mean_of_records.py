"""The mean of bounded scores, one a record, as an exact integer sum.

| symbol | name here | meaning | shape |
|---|---|---|---|
| m | `n_records` | validation records | scalar |
| k | `counted` | records one person may own | scalar |
| G | `score_range` | range of one record's score | scalar |
| Δ | `record_steps` | most k replaced records move the sum at a fixed model, k·2²⁴ (never above m·2²⁴) | integer |
| — | `range_steps` | the whole range of the sum, m·2²⁴ | integer |
| — | `score_per_step` | mean score of one step of the sum, G/(m·2²⁴) | scalar |
"""

import math
from dataclasses import dataclass

from dpbo_core.models.scores.grid import GRID


@dataclass(frozen=True)
class MeanOfRecords:
    """f = (1/m) Σ g."""

    n_records: int
    counted: int
    score_range: float

    @property
    def record_steps(self) -> int:
        """Δ, k records at once."""
        return min(self.counted, self.n_records) * GRID

    @property
    def range_steps(self) -> int:
        """The whole range of the sum."""
        return self.n_records * GRID

    @property
    def score_per_step(self) -> float:
        """Of a plan's and a release's draws."""
        return self.score_range / (self.n_records * GRID)

    @property
    def metric_per_step(self) -> float:
        """The same: a mean is said in the unit it is drawn in."""
        return self.score_per_step

    @property
    def spread(self) -> float:
        """G: how far apart a useless and a perfect model are."""
        return self.score_range

    def doubt(self, best: float, n_public: int) -> float:
        """A standard error of a public score near `best` on so many public records, in units of the score."""
        G = self.score_range
        return math.sqrt(max(best * (G - best), G**2 / n_public) / n_public)
