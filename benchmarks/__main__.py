"""Run every script in a process of its own and write docs/performance.md: `make bench`.

    python -m benchmarks [script …]      only some of them; the others keep their place in the page

A script that fails, or that has no peer to compare with, leaves a row that says so.
"""

import importlib
import json
import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.rows import Row

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "performance.md"
FIGURES = ROOT / "benchmarks" / "figures.json"  # what the page is written from
SCRIPTS = {
    "search": "The search",
    "information_gain": "The bound on the information gain",
    "training": "Training",
    "scoring": "Scoring",
    "persons": "Each person once",
    "projection": "The projection of a sampling density",
    "flow": "The flow",
    "repetitions": "Repetitions of an audit",
    "enforced": "Records scored alone",
    "scale": "Records in many files",
    "startup": "Start-up",
    "seconds": "What a user waits for",
    "ledger": "The ledger",
    "growth": "Growth",
}
SHOWN = ("numpy", "scipy", "scikit-learn", "opendp", "prefect", "botorch", "torch", "cvxopt")
OPENING = """# How fast, beside whom

Written by `make bench`; one thread, all contenders in one process and in turn, processor time unless a table says
otherwise. A ratio is the median of pairwise ratios, with the smallest and the largest; a ratio to a peer says how
many times longer the peer took. What takes less than 20 ms is repeated until it takes that long. Where a number
falls short of what was asked, its row says so. No number here is asserted in a timed test.
"""

LIMITS = """## Where it ends

What stays short of what was asked, and why nothing more is expected of it:

* **W4 at 40 to 50% of the bandwidth bound.** NumPy's own products of a row with V, which a step cannot do
  without, reach 69 to 78% of it; the rest is the acquisition and its largest value over 100,000 candidates.
  Leaving out candidates by bounds that are out of date was tried: 70 to 100% of the work on rows remains.
* **Noise in the loop of W2.** A draw of the exact sampler takes 13 to 20 µs whatever the search costs, and a step
  of this one costs about 100. What is faster is floating point, whose last digits can tell.
* **The bound on γ_T of W2 under Matérn-5/2.** There the counts of greedy's own observations leave more than the
  1.28 times its gain that is near enough, and the next counts, of halves of observations, cost three times as
  many steps.
* **A trajectory of 20 steps and a grid of 64 over files, in 2.5 of pyarrow's readings.** Reading a record of 30
  doubles from the system's cache takes pyarrow 180 to 200 ns, and the product two to three times that: it turns
  columns into rows, checks each number and clips each row. A step's scalar product takes 13 ns, most of it the
  memory that the row comes from, and its score 4: 20 steps are two readings. 64 candidates take 1.4 to 2 ns each
  in matrix products and 2 ns in exponentials and roundings, more than one reading, and as much again to see which
  records the product's rounding could move: those are scored again, since no score may depend on a record's place.
* **A forest, beside calling predict in a loop: as fast, and no faster.** 99% of the time of either is
  scikit-learn's own `predict`. Rows are prepared once for all models, in the single precision that trees cast to;
  that pays for what a loop does not do: look for rows that cannot be predicted, and round each record's score.
* **A trajectory over files that are read once** keeps the encoded records, 8 bytes a feature. With less memory
  (`[data] memory_limit`) the parts that do not fit are read at every step.
* **Training sets** of linear models may be a folder of Parquet files; beyond `[data] memory_limit` their encoded
  rows are in a temporary file, 8 bytes a feature and record, which is read from the disk where the system's cache
  cannot hold it. A few numbers a record stay in memory. What scikit-learn trains is read into memory whole.
"""


def main(chosen: list[str]) -> int:
    found = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}
    for name in chosen or SCRIPTS:
        print(f"{name} …", file=sys.stderr, flush=True)
        found[name] = {"rows": run(name), "machine": machine()}
        FIGURES.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        PAGE.write_text(page(found), encoding="utf-8")
    return 0


def run(name: str) -> list[dict[str, object]]:
    """The rows of one script, with one thread for every library it may load."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [sys.executable, "-W", "ignore", "-m", f"benchmarks.{name}", "--json"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | one, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0 or not done.stdout.strip():
        note = f"the script ended with code {done.returncode}"
        return [{"what": f"`benchmarks/{name}.py`", "figure": None, "note": note}]
    rows: list[dict[str, object]] = json.loads(done.stdout.strip().splitlines()[-1])
    return rows


def page(found: dict[str, dict[str, object]]) -> str:
    """The page, from the figures alone."""
    parts = [OPENING]
    for name, title in SCRIPTS.items():
        if name not in found:
            continue
        said = (importlib.import_module(f"benchmarks.{name}").__doc__ or "").strip()
        text = "\n\n".join(part for part in said.split("\n\n") if not part.lstrip().startswith("python -m"))
        rows = [Row(**row) for row in found[name]["rows"]]  # type: ignore[attr-defined]
        table = ["| measured | asked | found | spread | |", "|---|---|---|---|---|"]
        table += ["| " + " | ".join(row.cells) + " |" for row in rows]
        parts += [f"## {title}", text, "\n".join(table), str(found[name]["machine"])]
    return "\n\n".join(part.strip() for part in [*parts, LIMITS]) + "\n"


def machine() -> str:
    """Versions, and what of the machine matters; nothing that names it."""
    cores = f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}, Python {platform.python_version()}"
    return ", ".join([cores, *(f"{name} {number}" for name in SHOWN if (number := installed(name)))]) + "."


def installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
