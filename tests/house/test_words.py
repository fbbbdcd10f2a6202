"""A thing is named by its noun: no clause about a value is its name, and no module has a name that was given up."""

import ast
import re

import of_features
from test_architecture import ROOT, SOURCES, literals, parsed

REFUSED = {"found", "told", "known", "kept", "given", "said"}
PRINTED = of_features.merged("PRINTED_KEYS")  # keys of what a command prints as JSON
GIVEN_UP = re.findall(
    r"\w+",
    """
    again alone also answer approvals asking at_once by_content cells consent elsewhere enforced facts foreseen
    generation informed_prior leash learned legible listed literal near_steps nodes of_rows opening outcome
    own_address patience pen places plain question recorded_in renamed resuming said_of seen shown subject
    surely_tried told_of wanted within worth writing
    """,
)


def parts(name):
    """The words of a name, split at underscores and at capitals inside it."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_")


def defined(text):
    """The names that a module gives to values, arguments, functions, classes, attributes and what it imports."""
    for node in parsed(text):
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
    names = set(defined(text)) - set(PRINTED)
    return {name for name in names if REFUSED & set(parts(name))}


def test_values_are_named_by_nouns():
    named = {path: names for path in SOURCES if (names := refused(path.read_text()))}
    assert named == {}, "say what these are, and not what somebody did with them"


def test_modules_have_no_name_that_was_given_up():
    assert {path for path in SOURCES if path.stem in GIVEN_UP} == set()


BARE = re.findall(
    r"\w+",
    """
    able absent again alike alone always anyway apart asleep awake behind beside bounded busy capped
    certain closed corrected deepest drawn drowned early enough even evenly everything exact far few
    fewest first foreign fresh hopeless idle inside known large larger largest last late least listed
    locked longer longest loud many missing most narrowest near negligible never new newest next nothing
    old oldest once open optimistic other others own outside over patience present printed quiet read
    recent refuted shorter shortest shown single slow small smaller smallest something together tried
    twice typical uncertain uneven unfitted unknown unread unsure usual whole widest worse written
    """,
)
PRONOUNS = {
    *re.findall(r"\w+", "anew everybody everything its nobody nothing quietly somebody their them which whom")
}
ALLOWED = {"Public", "Sensitive", "Sealed"}  # a method's kind; the wrapper of a sensitive value; an error


def bare_names(text):
    """The constants and classes of a module whose names are adjectives or adverbs, and functions with a pronoun."""
    for node in parsed(text):
        match node:
            case ast.ClassDef(name=name) if set(parts(name.strip("_"))) <= {*BARE}:
                yield name
            case ast.Name(id=name, ctx=ast.Store(), col_offset=column) if (
                name.isupper() and not column and set(parts(name.strip("_"))) <= {*BARE}
            ):
                yield name
            case ast.FunctionDef(name=name) if PRONOUNS & set(parts(name)):
                yield name


def test_constants_and_classes_are_not_named_by_an_adjective_alone():
    named = {path: names for path in SOURCES if (names := set(bare_names(path.read_text())) - ALLOWED)}
    assert named == {}, "a constant states its quantity and unit, a class is a noun"
    planted = "PATIENCE = 1", "_FIRST = LAST = 1", "class Over: ...", "def keeping_nothing(): ..."
    assert all(any(bare_names(text)) for text in planted)
    assert not [*bare_names("MAX_LAST = 1\nclass LastEntry: ...\ndef last(): ...\nlast = 1")]


PLANTED = (
    "found = 1", "def f(told): ...", "def f(*, known_kinds): ...", "class Kept: ...", "class RowGiven: ...",
    "def said(): ...", "self._told = 1", "import json as found", "[given for given in x]", "with x as kept: ...",
    "if (found := x): ...", "try: ...\nexcept ValueError as told: ...", "match x:\n    case [known, *kept]: ...",
    "FOUND_AT: int = 3", "lambda told: 1",
)  # fmt: skip


def test_a_clause_is_caught_wherever_it_names_something_and_other_words_are_not():
    assert [text for text in PLANTED if not refused(text)] == []
    others = "unknown = 1", "foundation = 1", "x.found", "f(told=1)", "'said'"
    assert [text for text in others if refused(text)] == []


ON_NO_SCREEN = re.compile(r"\bregrets?\b|\bpairs 0|as published|owner.s terminal|evaluate = tried", re.I)
OF_THE_PAPER = {*of_features.parts("SAYS_A_PAPERS_WORDS")}  # to who reads the paper


def test_screens_have_no_word_that_a_first_user_cannot_know():
    """Every text of the command's own files but docstrings: what is printed is written there."""
    for path in (*(ROOT / "flows" / "cli").glob("*.py"), *(ROOT / "features").glob("*/command.py")):
        printed = [text for text in literals(path.read_text()) if ON_NO_SCREEN.search(text)]
        file = path.relative_to(ROOT).as_posix()
        assert (file in OF_THE_PAPER) is bool(printed), (file, printed)
