"""`make planted`: each fault of faults.toml in a copy of the tree, and whether its tests notice.

python -m planted [-k WORD …] [-j N]      (from tests/; WORD is part of a promise's id, N copies work side by side)

The copy's own packages are imported, not the installed ones. A test must pass without the fault, and fail with it:
a module that cannot be imported or compiled catches nothing. It exits 1 if one fault is not caught.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import Queue

from planted import ROOT, Fault, faults

SECONDS = 300.0  # a test that hangs on a fault has not noticed it
BROKEN = re.compile(r"^E +(SyntaxError|IndentationError|ImportError|ModuleNotFoundError|NameError)", re.MULTILINE)
IMPORTED = (
    "import dpbo_core, dpbo.flows, dpbo.tasks as tasks; print(dpbo_core.__file__, dpbo.__file__, tasks.__file__)"
)


def copy_of_tree(folder: Path) -> Path:
    """The working tree without what git ignores, links kept."""
    names = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in filter(None, subprocess.check_output(names, cwd=ROOT, text=True).split("\0")):
        if (ROOT / name).is_symlink() or (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    places = run([sys.executable, "-c", IMPORTED], folder).stdout.split()
    if not places or not all(Path(file).is_relative_to(folder) for file in places):
        sys.exit(f"The copy is not what would be imported: {places}")
    return folder


def run(command: Sequence[str], folder: Path, seconds: float | None = None) -> subprocess.CompletedProcess[str]:
    """A command in a copy, whose packages come first on the path."""
    environment = os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    try:
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "timed out", "")


def outcome(folder: Path, tests: Sequence[str], seconds: float | None) -> subprocess.CompletedProcess[str]:
    """The tests in a copy as it is, by a pytest of their own: those of `make test`."""
    command = [sys.executable, "-m", "pytest", "-x", "-m", "not slow", "-p", "no:cacheprovider", *tests]
    return run(command, folder, seconds)


@contextmanager
def mistake(fault: Fault, folder: Path) -> Iterator[None]:
    """The copy with the mistake in it."""
    file = folder / fault.file
    honest = file.read_text(encoding="utf-8")
    file.write_text(fault.plant(honest), encoding="utf-8")
    try:
        yield
    finally:
        file.write_text(honest, encoding="utf-8")


def verdict(fault: Fault, folder: Path) -> str:
    """Whether it is caught, in a few words."""
    for test in fault.tests:
        with mistake(fault, folder):
            done = outcome(folder, [test], SECONDS)
        failed = re.search(r"^\d+ failed\b", done.stdout, re.MULTILINE) or "AssertionError" in done.stdout
        if done.returncode != 1 or not failed:
            return f"NOT CAUGHT by {test} ({(done.stdout or done.stderr).strip().splitlines()[-1][:60]})"
        if BROKEN.search(done.stdout):
            return f"BROKEN: {test} cannot run ({BROKEN.search(done.stdout)[1]})"
    return "caught"


def main() -> int:
    """Plant every fault that is asked for, and print what came of it."""
    parser = argparse.ArgumentParser(prog="python -m planted")
    parser.add_argument("-k", default=[], action="append", metavar="WORD")
    parser.add_argument("-j", default=1, type=int, metavar="N")
    options = parser.parse_args()
    begun = time.monotonic()
    some = [fault for fault in faults() if not options.k or any(word in fault.promise for word in options.k)]
    if not some:  # without a test's name pytest would run them all
        parser.error(f"no fault's id has {' or '.join(options.k)} in it")
    with tempfile.TemporaryDirectory(prefix="planted-") as place, ThreadPoolExecutor(options.j) as threads:
        copies: Queue[Path] = Queue()
        for number in range(options.j):
            copies.put(copy_of_tree(Path(place).resolve() / str(number)))
        everyone = sorted({test for fault in some for test in fault.tests})
        honest = outcome(Path(place).resolve() / "0", everyone, None)
        if honest.returncode != 0:
            print(honest.stdout, honest.stderr, "\nThese tests do not pass without a fault.")
            return 1

        def one(fault: Fault) -> tuple[str, float]:
            folder, started = copies.get(), time.monotonic()
            try:
                return verdict(fault, folder), time.monotonic() - started
            finally:
                copies.put(folder)

        caught = 0
        for fault, (word, seconds) in zip(some, threads.map(one, some), strict=True):
            caught += word == "caught"
            print(f"{fault.promise:44} {seconds:5.1f} s  {word}", flush=True)
    print(f"{caught} of {len(some)} faults caught in {(time.monotonic() - begun) / 60:.1f} minutes")
    return 0 if caught == len(some) else 1


if __name__ == "__main__":
    sys.exit(main())
