"""What every method is: a price before purchase, a search, a release; and what all plans and releases share.

A plan has the guarantee of a whole study, and ε in the ledger's units. A release has the value, and the public
facts that a reader needs beside it.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from dpbo_core.errors import StudyInvalid
from dpbo_core.mechanisms.gaussian import DiscreteGaussian
from dpbo_core.mechanisms.noise import Mechanism, Noise
from dpbo_core.methods.pair_draws import in_pairs, refused
from dpbo_core.methods.problem import Problem
from dpbo_core.models.scoring.in_memory import Scorer
from dpbo_core.privacy.amounts import allowed_units, split_units
from dpbo_core.privacy.certified import MEAN_RELATIONS, CertificateRules
from dpbo_core.privacy.guarantee import ROWWISE_PREDICTIONS, Evidence, PrivacyGuarantee
from dpbo_core.privacy.named_parts import library_version
from dpbo_core.privacy.release import COUNTS, LEARNED_FROM, PAIRS, PrivacyPlan, Release, Spend
from dpbo_core.theorems.feldman_cousins_1998 import bounded_laplace_interval

if TYPE_CHECKING:
    from dpbo_core.mechanisms.random_stopping import Stopping


Released = Mapping[str, Any]
Draws = tuple[tuple[Spend, Mechanism[Any]], ...]
# of each score that a release names: hyperparameters, score and deviation of its noise, in units of the score
ReleasedScores = tuple[tuple[Mapping[str, Any], float, float], ...]


class Scope(Enum):
    """What a proof is about: means of record scores of models trained in public, or more than that."""

    MEANS = "means of the scores of models trained in public"
    PAIRS = "these, and counts of pairs"
    PRIVATE_TRAINING = "these, and means of the scores of models trained with noise on a sensitive training set"


def guarantee_of(
    problem: Problem,
    *,
    delta: float,
    evidence: Evidence,
    scope: Scope = Scope.MEANS,
    assumptions: tuple[str, ...] = (),
) -> PrivacyGuarantee:
    """A study's guarantee: its ε (∞ if refuted), `delta`, assumptions; refused beyond the proof's `scope`."""
    check_relation(problem)
    if in_pairs(problem) is not None and scope is not Scope.PAIRS:
        raise refused(problem, ())
    if problem.training is not None and scope is not Scope.PRIVATE_TRAINING:
        raise StudyInvalid(
            "this method needs a public training set, and the study declares its training set sensitive",
            cause="its models are trained without noise, so they would tell of the training records",
            remedy="use a method that trains privately (dpbo plan says which), or leave sensitive out of [data]",
        )
    return PrivacyGuarantee(
        epsilon=float("inf") if evidence.refuted else problem.epsilon,
        delta=delta,
        unit=problem.unit,
        relation=problem.relation,
        assumptions=assumptions if problem.rowwise else (*assumptions, ROWWISE_PREDICTIONS.name),
        evidence=evidence,
        person=problem.person,
    )


def check_relation(problem: Problem) -> None:
    """Refuse a study whose neighbours are others than those that the proofs of dpbo's own queries are about."""
    if problem.relation not in MEAN_RELATIONS:
        raise StudyInvalid(
            f'neighbours = "{problem.relation}", and this guarantee is proved for "replace_one" alone',
            cause="dpbo's own methods keep the number of records fixed, and check it",
            remedy="leave neighbours out of [privacy], or train with PrivateTrials, which has all three relations",
        )


def split_epsilon(problem: Problem, shares: tuple[float, ...]) -> tuple[int, ...]:
    """The study's ε in 10⁻¹², rounded down, split by `shares` into whole parts; refused if too small for that."""
    return split_amount(problem, allowed_units(problem.epsilon), shares)


def split_amount(problem: Problem, units: int, shares: tuple[float, ...]) -> tuple[int, ...]:
    """Return a study's ε, δ or ρ in 10⁻¹², split by `shares` into whole parts; refused if too small for that."""
    with suppress(ValueError):
        return split_units(units, shares)
    raise too_small(problem)


def gaussian_noise(problem: Problem, rho: int, n_scores: int = 1) -> tuple[DiscreteGaussian, ...]:
    """Return the noise mechanisms of so many scores that share a zCDP price ρ, in 10⁻¹²; refused if too small."""
    parts = split_amount(problem, rho, (1.0,) * n_scores)
    return tuple(DiscreteGaussian(problem.record_steps, part, problem.score_per_step) for part in parts)


def too_small(problem: Problem) -> StudyInvalid:
    """Return the error for an ε (or δ) that is too small to be split into whole units of 10⁻¹²."""
    return StudyInvalid(
        f"ε = {problem.epsilon:g} is too small to be divided among the draws of this method",
        cause="the ledger counts privacy in units of 1e-12",
        remedy="raise epsilon, or lower the number of steps",
    )


def refuse_persons(problem: Problem, kind: str, cause: str) -> None:
    """Refuse, for the method `kind` and the `cause`, a study where each person's mean score counts once."""
    if problem.n_persons is not None:
        raise StudyInvalid(
            f"{kind} cannot be used where each person's mean counts once (data.n_persons)",
            cause=cause,
            remedy="use another method (dpbo plan says which); or give n_validation, and max_records_per_person",
        )


@dataclass(frozen=True)
class Outlook:
    """What to expect of a study's price, from public facts alone: noise, error and trainings."""

    noise_scale: float  # scale of the noise on the score that is released (on one observation, for a trajectory)
    expected_error: float  # what to expect between the release and the best score of Λ
    trainings: int  # models that will be trained
    why: str  # one sentence for the person choosing
    instead: str = ""  # the same method's form that errs least, and by how much; a clause, "" where this is it


@dataclass(frozen=True)
class Simulated:
    """The place of a method in the advice's simulation, at ε = 1, k = 1, δ = 1e-6 and the usual shares."""

    form: str  # the table's name of it
    choice_records: float  # number of records at which the simulated choice has this method's noise
    score_records: float  # number of records at which the simulated score has this method's noise; ∞ for no score
    # whether the choice may have less noise than that, by differences that only the public set tells
    paired: bool = False


class Search(Protocol):
    """A running search. Its state may be sensitive; it never leaves the process."""

    def step(self, objective: Scorer, noise: Noise) -> Released | None:
        """Train and score one model, a chunk of Λ, or a hidden number; return what was released, and recorded."""

    def finish(self, noise: Noise) -> Release:
        """Make the plan's remaining noise draws, and return the release."""


class Method(ABC):
    """One published algorithm, whole: a frozen dataclass of its options, the last of which is its `kind`.

    What a method does not say of itself it has from here. Everything but `start` needs public facts alone: a
    problem for planning will do for all but `prepare`.
    """

    kind: str  # the method's name in a study file
    # what somebody wants who should choose it; a row, in plain words, of the pages that list methods
    wants: ClassVar[str]
    gives: ClassVar[str]  # what it releases
    needs: ClassVar[str]  # what it asks for
    delta_range: ClassVar[str]  # whether its δ is above 0
    trainings: ClassVar[str]  # how many models are trained
    # what can be seen of a run beside its plan and its release; a row of the threat model
    observable: ClassVar[str]
    scope: ClassVar[Scope] = Scope.MEANS  # what its proof is about; whether it can search by a count of pairs too
    # what nobody can check and all that is expected of it rests on; a clause, empty for none
    condition: ClassVar[str] = ""
    # whether what it releases beside the choice is what it is chosen for: no advice can know that
    shows_all: ClassVar[bool] = False
    # whether how many models it scores is private: they are then scored in one process, uncounted
    hides_evaluations: ClassVar[bool] = False
    trains_privately: ClassVar[bool] = False  # whether it can train on a sensitive training set
    # whether it can score all candidates in one pass over the records, where its path is public
    scores_ahead: ClassVar[bool] = False
    # whether, where its path is public, all of it is known before the first score
    fixed_order: ClassVar[bool] = False
    # whether its search can begin with the scores of earlier editions (`problem.earlier`)
    learns: ClassVar[bool] = False
    # whether its bounds hold for scores of a certified linear model's margins alone
    margins_only: ClassVar[bool] = False
    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def public_path(self) -> bool:
        """Whether the order in which candidates are scored is public; False if a method does not say so."""
        return False

    @property
    def releases_hyperparameters(self) -> bool:
        """Whether the release names a candidate, so that a final model can be trained; by default it does."""
        return True

    @property
    def fits_lengthscale(self) -> bool:
        """Whether a study may set lengthscale = "fit": True for a method that fits its kernel or has none."""
        return False

    @property
    def trains_in_steps(self) -> bool:
        """Return whether each step trains the model that it scores, although the search path is private.

        Each step then trains exactly one model, even if it was trained before, and uses the weights 0 for a model
        that cannot be trained: the training must not reveal the path. By default all of Λ is trained before the
        charge instead.
        """
        return False

    @property
    def options(self) -> dict[str, Any]:
        """The method's options of [method], by name."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name != "kind"}

    def check_option(self, name: str, remedy: str, *, fine: bool, cause: str = "") -> None:
        """Refuse the value of the option `name` where it is not `fine`."""
        if not fine:
            raise StudyInvalid(f"method.{name} = {getattr(self, name)}", cause=cause, remedy=remedy)

    def plan(self, problem: Problem) -> PrivacyPlan:
        """Return the noise draws of a study and the guarantee that they compose to; deterministic, needs no data.

        Raises:
            StudyInvalid: the method has no proof, or no noise, for this study.
        """
        guarantee = self.guarantee(problem)  # refuses a study that the proof does not cover, before noise is scaled
        return PrivacyPlan(guarantee, tuple(spend for spend, _ in self.draws(problem)))

    @abstractmethod
    def guarantee(self, problem: Problem) -> PrivacyGuarantee:
        """Return the guarantee that the draws of the plan compose to, with the proof's standing and assumptions."""

    @abstractmethod
    def draws(self, problem: Problem) -> Draws:
        """The noise draws of the plan, so that noise can be prepared: each price, and the mechanism that draws."""

    @abstractmethod
    def outlook(self, problem: Problem) -> Outlook:
        """The noise's scale and the expected error, in units of the score, told beforehand; needs no data."""

    @abstractmethod
    def n_steps(self, problem: Problem) -> int:
        """Return the number of steps of the search: public, and fixed before it begins."""

    @abstractmethod
    def start(self, problem: Problem, plan: PrivacyPlan) -> Search:
        """Return a search that has scored and drawn nothing yet; `plan` has its priced draws."""

    @staticmethod
    @abstractmethod
    def certificate_rules(release: Release) -> CertificateRules:
        """Return what the certificate of one of the method's releases must show.

        Raises:
            KeyError, TypeError, ValueError: it is no release of the method.
        """

    @staticmethod
    def forms(problem: Problem) -> "tuple[Method, ...]":  # noqa: ARG004
        """Return the forms that the advice compares, or tries in order for a sensitive training set; here none."""
        return ()

    def simulated(self, problem: Problem) -> Simulated | None:  # noqa: ARG002
        """Return the method's place in the advice's simulation; None, the default, where it has none."""
        return None

    def scored_by_report(self, problem: Problem) -> "Method":  # noqa: ARG002
        """Return the method where a report that is charged with it states its score; by default the same."""
        return self

    @staticmethod
    def released_scores(release: Release) -> ReleasedScores:  # noqa: ARG004
        """Return the scores in a release with which a later edition begins where the method `learns`; here none."""
        return ()

    def fixed_path(self, problem: Problem) -> tuple[int, ...]:  # noqa: ARG002
        """Return the indices of the candidates that are trained whatever the scores are; by default none."""
        return ()

    def n_cross_validated(self, problem: Problem) -> int:  # noqa: ARG002
        """Return how many candidates a search on public data tries before the charge; by default 0, no search."""
        return 0

    def prepare(self, problem: Problem) -> Problem:
        """Return the problem with the result of that search; the same problem without one."""
        trials = self.n_cross_validated(problem)
        if trials == 0:
            return problem
        from dpbo_core.methods.public_search import search_on_public_data

        return replace(problem, public_search=search_on_public_data(problem, trials))

    def cross_validated(self, problem: Problem) -> tuple[int, ...]:
        """Return the indices of the candidates that the public search tries whatever its scores are."""
        trials = self.n_cross_validated(problem)
        if trials == 0:
            return ()
        from dpbo_core.methods.public_search import required_trials

        return required_trials(problem, trials)

    def choices(self, problem: Problem) -> tuple[int, ...]:
        """Return indices of the candidates that it may choose; by default all of Λ."""
        return tuple(range(len(problem.candidates)))

    def trials(self, problem: Problem) -> "Stopping | None":  # noqa: ARG002
        """Return the law of the hidden number of scores of which the largest is released; here None."""
        return None


def make_release(
    method: Method,
    problem: Problem,
    plan: PrivacyPlan,
    noise: Noise,
    value: Mapping[str, Any],
    score_bound: str = "",
) -> Release:
    """Return the release of `value`, not recorded yet, with the public facts a reader needs beside the guarantee.

    A score is stated in its natural unit too, as its metric; so is the baseline, where there is one. `score_bound`
    is what a theorem says of the score's error, as text.
    """
    unit, name = problem.score.natural_unit, problem.model.score_name
    if "score" in value:
        value = {**value, "metric": unit.metric(name, value["score"], value.get("interval"))}
    baseline: dict[str, Any] = {} if problem.baseline is None else {"baseline": unit.of(problem.baseline)}
    if baseline and problem.n_persons is not None:
        baseline["baseline_by"] = problem.baseline_by
    earlier = [{"edition": item.edition, "release_id": item.release_id} for item in problem.earlier or ()]
    return Release(
        value=value,
        guarantee=plan.guarantee.as_drawn(noise.standing),
        spends=plan.spends,
        study=problem.study,
        edition=problem.edition,
        method=method.kind,
        dataset=problem.dataset,
        facts={
            "version": library_version(),
            "options": method.options,
            "estimator": problem.model.estimator,
            "score": problem.model.score_name,
            "score_range": problem.score_range,
            **baseline,
            **averaged_facts(problem),
            "n_candidates": len(problem.candidates),
            "space": problem.candidates.space.to_json(),
            "kernel": problem.search.kernel,
            "lengthscale": problem.search.lengthscale,
            "steps": method.n_steps(problem),
            **({COUNTS: PAIRS, "public_share": problem.positives} if in_pairs(problem) else {}),
            **({"rowwise": "enforced"} if problem.model.enforced else {}),
            **({"score_bound": score_bound} if score_bound else {}),
            **({"chosen_by_advice": problem.advice} if problem.advice else {}),
            **({} if problem.earlier is None else {LEARNED_FROM: earlier}),
        },
        noise=noise.standing,
    )


def laplace_caption(score: float, scale: float, top: float | None) -> dict[str, Any]:
    """Return a score with Laplace noise and its 90% interval, which lies within [0, `top`] unless that is None."""
    reach = scale * math.log(10.0)
    ends = (score - reach, score + reach) if top is None else bounded_laplace_interval(score, scale, top)
    return {"score": score, "interval": list(ends)}


def averaged_facts(problem: Problem) -> dict[str, int | None]:
    """Return the public counts behind the score's average: persons, or records and how many of one person count."""
    if problem.n_persons is not None:
        return {"n_persons": problem.n_persons}
    return {"n_validation": problem.n_validation, "max_records_per_person": problem.max_records_per_person}
