"""A study from its file to its release, without Prefect: plan, reserve, step by step, conclude.

    run_study(spec, ledger=…)           the plain loop
    open_study(Run.of(spec, context))   the same in pieces, for a scheduler: study.step() … study.finish()
    ready_study(run).charge()           the same, where something is to be asked before the charge

Reserving comes before any validation record's content is used; every draw is recorded before it is shown; the same
study asked twice gives the same release and draws nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from dpbo_core.errors import DpboError, LedgerDamaged, StudyInvalid, no_budget
from dpbo_core.ledger.accounting.admission import admit_first
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.reservation import MARKS_OPENING
from dpbo_core.mechanisms.noise import NoiseSource
from dpbo_core.methods.contract import Method, Released, Search
from dpbo_core.methods.problem import Problem, check_lengthscale
from dpbo_core.models.scoring.in_memory import Scorer
from dpbo_core.models.scoring.partitioned import bytes_a_record
from dpbo_core.privacy.release import Release, StudyResult
from dpbo_core.privacy.sensitive import Message, Opaque, messages, sealed
from dpbo_core.study import StudySpec
from dpbo_core.study.data_split import FileSplit, halves_of, identified_sources, scored_parts
from dpbo_core.study.editions import earlier_editions, editions_to_learn_from, learns
from dpbo_core.study.precomputed import (
    CachedTrainer,
    Chunks,
    Precomputed,
    chunks,
    remembering,
    retrained_each_step,
    trained_first,
)
from dpbo_core.study.preconditions import check_accepted, check_step_times, opening_cap
from dpbo_core.study.public_half import PublicHalf
from dpbo_core.study.query import OS_NOISE, Charged, PrivateQuery, QueryContext, charged, replay
from dpbo_core.study.resolve import ResolvedStudy, check_buildable, check_learns, check_one_pass
from dpbo_core.study.run import Run
from dpbo_core.study.trained_models import TrainedModels, check_trainable, memory_limit, uncharged

MAX_UNTRAINED_NAMED = 20  # candidates that a release names

OnStep = Callable[[int, Released | None], None]


@dataclass(frozen=True)
class ReplayedStudy:
    """A study that had been released before: nothing is drawn and nothing is spent."""

    release: Release
    public: PublicHalf

    n_steps: ClassVar[int] = 0

    def run(self, on_step: OnStep | None = None) -> StudyResult:
        """Return the recorded result; no step is made, and `on_step` is not called."""
        del on_step
        return self.finish()

    def finish(self) -> StudyResult:
        """Return the recorded result, at no further cost."""
        return StudyResult(self.release, replayed=True)


class StudyRun(Opaque):
    """A running study, in the curator's process. Its errors are sealed; its repr says nothing."""

    __slots__ = ("_charge", "_objective", "_public", "_remembering", "_run", "_search")

    def __init__(
        self,
        run: Run,
        public: PublicHalf,
        charge: Charged,
        search: Search,
        objective: Scorer,
        remembering: CachedTrainer | None = None,
    ) -> None:
        self._remembering = remembering
        self._run, self._public = run, public
        self._charge, self._search, self._objective = charge, search, objective

    @property
    def public(self) -> PublicHalf:
        """The public half of the study's data: training set, preprocessing and problem."""
        return self._public

    @property
    def n_steps(self) -> int:
        """The public number of steps that the search makes."""
        return self._run.study.n_steps

    @property
    def tasks(self) -> Chunks:
        """The search steps, from 0, of each Prefect task: one, or several if all candidates are known before."""
        steps = range(self.n_steps)
        return chunks(steps) if self._fixed_path else tuple((step,) for step in steps)

    @property
    def _fixed_path(self) -> bool:
        """Whether the candidates of all steps are fixed in public beforehand, whatever is scored."""
        method = self._run.method
        return method.public_path and method.fixed_order

    @property
    def rereading_notice(self) -> str:
        """A line that a folder's files will be read at every step, and how to avoid it; "" if they will not.

        All of it is public: with `n_persons`, where the number of records is not, there is none.
        """
        spec, problem, method = self._run.spec, self._public.problem, self._run.method
        if spec.data.n_scored is None or not scored_parts(spec, self._run.folder, self._public.preprocessing):
            return ""
        limit, together = memory_limit(spec), problem.scored_together
        size = spec.data.n_scored * bytes_a_record(self._public.preprocessing)
        once = self._fixed_path or problem.search.one_pass
        n_readings = -(-self.n_steps // together) if once else self.n_steps
        if size <= limit or n_readings < 2:
            return ""
        beyond, whole, times = (size - limit) / 1e9, size / 1e9, "readings" if once else "steps"
        line = (
            f"{spec.name}: {beyond:.2g} of {whole:.2g} GB of encoded records are read again at each of "
            f"{n_readings} {times}; [data] memory_limit = {whole + 0.05:.1f} keeps them in memory"
        )
        N = len(problem.candidates)
        if once or not (method.scores_ahead and method.public_path):
            return line
        return f"{line}, [search] one_pass = true trains all {N:,} candidates and reads {-(-N // together)} times"

    def step(self, n_steps: int = 1) -> Released | None:
        """Make the next `n_steps` search steps: what the last one released, already recorded; None if nothing."""

        def stepped() -> Released | None:
            released = None
            for _ in range(n_steps):
                released = self._search.step(self._objective, self._charge.noise)
            return released

        return sealed(stepped, message=self._message)

    def run(self, on_step: OnStep | None = None) -> StudyResult:
        """Make every step and the release; `on_step` gets each step's number from 1 and what it released."""
        for step in range(1, self.n_steps + 1):
            released = self.step()
            if on_step is not None:
                on_step(step, released)
        return self.finish()

    def finish(self) -> StudyResult:
        """Draw what noise is left, as for the final choice, and record the release: the study's result."""
        release = sealed(lambda: self._with_untrained(self._search.finish(self._charge.noise)))
        return StudyResult(self._charge.conclude(release), replayed=False)

    def _with_untrained(self, release: Release) -> Release:
        """Return the release with the candidates that could not be trained, if the path of candidates is public."""
        trainer = self._remembering
        if trainer is None or not self._run.method.public_path:
            return release
        points = trainer.could_not_train([step["hyperparameters"] for step in release.value.get("trajectory", ())])
        if not points:
            return release
        listed = [dict(point) for point in points[:MAX_UNTRAINED_NAMED]]
        return replace(release, facts={**release.facts, "untrained": len(points), "untrained_candidates": listed})

    @property
    def _message(self) -> Message | None:
        """A function from a step's error to the error that may be shown; None if the path of candidates is private.

        An estimator off the allowlist may have put records that it scored into its message: then it is one of ours.
        """
        if not self._run.method.public_path:
            return None
        return messages(StudyInvalid) if self._public.problem.rowwise else _training_refused


def check_first(study: ResolvedStudy, ledger: PrivacyLedger | None, folder: str | Path = ".") -> None:
    """Refuse, before any training, a study that its settings, headers, assumptions or budget rule out.

    The budget is not checked for a study whose name and edition were charged before. Without a ledger the study's
    own [budget] is the cap.
    """
    spec, plan, problem = study.spec, study.plan, study.problem
    check_search(study)
    trained_first(study.method, problem)
    halves_of(spec, folder).check_headers(problem)
    if ledger is not None and ledger.editions(spec.name, edition=spec.edition, dataset=spec.privacy.dataset):
        return
    if problem.unlisted:  # then it is imported anyway
        uncharged(lambda: check_buildable(spec, folder, problem))
    cap = opening_cap(spec)
    query = PrivateQuery(
        study.key(""), plan, identified_sources(spec, folder), cap, spec.privacy.max_records_per_person
    )
    if ledger is not None and ledger.accounts(spec.privacy.dataset):
        ledger.check_room(query)  # first: no acceptance by the study helps where the open cap has none
        check_accepted(spec.accepts, plan, problem.unlisted)
        return
    check_accepted(spec.accepts, plan, problem.unlisted)
    if ledger is not None:
        ledger.check_room(query)
    elif cap is None:
        raise no_budget(spec.privacy.dataset)
    else:
        admit_first(cap, plan)


def check_search(study: ResolvedStudy) -> None:
    """Refuse a search that its method cannot make: its lengthscale, its learning or its one pass."""
    check_lengthscale(study.method, study.problem)
    check_learns(study.spec, study.method)
    check_one_pass(study.spec, study.method)


class ReadyStudy(Opaque):
    """A study whose public work is done, and of which nothing is charged: its price is known, its search begun.

    `run` has the choices of its charge where it was `charged_before`, and charging it again costs nothing; by the
    trainer of its `public` half whatever is released is trained.
    """

    __slots__ = ("_problem", "_published", "_search", "charged_before", "public", "query", "run")

    def __init__(
        self,
        run: Run,
        problem: Problem,
        search: Search,
        query: PrivateQuery,
        *,
        published: PublicHalf,
        charged_before: bool,
    ) -> None:
        self.run, self.query, self.charged_before = run, query, charged_before
        self.public = replace(run.public, problem=replace(problem, trainer=run.public.problem.trainer))
        self._problem, self._search, self._published = problem, search, published

    def charge(self, *follow_ups: PrivateQuery, context: QueryContext | None = None) -> StudyRun:
        """Charge the study, together with its `follow_ups`, and open its records: ready for its steps.

        `context`: who asks, as the run's own says where None.
        """
        run, problem, search, query = self.run, self._problem, self._search, self.query
        context = context or run.context
        method, plan, ledger = run.method, run.plan, run.ledger
        charge = charged(query, context, *follow_ups)
        if charge.warm_start != query.warm_start:  # another process charged it first, and its warm start is valid
            earlier = sealed(lambda: earlier_editions(problem, charge.warm_start, ledger))
            search = sealed(lambda: method.start(replace(problem, earlier=earlier), plan))
        sealed(lambda: charge.noise.prepare_draws(query.draws))
        # Our file readers' messages state sizes only; an object in a table in memory may raise any message.
        message = messages(StudyInvalid) if isinstance(run.data, FileSplit) else None
        sealed(charge.open, message=messages(StudyInvalid, LedgerDamaged, DpboError))
        objective = sealed(lambda: run.data.sensitive(run.public), message=message)
        trainer = problem.trainer if isinstance(problem.trainer, CachedTrainer) else None
        if trainer is not None:
            trainer.charged = True
        return StudyRun(run, self._published, charge, search, objective, trainer)


def ready_study(run: Run, *, precomputed: Precomputed | None = None) -> ReadyStudy | ReplayedStudy:
    """Do a study's public work, but what is `precomputed`: ready to be charged. A recorded release is repeated."""
    spec, public, key = run.spec, run.public, run.key
    release = replay(key, run.context)
    if release is not None:
        return ReplayedStudy(release, public)
    reserved = run.ledger.reserved(key.fingerprint)
    if reserved is not None:  # what was charged goes on as it began
        warm_start, run = run.ledger.warm_start(key.fingerprint), run.as_charged(reserved)
    else:
        check_search(run.study)
        warm_start = editions_to_learn_from(spec, run.ledger) if learns(spec, run.method, run.context) else None
    method, plan = run.method, run.plan
    check_accepted(spec.accepts, plan, public.problem.unlisted)
    check_step_times(plan, seen=run.context.steps_seen)
    done = precomputed or Precomputed(trained=TrainedModels(memory_limit(spec)))
    problem = replace(remembering(public.problem, done), advice=run.study.why)
    problem = _do_public_work(method, problem, done.trained)
    if reserved is None and not done.tried and problem.training is None and not trained_first(method, problem):
        check_trainable(method, problem, public.problem.trainer)  # what cannot be trained costs nothing
    if method.trains_in_steps:
        problem = retrained_each_step(problem, public.problem.trainer)
    run.data.check(public)
    draws = method.draws(problem)
    problem = replace(problem, earlier=earlier_editions(problem, warm_start, run.ledger))
    search = method.start(problem, plan)
    # whose trainer takes models that scored no sensitive record, or trains again, so that they may be published
    published = replace(public, problem=remembering(public.problem, Precomputed(trained=done.trained)))
    query = PrivateQuery(
        key,
        plan,
        run.data.sources(),
        opening_cap(spec),
        spec.privacy.max_records_per_person,
        warm_start,
        {**run.study.to_json(), MARKS_OPENING: True},
        draws,
        "" if reserved is not None else run.useless,
    )
    return ReadyStudy(run, problem, search, query, published=published, charged_before=reserved is not None)


def open_study(run: Run, *, precomputed: Precomputed | None = None) -> StudyRun | ReplayedStudy:
    """Do a study's public work, but what is `precomputed`, and charge it: ready for its steps, or released before.

    Raises:
        StudyInvalid, BudgetRefused, AssumptionNotAccepted: nothing was charged.
    """
    ready = ready_study(run, precomputed=precomputed)
    return ready if isinstance(ready, ReplayedStudy) else ready.charge()


def run_study(
    study: StudySpec,
    *,
    ledger: PrivacyLedger,
    folder: str | Path = ".",
    source: NoiseSource | None = None,
    on_step: OnStep | None = None,
) -> StudyResult:
    """As the data's owner run a whole study, or repeat its release; `on_step` gets each step's number and release.

    No report follows here, whatever [evaluation] says: the release states a score of its own.

    Args:
        study: as written.
        ledger: where budgets are.
        folder: the folder that the study's data paths are relative to.
        source: where noise comes from; the operating system unless a test says otherwise.
        on_step: called after each step.

    Raises: as `open_study`, and Sealed: a step failed; run it again and it continues.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from dpbo_core import PrivacyBudget, PrivacyLedger, StudySpec, run_study
        >>> spec = StudySpec.from_dict({
        ...     "study": {"name": "first", "method": "private_grid"},
        ...     "privacy": {"dataset": "clinic", "epsilon": 1.0},
        ...     "data": {"source": "breast_cancer"},
        ...     "model": {"estimator": "logistic", "score": "accuracy"},
        ...     "space": {"lambda": {"low": 1e-4, "high": 10.0, "log": True, "points": 4}},
        ... })
        >>> folder = TemporaryDirectory()
        >>> ledger = PrivacyLedger(f"sqlite:///{folder.name}/ledger.db")
        >>> ledger.set_budget(PrivacyBudget.of("clinic", epsilon=5.0, delta=1e-5))
        True
        >>> result = run_study(spec, ledger=ledger)
        >>> sorted(result.release.value), run_study(spec, ledger=ledger).replayed
        (['hyperparameters', 'interval', 'lead', 'metric', 'score'], True)
    """
    alone = study.replace(evaluation=None)
    return open_study(Run.of(alone, QueryContext(ledger, folder, source or OS_NOISE))).run(on_step)


def _training_refused(error: BaseException) -> StudyInvalid | None:
    """Return our error for a failed public training, without the estimator's message; None for other errors."""
    if type(error) is not StudyInvalid:
        return None
    return StudyInvalid(
        "a model could not be trained on the public rows",
        cause="the estimator refuses one of the candidates; it is not scikit-learn's own, so its words stay here",
        remedy="train it at the corners of [space] on the public rows alone",
    )


def _do_public_work(method: Method, problem: Problem, trained: TrainedModels) -> Problem:
    """Return the problem after the public work due before the charge; unchanged if training data are sensitive.

    It is the method's public search and, if the path of candidates is private, all trainings: when a candidate is
    trained, how long that takes and whether it fails would reveal the path. Work done by `PublicWork` is reused.
    """
    if problem.training is not None:
        return problem  # nothing can be trained in public
    problem = method.prepare(problem)
    first = trained_first(method, problem)
    if first:
        models = {index: uncharged(lambda index=index: problem.train(index)) for index in first}  # type: ignore[misc]
        problem = remembering(problem, Precomputed(models=models, trained=trained))
    return problem
