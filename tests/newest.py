"""Our requirements without their upper bounds: what a lane installs to hear of what is coming.

python tests/newest.py
"""

import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

FIRST = ("prefect", "mlflow")  # a resolver gives those named first their newest release
THEIRS = ("fastapi", "graphql-core")  # which release is right, these two know


def unbounded(line):
    """The same package, extras and marker, with the lower bounds alone; `0.6.*` begins at 0.6."""
    requirement = Requirement(line)
    floors = [str(one) for one in requirement.specifier if one.operator == ">="]
    floors += [f">={one.version.removesuffix('.*')}" for one in requirement.specifier if one.operator == "=="]
    requirement.specifier = SpecifierSet(",".join(sorted(floors)))
    return requirement


def requirements(project):
    """Of a pyproject.toml, as it was read: what dpbo needs, its extras and what the tests need."""
    lines = [
        *project["project"]["dependencies"],
        *(line for extra in project["project"]["optional-dependencies"].values() for line in extra),
        *project["dependency-groups"]["dev"],
    ]
    wanted = {str(one): one.name for one in map(unbounded, lines) if one.name not in THEIRS}
    return sorted(wanted, key=lambda text: (wanted[text] not in FIRST, text))


if __name__ == "__main__":
    text = (Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8")
    sys.stdout.write("\n".join(requirements(tomllib.loads(text))) + "\n")
