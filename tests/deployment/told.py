"""A line a check, and the commands of docs/how_to/team.md, followed as they stand there."""

import re
import sys

from deployment.machine import ROOT
from deployment.people import shell

PAGE = ROOT / "docs" / "how_to" / "team.md"
failed = []


def check(what, holds, told=""):
    """One line; what was seen instead, where it does not hold."""
    sys.stdout.write(f"{'ok    ' if holds else 'FAILED'} {what}{'' if holds or told == '' else f': {told}'}\n")
    sys.stdout.flush()
    if not holds:
        failed.append(what)


def blocks():
    """The page's commands for root, block by block."""
    text = PAGE.read_text(encoding="utf-8").partition("## From an empty machine")[2]
    found = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    return [[line.removeprefix("# ") for line in block.splitlines()] for block in found]


def follow(block):
    """Every command of a block; the first that fails ends the trial."""
    for line in block:
        shell(line)
    check(f"{len(block)} commands of the page, from: {block[0][:60]}", holds=True)


def install(block):
    """The page's first commands; where its packages are there already, apt is not asked."""
    packages = block[0].split("--yes ")[1].split()
    there = [name for name in packages if "Status: install ok" in shell(f"dpkg -s {name}", code=None)]
    for line in block if len(there) < len(packages) else block[1:]:
        shell(line)
    check(f"Debian's packages ({', '.join(packages)}), and the {len(block) - 1} commands that install", holds=True)
