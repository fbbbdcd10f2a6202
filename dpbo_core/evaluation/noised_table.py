"""The noised histogram: all that was released, and all that a report is made of.

| symbol | name here | meaning | shape |
|---|---|---|---|
| m | `n_records` | records that were counted, public; persons, where each counts once | scalar |
| W | `weight` | of one person in ñ (`person_cells`); 1 where records are counted | integer |
| ñ | `drawn` | counts with noise, as they were released | (C,) integers |
| b | `scale` | of the noise in each cell of ñ/W | scalar |
| t | `split(ñ/W)` | ñ/W shifted to sum to m: [group, class, bin] | (…, G, 2, B) |
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]


@dataclass(frozen=True)
class NoisedTable:
    """A released histogram with the public facts it is read by.

    Attributes:
        n_records: m.
        scale: b.
        edges: between the bins, ascending.
        threshold: the model's own, one of the edges.
        within: share of the pairs within a bin that the model ranks right, as among public records; ½ of ties.
        within_error: standard deviation of `within`, of how many public records said it.
        untied: how far such a share spreads where decision values are equal, of how far without; in [0, 1].
        predicted: mean probability of the public records in each bin, as the model has it; None without one.
        groups: names of the groups, the last for all other values; empty where there is the whole alone.
        drawn: (C,): what cannot be read, then group by group the negatives and the positives of each bin.
        weight: W.
    """

    n_records: int
    scale: float
    edges: tuple[float, ...]
    threshold: float
    within: float
    predicted: tuple[float | None, ...] | None
    groups: tuple[str, ...]
    drawn: tuple[int, ...]
    within_error: float = 0.0
    untied: float = 0.0
    weight: int = 1

    @property
    def n_bins(self) -> int:
        """B: how many bins the decision values fall into."""
        return len(self.edges) + 1

    @property
    def n_groups(self) -> int:
        """G: how many groups are told apart; 1 where none are."""
        return max(1, len(self.groups))

    @property
    def counts(self) -> Reals:
        """ñ/W: what was released, in records or persons, (C,)."""
        return in_units(self.drawn, self.weight)

    @property
    def own(self) -> int:
        """The place of the model's own threshold among the edges."""
        return self.edges.index(self.threshold)

    def shifted(self, counts: Reals) -> Reals:
        """Counts (…, C) shifted to sum to m: of all tables with that sum, the nearest."""
        excess = counts.sum(axis=-1, keepdims=True) - self.n_records
        return np.asarray(counts - excess / counts.shape[-1])

    def split(self, counts: Reals) -> Reals:
        """The cells that could be read, (…, G, 2, B)."""
        return counts[..., 1:].reshape(*counts.shape[:-1], self.n_groups, 2, self.n_bins)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, with every public fact."""
        return {
            **counted(self.n_records, self.weight),
            "noise_scale": self.scale,
            "edges": list(self.edges),
            "threshold": self.threshold,
            "within": self.within,
            "within_error": self.within_error,
            "untied": self.untied,
            "predicted": None if self.predicted is None else list(self.predicted),
            "groups": list(self.groups),
            "drawn": list(self.drawn),
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> "NoisedTable":
        """The inverse of `to_json`."""
        return cls(
            n_records=told["n_persons"] if "n_persons" in told else told["n_records"],
            scale=told["noise_scale"],
            edges=tuple(told["edges"]),
            threshold=told["threshold"],
            within=told["within"],
            predicted=None if told["predicted"] is None else tuple(told["predicted"]),
            groups=tuple(told["groups"]),
            drawn=tuple(told["drawn"]),
            within_error=told.get("within_error", 0.0),  # reports of 0.2.0 before it was told
            untied=told.get("untied", 0.0),
            weight=told.get("weight", 1),
        )


def in_units(drawn: tuple[int, ...], weight: int) -> Reals:
    """Released counts in records, or in persons."""
    return np.array(drawn, dtype=np.float64) / weight


def counted(n: int, weight: int) -> dict[str, int]:
    """Of what the counts are, as JSON has it: records, or persons and the weight of one."""
    return {"n_records": n} if weight == 1 else {"n_persons": n, "weight": weight}
