"""Answer one query of the modeller's."""

from pathlib import Path

from prefect import task

from dpbo_core.methods.outsourced.answers import Curator
from dpbo_core.methods.outsourced.messages import Answer
from dpbo_core.methods.outsourced.private_answers import PrivateAnswers
from tasks import policies


@task(name="answer query", **policies.SENSITIVE_TASK)
def answer_query(
    curator: Curator,
    query: Path,
    answers: Path,
    out: Path,
    private: PrivateAnswers | None,
    accepts: tuple[str, ...],
) -> Answer:
    """The answer, recorded before it is written."""
    return curator.answer_file(query, answers, out, private=private, accepts=accepts)
