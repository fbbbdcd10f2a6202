"""What earlier editions of a study RELEASED of its candidates: public numbers, whatever they were drawn from.

| symbol | name here | meaning | shape |
|---|---|---|---|
| λ | `index` | a candidate, by its place in Λ | scalar |
| y, σ | `score`, `deviation` | a released score and the deviation of its noise, in units of the score | scalars |
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class ReleasedScore:
    """One noised score of one candidate."""

    index: int
    score: float
    deviation: float


@dataclass(frozen=True)
class EarlierEdition:
    """The release of one earlier edition, as far as a later edition's search begins with it.

    Attributes:
        edition: what people tell it by.
        release_id: the ledger's name of its release.
        choice: the candidate it chose privately; None where it chose none, or none of Λ.
        scores: what it released of candidates of Λ.
    """

    edition: str
    release_id: str
    choice: int | None
    scores: tuple[ReleasedScore, ...]
