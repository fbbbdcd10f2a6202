"""A private objective opened: from the files that a study names, or from tables in memory. Nothing is charged."""

from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.charge import QueryKey
from dpbo_core.ledger.sources import Source
from dpbo_core.preparation.data_split import FileSplit
from dpbo_core.preparation.preconditions import check_accepted, check_policy, check_public_sources, opening_cap
from dpbo_core.preparation.public_half import TableSplit
from dpbo_core.preparation.resolve import planning_problem
from dpbo_core.preparation.run import Run
from dpbo_core.preparation.training_set import study_fingerprint
from dpbo_core.privacy.sealing import messages
from dpbo_core.problem.problem import Problem
from dpbo_core.queries.objective_for_a_loop import KIND
from dpbo_core.queries.objective_for_a_loop.price import ObjectivePrice
from dpbo_core.queries.objective_for_a_loop.score_session import OpenObjective
from dpbo_core.queries.objective_for_a_loop.submission import SUBMITTED
from dpbo_core.queries.query import fingerprint_of
from dpbo_core.study_file import ObjectiveSection, StudySpec


def objective_of_study(spec: StudySpec, run: Run, *beside: Source) -> OpenObjective:
    """The private objective of a study file's [objective].

    Args:
        spec: the study, on files.
        run: which ledger pays, who asks, in which folder.
        beside: what is read beside the study's own files: a model that is handed in.

    Raises:
        StudyInvalid: it has no [objective], or cannot be used as it is. PolicyRefused: the owner's policy says no.
        AssumptionNotAccepted: the guarantee rests on something that the study does not accept by name.
    """
    if spec.objective is None:
        raise StudyInvalid(
            f"the study {spec.name!r} has no [objective]", remedy="add [objective] with scores = 20, say"
        )
    check_policy(spec, run, *beside)
    split = FileSplit.of(spec, run)
    problem = planning_problem(spec, run.folder)
    if problem.training is not None:
        raise StudyInvalid(
            "a private objective needs a public training set, and the study declares its training set sensitive",
            cause="its models are trained without noise, so they would tell of the training records",
            remedy="use dpbo tune with a method that trains privately (dpbo plan says which)",
        )
    return open_objective(spec, split, problem, spec.objective, run)


def open_objective(
    spec: StudySpec, split: TableSplit, problem: Problem, section: ObjectiveSection, run: Run
) -> OpenObjective:
    """Check a private objective from public facts alone, and open it.

    Args:
        spec: the study that says the model, the score and the price.
        split: its two halves.
        problem: as it is priced.
        section: how many scores there are, and what is kept for a choice.
        run: which ledger pays, where noise comes from.

    Raises: as `objective_of_study`.
    """
    check_public_sources(split.sources(), run.ledger)
    public = split.public(problem)
    submitted = tuple(name for name in SUBMITTED if name in spec.accepts)
    price = ObjectivePrice(public.problem, section.scores, section.choice_share, submitted)
    check_accepted(spec, price.plan(), public.problem.unlisted)
    split.check(public)
    of_files = messages(StudyInvalid) if isinstance(split, FileSplit) else None
    key = _key(spec, section, public.fingerprint)
    return OpenObjective(key, price, spec, split, public, opening_cap(spec), of_files)


def _key(spec: StudySpec, section: ObjectiveSection, training: str) -> QueryKey:
    """The objective's key in the ledger: the study, its [objective], the public training data."""
    facts = [KIND, study_fingerprint(spec, training), section.scores, section.choice_share, section.edition]
    edition = spec.edition if section.edition == "1" else f"{spec.edition}.{section.edition}"
    return QueryKey(fingerprint_of(facts), spec.privacy.dataset, f"{spec.name}/{KIND}", edition, KIND)
