"""Runs kept between commands, for one state of the code: all the ways together take longer than one sitting.

Only where OBSERVER_KEEPS names a folder; without it every run is made anew. What decides about runs (the reasons,
the table) is not part of the state: they are held against the present list. A run says when it was made.
"""

import ast
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path

from observer.run import Seen

KEEPS = "OBSERVER_KEEPS"
ROOT = Path(__file__).parents[2]
CODE = ("dpbo_core", "tasks", "flows", "tests/observer", "tests/worlds.py")
DECIDING = ("compare.py", "campaign.py", "kept.py")


def state() -> str:
    """A digest of all code that a run is made by."""
    told = hashlib.sha256()
    for top in CODE:
        found: Iterable[Path] = sorted((ROOT / top).rglob("*.py")) if "." not in top else [ROOT / top]
        for path in found:
            if path.parent.name != "observer" or path.name not in DECIDING:
                told.update(f"{path.relative_to(ROOT)}\0{_said(path)}\0".encode())
    return told.hexdigest()[:16]


def _said(path: Path) -> str:
    """What a file says to the interpreter: without its comments and docstrings."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            del node.body[0]
    return ast.dump(tree)


def kept(name: str, make: Callable[[], tuple[str, Seen]]) -> tuple[str, Seen, float]:
    """(tape, what was seen, seconds that it took) of a run of this name, made unless it is kept."""
    folder = os.environ.get(KEEPS)
    path = Path(folder, state(), f"{name}.json") if folder else None
    if path is not None and path.exists():
        told = json.loads(path.read_text())
        return told["tape"], Seen(**told["seen"]), told["seconds"]
    begun = time.monotonic()
    tape, seen = make()
    seconds = time.monotonic() - begun
    if path is not None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        half = path.with_suffix(".half")
        half.write_text(json.dumps({"tape": tape, "seen": asdict(seen), "seconds": seconds}))
        half.replace(path)
    return tape, seen, seconds
