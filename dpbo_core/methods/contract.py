"""What every method is, a price before purchase, a search, a release; and what one may be beside that.

traits                         what it is beside that, one value: its row, its certificate's rules, public work
plan(problem)                  the price; needs no data, is deterministic
draws(problem)                 every draw of the plan with its mechanism, so that noise can be prepared beforehand
outlook(problem)               what to expect of the noise, for advice; needs no data
n_steps(problem)               how many steps the search takes; public, fixed in advance
start(problem, plan)           a search
search.step(objective, noise)  one training and one scoring, or a chunk of Λ; where the path is private all of Λ is
                               trained before, but for `trains_in_steps`; all trials of `dp_hypo`; returns what it
                               released, or None
search.finish(noise)           the release
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from dpbo_core.mechanisms.noise import Mechanism, Noise
from dpbo_core.methods.pricing import Scope
from dpbo_core.methods.problem import Problem
from dpbo_core.models.scoring.in_memory import Scorer
from dpbo_core.privacy.certified import CertificateRules
from dpbo_core.privacy.plan import PrivacyPlan, Spend
from dpbo_core.privacy.release import Release

Released = Mapping[str, Any]
Draws = tuple[tuple[Spend, Mechanism[Any]], ...]


@dataclass(frozen=True)
class Outlook:
    """What to expect of a study's price, from public facts alone: noise, error and trainings.

    Attributes:
        noise_scale: scale of the noise on the score that is released (on one observation, for a trajectory).
        expected_error: what to expect between the release and the best score of Λ.
        trainings: models that will be trained.
        why: one sentence for the person choosing.
        instead: the same method's form that errs least, and by how much; a clause, "" where this is it.
    """

    noise_scale: float
    expected_error: float
    trainings: int
    why: str
    instead: str = ""


@dataclass(frozen=True)
class Simulated:
    """The place of a method in the advice's simulation, at ε = 1, k = 1, δ = 1e-6 and the usual shares.

    Attributes:
        form: the table's name of it.
        choice_records: number of records at which the simulated choice has this method's noise.
        score_records: number of records at which the simulated score has this method's noise.
        paired: whether the choice may have less noise than that, by differences that only the public set tells.
    """

    form: str
    choice_records: float
    score_records: float
    paired: bool = False


# of each score that a release names: hyperparameters, score and deviation of its noise, in units of the score
ReleasedScores = tuple[tuple[Mapping[str, Any], float, float], ...]


@dataclass(frozen=True)
class MethodTraits:
    """What the rest of the house may ask of a method beside its verbs: one value a class, None for what it lacks.

    A function of a method with its options takes that method first; a problem for planning will do for each but
    `prepare`.

    Attributes:
        wants: what somebody wants who should choose it; a row, in plain words, of the pages that list methods.
        gives: what it releases.
        needs: what it asks for.
        delta: whether its δ is above 0.
        trainings: how many models are trained.
        observable: what can be seen of a run beside its plan and its release; a row of the threat model.
        certificate_rules: what the certificate of one of its releases must show; raises if it is none.
        command: how it is asked for, where no study names it.
        scope: what its proof is about; whether it can search by a count of pairs too.
        shows_all: whether what it releases beside the choice is what it is chosen for: no advice can know that.
        hides_evaluations: whether how many models it scores is private: they are then scored in one process,
            uncounted.
        forms: the forms that the advice compares on a problem, in the order of preference among equals.
        simulated: where the advice's simulation has the method.
        private_forms: its forms for a sensitive training set, in the order of preference.
        released_scores: the scores in a release, with which a later edition's search begins (`problem.earlier`).
            Raises KeyError, TypeError, ValueError where it is no release of the method.
        scores_ahead: whether it can score all candidates in one pass over the records, where its path is public.
        fixed_path: indices of the candidates that it trains whatever comes out.
        trains_in_steps: whether its steps train what they choose, though the path is private: one model each, each
            time anew, and w = 0 for a model that cannot be trained.
        prepare: the problem with the result of a search on public data, made before anything is charged. Raises
            StudyInvalid where a public training fails.
        cross_validated: candidates whose public scores that search needs whatever they are.
        choices: indices of the candidates that it may choose, where these are not all of Λ.
        trials: law of the hidden number of noised scores, where the largest of them is what it releases.
        condition: what nobody can check and all that is expected of it rests on; a clause, empty for none.
        margins_only: whether its bounds hold for scores of a certified linear model's margins alone.
    """

    wants: str
    gives: str
    needs: str
    delta: str
    trainings: str
    observable: str
    certificate_rules: Callable[[Release], CertificateRules]
    command: str = ""
    scope: Scope = Scope.MEANS
    shows_all: bool = False
    hides_evaluations: bool = False
    forms: Callable[[Problem], tuple[Any, ...]] | None = None
    simulated: Callable[[Any, Problem], Simulated] | None = None
    private_forms: Callable[[Problem], tuple[Any, ...]] | None = None
    released_scores: Callable[[Release], ReleasedScores] | None = None
    scores_ahead: bool = False
    fixed_path: Callable[[Any, Problem], tuple[int, ...]] | None = None
    trains_in_steps: Callable[[Any], bool] | None = None
    prepare: Callable[[Any, Problem], Problem] | None = None
    cross_validated: Callable[[Any, Problem], tuple[int, ...]] | None = None
    choices: Callable[[Any, Problem], tuple[int, ...]] | None = None
    trials: Callable[[Any, Problem], Any] | None = None
    margins_only: bool = False
    condition: str = ""


class Search(Protocol):
    """A search under way. Its state may be sensitive; it never leaves the process."""

    def step(self, objective: Scorer, noise: Noise) -> Released | None:
        """Train and score: what this step released, recorded already; None where only `finish` releases."""

    def finish(self, noise: Noise) -> Release:
        """Make the plan's remaining noise draws, and return the release."""


@runtime_checkable
class Method(Protocol):
    """One published algorithm, whole: what every member of the closed union has."""

    @property
    def kind(self) -> str:
        """The method's name in a study file."""

    traits: ClassVar[MethodTraits]
    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def public_path(self) -> bool:
        """Whether the order in which candidates are scored is public."""

    @property
    def releases_hyperparameters(self) -> bool:
        """Whether the release names a candidate, so that a final model can be trained."""

    @property
    def fits_lengthscale(self) -> bool:
        """Whether a study may say lengthscale = "fit": True for a method that fits its kernel or has none."""

    def plan(self, problem: Problem) -> PrivacyPlan:
        """The noise draws of a study and the guarantee that they compose to, from public facts alone."""

    def draws(self, problem: Problem) -> Draws:
        """The noise draws of the plan, each with its price and the mechanism that will make it."""

    def outlook(self, problem: Problem) -> Outlook:
        """The noise's scale and the expected error, in units of the score, told beforehand; needs no data."""

    def n_steps(self, problem: Problem) -> int:
        """The number of steps of the search: public, and fixed before it begins."""

    def start(self, problem: Problem, plan: PrivacyPlan) -> Search:
        """A search that has scored and drawn nothing yet; `plan` has its priced draws."""
