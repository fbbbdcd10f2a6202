"""The sensitive half: exact integer sums of bounded per-record scores.

| symbol | name here | meaning | shape |
|---|---|---|---|
| — | `training` | the training records, where they are sensitive too | the same |
| V | `records` | the validation records, preprocessed row by row | X (m, d), labels (m,), broken (m,) |
| g | `score` | one record's score in [0, G] | — |
| 2²⁴·m·f_V(λ)/G | `evaluate(model)` | the sum of the scores, each rounded to a multiple of 2⁻²⁴·G first | integer |
| — | `paired(model, λ₀'s, c)` | the sum of clipped differences, as `paired.py` has it | integer |
| — | `evaluate_all(models)` | the same integers under many models, each record read once | (L,) integers |

Every conceivable record has a score: a broken one is replaced by (x = 0, y = +1) under a margin score, so it scores
φ(0), and scores 0 under any other. A record's score depends on the model and that record alone, so at a fixed model
replacing one record moves the sum by at most 2²⁴ steps, and the order of summation cannot matter. A score of pairs
(`models.scores.pairs`) is counted from a table of both classes' records in public cells instead, of which a broken
record is no part, whatever the model.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data import Encoded
from dpbo_core.models.scorable import ScorableModel, common_class, usable
from dpbo_core.models.scores.pairs import OF_PAIRS, Integers, PairScore, counts, pairs_of
from dpbo_core.models.scores.union import Score
from dpbo_core.privacy.sensitive import Opaque, Sensitive
from dpbo_core.scoring.paired import stretched

SHARES = 2**16
ONE_AT_A_TIME = 1  # models left where each is asked for alone: another may follow
Totals = tuple[list[int], list[int]]  # of each model: its number, and where they are paired its differences'
Paired = tuple[ScorableModel, int]  # the model that all others are compared with, and c


class Scorer(Protocol):
    """What a method sees of the sensitive half."""

    def evaluate(self, model: ScorableModel) -> Sensitive[int]:
        """The exact integer that the records come to under `model`: a sum of scores, or a count of pairs."""
        ...

    def pairs(self) -> Sensitive[int]:
        """2PQ, what the count of pairs is under a model that ranks every pair right; for scores of pairs alone."""
        ...

    def paired(self, model: ScorableModel, reference: ScorableModel, clipped: int) -> Sensitive[int]:
        """The exact integer sum of the records' clipped differences between two models, each on the whole grid."""
        ...

    @property
    def training(self) -> Sensitive[Encoded] | None:
        """The training records where they are sensitive too; None where they are public."""
        ...


@dataclass(frozen=True)
class Together:
    """What many models came to in one pass over the records.

    Attributes:
        sums: of each model, as `evaluate` gives them.
        differences: of each to the one they were paired with, as `paired`; none where they were not.
    """

    sums: tuple[Sensitive[int], ...]
    differences: tuple[Sensitive[int], ...] = ()

    @property
    def vector(self) -> Sensitive[NDArray[np.int64]]:
        """The sums as one sealed array, (L,)."""
        return Sensitive(np.array([total.expose() for total in self.sums], dtype=np.int64))

    @classmethod
    def of(cls, totals: Totals) -> "Together":
        """Each number sealed on its own."""
        sums, differences = totals
        return cls(tuple(map(Sensitive, sums)), tuple(map(Sensitive, differences)))


@runtime_checkable
class ScoresTogether(Protocol):
    """A scorer that can score many models in one pass over the records."""

    reads_files: ClassVar[bool]  # each time it is asked

    def evaluate_all(
        self, models: Sequence[ScorableModel], paired_with: Paired | None = None, *, models_left: int = 0
    ) -> Together:
        """What `evaluate`, and `paired` where that is asked for, give of every model.

        `models_left`: how many models will be scored on the same records after these; where none will, nothing
        that is read is kept.
        """
        ...


def evaluate_all(
    scorer: Scorer, models: Sequence[ScorableModel], paired_with: Paired | None = None, *, models_left: int = 0
) -> Together:
    """Every model's number, in one pass where the scorer can make one."""
    if isinstance(scorer, ScoresTogether):
        return scorer.evaluate_all(models, paired_with, models_left=models_left)
    sums = tuple(scorer.evaluate(model) for model in models)
    if paired_with is None:
        return Together(sums)
    return Together(sums, tuple(scorer.paired(model, *paired_with) for model in models))


def models_at_once(scorer: Scorer, most: int) -> int:
    """How many models that are known ahead wait for one another, at most `most`.

    Where the records are in memory none does: each step scores what it trains. Where each scoring reads files, they
    share a reading.
    """
    return most if isinstance(scorer, ScoresTogether) and scorer.reads_files else 1


class Half(Opaque):
    """The sensitive half, wherever its records lie: a member says what models come to over them."""

    __slots__ = ()
    reads_files = False

    @property
    def training(self) -> Sensitive[Encoded] | None:
        """The sensitive training records; None where they are public."""
        return None

    @abstractmethod
    def totals(self, models: Sequence[ScorableModel], paired_with: Paired | None, *, models_left: int) -> Totals:
        """Each model's exact integer, and its differences'; as sensitive as the records.

        Args:
            models: of which one pass over the records is made.
            paired_with: the model that they are compared with, if there is one.
            models_left: how many will be scored on the same records afterwards.

        Raises:
            Sealed: records on disk could not be scored; never on account of what a record holds.
        """

    def evaluate(self, model: ScorableModel) -> Sensitive[int]:
        """The exact integer of one model: a sum of scores, a sum of persons' means, or a count of pairs.

        Raises:
            Sealed: as `totals`.
        """
        return Sensitive(self.totals((model,), None, models_left=ONE_AT_A_TIME)[0][0])

    def pairs(self) -> Sensitive[int]:
        """2PQ, from the labels alone. Never asked for of persons: a study of pairs is refused with n_persons."""
        raise TypeError("persons are averaged, and pairs are of records")

    def paired(self, model: ScorableModel, reference: ScorableModel, clipped: int) -> Sensitive[int]:
        """The exact integer sum of clipped differences, each on the whole grid; of record scores alone.

        Raises:
            Sealed: as `totals`.
        """
        return Sensitive(self.totals((model,), (reference, clipped), models_left=ONE_AT_A_TIME)[1][0])

    def evaluate_all(
        self, models: Sequence[ScorableModel], paired_with: Paired | None = None, *, models_left: int = 0
    ) -> Together:
        """Both of many models, each record read once.

        Raises:
            Sealed: as `totals`.
        """
        return Together.of(self.totals(models, paired_with, models_left=models_left))


class Objective(Half):
    """The validation set with its score, sealed; with the training set, where that is sensitive too."""

    __slots__ = ("_records", "_score", "_training")

    def __init__(
        self, records: Sensitive[Encoded], score: Score, training: Sensitive[Encoded] | None = None
    ) -> None:
        self._records, self._score, self._training = records, score, training

    @property
    def training(self) -> Sensitive[Encoded] | None:
        """The sensitive training records, or None."""
        return self._training

    def totals(self, models: Sequence[ScorableModel], paired_with: Paired | None, *, models_left: int) -> Totals:  # noqa: ARG002
        """A block of records at a time; never raises on account of a record."""
        return exact_totals(models, self._records.expose(), self._score, paired_with)

    def with_rows(self, rows: Sensitive[NDArray[np.float64]]) -> "Objective":
        """The same records' classes or targets beside other rows (m, d): what was predicted for each record."""
        return Objective(Sensitive(replace(self._records.expose(), X=rows.expose())), self._score)

    def pairs(self) -> Sensitive[int]:
        """2PQ, from the labels alone."""
        return Sensitive(pairs_of(_classes(self._records.expose()))[1])


def exact_sum(model: ScorableModel, records: Encoded, score: Score) -> int:
    """Σ_i round(2²⁴ g(w; x_i, y_i)/G), or C₂, of plain records: of a sensitive set, the sensitive value itself."""
    return exact_totals((model,), records, score)[0][0]


def paired_sum(model: ScorableModel, reference: ScorableModel, clipped: int, records: Encoded, score: Score) -> int:
    """Σ_i ⌊(clip(s_i(λ) − s_i(λ₀), ±c) + c)·2²⁴/2c⌋ over plain records: of a sensitive set, sensitive."""
    steps, others = (one.steps(records, score) for one in (model, reference))
    return int(stretched(steps, others, clipped).sum(dtype=np.int64))


def exact_totals(
    models: Sequence[ScorableModel], records: Encoded, score: Score, paired_with: Paired | None = None
) -> Totals:
    """`exact_sum` of every model, and `paired_sum`, in one pass over plain records: as sensitive as they are.

    A block of records is scored by one model after the other. How large it is follows from the models alone, which
    are public.
    """
    if isinstance(score, PairScore):
        if paired_with is not None:
            raise TypeError(OF_PAIRS)
        return [pairs_of(model.pair_table(records, score))[0] for model in models], []
    scored = tuple(models) if paired_with is None else (*models, paired_with[0])
    sums = np.zeros(len(models), dtype=np.int64)
    differences = np.zeros(0 if paired_with is None else len(models), dtype=np.int64)
    for sign, steps in common_class(scored).signed_steps(scored, records, score):
        sums += sign * steps[:, : len(models)].sum(axis=0).astype(np.int64)  # exact: whole numbers, far below 2⁵³
        if paired_with is not None:
            whole = steps.astype(np.int64)
            differences += sign * stretched(whole[:, :-1], whole[:, -1:], paired_with[1]).sum(axis=0)
    return sums.tolist(), differences.tolist()


def _classes(records: Encoded) -> Integers:
    """Records of each class, (2, 1)."""
    return counts(records.labels, usable(records), np.zeros(records.n_records, dtype=np.int64), 1)


def shifted(count: Sensitive[int], pairs: Sensitive[int], share: float) -> Sensitive[int]:
    """B = C₂ − ⌊r·D⌋, whose sensitivity is that of C₂; r is `share` to the nearest 2⁻¹⁶, so that it is exact.

    Args:
        count: C₂.
        pairs: D.
        share: r in [0, 1], public.
    """
    return Sensitive(count.expose() - ((round(share * SHARES) * pairs.expose()) // SHARES))


def table_of_part(records: Encoded, score: Score, models: Sequence[ScorableModel]) -> Integers:
    """What one partition adds where pairs are counted: each model's table, (L, 2, B).

    Without a model the records of each class, (1, 2, 1).

    Still sensitive: whoever calls this seals it again (`partitioned`).
    """
    if not models:
        return _classes(records)[None]
    if not isinstance(score, PairScore):
        raise TypeError("a score of records has no table")
    return np.stack([model.pair_table(records, score) for model in models])
