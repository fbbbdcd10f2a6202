"""What every method is, a price before purchase, a search, a release; and what one may be beside that.

prepare(problem)               where there is one: public work, done before anything is charged
plan(problem)                  the price; needs no data, is deterministic
draws(problem)                 every draw of the plan with its mechanism, so that noise can be prepared beforehand
shown(release)                 draws and sensitivity that a release's certificate must show
outlook(problem)               what to expect of the noise, for advice; needs no data
n_steps(problem)               how many steps the search takes; public, fixed in advance
start(problem, plan)           a search
search.step(objective, noise)  one training and one scoring, or a chunk of Λ; one scoring alone where the path is
                               private, for then all of Λ is trained before; all trials of `dp_hypo`; returns what
                               it released, or None
search.finish(noise)           the release
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from dpbo_core.mechanisms.noise import Mechanism, Noise
from dpbo_core.objective.in_memory import Scorer
from dpbo_core.privacy.certified import Shown
from dpbo_core.privacy.plan import PrivacyPlan, Spend
from dpbo_core.privacy.release import Release
from dpbo_core.problem import Problem

Released = Mapping[str, Any]
Draws = tuple[tuple[Spend, Mechanism[Any]], ...]


@dataclass(frozen=True)
class Outlook:
    """What the price buys, from public facts alone, in units of the score.

    Attributes:
        noise_scale: scale of the noise on the score that is released (on one observation, for a trajectory).
        expected_error: what to expect between the release and the best score of Λ.
        trainings: models that will be trained.
        why: one sentence for the person choosing.
    """

    noise_scale: float
    expected_error: float
    trainings: int
    why: str


@dataclass(frozen=True)
class Described:
    """A method's row in the pages that list methods, in plain words.

    Attributes:
        wants: what somebody wants who should choose it.
        gives: what it releases.
        needs: what it asks for.
        delta: whether its δ is above 0.
        trainings: how many models are trained.
        command: how it is asked for, where no study names it.
        counts_pairs: whether it can search by a count of pairs as well as by a mean of record scores.
        shows_all: whether what it releases beside the choice is what it is chosen for: no advice can know that.
    """

    wants: str
    gives: str
    needs: str
    delta: str
    trainings: str
    command: str = ""
    counts_pairs: bool = False
    shows_all: bool = False


class Search(Protocol):
    """A method under way. Its state may be sensitive; it never leaves the process."""

    def step(self, objective: Scorer, noise: Noise) -> Released | None:
        """Score a model, and return what this step released (already recorded), or None."""
        ...

    def finish(self, noise: Noise) -> Release:
        """Make the remaining draws and state the release."""
        ...


@runtime_checkable
class Method(Protocol):
    """One algorithm box, whole: what is asked of every member of the closed union."""

    @property
    def kind(self) -> str:
        """Its name in a study."""
        ...

    DESCRIBED: ClassVar[Described]
    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def public_path(self) -> bool:
        """Whether the candidates it asks about may be seen by anyone."""
        ...

    @property
    def hides_evaluations(self) -> bool:
        """Whether how many models it scores is private: they are then scored in one process, uncounted."""
        ...

    @property
    def releases_hyperparameters(self) -> bool:
        """Whether its release names a candidate, so that a final model can be trained."""
        ...

    @property
    def fits_lengthscale(self) -> bool:
        """Whether a study may leave the kernel's lengthscale to it: it fits one, or has no kernel."""
        ...

    def plan(self, problem: Problem) -> PrivacyPlan:
        """The price of a study, from public facts alone: its draws and the guarantee they compose to."""
        ...

    def draws(self, problem: Problem) -> Draws:
        """The plan's draws, each with the mechanism that will make it."""
        ...

    @staticmethod
    def shown(release: Release) -> Shown:
        """What the certificate of one of its releases must show."""
        ...

    def outlook(self, problem: Problem) -> Outlook:
        """What the price buys, in units of the score; needs no data."""
        ...

    def n_steps(self, problem: Problem) -> int:
        """How many steps the search takes: public, and fixed in advance."""
        ...

    def start(self, problem: Problem, plan: PrivacyPlan) -> Search:
        """A search that has drawn nothing yet."""
        ...


@dataclass(frozen=True)
class Simulated:
    """Where the advice's simulation has a form of a method, at ε = 1, k = 1, δ = 1e-6 and the usual shares.

    Attributes:
        form: the table's name of it.
        chosen_by: records at which the choice has this noise there.
        said_by: records at which the score has this noise there.
        paired: whether the choice may have less noise than that, by differences that only the public set tells.
    """

    form: str
    chosen_by: float
    said_by: float
    paired: bool = False


@runtime_checkable
class Advised(Protocol):
    """A method that the advice may recommend, since it was simulated."""

    @staticmethod
    def forms(problem: Problem) -> "tuple[Advised, ...]":
        """The forms to compare on this problem, in the order of preference among equals."""
        ...

    def simulated(self, problem: Problem) -> Simulated:
        """Where the simulation has it."""
        ...


@dataclass(frozen=True)
class Told:
    """What a release says of candidates: its private choice, if it made one, and each score with its noise.

    Attributes:
        choice: hyperparameters; None where nothing was chosen by the records.
        scores: (hyperparameters, score, deviation of its noise), in units of the score.
    """

    choice: Mapping[str, Any] | None
    scores: tuple[tuple[Mapping[str, Any], float, float], ...]


@runtime_checkable
class Learns(Protocol):
    """A method whose releases say something of candidates, and whose search may begin with such releases."""

    @staticmethod
    def begins_with_editions() -> bool:
        """Whether its search begins with what earlier editions released (`problem.earlier`)."""
        ...

    @staticmethod
    def told(release: Release) -> Told:
        """What one of its releases says. Raises KeyError, TypeError, ValueError where it is none."""
        ...


@runtime_checkable
class ScoresAhead(Protocol):
    """A method that may score candidates before it asks for them."""

    @property
    def scores_ahead(self) -> bool:
        """Whether it can score all of them in one pass over the records."""
        ...


@runtime_checkable
class TrainsPrivately(Protocol):
    """A method for a sensitive training set."""

    @staticmethod
    def private_forms() -> "tuple[TrainsPrivately, ...]":
        """Its forms, in the order of preference."""
        ...


@runtime_checkable
class FixedPath(Protocol):
    """A method that may know in advance what it trains, on a public path."""

    def fixed_path(self, problem: Problem) -> tuple[int, ...]:
        """Indices of the candidates that it trains whatever comes out; a problem for planning will do."""
        ...


@runtime_checkable
class TrainsFirst(Protocol):
    """A method whose price may be measured on the models themselves."""

    @property
    def trains_first(self) -> bool:
        """Whether it is: then all of Λ is trained before anything is charged, as where the path is private."""
        ...


@runtime_checkable
class SearchesPublic(Protocol):
    """A method with a search on public data, to be made before anything is charged."""

    def prepare(self, problem: Problem) -> Problem:
        """The problem with what was found. Raises StudyInvalid where a public training fails."""
        ...

    def cross_validated(self, problem: Problem) -> tuple[int, ...]:
        """Candidates whose public scores it needs whatever they are; a problem for planning will do."""
        ...
