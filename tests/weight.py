"""How much there is to read: `python tests/weight.py`, from the project's folder.

Counted is what the wheel ships; a shipped file of data counts a line per 100 bytes.
"""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

SHIPPED = ("dpbo_core", "flows", "tasks", "features")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def python_files(*folders: str) -> list[Path]:
    """Every Python file below the folders."""
    return sorted(path for folder in folders for path in Path(folder).rglob("*.py"))


def docstrings(tree: ast.AST) -> Iterator[ast.stmt]:
    """The statement of every docstring."""
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            yield node.body[0]


def n_lines(paths: Sequence[Path]) -> int:
    """Lines of all the files together."""
    return sum(len(path.read_text().splitlines()) for path in paths)


def n_said_again(paths: Sequence[Path], *, least: int = 2) -> int:
    """Lines of runs of `least` or more statements of a function that stood, word for word, in one before."""
    seen, again = set[str](), set[tuple[Path, int]]()
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            block = getattr(node, "body", None)
            if not isinstance(block, list) or isinstance(node, ast.Module):
                continue
            for run in (block[start : start + least] for start in range(len(block) - least + 1)):
                text = "\n".join(map(ast.dump, run))
                if text in seen:
                    again |= {(path, line) for line in range(run[0].lineno, run[-1].end_lineno + 1)}
                seen.add(text)
    return len(again)


def main() -> None:
    """Print the table."""
    modules = python_files(*SHIPPED)
    trees = [ast.parse(path.read_text()) for path in modules]
    documented = [statement for tree in trees for statement in docstrings(tree)]
    statements = sum(isinstance(node, ast.stmt) for tree in trees for node in ast.walk(tree)) - len(documented)
    lines = n_lines(modules)
    explained = sum((item.end_lineno or item.lineno) - item.lineno + 1 for item in documented)
    data = [
        path
        for folder in SHIPPED
        for path in Path(folder).rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc", ".sql") and path.name != "py.typed"
    ]
    lengths = [n_lines([path]) for path in modules]
    longest = modules[lengths.index(max(lengths))]
    sql = [path for folder in SHIPPED for path in Path(folder).rglob("*.sql")]
    for name, value in {
        "statements without docstrings": f"{statements:,}",
        "lines": f"{lines:,} and {-(-sum(path.stat().st_size for path in data) // 100):,} of data",
        "docstrings' share": f"{explained / lines:.1%}",
        "modules; longest; median": f"{len(modules)}; {max(lengths)} ({longest}); {median(lengths):g}",
        "shipped SQL": f"{n_lines(sql):,}",
        "said again, in tests/": f"{n_said_again(modules):,}, {n_said_again(python_files('tests')):,}",
        "lines of tests/": f"{n_lines(python_files('tests')):,}",
        "accounting and ledger": f"{n_lines(python_files('dpbo_core/accounting', 'dpbo_core/ledger')):,}",
    }.items():
        print(f"{name:32}{value}")


if __name__ == "__main__":
    main()
