"""`dpbo predict`: the released model's predictions for the rows of a file; reads no sensitive file of the study."""

import csv
import io
from pathlib import Path
from typing import Annotated

import typer

from dpbo.flows.cli.app import Study
from dpbo.flows.cli.running import own_ledger, released_study, writing
from dpbo.flows.terminal import Screen, named
from dpbo_core.data import read_table
from dpbo_core.data.header import SENSITIVE_FILE
from dpbo_core.data.values import shown
from dpbo_core.errors import StudyInvalid
from dpbo_core.privacy.atomically import replace_atomically
from dpbo_core.report.request import not_released
from dpbo_core.study.final_training import FinalModel
from dpbo_core.study.query import QueryContext
from dpbo_core.study.run import Run

DEFAULT_FILE = Path("predictions.csv")


def predict(
    study: Study,
    new: Annotated[Path, typer.Argument(metavar="NEW.csv", help="Rows with the training file's columns.")],
    output: Annotated[
        Path, typer.Argument(metavar="OUTPUT.csv", help="The file of predictions to write, a line a row.")
    ] = DEFAULT_FILE,
) -> None:
    """Write the released model's predictions for new rows; charges nothing.

    The predictions are not private: they are about the new rows.
    """
    if output != DEFAULT_FILE and output.exists():
        raise StudyInvalid(f"there is a file {str(output)!r} already", remedy="name another OUTPUT.csv")
    spec = released_study(study)
    run = Run.of(spec, QueryContext(own_ledger(), study.parent))
    release = run.recorded()
    if release is None:
        raise not_released(spec, run.ledger)
    model = FinalModel.of_release(spec, run.folder, release, run.public)
    if model is None:
        raise StudyInvalid(
            "the study released no model that predicts by itself",
            cause="it chose no hyperparameters, or was trained privately: then its weights are in dpbo show --json",
            remedy="name a study whose method releases hyperparameters",
        )
    table = read_table(new, mode=SENSITIVE_FILE.of_map(model.preprocessing), display_name=str(new))
    rows = [[shown(value)] for value in model.predict(table.columns).tolist()]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([[model.preprocessing.target], *rows])
    with writing(f"the file {str(output)!r}", remedy="name another OUTPUT.csv"):
        replace_atomically(output, text.getvalue().encode())
    Screen().say(f"{named(output)} holds {len(rows):,} predictions of {named(model.preprocessing.target)}.")
