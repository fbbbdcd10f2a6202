"""The two parties of an outsourced search: the curator publishes and answers, the modeller asks."""

from pathlib import Path

from dpbo.features.outsourced import session
from dpbo.features.outsourced.answers import Curator
from dpbo.features.outsourced.box import PrivateAnswers
from dpbo.features.outsourced.curator import Publication, publish
from dpbo.features.outsourced.messages import Answer, Query
from dpbo.features.outsourced.session import Progress
from dpbo.tasks import policies
from dpbo.tasks.policies import private_task
from dpbo_core.privacy.release import StudyResult
from dpbo_core.study.context import QueryContext


@private_task(name="publish table", **policies.SENSITIVE_TASK)
def publish_table(publication: Publication, data: Path, out: Path, run: QueryContext, vaults: Path) -> StudyResult:
    """Charge, noise and record the table in `data`, then write it to `out`; repeated, the same one."""
    return publish(publication, data, out, run, vaults=vaults)


@private_task(name="suggest row", **policies.SENSITIVE_TASK)
def suggest_row(table: Path, state: Path, out: Path) -> Query:
    """The modeller's next query, recorded in the search's file `state` and then written to `out`."""
    return session.suggest(table, state, out)


@private_task(name="answer query", **policies.SENSITIVE_TASK)
def answer_query(
    curator: Curator,
    query: Path,
    answers: Path,
    out: Path,
    private: PrivateAnswers | None,
    accepts: tuple[str, ...],
) -> Answer:
    """Answer a modeller's query from the table `answers`, in the file `out`: as before if asked before; exactly if
    `private` is None, which `accepts` must allow, else charged and noised.
    """
    return curator.answer_file(query, answers, out, private=private, accepts=accepts)


@private_task(name="take answer", **policies.SENSITIVE_TASK)
def take_answer(answer: Path, state: Path) -> Progress:
    """Add an answer to the modeller's search in `state`: how many there are, and the best row so far."""
    return session.update(answer, state)
