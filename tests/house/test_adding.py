"""A method, a score, a mechanism, a base or a query is one file and one line: the pages' own, in a copy."""

import os
import shutil
import subprocess
import sys
from importlib.util import cache_from_source
from pathlib import Path

import pytest
from of_features import merged
from pages import ROOT, blocks, code_of
from worlds import mostly_slow

ROOMS = ("dpbo_core", "dpbo", "tasks", "flows", "features")
PLACES = {  # a page of docs/, and its section where it has several
    "method": ("adding_a_method", ""),
    "score": ("adding_a_part", "A score"),
    "mechanism": ("adding_a_part", "A mechanism"),
    "query": ("adding_a_query", ""),
    **merged("ADDED"),
}


def tracked():
    """The package's files, new ones too, but what git ignores; all of them where there is no git."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *ROOMS]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    files = listed.stdout.split("\n") if listed.returncode == 0 else []
    every = (path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    found = [ROOT / name for name in files if name] or [*every]
    return [path for path in found if path.is_file()]


@pytest.fixture
def copy(tmp_path):
    for path in tracked():
        for known in (path, Path(cache_from_source(str(path)))):  # compiled already, which takes seconds
            if known.is_file():
                target = tmp_path / "tree" / known.relative_to(ROOT)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(known, target)
    for room in ROOMS[2:]:
        (tmp_path / "tree" / "dpbo" / room).symlink_to(f"../{room}")
    return tmp_path / "tree"


def holds(line, quoted):
    return line == quoted or (quoted.endswith("…") and line.startswith(quoted[:-1]))


def edited(text, lines):
    """A file after the page's lines: "  " is there, "+ " is put after it, "- " is replaced by what follows.

    "…" at the end of what is replaced is the rest of its line, and so it is in what follows.
    """
    written, at, rest = text.split("\n"), 0, ""
    for line in lines:
        sign, body = line[:2], line[2:]
        if sign == "+ ":
            written.insert(at, body.replace("…", rest))
            at += 1
            continue
        (place,) = [number for number, there in enumerate(written) if holds(there, body)]
        rest = written[place].removeprefix(body[:-1])
        at = place + 1
        if sign == "- ":
            del written[place]
            at = place
    return "\n".join(written)


def add(what, copy):
    """The file and the line that a page has for it, into the copy; the program that shows what they do."""
    page, section = PLACES[what]
    text = (ROOT / "docs" / f"{page}.md").read_text()
    if section:
        text = text.split(f"\n## {section}\n")[1].split("\n## ")[0]
    code, line, program = (block for block in blocks(text) if block.kind != "")
    target = copy / code.why.partition(",")[0]
    assert not target.exists()
    target.write_text(code_of(code))
    place, *lines = line.body.rstrip("\n").split("\n")
    assert 1 <= sum(edit[0] == "+" for edit in lines) <= 3, "an entry, and its imports if any"
    (copy / place).write_text(edited((copy / place).read_text(), lines))
    return code_of(program)


def run(program, copy, folder):
    folder.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DPBO_")}
    return subprocess.run(
        [sys.executable, "-c", f"import dpbo_core\nassert {str(copy)!r} in dpbo_core.__file__\n{program}"],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(copy), "HOME": str(folder), "PYTHONWARNINGS": "ignore::UserWarning"},
        capture_output=True,
        text=True,
        check=False,
    )


TOGETHER = ("method", "query"), ("score", "mechanism", *merged("ADDED"))


@pytest.mark.parametrize("what", mostly_slow(TOGETHER, TOGETHER[0]))
def test_one_file_and_one_line_are_all(what, copy, tmp_path):
    """Several in one copy, whose programs run in one process, each in a folder of its own."""
    apart = "import os\nos.mkdir(os.path.abspath({0!r}))\nos.chdir({0!r})\n{1}"
    ran = run("\n".join(apart.format(one, add(one, copy)) for one in what), copy, tmp_path / "work")
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.slow
def test_without_the_line_it_is_refused(copy, tmp_path):
    union = copy / "dpbo_core" / "models" / "scores" / "union.py"
    before = union.read_text()
    program = add("score", copy)
    union.write_text(before)
    ran = run(program, copy, tmp_path / "work")
    assert ran.returncode == 1
    assert "StudyInvalid" in ran.stderr
    assert "near_miss" in ran.stderr
