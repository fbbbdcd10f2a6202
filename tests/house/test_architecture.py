"""The import rules of the house, each with a planted violation that must be caught."""

import ast
import itertools
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from of_features import FEATURES, merged, parts

from dpbo_core.mechanisms.mechanism_cost import WORTH_OF_MECHANISM
from dpbo_core.methods import EXCHANGES, METHODS
from dpbo_core.models.scores.union import SCORES
from dpbo_core.privacy.named_parts import declared

ROOT = Path(__file__).parents[2]
ROOMS = ("dpbo_core", "tasks", "flows", "features")
LINT = Path(sys.executable).parent / "lint-imports"


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A copy of the project's source, to plant violations in."""
    copy = tmp_path_factory.mktemp("house")
    for room in ROOMS:
        shutil.copytree(ROOT / room, copy / room, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "dpbo", copy / "dpbo", symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    return copy


def lint(house):
    return subprocess.run(
        [str(LINT), "--no-cache"], cwd=house, capture_output=True, text=True, env={"PYTHONPATH": str(house)}
    )


def test_the_house_keeps_its_rules(house):
    outcome = lint(house)
    assert outcome.returncode == 0, outcome.stdout


def modules(house):
    """The name, as installed, of every file of the four folders and of `dpbo` itself."""
    rooms = {room: room if room == "dpbo_core" else f"dpbo/{room}" for room in ROOMS}
    paths = [Path(rooms[room], p.relative_to(house / room)) for room in rooms for p in (house / room).rglob("*.py")]
    paths.append(Path("dpbo", "__init__.py"))
    return {".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in paths}


def test_the_rules_and_the_types_are_checked_in_every_folder(house):
    """What grimp and mypy find of the packages that they are told: both follow the links."""
    tools = tomllib.loads((house / "pyproject.toml").read_text())["tool"]
    code = "import grimp, sys; print(*sorted(grimp.build_graph(*sys.argv[1:], cache_dir=None).modules))"
    ran = subprocess.run(
        [sys.executable, "-c", code, *tools["importlinter"]["root_packages"]],
        cwd=house,
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(ran.stdout.split()) == modules(house)
    from mypy.modulefinder import FindModuleCache, SearchPaths
    from mypy.options import Options

    finder = FindModuleCache(SearchPaths((str(house),), (), (), ()), fscache=None, options=Options())
    found = [item.module for name in tools["mypy"]["packages"] for item in finder.find_modules_recursive(name)]
    assert sorted(found) == sorted(modules(house))


def test_a_folder_that_is_no_longer_found_is_missed(house):
    """The rules never pass on less than the whole house."""
    link, away = house / "dpbo" / "tasks", house / "tasks" / "elsewhere"
    link.rename(away)
    try:
        outcome = lint(house)
    finally:
        away.rename(link)
    assert outcome.returncode != 0
    assert "dpbo.tasks" in outcome.stdout + outcome.stderr


PLANTED = [
    ("dpbo_core/study/tuning.py", "import dpbo.tasks.tuning", "features > flows > tasks > dpbo_core"),
    ("tasks/tuning.py", "import dpbo.flows.tune", "features > flows > tasks > dpbo_core"),
    ("dpbo_core/errors.py", "import dpbo", "the core stays free"),
    ("flows/tune.py", "import dpbo.flows.cli.show", "the floors of flows"),
    ("flows/private_flow.py", "import dpbo.flows.run_end", "the floors of flows"),
    ("tasks/reporting/pictures.py", "import dpbo.tasks.policies", "the floors of tasks"),
    ("tasks/reporting/document.py", "import prefect", "pictures and pages know nothing"),
    ("dpbo_core/models/integer_sums.py", "import dpbo_core.methods.problem", "the floors of dpbo_core"),
    ("dpbo_core/search/gp.py", "import dpbo_core.ledger.schema", "the floors of dpbo_core"),
    ("dpbo_core/mechanisms/laplace.py", "import dpbo_core.ledger.ledger", "the floors of dpbo_core"),
    ("dpbo_core/errors.py", "import dpbo_core.privacy.release", "the floors of dpbo_core"),
    ("dpbo_core/methods/lipschitz.py", "import dpbo_core.methods.private_grid", "methods do not import"),
    ("dpbo_core/methods/public.py", "import dpbo_core.methods.kusner_gp", "methods do not import"),
    ("dpbo_core/search/bo.py", "import dpbo_core.privacy.sensitive", "the search knows nothing"),
    ("dpbo_core/search/gp.py", "import dpbo_core.privacy.amounts", "the search knows nothing"),
    ("dpbo_core/study/tuning.py", "import prefect", "the core stays free"),
    ("dpbo_core/methods/private_grid.py", "import mlflow", "the core stays free"),
    ("dpbo_core/study/spec.py", "import typer", "the core stays free"),
]
for feature, another in zip(FEATURES, (*FEATURES[1:], FEATURES[0]), strict=True):
    PLANTED.append(("flows/serve.py", f"import dpbo.features.{feature}", "features > flows > tasks > dpbo_core"))
    file = f"features/{feature}/__init__.py"
    PLANTED.append((file, f"import dpbo.features.{another}", "features do not import one another"))
PLANTED += itertools.chain(*parts("PLANTED_IMPORTS"))
ALONE = {"dpbo_core/errors.py": "all import it: whatever it imports breaks most rules in most files"}
ALONE |= merged("PLANTED_ALONE")
APART = [[it for it in PLANTED if it[0] not in ALONE], *([it] for it in PLANTED if it[0] in ALONE)]


@pytest.mark.parametrize("together", APART, ids=lambda them: f"{len(them)} in {them[0][0]} …")
def test_a_planted_violation_is_caught(house, together):
    """Each under its rule, by the two modules, whatever else is reported."""
    originals = {room: (house / room).read_text() for room, _, _ in together}
    try:
        for room, planted, _ in together:
            (house / room).write_text((house / room).read_text() + f"\n{planted}\n")
        outcome = lint(house)
    finally:
        for room, original in originals.items():
            (house / room).write_text(original)
    assert outcome.returncode != 0
    summary, _, details = outcome.stdout.partition("Broken contracts")
    _, *parts = re.split(r"\n([^\n]+)\n-{3,}\n", details)
    told = {rule: " ".join(chains.split()) for rule, chains in zip(parts[::2], parts[1::2], strict=True)}
    for room, planted, rule in together:
        assert any(rule in line for line in summary.splitlines() if "BROKEN" in line), outcome.stdout
        importer = room.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        importer = importer if importer.startswith("dpbo_core") else f"dpbo.{importer}"
        chain = f"{importer} -> {planted.removeprefix('import ')} "
        assert any(rule in name and chain in chains for name, chains in told.items()), (chain, told)


SOURCES = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]


@cache
def parsed(text):
    """The nodes of a module, walked once however many tests ask."""
    return [*ast.walk(ast.parse(text))]


def nodes(kind):
    """(place, node) of every node of a kind in all that is installed."""
    for path in SOURCES:
        for node in parsed(path.read_text()):
            if isinstance(node, kind):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def test_help_says_more_than_a_symbol():
    """What `help()` shows of a public function or class is at least four words."""
    short = [
        f"{place}: {node.name}"
        for place, node in nodes(ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if not node.name.startswith("_")
        if (told := ast.get_docstring(node, clean=False)) is not None and len(told.split()) < 4
    ]
    assert short == [], "say in four words or more what it is or does: the first sentence of its docstring"


SLICE = ("command", "flow")  # every feature that has one calls it so
ALIKE = {
    "certified": "what a certificate shows: how anything says it, what methods say, and what reports say",
    "tuning": "the tuning of a study: the query, and its tasks",
    **merged("ALIKE_FILES"),
}


def test_files_of_one_name_are_about_one_thing():
    """Those of the command are called by their verbs."""
    names = Counter(path.stem for path in SOURCES if path.parent.name != "cli" and path.stem not in SLICE)
    twice = {name for name, times in names.items() if times > 1} - {"__init__"}
    assert twice - set(ALIKE) == set(), "a file's name is its own in all rooms: find another noun"
    assert set(ALIKE) - twice == set(), "no two files have this name now: take it out of ALIKE"


ASSERTED = 2  # by what a method and a table's own trainer made, whose models no type tells apart


def test_what_cannot_be_is_untypable_and_not_asserted():
    asserts = [place for place, _ in nodes(ast.Assert)]
    assert len(asserts) <= ASSERTED, asserts


def dicts_of_a_frozen(node):
    """The fields of a class that are dicts, if it is a frozen dataclass."""
    if any("frozen=True" in ast.unparse(item) for item in node.decorator_list):
        for item in node.body:
            if isinstance(item, ast.AnnAssign) and ast.unparse(item.annotation).startswith(("dict", "defaultdict")):
                yield ast.unparse(item.target)


def test_no_frozen_dataclass_keeps_a_dict_that_changes():
    """What keeps what it worked out is a plain class and says so; what a frozen one holds is a Mapping."""
    planted = (
        "@dataclass(frozen=True)\nclass Problem:\n    worked_out: dict[str, Any] = field(default_factory=dict)\n"
    )
    assert [*dicts_of_a_frozen(ast.parse(planted).body[0])] == ["worked_out"]
    assert [(place, name) for place, cls in nodes(ast.ClassDef) for name in dicts_of_a_frozen(cls)] == []


# One fact, one place: what has a file of its own is named in no other

ORDINARY = {"public"}  # whatever anybody may see is called so, in every room


OF_FEATURES = {**declared("dpbo.methods"), **declared("dpbo.exchanges")}  # kind → its home, dpbo.features.NAME.…
NAMES = {
    "dpbo_core/methods": {*METHODS} - ORDINARY - {*OF_FEATURES},
    "dpbo_core/models/scores": SCORES,
    "dpbo_core/mechanisms": WORTH_OF_MECHANISM,
}
for kind, home in OF_FEATURES.items():
    NAMES.setdefault("/".join(home.split(".")[1:3]), set()).add(kind)
for room, names in merged("NAMED").items():
    NAMES[room] |= {*names}
WORDS = (
    "dpbo_core/models/scores",
    "dpbo_core/mechanisms",
)  # their names are ordinary words: a text may hold them, unless in quotes
EXCEPTED = {
    "dpbo_core/methods/__init__.py": "the table of methods, whose files are imported when a study names them",
    "dpbo_core/models/scores/union.py": "the table of scores, likewise",
    "dpbo_core/report/__init__.py": "names of figures, for screens that count nothing",
    "dpbo_core/report/binary.py": "the figures of a report, some of which scores are called by too",
    "dpbo_core/report/multiclass.py": "the figures of a report of several classes, likewise",
    "dpbo_core/models/estimator_allowlist": "scikit-learn's own parameters, one of which is a sigmoid too",
}


def sources():
    """path → text of everything that is installed, without what is excepted."""
    excepted = tuple(EXCEPTED)
    texts = {path.relative_to(ROOT).as_posix(): path.read_text() for path in SOURCES}
    return {path: text for path, text in texts.items() if not path.startswith(excepted)}


def literals(text):
    """The texts of a module, without its docstrings."""
    bodies = [body for node in parsed(text) if isinstance(body := getattr(node, "body", None), list) and body]
    said = {id(body[0].value) for body in bodies if isinstance(body[0], ast.Expr)}
    every = [node for node in parsed(text) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [node.value for node in every if id(node) not in said]


@cache
def names_in(text):
    """The names that a module's texts hold, looked for once however many tests ask."""
    found = set()
    for literal in literals(text):
        for room, names in NAMES.items():
            for name in names:
                word = rf'^{re.escape(name)}$|"{re.escape(name)}"' if room in WORDS else rf"\b{re.escape(name)}\b"
                if name in literal and re.search(word, literal):
                    found.add((room, name))
    return frozenset(found)


def named_in(texts):
    """name → the files that name it in a text of theirs."""
    found = {(room, name): set() for room, names in NAMES.items() for name in names}
    for path, text in texts.items():
        for room, name in names_in(text):
            found[room, name].add(path)
    return found


def elsewhere(texts):
    """Names that more than one file has, or one outside their room."""
    return {
        name: files
        for (room, name), files in named_in(texts).items()
        if len(files) != 1 or not next(iter(files)).startswith(f"{room}/")
    }


def test_methods_scores_mechanisms_and_bases_are_named_in_their_own_files_alone():
    assert elsewhere(sources()) == {}, "a name stands in its own file alone: ask for what the file declares"


def test_a_table_of_parts_has_each_under_its_own_name():
    """They are said beside the modules that define them, so that none is imported to be listed."""
    assert {name: cls.kind for name, cls in {**METHODS, **EXCHANGES}.items() if cls.kind != name} == {}
    assert {name: score.name for name, score in SCORES.items() if score.name != name} == {}


def test_a_planted_name_is_caught():
    texts, faults = sources(), (
        ("dpbo_core/study/tuning.py", 'KINDS = ("lipschitz", "public")', "lipschitz"),
        ("dpbo_core/ledger/accounting/certificate.py", 'GAUSSIAN = ("discrete Gaussian",)', "discrete Gaussian"),
        ("flows/cli/init.py", "REMEDY = 'choose score = \"brier\"'", "brier"),
        *(("tasks/tuning.py", f'raise ValueError("{kind} hides its steps")', kind) for kind in OF_FEATURES),
        *itertools.chain(*parts("PLANTED_NAMES")),
    )  # fmt: skip
    for path, planted, _ in faults:
        texts[path] += f"\n{planted}\n"
    found = elsewhere(texts)
    for path, _, name in faults:
        assert path in found[name]


def test_every_exception_is_still_needed():
    for excepted in EXCEPTED:
        place = ROOT / excepted
        files = [place] if place.is_file() else sorted(place.rglob("*.py"))
        named = named_in({path.relative_to(ROOT).as_posix(): path.read_text() for path in files})
        assert any(named.values()), excepted
