"""Every `dpbo plan` of the README and the documentation, as it prints today; slow ones stay."""

import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from pages import ROOT, blocks, commands


def renewed(text: str, folder: Path) -> str:
    """A page whose plans are today's."""
    (folder / "examples").symlink_to(ROOT / "examples")
    new = text
    for block in blocks(text):
        if block.mark == "file":
            (folder / block.why).write_text(block.body)
        if block.kind == "console" and block.body.startswith("$ dpbo plan ") and block.mark != "slow":
            ((line, _),) = commands(block.body)
            command = [sys.executable, "-c", "from dpbo.flows.cli import main; main()", *shlex.split(line)[1:]]
            out = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
            printed = "".join(f"{told.rstrip()}\n" for told in out.strip("\n").splitlines())
            new = new.replace(block.body, f"$ {line}\n{printed}")
    return new


def plans(page: Path) -> str:
    """A page of the documentation whose plans are today's, run in a folder of their own."""
    with TemporaryDirectory() as name:
        return renewed(page.read_text(), Path(name))
