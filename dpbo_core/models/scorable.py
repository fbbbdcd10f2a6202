"""The protocol of a model that can be scored: the exact integer steps of encoded records, or a table of pairs.

A record's score g ∈ [0, G] is rounded to a whole number of steps of 2⁻²⁴·G. Its steps are a function of the model
and that record alone, whichever of these methods gives them.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data import Encoded
from dpbo_core.models.scores.pairs import PAIR_SCORE_REFUSAL, Integers, PairScore
from dpbo_core.models.scores.union import Score

ROWS_PER_BLOCK = 16_384  # records of a block that estimators predict, a whole number of their batches

SignedSteps = tuple[int, NDArray[np.int64] | NDArray[np.float64]]  # ±1, and whole numbers (r, L)


class ScorableModel(ABC):
    """A model that gives the exact integer steps of encoded records. Public; the steps are as sensitive as they."""

    @abstractmethod
    def steps(self, records: Encoded, score: Score) -> Integers:
        """Return each record's score as an integer from 0 to 2²⁴, (m,); TypeError for an unsupported score.

        Raises:
            TypeError: the score is of pairs, or not one of the model's; never on account of a record.
        """

    def order_independent_steps(self, records: Encoded, score: Score) -> Integers:  # noqa: ARG002
        """Return each record's score as an integer, (m,), whatever its position; TypeError unless overridden."""
        raise TypeError(f"a {type(self).__name__} scores records, not persons")

    def pair_table(self, records: Encoded, score: PairScore) -> Integers:  # noqa: ARG002
        """Return how many usable records of each class are in each cell, (2, B); TypeError unless overridden."""
        raise TypeError(f"a {type(self).__name__} ranks nothing")

    @classmethod
    def steps_of_all(cls, models: Sequence[Self], records: Encoded, score: Score) -> Integers:
        """Return each record's score under several models, (m, L), as integers from 0 to 2²⁴."""
        return np.stack([model.steps(records, score) for model in models], axis=1)

    @classmethod
    def block_rows(cls, models: Sequence[Self], n_records: int) -> int:  # noqa: ARG003
        """Return the number of records to score in one block, always the same, so that batches are."""
        return ROWS_PER_BLOCK

    @classmethod
    def signed_steps(cls, models: Sequence[Self], records: Encoded, score: Score) -> Iterator[SignedSteps]:
        """Yield (+1 or −1, integer scores (r, L)) blocks whose signed sum has every record's `steps_of_all` once.

        A yielded block may be overwritten by the next one.
        """
        size = cls.block_rows(models, records.n_records)
        for at in range(0, records.n_records, size):
            yield 1, cls.steps_of_all(models, records.part(slice(at, at + size)), score)


def common_class(models: Sequence[ScorableModel]) -> type[ScorableModel]:
    """Return the class of all these models, whose methods score several at once; `ScorableModel` if they differ."""
    classes = {type(model) for model in models}
    return classes.pop() if len(classes) == 1 else ScorableModel


def usable_mask(records: Encoded) -> NDArray[np.bool_]:
    """Return a mask (m,) of the records that could be read and have a known class."""
    return ~records.broken & (records.labels >= 0)


def unscorable_reason(score: Score, scored_by: str) -> TypeError:
    """Return the TypeError to raise for a score that a model cannot compute, with `scored_by` as its text."""
    return TypeError(PAIR_SCORE_REFUSAL if isinstance(score, PairScore) else scored_by)
