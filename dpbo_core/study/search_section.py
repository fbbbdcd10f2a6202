"""[search]: the settings of a search, and nothing of the data."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from dpbo_core.methods.problem import USUAL_STEPS
from dpbo_core.study.reading import Section, among, at_least, limit, one_of, positive

ACQUISITIONS = ("ucb", "ei")
KERNELS = ("matern52", "se")
CANDIDATE_KINDS = ("grid", "sobol")
LEARN_FROM = ("editions", "nothing")
MOST_STEPS = 100_000


def _check_lengthscale(key: str, length: float | str) -> None:
    """Refuse a length-scale that is neither a positive number nor "fit"; `key` names it in the message."""
    if isinstance(length, str):
        one_of(key, length, ("fit",))
    else:
        positive('give a positive length in the unit cube (0.3, say) or "fit"')(key, length)


@dataclass(frozen=True)
class SearchSection(Section):
    """[search]: the search's own settings. The seed is the search's alone; noise is never seeded.

    `steps`: 20 where left out; 40 for a trajectory that ends in a final choice.
    `learn_from` = "editions": the search begins with what earlier editions of the study released. Where it is left
    out a schedule's runs do, and other studies begin afresh. `one_pass`: all of Λ is scored in one pass over the
    records when the first score is needed, and looked up afterwards; it changes no release, and no study's key.
    """

    heading: ClassVar[str] = "search"
    steps: Annotated[
        int | None,
        at_least(1, "ask for at least 1 step; 20 is usual"),
        limit(lambda steps: steps <= MOST_STEPS, f"ask for at most {MOST_STEPS:,} steps"),
    ] = None
    acquisition: Annotated[str, among(*ACQUISITIONS)] = "ucb"
    beta: Annotated[
        float | None, at_least(0, "give a number of at least 0, or leave it out for the theoretical one")
    ] = None
    kernel: Annotated[str, among(*KERNELS)] = "matern52"
    lengthscale: Annotated[float | str, _check_lengthscale] = 0.3
    seed: Annotated[int, limit(lambda seed: 0 <= seed < 2**32, "choose one from 0 to 4294967295")] = 0
    candidates: Annotated[str, among(*CANDIDATE_KINDS)] = "grid"
    n_candidates: Annotated[int, at_least(1, "ask for at least 1")] = 256
    learn_from: Annotated[str | None, among(*LEARN_FROM)] = None
    one_pass: bool | None = None

    @property
    def n_steps(self) -> int:
        """The number of steps of the search as [search] states it, else 20, whatever the method."""
        return self.steps or USUAL_STEPS
