"""Writes docs/notebooks/*.ipynb: pages of the documentation as notebooks, from their Markdown.

python tests/notebooks.py

Python becomes code, a console block its commands, a file block a cell that writes the file; what a page shows as
printed is left out, since the notebook prints it. What a page only shows stays text.
"""

import json
import re
from typing import Any

from pages import ROOT, Block, blocks, commands

CHAPTERS = ("first_release", "health_data")
FOLDER = ROOT / "docs" / "notebooks"


def code_of(block: Block) -> str | None:
    """The cell a block becomes; None where it stays text."""
    if block.mark == "file":
        return f"%%writefile {block.why}\n{block.body}"
    if not block.runs:
        return None
    if block.kind == "python":
        return block.body
    return "".join(f"!{line}\n" for line, _ in commands(block.body))


def cells(text: str) -> list[tuple[str, str]]:
    """(kind, source) of every cell, in order."""
    found: list[tuple[str, str]] = []
    here, after_python = 0, False
    for block in blocks(text):
        code = code_of(block)
        printed = block.kind == "text" and after_python
        after_python = code is not None and block.kind == "python"
        if code is None and not printed:
            continue
        found.append(("markdown", text[here : block.start]))
        if code is not None:
            found.append(("code", code))
        here = block.end
    found.append(("markdown", text[here:]))
    return [(kind, source.strip("\n")) for kind, source in found if source.strip()]


def notebook(chapter: str) -> str:
    """The notebook of a page, without outputs; its links lead to the pages beside it."""
    text = (ROOT / "docs" / "tutorials" / f"{chapter}.md").read_text()
    made: list[dict[str, Any]] = []
    for number, (kind, source) in enumerate(cells(text)):
        if kind == "markdown":
            source = re.sub(r"\]\((?!http|\.\./)", "](../tutorials/", source)
        cell = {
            "cell_type": kind,
            "id": f"cell-{number}",
            "metadata": {},
            "source": source.splitlines(keepends=True),
        }
        made.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    document = {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in CHAPTERS:
        (FOLDER / f"{name}.ipynb").write_text(notebook(name))
