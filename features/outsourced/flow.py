"""The story of an outsourced search on one machine: two flows in two processes, which meet in a folder of files.

The curator's process publishes the table and answers; the modeller's asks and learns. Neither sees more of the
other than two organisations would. Run it again after a stop: both go on from their files, nothing is paid twice.
"""

import multiprocessing
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect.settings import PREFECT_API_URL, temporary_settings

from dpbo.features.outsourced import session
from dpbo.features.outsourced.answers import Curator
from dpbo.features.outsourced.box import PrivateAnswers
from dpbo.features.outsourced.curator import Publication, publish
from dpbo.features.outsourced.messages import Answer, Query
from dpbo.features.outsourced.session import Progress, progress_text
from dpbo.flows.owner import caller, check_owner, owners_terminal
from dpbo.flows.prefect_runtime.liveness import is_alive
from dpbo.flows.prefect_runtime.settings import check_prefect_settings, disable_heartbeat, prefect_settings
from dpbo.flows.run_end import (
    add_outcome,
    failed_run,
    folder_name,
    name_run,
    price_and_rest,
    wait_until_recorded,
    with_text,
)
from dpbo.flows.stores import Stores
from dpbo.tasks import policies
from dpbo.tasks.policies import or_refused, private_task
from dpbo_core.errors import BudgetRefused, DpboError
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.privacy.release import StudyResult
from dpbo_core.study.query import QueryContext


@private_task(name="publish table", **policies.SENSITIVE_TASK_OPTIONS)
def publish_table(
    publication: Publication, data: Path, out: Path, run: QueryContext, vaults: Path
) -> StudyResult | BudgetRefused:
    """Charge, noise and record the table in `data`, and write it to `out`; a refusal is returned."""
    return or_refused(lambda: publish(publication, data, out, run, vaults=vaults))


@private_task(name="suggest row", **policies.SENSITIVE_TASK_OPTIONS)
def suggest_row(table: Path, state: Path, out: Path) -> Query:
    """Return the modeller's next query, recorded in the search's file `state` and then written to `out`."""
    return session.suggest(table, state, out)


@private_task(name="answer query", **policies.SENSITIVE_TASK_OPTIONS)
def answer_query(
    curator: Curator,
    query: Path,
    answers: Path,
    out: Path,
    private: PrivateAnswers | None,
    accepts: tuple[str, ...],
) -> Answer | BudgetRefused:
    """Answer a modeller's query, as `Curator.answer_file`; a refusal is returned."""
    return or_refused(lambda: curator.answer_file(query, answers, out, private=private, accepts=accepts))


@private_task(name="take answer", **policies.SENSITIVE_TASK_OPTIONS)
def take_answer(answer: Path, state: Path) -> Progress:
    """Add an answer to the modeller's search in `state`: how many there are, and the best row so far."""
    return session.update(answer, state)


FILE_TIMEOUT_S = 3600.0  # seconds one party waits for a file of the other's
STATE_FILE = "search.json"


@dataclass(frozen=True)
class Outsourcing:
    """What both parties agree on.

    Attributes:
        publication: what is published, at which price.
        data: the candidates' rows; the curator's.
        answers: one column, a row for each row of the data; the curator's.
        meeting: the folder that both can read and write.
        steps: rows that the modeller will ask about.
        private: noise on the answers, or None if they are public.
        accepts: assumptions taken on by name.
    """

    publication: Publication
    data: str
    answers: str
    meeting: str
    steps: int
    private: PrivateAnswers | None = None
    accepts: tuple[str, ...] = ()

    def file(self, name: str) -> Path:
        """Return the path of a file in the folder where curator and modeller exchange messages."""
        return Path(self.meeting) / name


@policies.private_flow(name="curate", **policies.FLOW_OPTIONS)
def curate(terms: Outsourcing) -> Any:
    """Run the curator: charge for the noised table and publish it, then answer the modeller's queries, one a step.

    Raises:
        PolicyRefused: Prefect started it; its files are its owner's to name.
        BudgetRefused: the dataset's budget does not pay for the table or the answers.
    """
    try:
        stores, publication = _begin("the curator's part of an exchange", "curate", terms), terms.publication
        with is_alive(stores.running):
            ledger, table = PrivacyLedger(stores.ledger), terms.file("Z.parquet")
            run = QueryContext(ledger, caller=caller(ledger))
            _raised(publish_table(publication, Path(terms.data), table, run, stores.vaults))
            curator = Curator(run, stores.vaults, names_rows=False)
            for t in range(1, terms.steps + 1):
                query, answer = terms.file(f"query-{t}.json"), terms.file(f"answer-{t}.json")
                wait_for(query)
                _raised(answer_query(curator, query, Path(terms.answers), answer, terms.private, terms.accepts))
            wait_until_recorded(1 + terms.steps)
        (account,) = ledger.accounts(publication.dataset)
        return _done(f"{terms.steps} answers, {price_and_rest(publication.box.epsilon, account)}")
    except DpboError as error:
        return failed_run(error, "curate")


@policies.private_flow(name="model", **policies.FLOW_OPTIONS)
def model(terms: Outsourcing) -> Any:
    """Run the modeller: wait for the published table, then ask for one row's answer a step, and learn.

    Raises:
        PolicyRefused: Prefect started it; its files are its owner's to name.
    """
    try:
        stores = _begin("the modeller's part of an exchange", "model", terms)
        table, state = terms.file("Z.parquet"), terms.file(STATE_FILE)
        with is_alive(stores.running):
            wait_for(table)
            done = progress_text(state).steps
            for t in range(done + 1, terms.steps + 1):
                answer = terms.file(f"answer-{t}.json")
                suggest_row(table, state, terms.file(f"query-{t}.json"))
                wait_for(answer)
                take_answer(answer, state)
            wait_until_recorded(2 * max(0, terms.steps - done))
        return _done(f"{terms.steps} rows asked")
    except DpboError as error:
        return failed_run(error, "model")


def _begin(part: str, name: str, terms: Outsourcing) -> Stores:
    check_owner(part)
    check_prefect_settings()
    stores = Stores()
    stores.make_folder()
    dataset = terms.publication.dataset
    name_run(dataset, terms.publication.edition, name, dataset=dataset, folder=folder_name(terms.meeting))
    return stores


def _raised(outcome: object) -> None:
    if isinstance(outcome, BudgetRefused):
        raise outcome


def _done(outcome: str) -> Any:
    add_outcome(outcome)
    return with_text(None, outcome)


def outsource(terms: Outsourcing) -> Progress:
    """Run curator and modeller in two processes here, as the owner, until the search ends: how far it came.

    Raises:
        DpboError: one of the two stopped; its own message is on standard error.
    """
    server = prefect_settings().api.url
    Path(terms.meeting).mkdir(mode=0o700, parents=True, exist_ok=True)
    spawn = multiprocessing.get_context("spawn")  # a fresh interpreter: nothing of one party is in the other's
    parties = [spawn.Process(target=_run, args=(name, terms, server), name=name) for name in ("curate", "model")]
    for party in parties:
        party.start()
    while all(party.exitcode in (None, 0) for party in parties) and any(party.is_alive() for party in parties):
        time.sleep(0.05)
    stopped = [party for party in parties if party.exitcode not in (None, 0)]
    for party in parties:
        if stopped and party.is_alive():
            party.terminate()
        party.join()
    if stopped:
        raise DpboError(
            f"the flow {stopped[0].name!r} stopped before the search ended",
            cause="its own message is above this one",
            remedy="mend what it names and run it again; both parties go on from their files",
        )
    return progress_text(terms.file(STATE_FILE))


def wait_for(path: Path) -> None:
    """Wait until the other party (curator or modeller) put its whole file at `path`; DpboError after an hour."""
    end = time.monotonic() + FILE_TIMEOUT_S
    while not path.exists():
        if time.monotonic() > end:
            raise DpboError(
                f"the other party's file {path.name} did not come",
                cause="the other flow stopped",
                remedy="start both again; they go on from their files",
            )
        time.sleep(0.02)


def _run(name: str, terms: Outsourcing, server: str | None) -> None:
    """Run the curator's or modeller's flow, by `name`; at an error exit with its message on standard error."""
    party: Callable[[Outsourcing], Any] = {"curate": curate, "model": model}[name]
    settings = temporary_settings({PREFECT_API_URL: server} if server else {})
    try:
        with settings, owners_terminal(), disable_heartbeat():
            party(terms)
    except DpboError as error:
        sys.stderr.write(f"dpbo: {error.message()}\n")
        sys.exit(1)
