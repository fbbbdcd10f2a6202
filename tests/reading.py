"""Writes docs/reading_with_the_papers.md: theorem → function → test, from the code itself.

python tests/reading.py
"""

import ast
from dataclasses import dataclass
from pathlib import Path

HEAD = """# Reading with the papers

One file per paper, one function per statement, in the paper's order. `python tests/reading.py` writes this page
from the code; a test keeps it true. Where a printed statement is wrong, see [the errata](errata.md).
"""


@dataclass(frozen=True)
class Statement:
    """A function of a theorem file, what it says in one line, and the tests that call it."""

    name: str
    says: str
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
    found = []
    for path in sorted((root / "dpbo_core" / "theorems").glob("[a-z]*.py")):
        tree = ast.parse(path.read_text())
        public = [node for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]
        statements = tuple(
            Statement(node.name, _first_line(node), _calling(node.name, path.stem, tests)) for node in public
        )
        found.append(Paper(path.stem, _first_line(tree), statements))
    return found


def _first_line(node: ast.FunctionDef | ast.Module) -> str:
    return (ast.get_docstring(node) or "").split("\n")[0].replace("|", "\\|")


def _calling(name: str, module: str, tests: dict[str, str]) -> tuple[str, ...]:
    """Test files that name this function and its paper."""
    return tuple(sorted(path for path, text in tests.items() if name in text and module in text))


def page(root: Path) -> str:
    """The whole page."""
    parts = [HEAD]
    for paper in papers(root):
        parts.append(f"\n## `{paper.module}`\n\n{paper.title}\n\n| function | says | tested in |\n|---|---|---|\n")
        for statement in paper.statements:
            where = ", ".join(f"`{path.removeprefix('tests/')}`" for path in statement.tests)
            parts.append(f"| `{statement.name}` | {statement.says} | {where} |\n")
    return "".join(parts)


if __name__ == "__main__":
    ROOT = Path(__file__).parent.parent
    (ROOT / "docs" / "reading_with_the_papers.md").write_text(page(ROOT))
