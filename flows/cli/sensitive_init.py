"""`dpbo init ONE.csv --sensitive`: a study that trains privately on one sensitive table.

Of the table its header and its number of records are read, and nothing of a record. Bounds and labels are public
facts that the owner fills in: until then `dpbo plan` refuses the study. A header that lacks the stated target, or
has a name that is a number, is refused, since the first record may stand in its place; no name is printed then.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import tomli_w

from dpbo.flows.cli.public_notices import check_ignored
from dpbo.flows.terminal import Screen, named
from dpbo_core.data import check_target, read_header
from dpbo_core.data.header import SENSITIVE_FILE, column_count_text
from dpbo_core.data.values import canonical_text
from dpbo_core.errors import StudyInvalid

EPSILON, CAP = 4.0, 8.0
SPACE = (
    "learning_rate = { low = 8.0, high = 32.0, log = true, points = 3 }",
    "clipping_norm = { low = 0.2, high = 0.5, log = true, points = 2 }",
    "epochs = { values = [30, 100] }",
)


def sensitive_study(
    table: Path,
    target: str,
    *,
    name: str,
    folder: Path,
    ignored: tuple[str, ...] = (),
    people: tuple[str, int] | None = None,
) -> tuple[str, tuple[str, ...]]:
    """Return the text of a study file for one sensitive table, and the columns whose bounds are to be filled in.

    `people` is the column that says whose a record is, and the PUBLIC number of people.
    """
    header = read_header(table, mode=SENSITIVE_FILE, display_name=str(table))
    check_target(header.columns, target, mode=SENSITIVE_FILE)
    check_ignored(ignored, [column for column in header.columns if column != target])
    person = None if people is None else people[0]
    if person is not None and (person not in header.columns or person in (target, *ignored)):
        raise StudyInvalid(
            f"no column {person!r} can say whose a record is",
            cause="the name is misspelt, or it is the target or left out",
            remedy="give --person a column of the file",
        )
    features = tuple(column for column in header.columns if column not in (target, person, *ignored))
    n_values = sum(not isinstance(canonical_text(column), str) for column in features)
    if n_values:
        raise StudyInvalid(
            f"the header of {table} has {column_count_text(n_values)} named as a value is",
            cause="the header line is missing, and the first record would stand in the study as names",
            remedy="write the column names in the first line",
        )
    return "".join(_lines(table, target, features, ignored, header.n_records, name, folder, people)), features


def _lines(
    table: Path,
    target: str,
    features: tuple[str, ...],
    ignored: tuple[str, ...],
    n_records: int,
    name: str,
    folder: Path,
    people: tuple[str, int] | None,
) -> Iterator[str]:
    yield tomli_w.dumps({"study": {"name": name, "method": "auto"}})
    privacy = {"dataset": name, "epsilon": EPSILON} | ({} if people is None else {"person": people[0]})
    yield f"\n{tomli_w.dumps({'privacy': privacy})}"
    yield f"\n{tomli_w.dumps({'budget': {'epsilon': CAP, 'delta': 1e-5}})}"
    data = {"sensitive": "training", "training": os.path.relpath(table, folder), "n_training": n_records}
    data |= {} if people is None else {"n_persons": people[1]}
    data |= {"target": target} | ({"ignore": list(ignored)} if ignored else {})
    yield f"\n{tomli_w.dumps({'data': data})}"
    yield "labels = []                          # FILL IN the two classes of the target, [0, 1] say\n"
    yield "\n[data.bounds]                        # FILL IN [low, high] of each column, from public knowledge;\n"
    yield "                                     # what lies outside is moved to the bound\n"
    yield from (tomli_w.dumps({column: []}) for column in features)
    yield '\n[model]\nestimator = "logistic"\n\n[space]\n'
    yield from (f"{line}\n" for line in SPACE)
    yield "\n[search]\nsteps = 8\n"


def print_sensitive(
    out: Path,
    table: Path,
    target: str,
    features: tuple[str, ...],
    ignored: tuple[str, ...],
    person: str | None = None,
) -> None:
    """Print what was written, a line for each column, and what to fill in before the next command."""
    screen = Screen()
    screen.say(
        f"[bold]{named(out)}[/] is written. Of {named(table)} only the header and the number of records were read; "
        "nothing was charged.\n"
    )
    screen.facts(
        [
            (named(target), "the target: fill in its two classes as labels"),
            *((named(column), named("a number: fill in its public bounds [low, high]")) for column in features),
            *((named(column), "left out: you asked for it") for column in ignored),
            *([] if person is None else [(named(person), "whose a record is: one record of each person counts")]),
        ]
    )
    whom = "record" if person is None else "person"
    screen.say(
        f"\nThe model is trained privately: every {whom} is protected, and hyperparameters, model and score are "
        "released. Fill in labels and bounds from public knowledge, never from the records; leave out what is "
        f"no number with --ignore COLUMN. Then:\n\n  dpbo plan {named(out)}"
    )
