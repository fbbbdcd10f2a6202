"""[search]: the settings of a search, and nothing of the data."""

from typing import Annotated, ClassVar, Literal

from dpbo_core.study.section import Section, limited

USUAL_STEPS, MOST_STEPS = 20, 100_000


class SearchSection(Section):
    """[search]: the search's own settings. The seed is the search's alone; noise is never seeded.

    `steps`: 20 where left out; 40 for a trajectory that ends in a final choice.
    `learn_from` = "editions": the search begins with what earlier editions of the study released. Where it is left
    out a schedule's runs do, and other studies begin afresh. `one_pass`: all of Λ is scored in one pass over the
    records when the first score is needed, and looked up afterwards; it changes no release, and no study's key.
    """

    heading: ClassVar[str] = "search"
    steps: Annotated[
        int | None, limited(f"ask for 1 to {MOST_STEPS:,} steps; 20 is usual", ge=1, le=MOST_STEPS)
    ] = None
    acquisition: Literal["ucb", "ei"] = "ucb"
    beta: Annotated[
        float | None, limited("give a number of at least 0, or leave it out for the theoretical one", ge=0)
    ] = None
    kernel: Literal["matern52", "se"] = "matern52"
    lengthscale: (
        Annotated[float, limited('give a positive length in the unit cube (0.3, say) or "fit"', gt=0)]
        | Literal["fit"]
    ) = 0.3
    seed: Annotated[int, limited("choose one from 0 to 4294967295", ge=0, lt=2**32)] = 0
    candidates: Literal["grid", "sobol"] = "grid"
    n_candidates: Annotated[int, limited("ask for at least 1", ge=1)] = 256
    learn_from: Literal["editions", "nothing"] | None = None
    one_pass: bool | None = None

    @property
    def n_steps(self) -> int:
        """The number of steps of the search as [search] states it, else 20, whatever the method."""
        return self.steps or USUAL_STEPS
