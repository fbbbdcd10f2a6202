"""A study from its file to its release, without Prefect: plan, reserve, step by step, conclude.

    run_study(spec, ledger=…)            the plain loop
    open_study(spec, ledger=…)           the same in pieces, for a scheduler: run.step() … run.finish()

Reserving comes before any validation record's content is used; every draw is recorded before it is shown; the same
study asked twice gives the same release and draws nothing.
"""

import hashlib
import json
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from dpbo_core.accounting.budget import PrivacyBudget
from dpbo_core.accounting.ledger import PrivacyLedger, StudyKey
from dpbo_core.accounting.policy import Use
from dpbo_core.accounting.sources import file_source
from dpbo_core.advice.advise import Advice, advise, check_scoring, choose
from dpbo_core.errors import AssumptionNotAccepted, DpboError, LedgerDamaged, PolicyRefused, StudyInvalid
from dpbo_core.mechanisms.noise import INJECTED, OPERATING_SYSTEM, Noise, NoiseSource, OperatingSystemNoise, try_out
from dpbo_core.methods.contract import Method, Prepares, Released
from dpbo_core.objective.partitioned import Workers
from dpbo_core.privacy.assumption import CALLER_ASSUMPTIONS
from dpbo_core.privacy.plan import PrivacyPlan
from dpbo_core.privacy.release import Release
from dpbo_core.privacy.sealing import Letter, letters, sealed
from dpbo_core.privacy.sensitive import Opaque
from dpbo_core.problem import Problem
from dpbo_core.spec import StudySpec
from dpbo_core.study import data_split
from dpbo_core.study.precomputed import Ahead, remembering
from dpbo_core.versions import library_version

__all__ = [
    "StudyResult",
    "StudyRun",
    "StudySpec",
    "approve_study",
    "open_study",
    "plan_study",
    "read_study",
    "run_study",
]

LARGEST_PRIVATE_PATH = 4096
LARGEST_STUDY, LONGEST_LINE = 2**16, 2**12  # bytes


@dataclass(frozen=True)
class StudyResult:
    """What a study gives back. `replayed` says that it had been released before, and nothing was drawn now."""

    release: Release
    replayed: bool


def read_study(path: str | Path, *, frozen: str | None = None) -> StudySpec:
    """The study in a TOML file.

    Args:
        path: of the file.
        frozen: SHA-256 of the file as its owner approved it (`study_digest`), or None for any.

    Raises:
        StudyInvalid: a missing or unreadable file, or anything in it that a study cannot hold.
        PolicyRefused: the file is not as it was approved.
    """
    shown = str(path)
    try:
        text = _study_text(Path(path))
        if frozen is not None and hashlib.sha256(text.encode()).hexdigest() != frozen:
            raise changed_study(shown)
        tables = tomllib.loads(text)
    except OSError as error:
        problem = f"the study file {shown!r} cannot be read ({(error.strerror or 'no reason given').lower()})"
    except UnicodeDecodeError:
        problem = f"the study file {shown!r} is not UTF-8 text"
    except tomllib.TOMLDecodeError as error:
        problem = f"the study file {shown!r} is not valid TOML: {error}"
    except (ValueError, RecursionError):  # a null byte in the path, a number of thousands of digits, deep nesting
        problem = f"the study file {shown!r} is no study: over 64 KiB or 4,096 bytes a line, or nested too deep"
    else:
        return StudySpec.from_dict(tables)
    raise StudyInvalid(problem, cause="a mistyped path or a syntax error", remedy="check the file named")


def study_digest(path: str | Path) -> str:
    """SHA-256 of a study file, in hex.

    Raises:
        StudyInvalid: it cannot be read as a study.
    """
    read_study(path)
    return hashlib.sha256(_study_text(Path(path)).encode()).hexdigest()


def changed_study(shown: str) -> PolicyRefused:
    """The message for a study file that was changed since it was served."""
    return PolicyRefused(
        f"the study file {shown!r} is not the one that was served",
        cause="it was changed after dpbo serve started, or the run names another file",
        remedy="change it back, or stop dpbo serve and start it again with the new one",
    )


def _study_text(path: Path) -> str:
    """The text of a study file of reasonable size: long dotted keys take the parser quadratic time.

    Raises:
        ValueError: larger, or with a longer line, than anyone writes.
    """
    with path.open("rb") as file:
        raw = file.read(LARGEST_STUDY + 1)
    if len(raw) > LARGEST_STUDY or max(map(len, raw.splitlines()), default=0) > LONGEST_LINE:
        raise ValueError
    return raw.decode()


def plan_study(spec: StudySpec) -> PrivacyPlan:
    """The price of a study. Opens no data file."""
    problem = data_split.planning_problem(spec)
    check_scoring(problem)
    return choose(spec, problem)[0].plan(problem)


def advise_study(spec: StudySpec) -> Advice:
    """The price and the expected error of every method on this study. Opens no data file."""
    return advise(spec, data_split.planning_problem(spec))


class StudyRun(Opaque):
    """A study under way, in the curator's process. Its errors are sealed; its repr says nothing."""

    __slots__ = (
        "_method",
        "_noise",
        "_objective",
        "_pad",
        "_plan",
        "_public",
        "_reservation",
        "_search",
        "n_steps",
        "replay",
    )

    def __init__(
        self,
        spec: StudySpec,
        *,
        ledger: PrivacyLedger,
        data: data_split.Halves,
        source: NoiseSource,
        pad: float,
        ahead: Ahead | None = None,
        owner: bool = True,
    ) -> None:
        self._pad = pad
        self._public = data.public()
        problem = remembering(self._public.problem, ahead)
        chosen, why = choose(spec, problem)
        key = _key(spec, self._public.fingerprint, chosen.kind)
        self._method: Method = chosen
        library_version()  # read here: a release states it, and after the reservation nothing public is looked up
        problem = replace(problem, advice=why)
        self.n_steps = self._method.n_steps(problem)
        self.replay = ledger.release_of(key.fingerprint)
        if self.replay is not None:
            return
        check_scoring(problem)
        self._plan = self._method.plan(problem)
        _check_accepted(spec, self._plan, problem.unlisted)
        problem = _trained_ahead(self._method, problem)
        data.check(self._public)
        standing = OPERATING_SYSTEM if type(source) is OperatingSystemNoise else INJECTED  # by what it is, not says
        draws = self._method.draws(problem)
        self._search = self._method.start(problem, self._plan)
        try_out(draws)  # what can fail of a draw, and of all that is public, fails here, before anything is charged
        self._reservation = ledger.reserve(
            key,
            self._plan,
            noise=standing,
            opening=_cap(spec),
            max_records_per_person=spec.privacy.max_records_per_person,
            use=Use(data.sources(), owner),
        )
        self._noise = Noise(source, self._reservation)
        sealed(lambda: self._noise.ahead(draws))
        # a file holds bytes, whose reader says sizes alone; an object in a table in memory may raise any letter
        letter = letters(StudyInvalid) if isinstance(data, data_split.FileHalves) else None
        self._objective = sealed(lambda: data.sensitive(self._public), letter=letter)

    @property
    def public(self) -> data_split.PublicHalf:
        """The half that anyone may see. No estimator that scored a sensitive record comes out of its trainer."""
        return self._public

    def step(self) -> Released | None:
        """One step; returns what it released, already recorded, or None.

        Raises:
            Sealed: something failed; nothing of it is told. StudyInvalid: a public training failed.
        """
        with padded(self._pad):
            return sealed(lambda: self._search.step(self._objective, self._noise), letter=self._letter)

    def finish(self) -> StudyResult:
        """The remaining draws, and the release, recorded."""
        if self.replay is not None:
            return StudyResult(self.replay, replayed=True)
        with padded(self._pad):
            release = sealed(lambda: self._search.finish(self._noise))
            return sealed(
                lambda: StudyResult(self._reservation.conclude(release), replayed=False),
                letter=letters(DpboError, LedgerDamaged),
            )

    @property
    def _letter(self) -> Letter | None:
        """What a step may say of a failing training: on a public path its letter, which names λ; else nothing.

        Code that nobody vouches for may have kept what it scored, and put it in a letter: then a letter of ours.
        """
        if not self._method.public_path:
            return None
        return letters(StudyInvalid) if self._public.problem.rowwise else _untold


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
    spec: StudySpec,
    *,
    ledger: PrivacyLedger,
    folder: str | Path = ".",
    source: NoiseSource | None = None,
    pad: float = 0.0,
    workers: Workers | None = None,
    ahead: Ahead | None = None,
    data: data_split.Halves | None = None,
    owner: bool = True,
) -> StudyRun:
    """Read the public half, price, reserve, then open the sensitive half.

    Args:
        spec: the study.
        ledger: where budgets are kept.
        folder: the folder that the study's data paths are relative to.
        source: where noise comes from; the operating system unless a test says otherwise.
        pad: seconds; opening, each step and the finish take a whole number of them, so that durations tell less.
        workers: who scores the parts of a partitioned validation set; this process unless said otherwise.
        ahead: public work that was done elsewhere.
        data: the study's two halves where they do not come from the files it names.
        owner: whether the data's owner asks, who may open a cap and add a file; not so for what Prefect starts.

    Raises:
        StudyInvalid, BudgetRefused, AssumptionNotAccepted: nothing was charged.
    """
    noise = source or OperatingSystemNoise()
    with padded(pad):
        data = data or data_split.FileHalves(spec, folder, workers)
        return StudyRun(spec, ledger=ledger, data=data, source=noise, pad=pad, ahead=ahead, owner=owner)


def run_study(
    spec: StudySpec,
    *,
    ledger: PrivacyLedger,
    folder: str | Path = ".",
    source: NoiseSource | None = None,
    data: data_split.Halves | None = None,
    on_step: Callable[[int, Released | None], None] | None = None,
) -> StudyResult:
    """The whole study in one call. `on_step` is told each step's number and what it released."""
    run = open_study(spec, ledger=ledger, folder=folder, source=source, data=data)
    if run.replay is None:
        for step in range(1, run.n_steps + 1):
            released = run.step()
            if on_step is not None:
                on_step(step, released)
    return run.finish()


def approve_study(spec: StudySpec, *, ledger: PrivacyLedger, folder: str | Path) -> None:
    """The owner's word for a study that others will start: its cap is open, its sources are recorded.

    Its names may hold fields that a schedule fills: then for every firing. Charges nothing.

    Raises:
        StudyInvalid, PolicyRefused: nothing was written.
    """
    ledger.approve(spec.privacy.dataset, _cap(spec), data_split.sources_of(spec, folder))


def check_public_file(spec: StudySpec, *, ledger: PrivacyLedger, folder: str | Path) -> None:
    """What somebody else's study would read as public is no dataset's sensitive file; before it is opened.

    Raises:
        PolicyRefused: it is one.
    """
    if spec.data.training is not None and not spec.data.trains_privately:
        ledger.check_public(file_source(Path(folder) / spec.data.training))


def _untold(error: BaseException) -> StudyInvalid | None:
    """That a public training failed, and not what it said."""
    if type(error) is not StudyInvalid:
        return None
    return StudyInvalid(
        "a model could not be trained on the public rows",
        cause="the estimator refuses one of the candidates; it is not scikit-learn's own, so its words stay here",
        remedy="train it at the corners of [space] on the public rows alone",
    )


def _trained_ahead(method: Method, problem: Problem) -> Problem:
    """The problem once what must be trained before anything is charged is trained.

    On a private path every model of Λ, and all are kept, since which of them is trained at which step, how long it
    takes and whether it fails would tell the path. On a public path one, so that a model that cannot be trained at
    all costs nothing.
    """
    if problem.training is not None:
        return problem  # nothing can be trained in public
    if isinstance(method, Prepares):
        method.prepare(problem)
    N = len(problem.candidates)
    if not method.public_path and N > LARGEST_PRIVATE_PATH:
        raise StudyInvalid(
            f"{method.kind} trains every candidate before it starts, and there are {N:,}",
            cause="its path is private, so no step may show by its time or its failure which model it needs",
            remedy=f"lower the points of the axis to {LARGEST_PRIVATE_PATH:,} or fewer",
        )
    if method.public_path:
        problem.train(0)
        return problem
    return remembering(problem, Ahead(models={index: problem.train(index) for index in range(N)}))


def _key(spec: StudySpec, training: str, kind: str) -> StudyKey:
    """The study's fingerprint: the whole spec, its edition, the public training data; never the sensitive data.

    What "auto" became is named beside it and is no part of it: a later version that advises otherwise still gives
    the same study its release.
    """
    text = json.dumps([spec.to_dict(), training], sort_keys=True, ensure_ascii=False, allow_nan=False)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return StudyKey(digest, spec.privacy.dataset, spec.name, spec.edition, kind)


def _cap(spec: StudySpec) -> PrivacyBudget | None:
    """The cap a study opens at its dataset's first use; it accepts the assumptions that the study accepts."""
    if spec.budget is None:
        return None
    budget = spec.budget
    return PrivacyBudget.of(spec.privacy.dataset, epsilon=budget.epsilon, delta=budget.delta, accepts=spec.accepts)


def _check_accepted(spec: StudySpec, plan: PrivacyPlan, unlisted: str) -> None:
    missing = [name for name in plan.guarantee.assumptions if name not in spec.accepts]
    if missing:
        statement = CALLER_ASSUMPTIONS[missing[0]].statement
        raise AssumptionNotAccepted(
            f"the method assumes {missing[0]!r}: {statement} If that is false, the promise is void",
            cause="the study does not accept it by name"
            + (f", and {unlisted} is not on the list of known classes" if unlisted else ""),
            remedy=f'add accepts = ["{missing[0]}"] to [study] if you can answer for it, or choose another method',
        )
