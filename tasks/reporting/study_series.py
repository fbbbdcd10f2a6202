"""A study in MLflow: one run above its editions', whose charts show their scores and what is left of the budget.

The runs of its editions, evaluations and watches are its children. All that it holds, they hold.
"""

from typing import Any

from dpbo.tasks.reporting.experiment_note import NOTE_TAG
from dpbo.tasks.reporting.literal import in_markdown
from dpbo.tasks.reporting.logged_numbers import as_metrics, by_edition
from dpbo.tasks.reporting.mlflow_store import Store
from dpbo_core.accounting.accounts import Account
from dpbo_core.accounting.balance import balance_after
from dpbo_core.privacy.release import Release

KIND, STUDY = "dpbo.kind", "dpbo.study"
SERIES = "study"  # the kind of such a run; of its children: edition, evaluation, watch
PARENT = "mlflow.parentRunId"
LARGEST_PAGE = 1000
NOTE = """\
**Every edition of the study {study}**, on the dataset {dataset}: under *Model metrics*, the score by edition with \
its 90% interval (`release/…`) and what is left of the dataset's budget (`budget/left`), by place in the dataset's \
account. Each edition is a run below this one, and its page begins with what it released."""


def series_of(store: Store, experiment: str, study: str, dataset: str) -> str:
    """The id of the study's own run, made with its note if need be; the oldest, if two processes made one each."""
    found = store.client.search_runs(
        [experiment],
        f"tags.`{KIND}` = '{SERIES}'",
        max_results=LARGEST_PAGE,
        order_by=["attributes.start_time ASC"],
    )
    for run in found:
        if run.data.tags.get(STUDY) == study:
            return str(run.info.run_id)
    note = NOTE.format(study=in_markdown(study), dataset=in_markdown(dataset))
    tags = {KIND: SERIES, STUDY: study, "dpbo.dataset": dataset, NOTE_TAG: note}
    return str(store.client.create_run(experiment, run_name=study, tags=tags).info.run_id)


def extend(store: Store, run_id: str, release: Release, account: Account) -> None:
    """Add what `release` adds to its study's charts; again, nothing is written twice."""
    series: Any = store.client.get_run(run_id).data.tags.get(PARENT)
    if series is None:  # logged before there were such runs
        return
    rows = by_edition(release, balance_after(account, release.release_id))
    store.client.log_batch(series, metrics=as_metrics(release, rows))
    store.client.set_terminated(series, "FINISHED")
