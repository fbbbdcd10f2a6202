"""A search on tables in memory: public work in several processes, step after step, how far it is, its evaluation.

What is said is public or released, on the standard error. The number of steps is the method's public number: one
where it hides how many trials there were. In a notebook and in a terminal one line is written again and again,
elsewhere one after the other. Of scikit-learn's callbacks (1.9 and later) only its `ProgressBar` is admitted: any
other is handed fitted estimators and scores at every step, or could look for them.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from joblib import Parallel, delayed

from dpbo_core.errors import DpboError, StudyInvalid
from dpbo_core.methods.contract import Released
from dpbo_core.methods.problem import Problem
from dpbo_core.models.estimators import Model
from dpbo_core.models.scoring.partitioned import Workers
from dpbo_core.privacy.release import StudyResult
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.report.counting import TableCounter, count_table
from dpbo_core.report.evaluation import EvaluationResult, open_request
from dpbo_core.report.histogram_cells import Integers
from dpbo_core.report.request import EvaluationQuery, request_of_released
from dpbo_core.sklearn_api.tables_in_memory import FrameSplit
from dpbo_core.study.precomputed import Precomputed, required_public_scores, required_trainings
from dpbo_core.study.public_half import PublicHalf
from dpbo_core.study.query import QueryContext
from dpbo_core.study.resolve import ResolvedStudy, planning_problem
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import open_study

try:
    from sklearn.callback import CallbackSupportMixin, ProgressBar
    from sklearn.callback._callback_support import callback_management_context
except ImportError:  # before 1.9
    ProgressBar = None


@dataclass
class Progress:
    """The progress of a search on standard error; silent unless `loud`."""

    loud: bool  # whether anything is said
    shown: Callable[[], None]  # is called after each step
    n_steps: int = 1  # how many steps there will be; public
    width: int = 0  # of what was written last, to be written over

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
        """Report on standard error, if `loud`, that a step is done, with its score if released; move the bar."""
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
    """Return whether lines on standard error can be overwritten: it is a terminal or a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def run_search(run: Run, *, n_jobs: int | None, progress: Progress) -> StudyResult:
    """Run a search step by step and charge the ledger: its release, or at no cost the one recorded before."""
    progress.say(f"{run.method.kind}: training on the public rows")
    precomputed = None if n_jobs in (None, 1) else precompute(int(n_jobs or 1), run)
    opened = open_study(run, precomputed=precomputed)
    progress.n_steps = opened.n_steps
    return opened.run(progress.step)


def precompute(n_jobs: int, run: Run) -> Precomputed | None:
    """Train and cross-validate, in `n_jobs` processes, the candidates that the study needs in any case.

    Only public records are used. None if the study was released before: then nothing is trained.
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
    try:
        return problem.train(index)
    except StudyInvalid:
        return None


@dataclass(frozen=True, eq=False, repr=False)
class FrameTable:
    """The validation table of a search."""

    split: FrameSplit  # both tables
    # the errors whose messages may be shown: none, since an object in a table may raise any error with any message
    tells: tuple[type[DpboError], ...] = ()

    def columns(self, public: PublicHalf) -> tuple[str, ...]:
        """Return the names of the validation table's columns, the target's last."""
        return *self.split.validation.names, public.target

    def count(self, counter: TableCounter, workers: Workers | None) -> Sensitive[Integers]:
        """Return the sealed histogram of the records in memory, counted in this process; stores their row marks."""
        del workers
        return count_table(self.split.spec, counter, *self.split.records(counter.preprocessing))


def evaluate_search(study: ResolvedStudy, split: FrameSplit, context: QueryContext) -> EvaluationResult:
    """Return the private report on a search's released model: charged once, and a recorded one again at no cost."""
    problem = planning_problem(split.spec, unlisted=split.prototype.unlisted())
    query, public = EvaluationQuery.of(split.spec, problem, None), split.public(problem)
    run = Run(study, context, split, public)
    opened = open_request(request_of_released(run, query, public, FrameTable(split)), context)
    return opened if isinstance(opened, EvaluationResult) else opened.finish(context)


def set_callbacks(search: Any, callbacks: tuple[Any, ...]) -> None:
    """Set a search's `ProgressBar`s in place of earlier ones (an empty tuple removes them); others are refused."""
    strange = [type(one).__name__ for one in callbacks if type(one) is not ProgressBar]
    if strange:
        has = ProgressBar is not None
        raise StudyInvalid(
            f"a private search takes no callback {strange[0]}",
            cause="it is handed what is fitted and scored at every step"
            if has
            else "scikit-learn before 1.9 has none",
            remedy="verbose=1 writes the steps" + ("; sklearn.callback.ProgressBar works" if has else ""),
        )
    if ProgressBar is not None:
        CallbackSupportMixin.set_callbacks(search, *callbacks)


@contextmanager
def step_shown(search: Any, n_steps: int) -> Iterator[Callable[[], None]]:
    """Context with a function to call after each of `n_steps` steps: it moves the search's progress bar, if any."""
    if not getattr(search, "_skl_callbacks", None):
        yield lambda: None
        return
    with callback_management_context(search):
        fit = CallbackSupportMixin._init_callback_context(search, max_subtasks=n_steps)
        fit.call_on_fit_task_begin(estimator=search)

        def step() -> None:
            fit.subcontext("step").call_on_fit_task_begin(estimator=search).call_on_fit_task_end(estimator=search)

        yield step
        fit.call_on_fit_task_end(estimator=search)
