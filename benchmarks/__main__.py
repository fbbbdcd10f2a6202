"""Run every script in a process of its own and write docs/tables/performance.txt: `make bench`.

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
PAGE = ROOT / "docs" / "tables" / "performance.txt"
FIGURES = ROOT / "benchmarks" / "figures.json"  # what the page is written from
SCRIPTS = {
    "search": "The search",
    "information_gain": "The bound on the information gain",
    "training": "Training",
    "scoring": "Scoring",
    "persons": "Each person once",
    "champion": "A champion and a challenger",
    "projection": "The projection of a sampling density",
    "flow": "The flow",
    "repetitions": "Repetitions of an audit",
    "enforced": "Records scored alone",
    "scale": "Records in many files",
    "startup": "Start-up",
    "mistakes": "Mistakes",
    "main_road": "The main road",
    "tools": "Beside other tools",
    "whole_commands": "Whole commands",
    "seconds": "What a user waits for",
    "draws": "Single draws",
    "ledger": "The ledger",
    "growth": "Growth",
}
BUSY = 0.5  # processes that ran in the last minute before a script
SHOWN = ("numpy", "scipy", "scikit-learn", "opendp", "prefect", "botorch", "torch", "cvxopt")


def main(chosen: list[str]) -> int:
    for name in chosen or SCRIPTS:
        print(f"{name} …", file=sys.stderr, flush=True)
        beside = " Other work ran beside it." if os.getloadavg()[0] > BUSY else ""
        made = {name: {"rows": run(name), "machine": machine() + beside}}
        found = (json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}) | made
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
    parts = []
    for name, title in SCRIPTS.items():
        if name not in found:
            continue
        said = (importlib.import_module(f"benchmarks.{name}").__doc__ or "").strip()
        text = "\n\n".join(part for part in said.split("\n\n") if not part.lstrip().startswith("python -m"))
        rows = [Row(**row) for row in found[name]["rows"]]  # type: ignore[attr-defined]
        table = ["| measured | asked | found | spread | |", "|---|---|---|---|---|"]
        table += ["| " + " | ".join(row.cells) + " |" for row in rows]
        parts += [f"## {title}", text, "\n".join(table), str(found[name]["machine"])]
    return "\n\n".join(part.strip() for part in parts) + "\n"


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
