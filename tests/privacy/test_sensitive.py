"""A sensitive value leaves through a mechanism alone, and only listed files may open it."""

import ast
import copy
import json
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from of_features import parts

from dpbo_core.privacy.sensitive import Opaque, Sensitive

ROOT = Path(__file__).parents[2]
ALLOWED = (
    "dpbo_core/models/scoring/in_memory.py",
    "dpbo_core/models/scoring/persons.py",
    "dpbo_core/mechanisms/",
    "dpbo_core/methods/",
    *(file for files in parts("OPENS_SENSITIVE") for file in files),  # of features' methods
)
SECRET = 0.123456789


HABITS = [
    pickle.dumps, json.dumps, copy.copy, copy.deepcopy, np.asarray, float, int, bool, len, iter, hash, bytes, vars,
    lambda s: s == s, lambda s: s + 1, lambda s: 1 + s, lambda s: s < 1, lambda s: s[0], lambda s: 1 in s,
    lambda s: np.float64(1.0) * s, lambda s: sum([s]),
]  # fmt: skip


@pytest.mark.parametrize("habit", HABITS)
def test_every_habit_is_refused_without_the_value(habit):
    with pytest.raises(Exception) as caught:  # noqa: PT011  each habit has its own kind of refusal
        habit(Sensitive(SECRET))
    assert "1234" not in str(caught.value)


def test_it_prints_as_nothing():
    value = Sensitive(SECRET)
    assert f"{value} {value!r} {value!s} {value:>30} {[value]}".count("1234") == 0
    assert value.expose() == SECRET


def test_handles_stay_in_their_process():
    class Handle(Opaque):
        __slots__ = ("secret",)

    handle = Handle()
    handle.secret = SECRET
    assert repr(handle) == "<Handle>"
    for move in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            move(handle)


def exposures(source: str) -> list[int]:
    """Lines that call or mention `.expose`, or reach for the hidden slot by another way."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if (isinstance(node, ast.Attribute) and (node.attr == "expose" or "_Sensitive" in node.attr))
        or (isinstance(node, ast.Constant) and node.value in ("expose", "_Sensitive__value"))
    ]


def test_only_listed_rooms_open_a_sensitive_value():
    paths = [path for room in ("dpbo_core", "tasks", "flows", "features") for path in (ROOT / room).rglob("*.py")]
    others = [path for path in paths if not path.relative_to(ROOT).as_posix().startswith(ALLOWED)]
    spoken = [path for path in others if re.search("expose|_Sensitive", path.read_text())]
    assert len(others) > 200
    assert [path for path in spoken if exposures(path.read_text())] == []


@pytest.mark.parametrize(
    "planted",
    ["x = value.expose()", "f = value.expose\nf()", "getattr(value, 'expose')()", "value._Sensitive__value"],
)
def test_a_planted_opening_is_caught(planted):
    assert exposures(planted)
