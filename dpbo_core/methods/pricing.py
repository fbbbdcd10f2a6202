"""What the plans of all methods have in common: the guarantee of a whole study, and ε in the ledger's units."""

from enum import Enum

from dpbo_core.errors import StudyInvalid
from dpbo_core.methods.pair_draws import in_pairs, refused
from dpbo_core.methods.problem import Problem
from dpbo_core.privacy.amounts import allowed_units, split_units
from dpbo_core.privacy.certified import MEAN_RELATIONS
from dpbo_core.privacy.guarantee import ROWWISE_PREDICTIONS, Evidence, PrivacyGuarantee


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
    return _split(problem, problem.epsilon, shares)


def split_delta(problem: Problem, shares: tuple[float, ...]) -> tuple[int, ...]:
    """The study's δ in 10⁻¹², rounded down, split by `shares` into whole parts; refused if too small for that."""
    return _split(problem, problem.delta, shares)


def _split(problem: Problem, amount: float, shares: tuple[float, ...]) -> tuple[int, ...]:
    try:
        return split_units(allowed_units(amount), shares)
    except ValueError:
        pass
    raise too_small(problem)


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
