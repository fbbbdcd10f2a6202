"""docs/tables/statements.txt, shown by docs/reading_with_the_papers.md: theorem → function → test."""

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

GEOMETRY, HYPO_SEARCH = "features/outsourced/geometry", "features/private_training/hypo_search"
GUARANTEE, KUSNER_GP, SAMPLING = "privacy/guarantee", "methods/kusner_gp", "search/adaptive_sampling"
SETTINGS = "benchmarks/papers/wang"
NUMBERED = {  # every numbered statement of the three papers: whether it is built as printed, and where
    "kusner_2015": {
        "Assumption 1": ("built", "methods/kusner_pricing"),
        "Definition 1": ("corrected", GUARANTEE),
        "Definition 2": ("built", "privacy/release"),
        "Definition 3": ("built", "mechanisms/laplace"),
        "Definition 4": ("built", "mechanisms/exponential"),
        "Algorithm 1": ("built", KUSNER_GP),
        "Theorem 1": ("corrected", "theorem_1_sensitivity"),
        "Corollary 1": ("built", "corollary_1_weights"),
        "Theorem 2": ("corrected", "theorem_2_utility_bound"),
        "Theorem 3": ("corrected", "theorem_3_sensitivity"),
        "Corollary 2": ("corrected", "corollary_2_scale"),
        "Theorem 4": ("corrected", "theorem_4_error_bound"),
        "Algorithm 2": ("corrected", KUSNER_GP),
        "Theorem 5": ("corrected", "theorem_5_sensitivity"),
        "Corollary 3": ("corrected", "corollary_3_scale"),
        "Theorem 6": ("built", "theorem_6_error_bound"),
        "Assumption 2": ("corrected", "methods/lipschitz"),
        "Algorithm 3": ("built", "methods/lipschitz"),
        "Definition 5": ("built", "theorem_7_sensitivity"),
        "Theorem 7": ("corrected", "theorem_7_sensitivity"),
        "Corollary 4": ("built", "corollary_4_scale"),
        "Theorem 8": ("built", "theorem_8_error_bound"),
    },
    "kharkovskii_2020": {
        "Definition 1": ("built", GUARANTEE),
        "Definition 2": ("built", GUARANTEE),
        "Lemma 1": ("built", "lemma_1_projection_dim"),
        "Remark 1": ("built", "lemma_1_distortion"),
        "Algorithm 1": ("corrected", GEOMETRY),
        "Theorem 1": ("corrected", GEOMETRY),
        "Theorem 2": ("built", "theorem_2_distance_bounds"),
        "Definition 3": ("built", "definition_3_diagonally_dominant"),
        "Algorithm 2": ("built", "features/outsourced/modeler"),
        "Theorem 3": ("corrected", "theorem_3_regret_bound"),
        "Remark 2": ("built", "remark_2_approximation"),
        "Remark 3": ("corrected", "theorem_3_regret_bound"),
        "Remark 4": ("built", "features/outsourced/utility"),
    },
    "wang_2023": {
        "Definition 2.1": ("built", GUARANTEE),
        "Framework 1": ("built", HYPO_SEARCH),
        "Theorem 1": ("corrected", "theorem_1_renyi"),
        "Theorem 2": ("built", "theorem_2_epsilon"),
        "Algorithm 2": ("built", SAMPLING),
        "Algorithm 3": ("built", SAMPLING),
        "Definition A.1": ("built", "privacy/renyi"),
        "Definition A.2": ("built", "privacy/renyi"),
        "Lemma A.3": ("built", "terms_in_alpha"),
        "Lemma A.4": ("built", "terms_in_alpha"),
        "Lemma A.5": ("corrected", "theorem_1_renyi"),
        "Definition B.1": ("built", "theorems/papernot_steinke_2022"),
        "Setting E.1": ("built", SETTINGS),
        "Setting E.2": ("built", SETTINGS),
    },
}


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


def _numbered(module: str) -> str:
    """The paper's numbered statements, each with what became of it and where."""
    rows = [f"| {name} | {what} | `{where}` |\n" for name, (what, where) in NUMBERED.get(module, {}).items()]
    return "".join(("| in the paper | here | where |\n|---|---|---|\n", *rows, "\n")) if rows else ""


def page(root: Path) -> str:
    """Every paper's table."""
    parts = []
    for paper in papers(root):
        parts.append(
            f"\n## `{paper.module}`\n\n{paper.title}\n\n{_numbered(paper.module)}"
            "| function | says | used in | tested in |\n|---|---|---|---|\n"
        )
        for statement in paper.statements:
            where = ", ".join(f"`{path.removeprefix('tests/')}`" for path in statement.tests)
            used = ", ".join(f"`{name}`" if "/" in name else name for name in statement.used) or "a reading aid"
            parts.append(f"| `{statement.name}` | {statement.says} | {used} | {where} |\n")
    return "".join(parts).lstrip()
