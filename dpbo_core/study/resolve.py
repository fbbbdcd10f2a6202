"""A study resolved, once: its public problem, its method, its price. Pure, and no file is opened.

Whatever comes after takes a `ResolvedStudy` and asks nothing again: "auto" is advised on here alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data.addresses import FolderAddress, is_address, parse_place
from dpbo_core.data.content import json_form
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.charge import QueryKey
from dpbo_core.methods import METHODS, check_counts, check_scored_in_public, method_named
from dpbo_core.methods.advice import AUTO, Advice, advise, check_scoring, choose
from dpbo_core.methods.contract import Method
from dpbo_core.methods.problem import DEFAULT_DELTA, Problem, check_lengthscale
from dpbo_core.models.integer_sums import MeanOfRecords
from dpbo_core.privacy.release import PrivacyPlan, step_score
from dpbo_core.study import StudySpec
from dpbo_core.study.data_files import named_prototype, study_fingerprint
from dpbo_core.study.named_score import FIGURES, pair_score, score_of
from dpbo_core.study.spec import candidates_of
from dpbo_core.study.trained_models import uncharged

if TYPE_CHECKING:
    from dpbo_core.models.estimators import EstimatorFactory

EDITIONS = "editions"  # what a study says that it learns from, where it does


@dataclass(frozen=True)
class ResolvedStudy:
    """A study with its problem and its method, worked out without opening a data file."""

    spec: StudySpec  # as written
    problem: Problem  # its public facts; without the training set, since that is in a file
    method: Method  # its own, or the one that "auto" was replaced by
    why: str  # the reason for that method; "" for a study that names its method

    @cached_property
    def plan(self) -> PrivacyPlan:
        """The study's price: the noise draws that it will make, and the guarantee of all together."""
        check_scoring(self.problem)
        check_counts(self.method, self.problem)
        check_scored_in_public(self.method, self.problem)
        return self.method.plan(self.problem)

    def to_json(self) -> dict[str, Any]:
        """Return the choices that a rerun must repeat (options, number of editions), and `StudySpec.tuned`."""
        options = {item.name: getattr(self.method, item.name) for item in fields(self.method)}
        return {
            "options": {name: value for name, value in options.items() if name != "kind" and value is not None},
            "editions": self.problem.editions,
            "study": json_form(self.spec.tuned.to_dict()),
        }

    def as_charged(self, reserved: Mapping[str, Any]) -> "ResolvedStudy":
        """Return the study with the choices that the ledger recorded at its charge, whatever is advised today."""
        method = method_named(reserved["method"], reserved["options"])
        return replace(self, method=method, problem=replace(self.problem, editions=reserved["editions"]))

    @property
    def step_deviations(self) -> dict[int, float]:
        """The deviation of the noise on each released step's score, by step from 1; {} where pairs are counted."""
        if not isinstance(self.problem.aggregate, MeanOfRecords):
            return {}
        named = {spend.what: spend.noise_scale for spend in self.plan.spends}
        steps = range(1, self.n_steps + 1)
        return {t: named[step_score(t)] for t in steps if step_score(t) in named}

    @property
    def n_steps(self) -> int:
        """The number of steps of the search, which is public."""
        return self.method.n_steps(self.problem)

    def key(self, training: str) -> QueryKey:
        """Return what the ledger knows the study by, with the fingerprint `training` of the PUBLIC training data.

        The method that replaces "auto" is stated beside the fingerprint and does not enter it. So a later version
        that advises another method still finds the study's release.
        """
        spec = self.spec
        fingerprint = study_fingerprint(spec, training)
        return QueryKey(fingerprint, spec.privacy.dataset, spec.name, spec.edition, self.method.kind)


def resolve(spec: StudySpec, folder: str | Path = ".", *, unlisted: str | None = None) -> ResolvedStudy:
    """Return a study with its problem and method, where "auto" is replaced by the advised one; opens no data.

    `unlisted`: what in an estimator given as an object is not on the list; by the study's import path where None.
    """
    problem = planning_problem(spec, folder, unlisted=unlisted)
    method, why = choose(problem, spec.method, spec.options)
    method = method.scored_by_report(problem) if states_score(spec) else method
    _check_hidden_evaluations(spec, method)
    return ResolvedStudy(spec, problem, method, why)


def states_score(spec: StudySpec) -> bool:
    """Whether the report that [evaluation] charges with the choice states the study's score, paid once then.

    No key holds an option that its study does not state: what was charged before goes on as it began.
    """
    return spec.asks_for_evaluation and not spec.compares and spec.model.score_name in FIGURES


def _check_hidden_evaluations(spec: StudySpec, method: Method) -> None:
    """Refuse a method that hides its number of evaluations where each one fetches files from a store."""
    section = spec.data
    if not method.hides_evaluations or section.divided is None:
        return
    place = section.validation_file
    if is_address(place) and isinstance(parse_place(Path(), place), FolderAddress):
        raise StudyInvalid(
            f"{method.kind} hides how many candidates it scores, and its records are in a folder of a store",
            cause="each scoring asks the store for every part, and whoever runs the store could count",
            remedy="copy the parts to a folder of files; or write one object, which is asked for once",
        )


def planning_problem(spec: StudySpec, folder: str | Path = ".", *, unlisted: str | None = None) -> Problem:
    """Return the study's problem as its price needs it; `unlisted` as `resolve`."""
    if unlisted is None and spec.model.names_object:
        named = named_prototype(spec, folder)
        unlisted = None if named is None else named.unlisted()
    return problem_of(spec, n_validation=spec.data.n_scored, unlisted=unlisted)


def plan_study(spec: StudySpec, folder: str | Path = ".") -> PrivacyPlan:
    """Return the noise draws and the guarantee that a study pays for. Opens no data file.

    Example:
        >>> from dpbo_core import StudySpec, plan_study
        >>> spec = StudySpec.from_dict({
        ...     "study": {"name": "first", "method": "private_grid"},
        ...     "privacy": {"dataset": "clinic", "epsilon": 1.0},
        ...     "data": {"source": "breast_cancer"},
        ...     "model": {"estimator": "logistic", "score": "accuracy"},
        ...     "space": {"lambda": {"low": 1e-4, "high": 10.0, "log": True, "points": 4}},
        ... })
        >>> [(spend.what, round(spend.epsilon, 3)) for spend in plan_study(spec).spends]
        [('best candidate', 0.9), ('its score', 0.1)]
    """
    study = resolve(spec, folder)
    check_lengthscale(study.method, study.problem)
    check_learns(spec, study.method)
    return study.plan


def check_learns(spec: StudySpec, method: Method) -> None:
    """Refuse a study that asks to learn from earlier editions, if its method cannot; one with "auto" passes."""
    if spec.search.learn_from == EDITIONS and spec.method != AUTO and not method.learns:
        able = ", ".join(kind for kind, cls in METHODS.items() if cls.learns)
        raise StudyInvalid(
            f'search.learn_from = "{EDITIONS}", and {method.kind} begins every search afresh',
            cause="its price or its proof holds for a search that is fixed in advance",
            remedy=f"leave learn_from out, or use one of {able}",
        )


def advise_study(
    spec: StudySpec,
    folder: str | Path = ".",
    *,
    positives: float | None = None,
    baseline: float | None = None,
    n_public: int | None = None,
) -> Advice:
    """Return every method's price and expected error on this study, and which to choose. Opens no data file.

    Args:
        spec: the study.
        folder: of the study file.
        positives: PUBLIC share of the second class, for a score that counts pairs; None if it is not known.
        baseline: what the same answer for every record scores on the PUBLIC training set, in [0, G]; likewise.
        n_public: records of the PUBLIC training set; likewise.

    Raises:
        StudyInvalid: the study cannot be used as written; its estimator is not installed, or has no such parameter.
    """
    problem = replace(planning_problem(spec, folder), positives=positives, baseline=baseline, n_public=n_public)
    uncharged(lambda: check_buildable(spec, folder, problem))  # what would be refused at the first training
    return advise(problem, spec.method, spec.options, reported=states_score(spec))


def check_buildable(spec: StudySpec, folder: str | Path, problem: Problem) -> None:
    """Refuse an estimator that cannot be built with a candidate's hyperparameters; models of ours all can."""
    if problem.training is not None or not spec.model.trained or spec.model.ours:
        return
    point, named = problem.candidates.points[0], named_prototype(spec, folder)
    if named is not None:
        named.build(point)
        return
    from dpbo_core.models.estimators import EstimatorFactory

    model = spec.model
    decode = problem.candidates.space.meant
    factory = EstimatorFactory(model.estimator, model.params, spec.search.seed, model.regression, decode=decode)
    if model.enforced and problem.unlisted:
        from dpbo_core.models.public_process import numbers_of

        numbers_of(_built, factory, point)
    else:
        factory.build(**point)


def _built(factory: "EstimatorFactory", point: Mapping[str, Any]) -> NDArray[np.int64]:
    factory.build(**point)
    return np.zeros(0, dtype=np.int64)


def check_one_pass(spec: StudySpec, method: Method) -> None:
    """Refuse a study that asks to score all candidates in one pass, if its method cannot; "auto" passes."""
    if spec.search.one_pass and spec.method != AUTO and not (method.scores_ahead and method.public_path):
        able = ", ".join(kind for kind, other in METHODS.items() if other.scores_ahead)
        raise StudyInvalid(
            f"search.one_pass = true, and {method.kind} asks for its scores one after the other",
            cause="its path is private, or its proof counts what is scored",
            remedy=f"leave one_pass out, or use one of {able}",
        )


def problem_of(spec: StudySpec, *, n_validation: int | None, unlisted: str | None = None) -> Problem:
    """Return the problem (model, score, candidates, sizes) that a study poses; `unlisted` as `resolve`.

    `n_validation` is m, None if the study says its number of persons.
    """
    if spec.data.person_count is not None and pair_score(spec.model) is not None:
        raise StudyInvalid(
            f"{spec.model.score_name} counts pairs of records, and n_persons averages each person's",
            cause="one person's records may be in any number of pairs",
            remedy="leave n_persons out: write n_validation and max_records_per_person, or take a score of records",
        )
    return Problem(
        candidates=candidates_of(spec),
        n_validation=n_validation,
        score=score_of(spec.model),
        model=spec.model,
        search=spec.search,
        epsilon=spec.privacy.epsilon,
        delta=DEFAULT_DELTA if spec.privacy.delta is None else spec.privacy.delta,
        max_records_per_person=spec.privacy.max_records_per_person,
        person=spec.privacy.person,
        n_persons=spec.data.person_count,
        neighbours=spec.privacy.relation,
        training=spec.data.facts,
        editions=(spec.budget and spec.budget.editions) or 1,
        study=spec.name,
        edition=spec.edition,
        dataset=spec.privacy.dataset,
        unlisted=_unlisted(spec) if unlisted is None else unlisted,
        scored_in_public=spec.data.has_public_records,
    )


def _unlisted(spec: StudySpec) -> str:
    """Return what is not on the allowlist: a part of the estimator, or the maker of given predictions; or ""."""
    if spec.model.ours:
        return ""
    if not spec.model.trained:
        return "whoever made the table of predictions"
    from dpbo_core.models.estimator_allowlist.inspection import unlisted_name

    values = {name: axis.values for name, axis in spec.space.items() if axis.values is not None}
    return unlisted_name(spec.model.estimator, spec.model.params, values)
