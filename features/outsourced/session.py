"""The modeller's search as a file: its answers, and the one query that waits for its answer.

Suggesting writes the state before the query, updating writes the state and nothing else, both in one piece. So a
kill at any moment loses nothing: the same command again writes the same query, or takes in the same answer.
"""

import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from dpbo.features.outsourced.messages import (
    MAX_ANSWER,
    Answer,
    Query,
    digest,
    read_message,
    read_published,
    write_file,
    write_message,
)
from dpbo.features.outsourced.modeler import Modeler, Prior, RowAnswer
from dpbo_core.errors import StudyInvalid

FORMAT_VERSION = 1


@dataclass(frozen=True)
class State:
    """Everything a search is."""

    publication: str
    table: str  # digest of its file
    session: str  # the search's own random name
    answers: tuple[RowAnswer, ...] = ()
    waiting: int | None = None  # the row that was asked about and not answered yet, or None
    prior: Prior | None = None  # hyperparameters that are known, or None to fit them

    @property
    def query(self) -> Query | None:
        """The query sent to the curator and not answered yet; None if there is none."""
        return None if self.waiting is None else self.about(self.waiting)

    def about(self, row: int) -> Query:
        """Return the next query to the curator, which asks for the value of table row `row`."""
        return Query(self.publication, self.session, len(self.answers) + 1, row)


@dataclass(frozen=True)
class Progress:
    """Where a search stands: answers so far, the best answered row, and what is believed of it."""

    steps: int
    row: int
    value: float


def _check_prior(prior: Prior | None) -> None:
    if prior is None:
        return
    positive = 0.0 < prior.lengthscale < MAX_ANSWER and 0.0 < prior.variance < MAX_ANSWER
    if not (positive and 0.0 <= prior.noise_variance < MAX_ANSWER and abs(prior.mean) < MAX_ANSWER):
        raise StudyInvalid(
            "the prior's numbers are not possible",
            cause="a lengthscale and a variance are positive, a noise variance is at least 0",
            remedy="give them in the units of the table and of the answers",
        )


def suggest(table: Path, state: Path, out: Path, prior: Prior | None = None) -> Query:
    """Choose the next row, record it in `state` and write its query to `out`; the same until it is answered."""
    _check_prior(prior)
    published, digest_of_table = read_published(table)
    with _locked(state):
        new = State(published.publication, digest_of_table, secrets.token_hex(8), prior=prior)
        search = _read_state(state, missing=new)
        if prior not in (None, search.prior):
            raise StudyInvalid(
                "the search began with another prior",
                cause="it is fixed by the first suggestion",
                remedy="leave it out, or begin a new search with another --state",
            )
        if search.table != digest_of_table:
            raise StudyInvalid(
                f"{str(state)!r} is a search over another table than {str(table)!r}",
                cause="the curator published anew, or the paths are mixed up",
                remedy="give the search of the new table a state file of its own",
            )
        if any(one.row >= len(published.rows) for one in search.answers):
            raise _damaged_state(state)
        query = search.query
        if query is None:
            modeler = Modeler(published.rows, noise_scale=published.noise_scale, prior=search.prior)
            modeler.replay(list(search.answers))
            row = modeler.suggest()
            query = search.about(row)
            _write_state(state, replace(search, waiting=row))
        write_message(query, out)
    return query


def update(answer: Path, state: Path) -> Progress:
    """Add the curator's answer file to a search's state file; return the search's progress.

    It is refused unless it answers the waiting query.
    """
    message = read_message(Answer, answer)
    with _locked(state):
        search = _read_state(state, missing=None)
        query = search.query
        if query is None or message.query != digest(query) or message.row != query.row:
            raise _misplaced_answer(search, message)
        received = RowAnswer(message.row, message.value, message.noise_scale)
        search = replace(search, answers=(*search.answers, received), waiting=None)
        _write_state(state, search)
    return _progress_of(search)


def progress_text(state: Path) -> Progress:
    """Return how far the search in a state file is; of no file yet 0 answers and row −1."""
    return _progress_of(_read_state(state, missing=State("", "", "")))


def _progress_of(search: State) -> Progress:
    if not search.answers:
        return Progress(0, -1, 0.0)
    best = max(search.answers, key=lambda one: one.value)
    return Progress(len(search.answers), best.row, best.value)


def _misplaced_answer(search: State, message: Answer) -> StudyInvalid:
    if message.session != search.session or message.publication != search.publication:
        return StudyInvalid(
            "the answer belongs to another search",
            cause="two searches share a folder, or the paths are mixed up",
            remedy="give each search files of its own",
        )
    if message.step <= len(search.answers):
        return StudyInvalid(
            f"the answer to step {message.step} was taken in already; nothing was changed",
            cause="the command was repeated, or an old file was sent again",
            remedy="go on with: dpbo model suggest",
        )
    return StudyInvalid(
        "the answer is not to the query that waits; nothing was changed",
        cause="an old state was restored, or the query was changed on its way",
        remedy="write the query again with: dpbo model suggest, and have it answered",
    )


def _read_state(path: Path, *, missing: State | None) -> State:
    """Return the search in a state file; `missing` where there is no file; if that is None, an error is raised."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        if missing is not None:
            return missing
        problem = f"there is no search at {str(path)!r}"
    except OSError as error:
        problem = f"{str(path)!r} cannot be read ({(error.strerror or 'no reason given').lower()})"
    else:
        state = _parse_state(text)
        if state is not None:
            return state
        raise _damaged_state(path)
    raise StudyInvalid(
        problem, cause="the path is misspelt", remedy="give the --state that dpbo model suggest was given"
    )


def _damaged_state(path: Path) -> StudyInvalid:
    return StudyInvalid(
        f"{str(path)!r} is not a whole search",
        cause="the file was edited, or is another file",
        remedy="restore it, or begin a new search with another --state",
    )


def _parse_state(text: bytes) -> State | None:
    """Return the search in the JSON text of a state file; None if it is damaged."""
    try:
        document = json.loads(text)
        if document.pop("format") != FORMAT_VERSION:
            return None
        answers = tuple(RowAnswer(**one) for one in document.pop("answers"))
        stated = document.pop("prior")
        prior = None if stated is None else Prior(**stated)
        _check_prior(prior)
        document.pop("delta_ucb", None)  # in files of earlier versions
        state = State(answers=answers, prior=prior, **document)
        rows = [one.row for one in answers] + ([] if state.waiting is None else [state.waiting])
        for step, row in enumerate([0, *rows], start=1):
            Query(state.publication, state.session, step, row)
        sound = all(type(row) is int for row in rows) and isinstance(state.table, str)
        sound &= all(abs(one.value) <= MAX_ANSWER and 0 <= one.noise_scale <= MAX_ANSWER for one in answers)
        return state if sound else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, StudyInvalid):
        return None


def _write_state(path: Path, state: State) -> None:
    document: dict[str, Any] = {"format": FORMAT_VERSION, **asdict(state)}
    write_file(path, json.dumps(document, allow_nan=False).encode(), option="--state")


@contextmanager
def _locked(state: Path) -> Iterator[None]:
    """Context that waits for, then holds, a lock on a search's state file: one command at a time."""
    try:
        handle = os.open(state.with_name(f".{state.name}.lock"), os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as error:
        handle, reason = -1, (error.strerror or "no reason given").lower()
    if handle < 0:
        raise StudyInvalid(f"{str(state)!r} cannot be used ({reason})", remedy="choose another place for --state")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
