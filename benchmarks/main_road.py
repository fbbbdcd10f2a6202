"""How much of dpbo the study of `make tune` needs: modules of ours that load and execute, and processor seconds.

    python -m benchmarks.main_road [--json]

A module executes if a function of it is called, except while a module is imported: by `sys.setprofile`, in a run
of its own. Processor seconds are of other runs, with all processes that a command starts, in units of a process
that imports scikit-learn's linear models.
"""

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.rows import Row, main, spread_row
from benchmarks.seconds import UNIT, spent
from benchmarks.startup import COMMAND
from benchmarks.timing import ratio

ROOT = Path(__file__).parent.parent
STUDY = ROOT / "examples" / "screening.toml"
ROUNDS = 3
HOWS = {"": (), " --direct": ("--direct",)}
MOST_LOADED, MOST_EXECUTED = 170.0, 100.0  # modules
COUNT = """
import json, sys, threading
from pathlib import Path
called, importing = set(), threading.local()
def note(frame, event, _):
    depth = getattr(importing, "depth", 0)
    if frame.f_code.co_name == "<module>" and event in ("call", "return"):
        importing.depth = depth + (1 if event == "call" else -1)
    elif event == "call" and not depth:
        called.add(frame.f_globals.get("__name__", ""))
threading.setprofile(note)
sys.setprofile(note)
sys.argv = ["dpbo", *sys.argv[2:]]
from dpbo.flows.cli import main
try:
    main()
except SystemExit:
    pass
sys.setprofile(None)
ours = lambda names: sorted(name for name in names if name.split(".")[0] in ("dpbo", "dpbo_core"))
Path("counted.json").write_text(json.dumps([ours(list(sys.modules)), ours(called)]))
"""


def rows() -> Iterator[Row]:
    for how, words in HOWS.items():
        loaded, executed = counted(*words)
        yield Row(f"`make tune`{how}: modules that load", len(loaded), unit="modules", at_most=MOST_LOADED)
        yield Row(f"`make tune`{how}: modules that execute", len(executed), unit="modules", at_most=MOST_EXECUTED)
    rounds = [
        {how: processor_seconds(COMMAND, "tune", str(STUDY), *words) for how, words in HOWS.items()}
        | {"unit": processor_seconds(UNIT)}
        for _ in range(ROUNDS)
    ]
    units = [taken["unit"] for taken in rounds]
    for how in HOWS:
        taken = [one[how] for one in rounds]
        note = f"{sorted(taken)[ROUNDS // 2]:.1f} s"
        yield spread_row(f"`make tune`{how}: processor time", ratio(taken, units), unit="units", note=note)


def counted(*words: str) -> tuple[list[str], list[str]]:
    """The modules of ours that load and that execute in one tune of the study, by name."""
    with tempfile.TemporaryDirectory() as folder:
        spent(Path(folder), around(), COUNT, "dpbo", "tune", str(STUDY), *words)
        loaded, executed = json.loads((Path(folder) / "counted.json").read_text(encoding="utf-8"))
    return loaded, executed


def processor_seconds(code: str, *arguments: str) -> float:
    """Processor seconds of a new process in a new folder, with all that it started."""
    with tempfile.TemporaryDirectory() as folder:
        return spent(Path(folder), around(), code, *arguments)[1]


def around() -> dict[str, str]:
    """This process's environment without settings of Prefect, MLflow or ours."""
    kept = {
        name: text for name, text in os.environ.items() if not name.startswith(("PREFECT_", "DPBO_", "MLFLOW_"))
    }
    return kept | {"PYTHONPATH": str(ROOT)}


if __name__ == "__main__":
    main(rows)
