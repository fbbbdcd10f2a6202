"""A search on tables in memory: public work in several processes, step after step, how far it is, its evaluation.

What is said is public or released, on the standard error. The number of steps is the method's public number: one
where it hides how many trials there were. In a notebook and in a terminal one line is written again and again,
elsewhere one after the other.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass

from joblib import Parallel, delayed

from dpbo_core.errors import DpboError, StudyInvalid
from dpbo_core.methods.contract import Released
from dpbo_core.methods.problem import Problem
from dpbo_core.models.estimators import Model
from dpbo_core.models.scoring.partitioned import Workers
from dpbo_core.privacy.release import StudyResult
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.report.counting import Counter, count_table
from dpbo_core.report.evaluation import EvaluationResult, open_request
from dpbo_core.report.histogram_cells import Integers
from dpbo_core.report.request import EvaluationQuery, request_of_released
from dpbo_core.sklearn_api.tables_in_memory import FrameSplit
from dpbo_core.study.context import QueryContext
from dpbo_core.study.precomputed import Precomputed, required_public_scores, required_trainings
from dpbo_core.study.public_half import PublicHalf
from dpbo_core.study.resolve import ResolvedStudy, planning_problem
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import open_study


@dataclass
class Progress:
    """The progress of a search on standard error; silent unless `loud`.

    Attributes:
        loud: whether anything is said.
        n_steps: how many steps there will be; public.
        shown: is called after each step.
        width: of what was written last, to be written over.
    """

    loud: bool
    shown: Callable[[], None]
    n_steps: int = 1
    width: int = 0

    def say(self, text: str) -> None:
        """Write one line of progress on standard error, over the last one on a terminal; nothing unless `loud`."""
        if not self.loud:
            return
        if not can_overwrite():
            sys.stderr.write(f"{text}\n")
            return
        sys.stderr.write(f"\r{text.ljust(self.width)}")
        self.width = len(text)
        sys.stderr.flush()

    def step(self, step: int, released: Released | None) -> None:
        """Write on standard error, if `loud`, that a step is done, and any score it released; move the bar."""
        score = None if released is None else released.get("score")
        of_step = "" if score is None else f", private score {score:.4g}"
        self.say(f"step {step} of {self.n_steps}{of_step}")
        self.shown()

    def done(self, text: str) -> None:
        """Write the last line on standard error, if `loud`, and move the cursor below it."""
        self.say(text)
        if self.loud and can_overwrite():
            sys.stderr.write("\n")


def can_overwrite() -> bool:
    """Whether lines on standard error can be overwritten: it is a terminal or a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def run_search(run: Run, *, n_jobs: int | None, progress: Progress) -> StudyResult:
    """Run a search step by step and charge the ledger: its release, or at no price the one recorded before.

    Args:
        run: of the study, on its tables.
        n_jobs: processes for the public work that is known beforehand, −1 for all processors; None for this one.
        progress: is told how far the search is.

    Raises:
        StudyInvalid, BudgetRefused, AssumptionNotAccepted: nothing was charged.
    """
    progress.say(f"{run.method.kind}: training on the public rows")
    precomputed = None if n_jobs in (None, 1) else precompute(int(n_jobs or 1), run)
    opened = open_study(run, precomputed=precomputed)
    progress.n_steps = opened.n_steps
    return opened.run(progress.step)


def precompute(n_jobs: int, run: Run) -> Precomputed | None:
    """Train and score in `n_jobs` processes, on public records, what the study surely needs; None if released.

    Args:
        n_jobs: processes, −1 for all processors.
        run: of the study; the public half of its data alone is looked at.

    Raises:
        StudyInvalid: a candidate cannot be trained.
    """
    problem = run.public.problem
    if run.ledger.release_of(run.key.fingerprint) is not None:
        return None
    scored, trained = required_public_scores(run.study), required_trainings(run.study)
    with Parallel(n_jobs=n_jobs) as parallel:
        scores = parallel(delayed(problem.public_score)(index) for index in scored)
        models = parallel(delayed(_trained)(problem, index) for index in trained)
    made = {index: model for index, model in zip(trained, models, strict=True) if model is not None}
    return Precomputed(models=made, scores=dict(zip(scored, scores, strict=True)))


def _trained(problem: Problem, index: int) -> Model | None:
    """The model of a candidate; None where it cannot be trained, which the study itself finds and says."""
    try:
        return problem.train(index)
    except StudyInvalid:
        return None


@dataclass(frozen=True, eq=False, repr=False)
class FrameTable:
    """The validation table of a search.

    Attributes:
        split: both tables.
        tells: nothing, since an object in a table may raise any message.
    """

    split: FrameSplit
    tells: tuple[type[DpboError], ...] = ()

    def columns(self, public: PublicHalf) -> tuple[str, ...]:
        """The names of the validation table's columns, the target's last."""
        return *self.split.validation.names, public.target

    def count(self, counter: Counter, workers: Workers | None) -> Sensitive[Integers]:
        """The sealed histogram of the records in memory, counted in this process; stores their row marks."""
        del workers
        return count_table(self.split.spec, counter, *self.split.records(counter.preprocessing))


def evaluate_search(study: ResolvedStudy, split: FrameSplit, context: QueryContext) -> EvaluationResult:
    """The private report on the model that a search released, for one spend; a recorded report at no price.

    Args:
        study: of the search, as it was released.
        split: both tables, with a study that asks by [evaluation]; its records may be others than were searched on.
        context: who asks, of which ledger.

    Raises: as `evaluate_study`.
    """
    problem = planning_problem(split.spec, unlisted=split.prototype.unlisted())
    query, public = EvaluationQuery.of(split.spec, problem, None), split.public(problem)
    run = Run(study, context, split, public)
    opened = open_request(request_of_released(run, query, public, FrameTable(split)), context)
    return opened if isinstance(opened, EvaluationResult) else opened.finish(context)
