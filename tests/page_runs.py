"""Runs the code of a documentation page, to compare what it prints with the page or to renew the page."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import Block, blocks, commands

READERS_FOLDER = "/home/ann/visits"  # what a page shows in the place of the folder where it was run


def run_command(line: str, folder: Path, *, alone: bool) -> str:
    """Return what a command prints; a refusal (a message on standard error) must come with its exit code.

    Args:
        line: the command, which begins with `dpbo`.
        folder: the current folder.
        alone: whether to run it in a process of its own, with its own home for Prefect, as a shell would.
    """
    words = shlex.split(line)
    assert words[0] == "dpbo", line
    code, out, err = (_in_a_process if alone else _in_this_process)(words, folder)
    progress, mark, refusal = f"\n{err}".partition("\ndpbo: ")
    assert (code != 0) == bool(mark), err
    assert all(" of " in line or ": " in line for line in progress.split("\n") if line), err
    out = re.sub(r"charged by \S+ on \S+", "charged by ann on clinic", out.replace(str(folder), READERS_FOLDER))
    return out + (f"dpbo: {refusal}" if code else "")


def _in_a_process(words: list[str], folder: Path) -> tuple[int, str, str]:
    run = subprocess.run(
        [sys.executable, "-c", "from dpbo.flows.cli import main; main()", *words[1:]],
        cwd=folder, env=os.environ | {"PREFECT_HOME": str(folder / "prefect"), "COLUMNS": "80"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return run.returncode, run.stdout, run.stderr


def _in_this_process(words: list[str], folder: Path) -> tuple[int, str, str]:
    from dpbo.flows.cli import main

    code, out, err = 0, io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", words)
        patch.setenv("COLUMNS", "80")
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main()
            except SystemExit as stop:
                code = stop.code or 0
    return code, out.getvalue(), err.getvalue()


def printed_blocks(
    name: str, text: str, folder: Path, *, slow: bool, frameworks: bool = False
) -> Iterator[tuple[Block, str]]:
    """Run a page from top to bottom in one folder and one Python, and give each block that shows output.

    Yields:
        The block, and its text as it would be with today's output.
    """
    namespace: dict[str, object] = {"__name__": "__main__"}
    printed = None
    for block in blocks(text):
        if block.mark == "file":
            (folder / block.why).write_text(block.body)
        elif block.kind == "text" and printed is not None:
            yield block, printed
        wanted = block.runs and (slow or block.mark != "slow")
        if not (wanted or (frameworks and block.mark == "frameworks")):
            printed = None
        elif block.kind == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(block.body, f"{name}:{block.line}", "exec"), namespace)
            printed = out.getvalue()
        else:
            shown = []
            for line, _ in commands(block.body):
                out = run_command(line, folder, alone=block.mark == "slow")
                shown.append(f"$ {line}\n" + "".join(f"{row.rstrip()}\n" for row in out.strip("\n").splitlines()))
            yield block, "".join(shown)


def renewed(name: str, text: str, folder: Path) -> str:
    """Return a page with today's output in every block that runs, those that take minutes too."""
    for block, today in reversed([*printed_blocks(name, text, folder, slow=True)]):
        end = block.end - len("```")
        text = text[: end - len(block.body)] + today + text[end:]
    return text


# A row of a release with a number: its choice or its score.
ROW = re.compile(r"^  (\w+) +(-?[\d.]+(?:e[+-]?\d+)?)(?: |$)", re.MULTILINE)
PAIR = re.compile(r"['\"](\w+)['\"]: (-?[\d.]+(?:e[+-]?\d+)?)")


def masked(text: str) -> str:
    """Return a transcript without what differs from run to run: noisy numbers, dates, plots and line breaks.

    Whole numbers stay, since they are counts of public facts, except those of a choice.
    """
    text = re.sub(r"\(noise\s+moved\s+it\s+out\s+of\s+its\s+range\)", "", text)
    text = re.sub(r"  range\s+\S+ = \S+\s+is\s+at\s+the\s+end\s+of[^(]*\(a\s+new\s+edition[^)]*\)", "", text)
    text = re.sub(r"the choice\s+best\s+of\s[^%]*%(,\s+by\s+at\s+least\s+[\d.]+)?", "", text)  # where noise lets it
    text = re.sub(r"\n  verdict  .*?(?=\n  \w+  )", "\n  verdict", text, flags=re.DOTALL)  # follows the noise
    text = re.sub(r"\nNext: .*", "", text, flags=re.DOTALL)  # follows the verdict
    text = re.sub(r"\d+\s+in\s+\d+\s+bins", "# in # bins", text)  # of the model that noise chose
    text = re.sub(r"(?<=│)[ ▁▂▃▄▅▆▇█]*$|[▁▂▃▄▅▆▇█]+", "▁", text, flags=re.MULTILINE)
    text = re.sub(r"(run|sealed)\s+[0-9a-f]{8,16}", r"\1 #", text)
    text = ROW.sub(r"  \1 # ", text)
    text = PAIR.sub(r"'\1': #", text)
    text = re.sub(r"\d{4}-\d\d-\d\d", "#", text)
    text = re.sub(r"-?\d+(\.\d+(e[+-]?\d+)?|e[+-]?\d+)", "#", text)
    return " ".join(text.split()).replace("# … #", "#")  # a trajectory's last look may have a scale of its own


def contradictions(text: str) -> list[str]:
    """Return the hyperparameters that one page prints with different values for the same released study.

    A page that runs `dpbo tune STUDY` once shows one release. What later Python prints as replayed is that release.
    """
    released: dict[str, float] = {}
    replayed, differing = False, []
    for block in blocks(text):
        if block.kind == "console" and block.body.startswith("$ dpbo tune"):
            released = {name: float(value) for name, value in ROW.findall(block.body)}
        elif block.kind == "text" and "replayed: True" in block.body:
            replayed = True
        if block.kind == "text" and replayed and released:
            for name, value in PAIR.findall(block.body):
                digits = len(value.partition(".")[2])
                if name in released and round(released[name], digits) != float(value):
                    differing.append(f"{name} is {released[name]} in line {text[: block.start].count(chr(10))}")
            replayed = False
    return differing
