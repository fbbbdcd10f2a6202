"""A ledger of several months: studies that are charged and released at dates of their own."""

from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from unittest.mock import patch

from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.report.evaluation import open_evaluation
from dpbo_core.study import StudySpec
from dpbo_core.study.query import QueryContext
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import open_study

CLOCKS = [f"dpbo_core.ledger.{name}.utc_now" for name in ("accounts", "ledger", "policy", "reservation")]
ASKER = "maria on the team's server"


@contextmanager
def at(day: datetime):
    """The ledger's clock stands at `day`."""
    with ExitStack() as clocks:
        for clock in CLOCKS:
            clocks.enter_context(patch(clock, lambda: day.isoformat(timespec="seconds")))
        yield


def released(ledger: PrivacyLedger, tables: dict, day: datetime):
    """Run a study at `day`, and an hour later its evaluation if it asks for one."""
    spec, context = StudySpec.from_dict(tables), QueryContext(ledger, asked_by=ASKER)
    with at(day):
        open_study(Run.of(spec, context)).run(None)
    if spec.evaluation is not None:
        with at(day + timedelta(hours=1)):
            open_evaluation(Run.of(spec, context)).finish(context)
