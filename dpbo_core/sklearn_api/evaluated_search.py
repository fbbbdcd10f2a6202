"""A released search evaluated on tables in memory: the same query, draw and report as of files."""

from dataclasses import dataclass

from dpbo_core.errors import DpboError
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.preparation.public_half import PublicHalf
from dpbo_core.preparation.resolve import ResolvedStudy, planning_problem
from dpbo_core.preparation.run import Run
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.queries.evaluation.counting import Counter, count_table
from dpbo_core.queries.evaluation.histogram_cells import Integers
from dpbo_core.queries.evaluation.query import EvaluationQuery
from dpbo_core.queries.evaluation.request import request_of_released, warn
from dpbo_core.queries.evaluation.run import EvaluationResult, open_request
from dpbo_core.scoring.partitioned import Workers
from dpbo_core.sklearn_api.tables_in_memory import FrameSplit


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
        """Names of the validation table's columns, the target's last."""
        return *self.split.validation.names, public.target

    def count(self, counter: Counter, workers: Workers | None) -> Sensitive[Integers]:
        """Read the records and count them, here."""
        del workers
        return count_table(self.split.spec, counter, *self.split.records())


def evaluate_search(study: ResolvedStudy, split: FrameSplit, ledger: PrivacyLedger) -> EvaluationResult:
    """Evaluate the model that a search released, for one spend; a report that was recorded is returned again.

    Args:
        study: of the search, as it was released.
        split: both tables, with a study that asks by [evaluation]; its records may be others than were searched on.
        ledger: where budgets are kept.

    Raises: as `evaluate_study`.
    """
    problem = planning_problem(split.spec, unlisted=split.prototype.unlisted())
    query, public = EvaluationQuery.of(split.spec, problem, None), split.public(problem)
    run = Run(ledger)
    opened = open_request(request_of_released(study, query, public, FrameTable(split), run), run)
    if isinstance(opened, EvaluationResult):
        return opened
    warn(opened.plan.expected.warning)
    return opened.finish(run)
