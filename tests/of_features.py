"""What the tests of the installed features add to the suites that test all kinds alike.

A feature's `tests/features/NAME/NAME_parts.py` holds what it adds, each part under the name by which a suite asks.
"""

import sys
from importlib import import_module
from pathlib import Path

from dpbo_core.methods import METHODS

TESTS = Path(__file__).resolve().parent
FEATURES = tuple(sorted(path.parent.name for path in (TESTS / "features").glob("*/*_parts.py")))
sys.path += sorted({str(file.parent) for file in TESTS.rglob("test_*.py")} - {*sys.path})


def parts(name):
    """Yield what each feature adds under this name, in the order of the features' names."""
    for feature in FEATURES:
        found = getattr(import_module(f"{feature}_parts"), name, None)
        if found is not None:
            yield found


def merged(name, *arguments):
    """Return one dict of all that the features add under this name: dicts, or functions of the arguments."""
    together = {}
    for part in parts(name):
        together |= part(*arguments) if callable(part) else part
    return together


def installed(*kinds):
    """Return those of the methods, by kind, that the core or an installed feature has."""
    return [kind for kind in kinds if kind in METHODS]
