"""[objective]: how many scores somebody else's search may ask for, and what is kept for a choice."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from dpbo_core.sections.reading import Section, at_least, check_name, limit

MOST_SCORES = 100_000


@dataclass(frozen=True)
class ObjectiveSection(Section):
    """[objective]: the study's whole (ε, δ) is for these scores, in the place of a search of ours.

    Attributes:
        scores: n, how many different questions are answered.
        choice_share: s, the share of the budget kept for a choice on exact scores; 0 chooses by what was released.
        edition: of the questions; another one is another spend.
    """

    heading: ClassVar[str] = "objective"
    scores: Annotated[
        int,
        at_least(1, "give how many scores the search may ask for"),
        limit(lambda scores: scores <= MOST_SCORES, f"ask for at most {MOST_SCORES:,} scores"),
    ]
    choice_share: Annotated[float, limit(lambda share: 0.0 <= share < 1.0, "give a share from 0 to below 1")] = 0.0
    edition: Annotated[str, check_name] = "1"
