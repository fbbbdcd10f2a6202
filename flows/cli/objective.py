"""`dpbo objective`: a budget of private scores for somebody else's search, asked one at a time."""

import json as reader
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpbo.flows.cli.release_screen import place, print_release, release_json, where_to_look
from dpbo.flows.cli.running import own_ledger, run_here
from dpbo.flows.cli.studies import study_of_one_run
from dpbo.flows.cli.terminal import Screen, named, print_result
from dpbo.flows.cli.words import Study
from dpbo.flows.prefect_runtime.settings import quiet_environment
from dpbo_core.errors import StudyInvalid
from dpbo_core.preparation.run import Run
from dpbo_core.queries.objective_for_a_loop.open_objective import objective_of_study
from dpbo_core.queries.objective_for_a_loop.score_session import ScoreSession

if TYPE_CHECKING:
    from dpbo.flows.objective import Closed
    from dpbo_core.accounting.account import Account


class Word(StrEnum):
    """What else can be asked of an objective than a score."""

    BEST = "best"
    CLOSE = "close"


def objective(
    study: Study,
    word: Annotated[
        Word | None, typer.Argument(help="best: of what was asked. close: record the release; no more scores.")
    ] = None,
    params: Annotated[
        str | None, typer.Option(metavar="JSON", help="Hyperparameters to score: '{\"C\": 1.0}'.")
    ] = None,
) -> None:
    """Ask for one private score of the n that [objective] of the study pays for, whatever search asks."""
    if word is Word.CLOSE:
        closed, account = _closed(study)
        look = where_to_look(closed.release, closed.tracked)
        print_result(
            lambda: release_json(closed.release, replayed=False, tracking=place(closed.tracked)),
            lambda: print_release(closed.release, account, replayed=False, look=look),
        )
        return
    session = _session(study)
    if word is Word.BEST:
        document: dict[str, Any] = {"hyperparameters": session.best()}
    elif params is None:
        document = {"trajectory": session.trajectory, "scores_left": session.scores_left}
    else:
        document = _score(session, _read(params))
    document["guarantee"] = session.guarantee.to_json()
    print_result(lambda: document, lambda: _print(document, session.guarantee.in_words()))


def _session(path: Path) -> ScoreSession:
    spec = study_of_one_run(path)
    run = Run(own_ledger(), path.parent)
    return ScoreSession(objective_of_study(spec, run), run)


def _read(text: str) -> Any:
    """The hyperparameters of a JSON object.

    Raises:
        StudyInvalid: it is none.
    """
    try:
        return reader.loads(text)
    except ValueError:
        pass
    raise StudyInvalid("--params is no JSON", remedy="write one object in quotes: '{\"C\": 1.0}'")


def _score(session: ScoreSession, params: Any) -> dict[str, Any]:
    score = session.ask(params)
    return {
        "hyperparameters": params,
        "score": score.value,
        "noise": score.noise,
        "interval": list(score.interval),
        "scores_left": session.scores_left,
    }


def _print(document: Mapping[str, Any], guarantee: str) -> None:
    """The screen of what a JSON document says."""
    screen = Screen()
    facts = [(named(name), named(value)) for name, value in document.get("hyperparameters", {}).items()]
    if "score" in document:
        low, high = document["interval"]
        facts.append(
            ("score", f"[bold]{document['score']:.4f}[/]   90% interval {low:.3f} … {high:.3f}, by the noise alone")
        )
    facts += [
        (f"score {step['step']}", f"{step['score']:.4f}   {named(reader.dumps(step['hyperparameters']))}")
        for step in document.get("trajectory", ())
    ]
    if "scores_left" in document:
        facts.append(("left", f"{document['scores_left']} scores"))
    screen.facts([*facts, ("guarantee", named(guarantee))])


def _closed(path: Path) -> "tuple[Closed, Account]":
    """Record the release and show it in MLflow, by a Prefect flow."""
    spec = study_of_one_run(path)
    quiet_environment()

    def flow() -> "Closed":
        from dpbo.flows.objective import close_privately

        return close_privately(spec, folder=str(path.parent))

    return run_here(spec, flow, lambda: None)
