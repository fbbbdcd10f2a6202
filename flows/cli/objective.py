"""`dpbo objective`: a budget of private scores for somebody else's search, asked one at a time."""

import json as reader
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dpbo.flows.cli.release_screen import place, print_release, release_json, where_to_look
from dpbo.flows.cli.running import own_ledger, run_here
from dpbo.flows.cli.studies import study_of_one_run
from dpbo.flows.cli.terminal import Screen, named, print_result
from dpbo.flows.cli.words import Study
from dpbo.flows.plain_output import announce_stage
from dpbo.flows.prefect_runtime.settings import quiet_environment
from dpbo.flows.useless_spend import ask_or_refuse
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.sources import MODEL, Source, file_source
from dpbo_core.preparation.context import QueryContext
from dpbo_core.privacy.release import NO_SCORE, StudyResult
from dpbo_core.queries.objective_for_a_loop.objective_handle import objective_of_study
from dpbo_core.queries.objective_for_a_loop.parameters import canonical_text, parameters_of, read_parameters
from dpbo_core.queries.objective_for_a_loop.released_score import Score
from dpbo_core.queries.objective_for_a_loop.score_session import OpenObjective, ScoreSession
from dpbo_core.queries.objective_for_a_loop.submission import (
    Submission,
    model_file,
    prediction_columns,
    predictions_file,
    submitted_model,
    submitted_predictions,
)

if TYPE_CHECKING:
    from dpbo.flows.objective import Closed
    from dpbo_core.accounting.account import Account


def objective(
    study: Study,
    word: Annotated[
        Literal["best", "close"] | None,
        typer.Argument(help="best: of what was asked. close: record the release; no more scores."),
    ] = None,
    params: Annotated[
        str | None, typer.Option(metavar="JSON", help="Hyperparameters to score: '{\"C\": 1.0}'.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A fitted model to score: FILE.skops, or a saved model.")
    ] = None,
    predictions: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What was predicted elsewhere, a row a record, to score.")
    ] = None,
) -> None:
    """Ask for one private score of the n that [objective] pays for; or the best, all so far, the release."""
    if sum(item is not None for item in (word, params, model, predictions)) > 1:
        raise StudyInvalid("the command asks for several things", remedy="ask for one at a time")
    if word == "close":
        closed, account = _closed(study)
        look = where_to_look(closed.release, closed.tracked)
        result = StudyResult(closed.release, replayed=False)
        print_result(
            lambda: release_json(result, tracking=place(closed.tracked)),
            lambda: print_release(result, account, look=look),
        )
        return
    session = _session(study, *(() if model is None else (file_source(model, MODEL),)))
    if word == "best":
        document: dict[str, Any] = {"hyperparameters": session.best()}
    elif params is not None:
        try:
            asked = reader.loads(params)
        except ValueError:
            raise StudyInvalid("--params is no JSON", remedy="write one object in quotes: '{\"C\": 1.0}'") from None
        document = _score_document(session, parameters_of(asked))
    elif model is not None:
        document = _submission_document(session, _model_submission(session.opened, model))
    elif predictions is not None:
        document = _submission_document(session, _predictions(session.opened, study, predictions))
    else:
        document = {"trajectory": session.trajectory, "scores_left": session.scores_left}
    document["guarantee"] = session.guarantee.to_json()
    print_result(lambda: document, lambda: _print(document, session.guarantee.in_words()))


def _session(path: Path, *models: Source) -> ScoreSession:
    """The private objective of the study in `path`, ready to score (`models` too); the first score pays for all."""
    spec = study_of_one_run(path)
    announce_stage(spec.name, "reading what is public; the first time its scores are paid for")
    run = QueryContext(own_ledger(), path.parent, consent=partial(ask_or_refuse, spec))
    return ScoreSession(objective_of_study(spec, run, *models), run)


def _model_submission(opened: OpenObjective, path: Path) -> Submission:
    """The saved model at `path`, as something that the objective can score."""
    model, digest = model_file(path)
    return submitted_model(opened.spec, opened.split, opened.public, model, digest)


def _predictions(opened: OpenObjective, study: Path, path: Path) -> Submission:
    """The predictions in the file at `path`, to be scored; the ledger records that the file is sensitive."""
    columns = prediction_columns(opened.spec, opened.split, opened.public)
    table = predictions_file(opened.spec, path, columns)
    submission = submitted_predictions(opened.public, columns, os.path.relpath(path, study.parent), table)
    submission.check(opened.price.plan().guarantee)
    ledger, dataset = own_ledger(), opened.spec.privacy.dataset
    ledger.approve(dataset, opened.cap, opened.split.sources())
    ledger.allow(dataset, file_source(path))
    return submission


def _score_document(session: ScoreSession, params: Mapping[str, Any]) -> dict[str, Any]:
    """Train a model with the hyperparameters `params` and draw its private score, or repeat it: as JSON."""
    text = canonical_text(params)
    announce_stage(session.opened.spec.name, "training and scoring one model")
    return _scored(session, text, replayed=session.has_score(text), score=session.ask(params))


def _submission_document(session: ScoreSession, submission: Submission) -> dict[str, Any]:
    """Draw, or repeat, the private score of a submitted model or of submitted predictions: as JSON."""
    replayed = session.has_score(submission.text)
    return _scored(session, submission.text, replayed=replayed, score=session.submit(submission))


def _scored(session: ScoreSession, text: str, *, replayed: bool, score: Score) -> dict[str, Any]:
    """The JSON document of one score; `text` holds its hyperparameters, `replayed` says it is an old one."""
    return {
        "hyperparameters": read_parameters(text),
        "replayed": replayed,
        "score": score.value,
        "noise": score.noise,
        "interval": None if score.interval is None else list(score.interval),
        **({NO_SCORE: session.no_score} if score.value is None else {}),
        "scores_left": session.scores_left,
    }


def _print(document: Mapping[str, Any], guarantee: str) -> None:
    """Print a score's JSON document, or that of all scores so far, for people."""
    screen = Screen()
    facts = [(named(name), named(value)) for name, value in document.get("hyperparameters", {}).items()]
    if "score" in document:
        if document["replayed"]:
            facts.append(("", "asked before: the recorded score, at no price"))
        facts.append(("score", document.get(NO_SCORE) or _score_in_words(document)))
    facts += [
        (
            f"score {step['step']}",
            f"{'none' if step['score'] is None else format(step['score'], '.4f')}   "
            f"{named(reader.dumps(step['hyperparameters']))}",
        )
        for step in document.get("trajectory", ())
    ]
    if "scores_left" in document:
        facts.append(("left", f"{document['scores_left']} scores"))
    screen.facts([*facts, ("guarantee", named(guarantee))])


def _score_in_words(document: Mapping[str, Any]) -> str:
    """A score with its 90% interval, from its JSON document, for the screen."""
    low, high = document["interval"]
    return f"[bold]{document['score']:.4f}[/]   90% interval {low:.3f} … {high:.3f}, by the noise alone"


def _closed(path: Path) -> "tuple[Closed, Account]":
    """End the study's private objective: record its release, and show it in MLflow by a Prefect flow."""
    spec = study_of_one_run(path)
    quiet_environment()

    def flow() -> "Callable[..., Closed]":
        from dpbo.flows.objective import close_privately

        return close_privately

    return run_here(spec, flow, (spec, str(path.parent)), lambda: None)
