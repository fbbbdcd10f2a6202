"""A study from its file to its release, without Prefect: plan, reserve, step by step, conclude.

    run_study(spec, ledger=…)            the plain loop
    open_study(spec, ledger=…)           the same in pieces, for a scheduler: run.step() … run.finish()

Reserving comes before any validation record's content is used; every draw is recorded before it is shown; the same
study asked twice gives the same release and draws nothing.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from dpbo_core.errors import DpboError, LedgerDamaged, StudyInvalid
from dpbo_core.ledger.ledger import PrivacyLedger, QueryKey, Reservation
from dpbo_core.ledger.policy import Use
from dpbo_core.mechanisms.noise import Noise, NoiseSource, OperatingSystemNoise, standing_of, try_out
from dpbo_core.methods.contract import Method, Released, Search
from dpbo_core.methods.stated_search import check_lengthscale
from dpbo_core.preparation.data_split import FileSplit, allows_own_score, public_sources
from dpbo_core.preparation.learning import check_learns, learns, to_learn_from, with_earlier
from dpbo_core.preparation.precomputed import Precomputed, remembering, trained_first
from dpbo_core.preparation.preconditions import check_accepted, check_public_sources, opening_cap
from dpbo_core.preparation.public_half import DataSplit, PublicHalf
from dpbo_core.preparation.resolve import ResolvedStudy, check_one_pass, resolve
from dpbo_core.privacy.plan import PrivacyPlan
from dpbo_core.privacy.release import Release
from dpbo_core.privacy.sealing import Message, messages, sealed
from dpbo_core.privacy.sensitive import Opaque
from dpbo_core.problem import Problem
from dpbo_core.queries.tuning.replay import StudyResult as StudyResult
from dpbo_core.scoring.in_memory import Scorer
from dpbo_core.scoring.partitioned import Workers
from dpbo_core.study_file import StudySpec
from dpbo_core.versions import library_version

Also = Callable[[PublicHalf], tuple[tuple[QueryKey, PrivacyPlan], ...]]


@dataclass(frozen=True)
class ReplayedStudy:
    """A study that had been released before: nothing is drawn and nothing is spent.

    Attributes:
        release: as it was recorded.
        public: the half that anyone may see.
    """

    release: Release
    public: PublicHalf

    def finish(self) -> StudyResult:
        """The recorded release, which costs nothing again."""
        return StudyResult(self.release, replayed=True)


class StudyRun(Opaque):
    """A study under way, in the curator's process. Its errors are sealed; its repr says nothing."""

    __slots__ = ("_method", "_noise", "_objective", "_pad", "_public", "_reservation", "_search", "n_steps")

    def __init__(
        self,
        method: Method,
        public: PublicHalf,
        search: Search,
        objective: Scorer,
        *,
        reservation: Reservation,
        noise: Noise,
        n_steps: int,
        pad: float,
    ) -> None:
        self._method, self._public, self._search, self._objective = method, public, search, objective
        self._reservation, self._noise, self.n_steps, self._pad = reservation, noise, n_steps, pad

    @property
    def public(self) -> PublicHalf:
        """The half that anyone may see. No estimator that scored a sensitive record comes out of its trainer."""
        return self._public

    def step(self) -> Released | None:
        """One step; returns what it released, already recorded, or None.

        Raises:
            Sealed: something failed; nothing of it is told. StudyInvalid: a public training failed.
        """
        with padded(self._pad):
            return sealed(lambda: self._search.step(self._objective, self._noise), message=self._message)

    def finish(self) -> StudyResult:
        """The remaining draws, and the release, recorded."""
        with padded(self._pad):
            release = sealed(lambda: self._search.finish(self._noise))
            return sealed(
                lambda: StudyResult(self._reservation.conclude(release), replayed=False),
                message=messages(DpboError, LedgerDamaged),
            )

    @property
    def _message(self) -> Message | None:
        """What a step may say of a failing training: on a public path its message, which names λ; else nothing.

        Code that nobody vouches for may have kept what it scored, and put it in a message: then a message of ours.
        """
        if not self._method.public_path:
            return None
        return messages(StudyInvalid) if self._public.problem.rowwise else _untold


@contextmanager
def padded(seconds: float) -> Iterator[None]:
    """What is done inside takes a whole number of so many seconds, however it ends; 0 for no padding."""
    begun = time.monotonic()
    try:
        yield
    finally:
        if seconds > 0.0:
            time.sleep(seconds - (time.monotonic() - begun) % seconds)


def open_study(
    study: StudySpec | ResolvedStudy,
    *,
    ledger: PrivacyLedger,
    folder: str | Path = ".",
    source: NoiseSource | None = None,
    pad: float = 0.0,
    workers: Workers | None = None,
    precomputed: Precomputed | None = None,
    data: DataSplit | None = None,
    owner: bool = True,
    also: Also | None = None,
    scheduled: bool = False,
) -> StudyRun | ReplayedStudy:
    """Read the public half, price, reserve, then open the sensitive half; or find the study's recorded release.

    Args:
        study: as written, or resolved.
        ledger: where budgets are kept.
        folder: the folder that the study's data paths are relative to.
        source: where noise comes from; the operating system unless a test says otherwise.
        pad: seconds; opening, each step and the finish take a whole number of them, so that durations tell less.
        workers: who scores the parts of a partitioned validation set; this process unless said otherwise.
        precomputed: public work that was done elsewhere.
        data: the split of the data where they do not come from the files it names.
        owner: whether the data's owner asks, who may open a cap and add a file; not so for what Prefect starts.
        also: what will be asked of the same records afterwards, with its price, from the public half: reserved
            together with the study, or neither is.
        scheduled: whether this is one run of a schedule, whose search begins with what earlier runs released
            unless the study says otherwise.

    Raises:
        StudyInvalid, BudgetRefused, AssumptionNotAccepted: nothing was charged.
    """
    with padded(pad):
        spec = study if isinstance(study, StudySpec) else study.spec
        check_public_sources(public_sources(spec, folder) if data is None else data.sources(), ledger)
        resolved = resolve(study, folder) if isinstance(study, StudySpec) else study
        data = data or FileSplit(resolved.spec, folder, workers, allows_own_score(resolved.spec, ledger))
        public = data.public(resolved.problem)
        key = resolved.key(public.fingerprint)
        library_version()  # read here: a release states it, and after the reservation nothing public is looked up
        replay = ledger.release_of(key.fingerprint)
        if replay is not None:
            return ReplayedStudy(replay, public)
        charged = ledger.reserved(key.fingerprint)
        if charged is not None:
            resolved = resolved.as_charged(charged)
        return _started(
            resolved,
            key,
            data,
            public,
            ledger,
            source or OperatingSystemNoise(),
            pad=pad,
            precomputed=precomputed,
            owner=owner,
            also=also,
            scheduled=scheduled,
        )


def _started(
    study: ResolvedStudy,
    key: QueryKey,
    data: DataSplit,
    public: PublicHalf,
    ledger: PrivacyLedger,
    source: NoiseSource,
    *,
    pad: float,
    precomputed: Precomputed | None,
    owner: bool,
    also: Also | None,
    scheduled: bool,
) -> StudyRun:
    """Everything that can be refused or can fail, then the reservation, then the sensitive half."""
    spec, method, plan = study.spec, study.method, study.plan
    charged = ledger.reserved(key.fingerprint) is not None  # what was charged goes on as it began
    learned = ledger.learned(key.fingerprint)
    if not charged:
        check_lengthscale(method, study.problem)
        check_learns(spec, method)
        check_one_pass(spec, method)
        learned = to_learn_from(spec, method, ledger) if learns(spec, method, scheduled=scheduled) else None
    check_accepted(spec, plan, public.problem.unlisted)
    problem = replace(remembering(public.problem, precomputed), advice=study.why)
    problem = _trained_first(method, problem, tried=precomputed is not None and precomputed.tried)
    data.check(public)
    draws = method.draws(problem)
    problem = replace(problem, earlier=with_earlier(problem, learned, ledger))
    search = method.start(problem, plan)
    plain = replace(problem, trainer=public.problem.trainer)  # what is published is trained by it
    afterwards = () if also is None else also(replace(public, problem=plain))
    try_out(draws)  # what can fail of a draw, and of all that is public, fails here, before anything is charged
    reservation = ledger.reserve(
        key,
        plan,
        noise=standing_of(source),
        opening=opening_cap(spec),
        max_records_per_person=spec.privacy.max_records_per_person,
        use=Use(data.sources(), owner),
        also=afterwards,
        learned=learned,
        resolved=study.to_json(),
    )
    if reservation.learned != learned:  # another process charged it first, and what that began with stands
        problem = sealed(lambda: replace(problem, earlier=with_earlier(problem, reservation.learned, ledger)))
        search = sealed(lambda: method.start(problem, plan))
    noise = Noise(source, reservation)
    sealed(lambda: noise.prepare_draws(draws))
    # a file holds bytes, whose reader says sizes alone; an object in a table in memory may raise any message
    message = messages(StudyInvalid) if isinstance(data, FileSplit) else None
    objective = sealed(lambda: data.sensitive(public), message=message)
    return StudyRun(
        method, public, search, objective, reservation=reservation, noise=noise, n_steps=study.n_steps, pad=pad
    )


def run_study(
    study: StudySpec | ResolvedStudy,
    *,
    ledger: PrivacyLedger,
    folder: str | Path = ".",
    source: NoiseSource | None = None,
    data: DataSplit | None = None,
    on_step: Callable[[int, Released | None], None] | None = None,
    scheduled: bool = False,
) -> StudyResult:
    """The whole study in one call. `on_step` is told each step's number and what it released."""
    run = open_study(study, ledger=ledger, folder=folder, source=source, data=data, scheduled=scheduled)
    if isinstance(run, StudyRun):
        for step in range(1, run.n_steps + 1):
            released = run.step()
            if on_step is not None:
                on_step(step, released)
    return run.finish()


def _untold(error: BaseException) -> StudyInvalid | None:
    """That a public training failed, and not what it said."""
    if type(error) is not StudyInvalid:
        return None
    return StudyInvalid(
        "a model could not be trained on the public rows",
        cause="the estimator refuses one of the candidates; it is not scikit-learn's own, so its words stay here",
        remedy="train it at the corners of [space] on the public rows alone",
    )


def _trained_first(method: Method, problem: Problem, *, tried: bool) -> Problem:
    """The problem once what must be trained before anything is charged is trained.

    On a private path every model of Λ, and all are kept, since which of them is trained at which step, how long it
    takes and whether it fails would tell the path. On a public path one, so that a model that cannot be trained at
    all costs nothing. What the flow's public tasks did (`PublicWork`) is not done again.
    """
    if problem.training is not None:
        return problem  # nothing can be trained in public
    if method.traits.prepare is not None:
        problem = method.traits.prepare(method, problem)
    first = trained_first(method, problem)
    if first:
        return remembering(problem, Precomputed(models={index: problem.train(index) for index in first}))
    if not tried:
        problem.train(0)
    return problem
