"""docs/tables/statements.txt, shown by docs/reading_with_the_papers.md: theorem → function → test."""

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Statement:
    """A function of a theorem file: what it says in one line, the modules that use it, the tests that call it."""

    name: str
    says: str
    used: tuple[str, ...]
    tests: tuple[str, ...]


@dataclass(frozen=True)
class Paper:
    """A theorem file: the edition it follows, and its statements."""

    module: str
    title: str
    statements: tuple[Statement, ...]


def papers(root: Path) -> list[Paper]:
    """Every paper of dpbo_core/theorems, by name."""
    tests = {path.relative_to(root).as_posix(): path.read_text() for path in (root / "tests").rglob("test_*.py")}
    folders = ("dpbo_core", "tasks", "flows", "features")
    code = {
        path.relative_to(root).as_posix(): path.read_text() for f in folders for path in (root / f).rglob("*.py")
    }
    found = []
    for path in sorted((root / "dpbo_core" / "theorems").glob("[a-z]*.py")):
        tree = ast.parse(path.read_text())
        public = [node for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]
        statements = tuple(
            Statement(
                node.name, _first_line(node), _using(node.name, path, code), _calling(node.name, path.stem, tests)
            )
            for node in public
        )
        found.append(Paper(path.stem, _first_line(tree), statements))
    return found


def _first_line(node: ast.FunctionDef | ast.Module) -> str:
    return (ast.get_docstring(node) or "").split("\n")[0].replace("|", "\\|")


def _calling(name: str, module: str, tests: dict[str, str]) -> tuple[str, ...]:
    """Test files that name this function and its paper."""
    return tuple(sorted(path for path, text in tests.items() if name in text and module in text))


def _using(name: str, theorem: Path, code: dict[str, str]) -> tuple[str, ...]:
    """Modules that use this function: of its own paper, or that name the paper."""
    own = f"theorems/{theorem.name}"
    calls = {
        path
        for path, text in code.items()
        if theorem.stem in text and not path.endswith(own) and name in _names(text)
    }
    within = name in _names(theorem.read_text())
    return (
        tuple(sorted(path.removeprefix("dpbo_core/").removesuffix(".py") for path in calls))
        or ("its own paper",) * within
    )


@cache
def _names(text: str) -> frozenset[str]:
    """Names and attributes that a module's code imports or uses, called or handed on."""
    nodes = list(ast.walk(ast.parse(text)))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    names |= {node.name for node in nodes if isinstance(node, ast.alias)}
    return frozenset(names | {node.attr for node in nodes if isinstance(node, ast.Attribute)})


def page(root: Path) -> str:
    """Every paper's table."""
    parts = []
    for paper in papers(root):
        parts.append(
            f"\n## `{paper.module}`\n\n{paper.title}\n\n"
            "| function | says | used in | tested in |\n|---|---|---|---|\n"
        )
        for statement in paper.statements:
            where = ", ".join(f"`{path.removeprefix('tests/')}`" for path in statement.tests)
            used = ", ".join(f"`{name}`" if "/" in name else name for name in statement.used) or "a reading aid"
            parts.append(f"| `{statement.name}` | {statement.says} | {used} | {where} |\n")
    return "".join(parts).lstrip()
