"""A thing is named by its noun: no clause about a value is its name, and no module has a name that was given up.

`python tests/house/test_words.py` prints STANDING as it is now. A number in it only goes down, and a room that is
clean is not in it.
"""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REFUSED = {"found", "told", "known", "kept", "given", "said"}
PRINTED = {"told_apart": "a key of what `dpbo curate plan --json` prints"}
STANDING = {}
GIVEN_UP = re.findall(
    r"\w+",
    """
    again alone also answer approvals asking at_once by_content cells consent elsewhere enforced facts foreseen
    generation informed_prior leash learned legible listed literal near_steps nodes of_rows opening outcome
    own_address pad patience pen places plain question recorded_in renamed resuming said_of seen shown subject
    surely_tried told_of wanted within worth writing
    """,
)
STANDING_MODULES = []


def parts(name):
    """The words of a name, split at underscores and at capitals inside it."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_")


def defined(tree):
    """The names that a module gives to values, arguments, functions, classes, attributes and what it imports."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.alias(asname=str(name)) | ast.ExceptHandler(name=str(name)):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                yield name


def refused(text):
    """The names in a module's text that are no nouns."""
    names = set(defined(ast.parse(text))) - set(PRINTED)
    return {name for name in names if REFUSED & set(parts(name))}


def modules():
    return [path for room in ("dpbo_core", "flows", "tasks") for path in sorted((ROOT / room).rglob("*.py"))]


def room_of(path):
    return path.parent.relative_to(ROOT).as_posix()


def standing():
    """How many names of each room are no nouns yet, one of a module counted once."""
    counts = Counter()
    for path in modules():
        counts[room_of(path)] += len(refused(path.read_text(encoding="utf-8")))
    return {room: count for room, count in sorted(counts.items()) if count}


def test_values_are_named_by_nouns():
    now = standing()
    rooms = sorted(room for room in now.keys() | STANDING if now.get(room, 0) > STANDING.get(room, 0))
    named = {
        path.relative_to(ROOT).as_posix(): sorted(names)
        for path in modules()
        if room_of(path) in rooms and (names := refused(path.read_text(encoding="utf-8")))
    }
    assert not rooms, f"say what these are, and not what somebody did with them: {named}"


def test_modules_have_no_name_that_was_given_up():
    stems = {path.relative_to(ROOT).with_suffix("").as_posix() for path in modules()}
    assert {stem for stem in stems if Path(stem).name in GIVEN_UP} <= set(STANDING_MODULES)


@pytest.mark.parametrize(
    "planted",
    [
        "found = 1",
        "def f(told): ...",
        "def f(*, known_kinds): ...",
        "class Kept: ...",
        "class RowGiven: ...",
        "def said(): ...",
        "self._told = 1",
        "import json as found",
        "[given for given in x]",
        "with x as kept: ...",
        "if (found := x): ...",
        "try: ...\nexcept ValueError as told: ...",
        "match x:\n    case [known, *kept]: ...",
        "FOUND_AT: int = 3",
        "lambda told: 1",
    ],
)
def test_a_clause_is_caught_wherever_it_names_something(planted):
    assert refused(planted)


@pytest.mark.parametrize("fine", ["unknown = 1", "foundation = 1", "x.found", "f(told=1)", "'said'"])
def test_other_words_and_other_peoples_names_are_not(fine):
    assert not refused(fine)


if __name__ == "__main__":
    print("STANDING = {")
    for room, count in standing().items():
        print(f'    "{room}": {count},')
    print("}")


ON_NO_SCREEN = re.compile(r"\bregrets?\b|\bpairs 0|as published|owner.s terminal|evaluate = tried", re.I)
OF_THE_PAPER = {"curate.py"}  # `dpbo curate plan` says what Theorem 3 bounds, to who reads the paper


def test_screens_have_no_word_that_a_first_user_cannot_know():
    """Every text of the command's own files but docstrings: what is printed is written there."""
    for path in sorted((ROOT / "flows" / "cli").glob("*.py")):
        tree = ast.parse(path.read_text())
        statements = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        texts = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        printed = [n.value for n in texts if n not in statements and ON_NO_SCREEN.search(n.value)]
        assert path.name in OF_THE_PAPER or not printed, (path.name, printed)
