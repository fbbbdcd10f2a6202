"""The trials of a running search, sealed in a folder of its owner alone until the best of them is released.

draw.json    what was drawn before the first training: how many trials count, each one's candidate, each one's seed
<j>-…/       folders of trial j, made anew by every run: a checkpoint of a killed one would repeat its noise
<j>.model    its model, and then
<j>.json     its noised score and what it reported: a trial that is finished

A search that is killed and asked again goes on with the same draw, and runs again only what was not finished. After
the release the folder is destroyed.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dpbo_core.privacy.atomically import replace_atomically
from dpbo_core.privacy.sensitive import attempted


@dataclass(frozen=True, repr=False)
class TrialDraw:
    """What is drawn before the first training; its repr says nothing."""

    counted: int  # how many trials count; the later ones run for their number alone
    candidates: tuple[int, ...]  # the index of each trial's candidate, (n,)
    seeds: tuple[int, ...]  # 64 bits for each trial, (n,)


@dataclass(frozen=True, repr=False)
class FinishedTrial:
    """One finished trial; its repr says nothing."""

    quality: int | None  # its noised score in whole steps; None for a trial that failed
    spent: Any = None  # what it reported of its spend; None for nothing
    seeds: tuple[int, ...] = ()  # whole numbers that it set a random state to
    model: str = ""  # SHA-256 of its model, in hex


class TrialVault:
    """The folder of one search, its owner's alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def drawn(self, draw: Callable[[], TrialDraw]) -> TrialDraw:
        """Return what was drawn before, or else `draw()`, on disk before it is used."""
        file = self.folder / "draw.json"
        if not file.exists():
            replace_atomically(file, json.dumps(asdict(draw())).encode())
        table = json.loads(file.read_bytes())
        return TrialDraw(table["counted"], tuple(table["candidates"]), tuple(table["seeds"]))

    def new_folder(self, trial: int) -> Path:
        """Return a new and empty folder for the trial, its owner's alone."""
        return Path(tempfile.mkdtemp(prefix=f"{trial}-", dir=self.folder))

    def finished(self, trial: int) -> FinishedTrial | None:
        """Return the trial's outcome; None before it has finished."""
        file = self.folder / f"{trial}.json"
        if not file.exists():
            return None
        table = json.loads(file.read_bytes())
        return FinishedTrial(table["quality"], table["spent"], tuple(table["seeds"]), table["model"])

    def seal(self, trial: int, outcome: FinishedTrial, model: bytes) -> None:
        """Keep a finished trial: its model first, then its outcome, each whole or not at all."""
        replace_atomically(self.folder / f"{trial}.model", model)
        replace_atomically(self.folder / f"{trial}.json", json.dumps(asdict(outcome)).encode())

    def model(self, trial: int) -> bytes:
        """Return the pickled model of a finished trial."""
        return (self.folder / f"{trial}.model").read_bytes()

    def shred(self) -> None:
        """Destroy all that the vault holds, as well as a disk lets itself be overwritten; never fails."""
        attempted(self._destroy, otherwise=None)

    def _destroy(self) -> None:
        for file in self.folder.glob("*.json"):
            with suppress(OSError), file.open("r+b") as open_file:
                open_file.write(bytes(os.fstat(open_file.fileno()).st_size))
                open_file.flush()
                os.fsync(open_file.fileno())
        shutil.rmtree(self.folder)
