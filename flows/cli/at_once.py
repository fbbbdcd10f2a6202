"""The first line of a command that takes long to load: at a person's terminal, before anything is imported."""

import sys
from pathlib import Path


def reading(study: Path | None) -> None:
    """Say that the study is read; nothing where nobody watches. A name is shown without control characters."""
    if sys.stderr.isatty():
        name = "the bundled example" if study is None else study.name
        sys.stderr.write(f"dpbo: reading {''.join(c if c.isprintable() else '?' for c in name)}\n")
        sys.stderr.flush()
