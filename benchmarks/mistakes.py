"""How soon a mistake is answered, in units of importing NumPy: processor time of a new process, user and system.

    python -m benchmarks.mistakes [--json]

A unit is a process that runs `import numpy` beside each, so that a busy machine slows both; modules are compiled
before, as an installed package's are. A floor is a process that imports the libraries which an answer needs, and
does nothing else; each such answer is also shown in its own floor. A missing file needs the standard library; ε = 0
NumPy and Pydantic, which read the study; "no room" SQLAlchemy too; a plan trains one model and prints a screen.
"""

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.rows import Row, main, spread_row
from benchmarks.startup import COMMAND
from benchmarks.timing import in_turn, ratio

REPETITIONS = 10
STUDY = """[study]
name = "trial"
method = "private_grid"
[privacy]
dataset = "people"
epsilon = {epsilon}
{budget}[data]
training = "{training}"
validation = "{validation}"
n_validation = {records}
target = "{target}"
[model]
estimator = "logistic"
score = "accuracy"
[space]
lambda = {{ low = 1e-3, high = 10.0, log = true, points = 4 }}
"""
RIGHT = {
    "epsilon": 1.0, "budget": "[budget]\nepsilon = 5.0\n", "records": 20, "target": "y",
    "training": "t.csv", "validation": "v.csv",
}  # fmt: skip
MISTAKES: dict[str, tuple[dict[str, object], float, int]] = {
    "ε = 0": ({"epsilon": 0.0}, 1.5, 2),
    "a missing file": ({"training": "none.csv"}, 1.5, 2),
    "a CSV file without the target": ({"target": "z"}, 2.0, 2),
    "another number of records, CSV": ({"records": 21}, 2.0, 2),
    "another number of records, Parquet": ({"records": 21, "validation": "v.parquet"}, 3.0, 2),
    "no cap": ({"budget": ""}, 3.0, 3),
    "no room, with a ledger": ({"epsilon": 6.0}, 3.0, 3),
    "a missing file, with a ledger": ({"training": "none.csv"}, 2.0, 2),
    "a wrong option: `tune s.toml --nope`": ({}, 2.0, 2),
    "`tune --help`": ({}, 2.0, 0),
    "`plan`, no mistake": ({"epsilon": 100.0, "budget": "[budget]\nepsilon = 500.0\n"}, 4.0, 0),
}
WORDS = {  # of the rows whose command is another than `tune s.toml`
    "a wrong option: `tune s.toml --nope`": ("tune", "s.toml", "--nope"),
    "`tune --help`": ("tune", "--help"),
    "`plan`, no mistake": ("plan", "s.toml"),
}
STUDY_LIBRARIES = "numpy, pydantic"
LEDGER_LIBRARIES = "numpy, pydantic, sqlalchemy"
PLAN_LIBRARIES = f"{LEDGER_LIBRARIES}, scipy.linalg, typer, rich.console, tomli_w"
FLOORS = {  # libraries alone, and the rows that need them
    STUDY_LIBRARIES: ("ε = 0",),
    "numpy, pydantic, pyarrow.parquet": ("another number of records, Parquet",),
    LEDGER_LIBRARIES: ("no room, with a ledger",),
    PLAN_LIBRARIES: ("`plan`, no mistake",),
}


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as place:
        runs = {"numpy": partial(python, Path(place), 0, "import numpy")}
        for number, (name, (changes, _, code)) in enumerate(MISTAKES.items()):
            words = WORDS.get(name, ("tune", "s.toml"))
            runs[name] = partial(python, folder(place, number, changes, name), code, COMMAND, *words)
        for libraries in FLOORS:
            runs[libraries] = partial(python, Path(place), 0, f"import {libraries}")
        taken = dict(zip(runs, in_turn([*runs.values()], REPETITIONS, children), strict=True))
    for name, (_, at_most, _) in MISTAKES.items():
        yield spread_row(name, ratio(taken[name], taken["numpy"]), unit="units", at_most=at_most)
    for libraries, names in FLOORS.items():
        yield spread_row(f"the floor: `import {libraries}`", ratio(taken[libraries], taken["numpy"]), unit="units")
        for name in names:
            yield spread_row(f"{name}: of that floor", ratio(taken[name], taken[libraries]))


def folder(place: str, number: int, changes: dict[str, object], name: str) -> Path:
    """A folder with the study and its files; with a ledger where the mistake's name says so."""
    import pyarrow.csv
    import pyarrow.parquet

    made = Path(place, str(number))
    made.mkdir()
    lines = [f"{i % 7},{i % 5},{i % 2}" for i in range(30)]
    for file, n in (("t.csv", 30), ("v.csv", 20)):
        (made / file).write_text("\n".join(("a,b,y", *lines[:n])) + "\n")
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(made / "v.csv"), made / "v.parquet")
    (made / "s.toml").write_text(STUDY.format(**RIGHT | changes))
    if "ledger" in name:
        python(made, 0, COMMAND, "budget", "set", "people", "--epsilon", "5")
    return made


def python(folder: Path, code: int, *words: str) -> None:
    """Run a new process there, which must end with this code and may keep what it compiled."""
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    settings["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
    done = subprocess.run([sys.executable, "-c", *words], cwd=folder, env=settings, capture_output=True, text=True)
    if done.returncode != code:
        raise RuntimeError(done.stderr)


def children() -> float:
    """Processor seconds of all processes that ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


if __name__ == "__main__":
    main(rows)
