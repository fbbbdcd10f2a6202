"""Draw functions by a commit's hash, to be read by somebody who knows nothing of the code.

`python -m benchmarks.blind_reading COMMIT` prints forty functions with their source and without their files.
Whoever reads them writes a sentence on what each returns or does, or says that it is unclear;
docs/evidence/fresh_eyes.md has the answers.
"""

import ast
import hashlib
import random
import sys
from pathlib import Path

FOLDERS = ("dpbo_core", "flows", "tasks", "features")
N_FUNCTIONS = 40
MIN_STATEMENTS = 2  # a function of one statement says itself what it does


def functions() -> dict[str, str]:
    """Return the source of every function that has a docstring, by file and qualified name."""
    root = Path(__file__).parent.parent
    sources = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            text = path.read_text()
            for node in ast.walk(ast.parse(text)):
                if (
                    isinstance(node, ast.FunctionDef)
                    and ast.get_docstring(node)
                    and len(node.body) > MIN_STATEMENTS
                ):
                    name = f"{path.relative_to(root)}:{node.name}:{node.lineno}"
                    sources[name] = ast.get_source_segment(text, node) or ""
    return sources


def main() -> None:
    """Print the functions that a commit's hash draws, numbered."""
    sources = functions()
    seed = int.from_bytes(hashlib.sha256(sys.argv[1].encode()).digest())
    drawn = random.Random(seed).sample(sorted(sources), N_FUNCTIONS)
    for number, name in enumerate(drawn, 1):
        shown = name if "--names" in sys.argv else ""
        print(f"### {number} {shown}\n{sources[name]}\n")


if __name__ == "__main__":
    main()
