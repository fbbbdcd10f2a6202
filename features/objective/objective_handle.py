"""A private objective, opened from files or tables in memory at no charge, and the handle that a search calls."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from dpbo.features.objective import KIND
from dpbo.features.objective.price import ObjectivePrice, Score
from dpbo.features.objective.score_session import OpenObjective, ScoreSession
from dpbo.features.objective.submission import (
    SUBMISSION_ASSUMPTIONS,
    Submission,
    build_silenced,
    digest_of,
    prediction_columns,
    predictions_in_memory,
    submitted_model,
    submitted_predictions,
)
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.address import ledger_url
from dpbo_core.ledger.charge import QueryKey
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.methods.problem import Problem
from dpbo_core.privacy.guarantee import PrivacyGuarantee
from dpbo_core.privacy.release import Release
from dpbo_core.privacy.sensitive import messages
from dpbo_core.sklearn_api.arguments import python_door
from dpbo_core.study import ObjectiveSection, StudySpec
from dpbo_core.study.data_files import study_fingerprint
from dpbo_core.study.data_split import FileSplit
from dpbo_core.study.preconditions import check_accepted, check_policy, check_public_sources, opening_cap
from dpbo_core.study.public_half import TableSplit
from dpbo_core.study.query import QueryContext, fingerprint_of
from dpbo_core.study.resolve import planning_problem
from dpbo_core.study.spec import read_study


def objective_of_study(spec: StudySpec, run: QueryContext) -> OpenObjective:
    """Return a study's [objective], checked and ready for private scores; nothing is charged."""
    if spec.objective is None:
        raise StudyInvalid(
            f"the study {spec.name!r} has no [objective]", remedy="add [objective] with scores = 20, say"
        )
    check_policy(spec, run)
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
    spec: StudySpec, split: TableSplit, problem: Problem, section: ObjectiveSection, run: QueryContext
) -> OpenObjective:
    """Return a private objective, checked from public facts alone and ready to give scores; nothing is charged."""
    check_public_sources(split.sources(), run.ledger)
    public = split.public(problem)
    submitted = tuple(name for name in SUBMISSION_ASSUMPTIONS if name in spec.accepts)
    price = ObjectivePrice(public.problem, section.scores, section.choice_share, submitted)
    check_accepted(spec.accepts, price.plan(), public.problem.unlisted)
    split.check(public)
    of_files = messages(StudyInvalid) if isinstance(split, FileSplit) else None
    key = _key(spec, section, public.fingerprint)
    return OpenObjective(key, price, spec, split, public, opening_cap(spec), of_files)


def _key(spec: StudySpec, section: ObjectiveSection, training: str) -> QueryKey:
    """The objective's ledger key: of the study, its [objective] and `training`, the digest of its public data."""
    facts = [KIND, study_fingerprint(spec, training), section.scores, section.choice_share, section.edition]
    edition = spec.edition if section.edition == "1" else f"{spec.edition}.{section.edition}"
    return QueryKey(fingerprint_of(facts), spec.privacy.dataset, f"{spec.name}/{KIND}", edition, KIND)


class ObjectiveHandle(ABC):
    """A private objective as a search calls it. It says nothing of the records."""

    uses_arguments: ClassVar[bool] = True  # rather than a study file, whose keys messages then name

    @property
    @abstractmethod
    def _session(self) -> ScoreSession:
        """The session that charges, draws and records the private scores."""

    @python_door
    def __call__(self, params: Mapping[str, Any]) -> float:
        """Return the private score at `params`, larger being better; NaN if `ask` gives a score without value."""
        value = self.ask(params).value
        return math.nan if value is None else value

    @python_door
    def ask(self, params: Mapping[str, Any]) -> Score:
        """The private score at `params` with noise and 90% interval, drawn at the first request, then repeated.

        Raises:
            NoScoresLeft: as many other questions were asked as were paid for.
            StudyInvalid: the model cannot be built or trained on the public records; no score was used up.
            BudgetRefused: nothing was charged.
            Sealed: something failed on sensitive data; ask again, and nothing is paid twice.
        """
        return self._session.ask(params)

    @python_door
    def submit(self, model: Any) -> Score:
        """The private score of your fitted model, using up one score; the same model again: the same, at no cost.

        Args:
            model: a fitted estimator, of the columns' own values, or a `FinalModel`. Made of public data alone,
                which `accepts` says by "public_models".

        Raises:
            AssumptionNotAccepted: the objective does not accept "public_models", or of an estimator that is not on
                the list "rowwise_predictions".
            StudyInvalid: it cannot be tried on the public rows; no score was used up.
            NoScoresLeft, BudgetRefused, Sealed: as `ask`.
        """
        opened = self._session.opened

        def made() -> Submission:
            return submitted_model(opened.spec, opened.split, opened.public, model, digest_of(model))

        return self._session.submit(build_silenced(made, model, scored=self._session.scored))

    @python_door
    def submit_predictions(self, predictions: Any, *, name: str) -> Score:
        """Return the private score of predictions made elsewhere, using up one score; under the same name again:
        the same, at no cost.

        Args:
            predictions: for each validation record in their order its class, its number, or probabilities: (m,), or
                (m, C). Each a function of its record and public data alone, which `accepts` says by
                "rowwise_predictions".
            name: whatever is handed in under it later is not looked at.

        Raises:
            AssumptionNotAccepted: the objective does not accept "rowwise_predictions".
            StudyInvalid: the predictions have another shape; no score was used up.
            NoScoresLeft, BudgetRefused, Sealed: as `ask`.
        """
        opened = self._session.opened
        columns = prediction_columns(opened.spec, opened.split, opened.public)
        table = predictions_in_memory(opened.spec, predictions, columns)
        return self._session.submit(submitted_predictions(opened.public, columns, name, table))

    @python_door
    def best(self) -> dict[str, Any]:
        """Return the best hyperparameters so far, by posterior mean; with `choice_share` by one private draw."""
        return self._session.best()

    @python_door
    def close(self) -> Release:
        """Record the scores, and a choice that was paid for, as the release; no more are drawn."""
        return self._session.close()

    @property
    def scores_left(self) -> int:
        """The number of scores that can still be asked for."""
        return self._session.scores_left

    @property
    def guarantee_(self) -> PrivacyGuarantee:
        """The guarantee of all n scores together."""
        return self._session.guarantee

    @property
    def release_(self) -> Release:
        """Everything released so far (the scores, the best) as one release; to look at it records nothing."""
        return self._session.release


class StudyObjective(ObjectiveHandle):
    """The private objective of a study file, for several processes: it pickles as the file's path."""

    uses_arguments: ClassVar[bool] = False

    def __init__(self, path: str | Path, ledger: str | None = None) -> None:
        here = ledger_url(ledger)
        # a file's place is fixed here; another database's is not kept, whose URL may hold a password
        self.path, self.ledger = str(path), here if here.startswith("sqlite") else ledger
        self._opened: ScoreSession | None = None

    @property
    def _session(self) -> ScoreSession:
        if self._opened is None:
            run = QueryContext(PrivacyLedger(ledger_url(self.ledger)), Path(self.path).parent)
            self._opened = ScoreSession(objective_of_study(read_study(Path(self.path)), run), run)
        return self._opened

    def __repr__(self) -> str:
        return f"StudyObjective({self.path!r})"

    def __getstate__(self) -> dict[str, Any]:
        """Return the file's path and the ledger's URL: no record, no session."""
        return {"path": self.path, "ledger": self.ledger, "_opened": None}

    def __deepcopy__(self, memo: object) -> "StudyObjective":
        return self
