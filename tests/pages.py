"""The code blocks of a page of the documentation, and what a comment above a block says of it.

<!-- file: study.toml -->       the block is the text of this file, written before anything below runs
<!-- not run: why -->           shown only
<!-- slow: why -->              run by `make docs-run` alone
<!-- frameworks: why -->        run by `make frameworks` alone
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "pyproject.toml").is_file())
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
SNIPPET = re.compile(r'--8<-- "(\w+\.py)"\n')
FENCE = re.compile(
    r"(?:<!-- (file|not run|slow|frameworks): ([^\n]+?) -->\n)?(?<!`)```([\w-]*)[^\n]*\n(.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
RUN, SHOWN = ("python", "console"), ("", "toml", "text", "sql", "ini", "csv", "yaml")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, what its comment says, and where it stands."""

    kind: str
    body: str
    mark: str
    why: str
    line: int
    start: int
    end: int

    @property
    def runs(self) -> bool:
        """Whether a test executes it."""
        return self.kind in RUN and self.mark not in ("not run", "file", "frameworks")


def blocks(text: str) -> list[Block]:
    """Every fenced block of a page, in order."""
    return [
        Block(
            found[3], found[4], found[1] or "", found[2] or "", text[: found.start()].count("\n") + 1, *found.span()
        )
        for found in FENCE.finditer(text)
    ]


def code_of(block: Block) -> str:
    """Return a block's code; a block that includes a file of docs/adding is that file."""
    included = SNIPPET.fullmatch(block.body)
    return (ROOT / "docs" / "adding" / included[1]).read_text() if included else block.body


def commands(body: str) -> list[tuple[str, str]]:
    """A console block's commands, each with what it prints."""
    parts = re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]
    return [(first, printed) for first, _, printed in (part.partition("\n") for part in parts)]
