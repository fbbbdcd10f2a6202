"""The screen of a document, and what the commands print of a release beside it: JSON, and how a model is served."""

import json
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from dpbo.flows.stores import MLFLOW_PAGE, Stores
from dpbo.flows.terminal import Screen, named
from dpbo.tasks.reporting.document import NO_NUMBER, Document, Figure
from dpbo.tasks.reporting.release_document import REPAIRED_HINT, release_document
from dpbo.tasks.reporting.report_document import repair_document
from dpbo_core.errors import printable
from dpbo_core.ledger.accounting.account import Account
from dpbo_core.ledger.address import team_setting
from dpbo_core.privacy.release import Release, StudyResult

if TYPE_CHECKING:
    from dpbo.tasks.reporting.mlflow_store import Tracked
    from dpbo_core.report.evaluation import EvaluationResult

CURVE_WIDTH, CURVE_HEIGHT = 40, 6  # of a curve, in characters
CURVE_MARGIN = 15  # columns to its left
SERVING_PORT = 5001
SPARK_STEPS = " ▁▂▃▄▅▆▇█"


def print_document(document: Document) -> None:
    """Print a document: title, remark, tables, then every fact and figure on a line of its own."""
    screen = Screen()
    if document.title:
        subtitle = f" · {named(document.subtitle)}" if document.subtitle else ""
        screen.say(f"[bold]{named(document.title)}[/]{subtitle}")
    if document.remark:
        screen.say(named(document.remark))
    screen.say()
    for table in document.short_tables:
        strong = table.strong
        rows = [
            tuple(
                f"[bold]{named(text)}[/]" if place == strong and text != NO_NUMBER else named(text)
                for place, text in enumerate(row)
            )
            for row in table.rows
        ]
        screen.table(tuple(map(named, table.header)), rows, left=table.left, title=named(table.title))
        screen.say()
    answers, facts = (
        [
            (named(fact.name), (f"[bold]{named(fact.strong)}[/]" if fact.strong else "") + named(fact.text))
            for fact in part
        ]
        for part in (document.answers, document.facts)
    )
    screen.facts([*answers, *((named(one.name), _drawn(screen, one)) for one in document.figures), *facts])


def _drawn(screen: Screen, figure: Figure) -> str:
    after = f"   {named(figure.caption)}" if figure.caption else ""
    if screen.plain:
        return named(figure.words) + after
    if figure.axes is None:
        return screen.spark([y for _, y in figure.points]) + after
    width = min(CURVE_WIDTH, screen.width - CURVE_MARGIN)
    heights = [figure.height_at((column + 0.5) / width) * CURVE_HEIGHT for column in range(width)]
    lines = []
    for row in reversed(range(CURVE_HEIGHT)):
        filled = "".join(SPARK_STEPS[round(8 * min(1.0, max(0.0, height - row)))] for height in heights)
        label = {CURVE_HEIGHT - 1: "1", 0: "0"}.get(row, " ")
        lines.append(f"[dim]{label}│[/][cyan]{filled.rstrip()}[/]")
    x, y = map(named, figure.axes)
    return "\n".join([f"[dim]{y}[/]", *lines, f"[dim] └{'─' * width}\n  0{x.center(width - 2)}1[/]"])


def print_notes(document: Document, study: str = "") -> None:
    """Print what each part of a document means, a paragraph each, and what to do next with the file `study`."""
    screen = Screen()
    screen.say("\n[bold]What this means[/]")
    for note in document.notes:
        screen.say(f"\n[bold]{named(note.title)}.[/] {named(' '.join(note.sentences))}")
    screen.say(f"\n[bold]Next.[/] {named(_with_path(document.next_step, study))}.")


def print_next(document: Document, study: "Path | str" = "", *, repaired: bool = False) -> None:
    """Print what to do next with the study in the file `study`; not what was just done."""
    step = REPAIRED_HINT if repaired else document.next_step
    Screen().say(f"\n[bold]Next:[/] {named(_with_path(step, str(study)))}.")


def _with_path(step: str, study: str) -> str:
    """Return a sentence with the path of a study file instead of STUDY.toml, where it is known."""
    return step.replace("STUDY.toml", shlex.quote(study)) if study else step


def document_of(result: "StudyResult | EvaluationResult", account: Account | None, *, look: str) -> Document:
    """Return what is shown of a search's or an evaluation's release; `look` is where more of it is shown."""
    best = getattr(result, "best_threshold", None)
    return release_document(result.release, replayed=result.replayed, account=account, look=look, best=best)


def print_report(result: "EvaluationResult", tracked: "Tracked | None", account: Account) -> Document:
    """Print a report and its repair, if there is one; the report's document."""
    document = document_of(result, account, look=view_hint(result.release, tracked))
    print_document(document)
    if result.repair is not None:
        print_document(repair_document(result.repair))
    return document


def release_json(result: "StudyResult | EvaluationResult", *, tracking: dict[str, str] | None) -> dict[str, Any]:
    """Return the release as JSON, with `replayed` and `tracking`, its place in MLflow or null."""
    return result.release.to_json() | {"replayed": result.replayed, "tracking": tracking}


def evaluated_json(result: "EvaluationResult", tracked: "Tracked | None") -> dict[str, Any]:
    """A report, its best threshold, repair and place in MLflow, as the JSON object of `dpbo evaluate --json`."""
    best = None if result.best_threshold is None else dict(result.best_threshold)
    return release_json(result, tracking=place(tracked)) | {
        "best_threshold": best,
        **({} if result.repair is None else {"repair": result.repair.to_json()}),
    }


def place(tracked: "Tracked | None") -> dict[str, str] | None:
    """MLflow's experiment and run of a release, as JSON; None if MLflow does not show it."""
    return None if tracked is None else {"experiment": tracked.experiment, "run_id": tracked.run_id}


def view_hint(release: Release, tracked: "Tracked | None") -> str:
    """Return where MLflow shows a release, or the command that prints it again where it does not."""
    if tracked is None:
        return f"dpbo show {shlex.quote(f'{release.study}:{release.edition}')}   (MLflow does not show it yet)"
    if (page := Stores().mlflow_page) != MLFLOW_PAGE:
        return f"{page}/{tracked.location}"
    return f"dpbo ui   (MLflow experiment {tracked.experiment!r}, run {tracked.run_id[:8]})"


def print_registered(model_uri: str) -> None:
    """Print a registered version, and below it the command that serves it, in one line for copying."""
    name, version = model_uri.removeprefix("models:/").rsplit("/", 1)
    own = Stores().mlflow_tracking_uri is None and team_setting() is None
    store = "MLFLOW_TRACKING_URI=sqlite:///mlruns/mlflow.db " if own else ""
    where, folder = "MLflow", ", from this folder"
    if (page := Stores().mlflow_page) != MLFLOW_PAGE:
        where, folder, store = (
            f"MLflow at {named(page)}",
            "",
            f"MLFLOW_TRACKING_URI={shlex.quote(printable(page))} ",
        )
    Screen().say(f"\nRegistered in {where}: {named(name)}, version {version}. To serve it{folder}:")
    model = shlex.quote(printable(model_uri))
    sys.stdout.write(f"  {store}mlflow models serve --env-manager local --port {SERVING_PORT} -m {model}\n")
    with suppress(Exception):  # a model that MLflow cannot show now is served nevertheless
        sys.stdout.write(f"To ask it:\n  {curl_line(model_uri)}\n")


def curl_line(model_uri: str) -> str:
    """Return a shell command that asks a served model, with a row of its columns made of public means."""
    from dpbo.tasks.reporting.logged_model import fetch_model

    with TemporaryDirectory() as scratch:
        file = fetch_model(model_uri, Stores().tracking, Path(scratch)) / "serving_input_example.json"
        example = json.loads(file.read_text(encoding="utf-8"))
    example["dataframe_split"]["data"] = [
        [round(value, 4) if isinstance(value, float) else value for value in row]
        for row in example["dataframe_split"]["data"][:1]
    ]
    body = shlex.quote(json.dumps(example, ensure_ascii=False))
    address = f"http://127.0.0.1:{SERVING_PORT}/invocations"
    return f"curl {address} -H 'Content-Type: application/json' -d {body}"
