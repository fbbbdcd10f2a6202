"""Writes docs/notebooks/*.ipynb: pages of the documentation as notebooks, from their Markdown.

python tests/notebooks.py

Python becomes code, a console block its commands, a file block a cell that writes the file. What the page shows as
printed is the cell's output, so that a notebook can be read without running it. What a page only shows stays text.
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


def cells(text: str) -> list[tuple[str, str, str]]:
    """Return kind, source and printed output of every cell, in order."""
    found: list[tuple[str, str, str]] = []
    here, after_python = 0, False
    for block in blocks(text):
        code = code_of(block)
        if block.kind == "text" and after_python:
            kind, source, _ = found[-1]
            found[-1] = kind, source, block.body
            here = block.end
        after_python = code is not None and block.kind == "python"
        if code is not None:
            printed = f"Writing {block.why}\n" if block.mark == "file" else ""
            if block.kind == "console":
                printed = "".join(out for _, out in commands(block.body))
            found += [("markdown", text[here : block.start], ""), ("code", code, printed)]
            here = block.end
    found.append(("markdown", text[here:], ""))
    return [(kind, source.strip("\n"), out) for kind, source, out in found if source.strip()]


def notebook(chapter: str) -> str:
    """Return the notebook of a page with the page's outputs; its links lead to the pages beside it."""
    text = (ROOT / "docs" / "tutorials" / f"{chapter}.md").read_text()
    made: list[dict[str, Any]] = []
    count = 0
    for number, (kind, source, out) in enumerate(cells(text)):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
        if kind == "markdown":
            source = re.sub(r"\]\((?!http|\.\./)", "](../tutorials/", source)
        else:
            count += 1
            stream = {"name": "stdout", "output_type": "stream", "text": out.splitlines(keepends=True)}
            cell |= {"execution_count": count, "outputs": [stream] if out else []}
        made.append(cell | {"source": source.splitlines(keepends=True)})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    document = {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def write() -> None:
    """Write every notebook."""
    FOLDER.mkdir(exist_ok=True)
    for name in CHAPTERS:
        (FOLDER / f"{name}.ipynb").write_text(notebook(name))


if __name__ == "__main__":
    write()
