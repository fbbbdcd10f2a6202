"""Draws sentences of the first pages at random, for somebody to read: python tests/sentences.py SEED [NUMBER]."""

import random
import re
import sys

from pages import ROOT

FIRST_PAGES = ("README.md", "docs/index.md", "docs/tutorials/first_release.md", "docs/tutorials/health_data.md")
CODE = re.compile(r"<!--.*?-->|```.*?```|^#.*?$|^!\[.*?$|^\|[-|]+$", re.DOTALL | re.MULTILINE)


def sentences() -> list[str]:
    """Return every sentence and table row of the first pages, without code, headings and pictures."""
    found = []
    for page in FIRST_PAGES:
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", CODE.sub("\n\n", (ROOT / page).read_text()))
        for paragraph in re.split(r"\n\s*\n|\n(?=[*|] )", text):
            line = " ".join(paragraph.split()).strip("* ")
            found += [f"{page}: {part}" for part in re.split(r"(?<=[.?!:])\s+(?=[A-Z`\"*])", line) if " " in part]
    return found


if __name__ == "__main__":
    every = sentences()
    number = int(sys.argv[2]) if len(sys.argv) > 2 else 50
    for place, sentence in enumerate(random.Random(sys.argv[1]).sample(every, number), start=1):
        print(f"{place}. {sentence}")
