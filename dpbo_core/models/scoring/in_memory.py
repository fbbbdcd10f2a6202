"""Scoring records in memory by exact integers: what a model must give, and the sums over the sensitive half.

| symbol | name here | meaning | shape |
|---|---|---|---|
| — | `training` | the training records, where they are sensitive too | the same |
| V | `records` | the validation records, preprocessed row by row | X (m, d), labels (m,), broken (m,) |
| g | `score` | one record's score in [0, G] | — |
| 2²⁴·m·f_V(λ)/G | `evaluate(model)` | the sum of the scores, each rounded to a multiple of 2⁻²⁴·G first | integer |
| — | `paired(model, λ₀'s, c)` | the sum of clipped differences, as `integer_sums` has it | integer |
| — | `evaluate_all(models)` | the same integers under many models, each record read once | (L,) integers |

Every conceivable record has a score: a broken one is replaced by (x = 0, y = +1) under a margin score, so it scores
φ(0), and scores 0 under any other. A record's score depends on the model and that record alone, so at a fixed model
replacing one record moves the sum by at most 2²⁴ steps, and the order of summation cannot matter. A score of pairs
(`PairScore`) is counted from a table of both classes' records in public cells instead, of which a broken record is
no part, whatever the model.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data import Encoded
from dpbo_core.models.integer_sums import stretched
from dpbo_core.models.scores.kinds import PAIR_SCORE_REFUSAL, Integers, PairScore, counts, pairs_of
from dpbo_core.models.scores.union import Score
from dpbo_core.privacy.sensitive import Opaque, Sensitive

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


def usable_mask(records: Encoded) -> NDArray[np.bool_]:
    """Return a mask (m,) of the records that could be read and have a known class."""
    return ~records.broken & (records.labels >= 0)


def unscorable_reason(score: Score, scored_by: str) -> TypeError:
    """Return the TypeError to raise for a score that a model cannot compute, with `scored_by` as its text."""
    return TypeError(PAIR_SCORE_REFUSAL if isinstance(score, PairScore) else scored_by)


SHARES_PER_MODEL = 2**16
IN_MEMORY_FACTOR = 32  # times fewer models wait for one another where records are in memory
SINGLE_MODEL = 1  # models left where each is requested alone: another may follow
Totals = tuple[list[int], list[int]]  # of each model: its number, and where they are paired its differences'
Paired = tuple[ScorableModel, int]  # the model that all others are compared with, and c


class Scorer(Protocol):
    """What a method sees of the sensitive half."""

    def evaluate(self, model: ScorableModel) -> Sensitive[int]:
        """Return the sealed integer score of `model` on the sensitive records: a sum of scores, or C₂."""

    def pairs(self) -> Sensitive[int]:
        """The sealed 2PQ, P and Q the numbers of records of the two classes: a perfect ranking's count of pairs."""

    def paired(self, model: ScorableModel, reference: ScorableModel, clipped: int) -> Sensitive[int]:
        """The sealed sum of records' differences from `reference`, each cut to ±`clipped` and mapped to 0 … 2²⁴."""

    @property
    def training(self) -> Sensitive[Encoded] | None:
        """The sealed training records where they are sensitive too; None if they are public."""


@dataclass(frozen=True)
class ModelBatch:
    """The sealed sums of many models' scores from one pass over the records."""

    sums: tuple[Sensitive[int], ...]  # of each model, as `evaluate` gives them
    # of each to the one they were paired with, as `paired`; none if they were not
    differences: tuple[Sensitive[int], ...] = ()

    @property
    def vector(self) -> Sensitive[NDArray[np.int64]]:
        """All models' exact integers as one sealed array, (L,)."""
        return Sensitive(np.array([total.expose() for total in self.sums], dtype=np.int64))


def evaluate_all(
    scorer: Scorer, models: Sequence[ScorableModel], paired_with: Paired | None = None, *, models_left: int = 0
) -> ModelBatch:
    """Return the models' sealed sums and differences, as `Half.evaluate_all`, whichever scorer it is."""
    if isinstance(scorer, Half):
        return scorer.evaluate_all(models, paired_with, models_left=models_left)
    sums = tuple(scorer.evaluate(model) for model in models)
    if paired_with is None:
        return ModelBatch(sums)
    return ModelBatch(sums, tuple(scorer.paired(model, *paired_with) for model in models))


def models_per_pass(scorer: Scorer, most: int) -> int:
    """Return the number of models to score in one pass: `most` if `scorer` reads files, else `most`/32, at least 1.

    Models that are scored together share one reading of the files. With the records in memory they share only the
    processor's cache, so that few are enough. A scorer of another kind scores one model at a time.
    """
    if not isinstance(scorer, Half):
        return 1
    return most if scorer.reads_files else max(1, most // IN_MEMORY_FACTOR)


class Half(Opaque):
    """The sensitive half, in memory or on disk; a subclass computes the models' exact integer scores on it."""

    __slots__ = ()
    reads_files = False

    @property
    def training(self) -> Sensitive[Encoded] | None:
        """None: the training records are public; an override gives them, sealed, where they are sensitive too."""
        return None

    @abstractmethod
    def totals(self, models: Sequence[ScorableModel], paired_with: Paired | None, *, models_left: int) -> Totals:
        """Return each model's exact integer score, unsealed, and its sum of records' clipped differences from the
        model `paired_with` ([] for None).

        Where records on disk could not be scored it raises Sealed, never on account of what a record holds.
        """

    def evaluate(self, model: ScorableModel) -> Sensitive[int]:
        """Return one model's sealed exact integer: a sum of scores, a sum of persons' means, or C₂."""
        return Sensitive(self.totals((model,), None, models_left=SINGLE_MODEL)[0][0])

    def pairs(self) -> Sensitive[int]:
        """Return the sealed 2PQ, P and Q the numbers of records of the two classes; TypeError unless overridden."""
        raise TypeError("persons are averaged, and pairs are of records")

    def paired(self, model: ScorableModel, reference: ScorableModel, clipped: int) -> Sensitive[int]:
        """The sealed sum of records' differences from `reference`, each cut to ±`clipped` and mapped to 0 … 2²⁴."""
        return Sensitive(self.totals((model,), (reference, clipped), models_left=SINGLE_MODEL)[1][0])

    def evaluate_all(
        self, models: Sequence[ScorableModel], paired_with: Paired | None = None, *, models_left: int = 0
    ) -> ModelBatch:
        """Return each model's sealed exact integer score and, with `paired_with`, its sealed sum of records'
        clipped differences from that model, as `paired` has it; all in one pass.

        `models_left`: how many models will be scored on the same records after these; where none will, nothing
        that is read is kept.
        """
        sums, differences = self.totals(models, paired_with, models_left=models_left)
        return ModelBatch(tuple(map(Sensitive, sums)), tuple(map(Sensitive, differences)))


class Objective(Half):
    """The validation set with its score, sealed; with the training set, where that is sensitive too."""

    __slots__ = ("_records", "_score", "_training")

    def __init__(
        self, records: Sensitive[Encoded], score: Score, training: Sensitive[Encoded] | None = None
    ) -> None:
        self._records, self._score, self._training = records, score, training

    @property
    def training(self) -> Sensitive[Encoded] | None:
        """The sealed training records where they are sensitive too; None if they are public."""
        return self._training

    def totals(self, models: Sequence[ScorableModel], paired_with: Paired | None, *, models_left: int) -> Totals:  # noqa: ARG002
        """Return each model's exact score, unsealed, and its sum of differences from `paired_with`, or []."""
        return exact_totals(models, self._records.expose(), self._score, paired_with)

    def with_rows(self, rows: Sensitive[NDArray[np.float64]]) -> "Objective":
        """Return an objective with other rows (m, d), of predictions made elsewhere, and the same targets."""
        return Objective(Sensitive(replace(self._records.expose(), X=rows.expose())), self._score)

    def pairs(self) -> Sensitive[int]:
        """The sealed 2PQ, P and Q the numbers of records of the two classes: a perfect ranking's count of pairs."""
        return Sensitive(pairs_of(_class_counts(self._records.expose()))[1])


def exact_totals(
    models: Sequence[ScorableModel], records: Encoded, score: Score, paired_with: Paired | None = None
) -> Totals:
    """Return each model's integer sum of scores, or count of pairs, and its sum of clipped differences from
    `paired_with` ([] for None), unsealed, in one pass.

    The sums are Σ_i round(2²⁴ g(w; x_i, y_i)/G), or C₂, and Σ_i ⌊(clip(s_i(λ) − s_i(λ₀), ±c) + c)·2²⁴/2c⌋: as
    sensitive as the records. A block of records is scored by one model after the other. How large it is follows
    from the models alone, which are public.
    """
    if isinstance(score, PairScore):
        if paired_with is not None:
            raise TypeError(PAIR_SCORE_REFUSAL)
        return [pairs_of(model.pair_table(records, score))[0] for model in models], []
    scored = tuple(models) if paired_with is None else (*models, paired_with[0])
    sums = np.zeros(len(models), dtype=np.int64)
    differences = np.zeros(0 if paired_with is None else len(models), dtype=np.int64)
    classes = {type(model) for model in scored}  # a class may score several of its own at once
    together = classes.pop() if len(classes) == 1 else ScorableModel
    for sign, steps in together.signed_steps(scored, records, score):
        sums += sign * steps[:, : len(models)].sum(axis=0).astype(np.int64)  # exact: whole numbers, far below 2⁵³
        if paired_with is not None:
            whole = steps.astype(np.int64)
            differences += sign * stretched(whole[:, :-1], whole[:, -1:], paired_with[1]).sum(axis=0)
        del steps  # the next block takes its memory, which is in the cache
    return sums.tolist(), differences.tolist()


def _class_counts(records: Encoded) -> Integers:
    return counts(records.labels, usable_mask(records), np.zeros(records.n_records, dtype=np.int64), 1)


def shifted(count: Sensitive[int], pairs: Sensitive[int], share: float) -> Sensitive[int]:
    """Return the sealed C₂ − ⌊r·D⌋ of `count` C₂ and `pairs` D, with r the `share` rounded to 2⁻¹⁶.

    It has the same sensitivity as C₂ (`integer_sums`).
    """
    return Sensitive(count.expose() - ((round(share * SHARES_PER_MODEL) * pairs.expose()) // SHARES_PER_MODEL))


def resealed(counts: Sensitive[Integers], function: Callable[[Integers], Integers]) -> Sensitive[Integers]:
    """Return `function` of sealed counts, sealed again; the function must not raise."""
    return Sensitive(function(counts.expose()))


def table_of_part(records: Encoded, score: Score, models: Sequence[ScorableModel]) -> Integers:
    """Return a part's records counted by model, class and cell, (L, 2, B); without models by class, (1, 2, 1).

    Still sensitive: whoever calls this seals it again (`partitioned`).
    """
    if not models:
        return _class_counts(records)[None]
    if not isinstance(score, PairScore):
        raise TypeError("a score of records has no table")
    return np.stack([model.pair_table(records, score) for model in models])
