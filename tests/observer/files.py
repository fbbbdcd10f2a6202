"""Folders that a second user can list: what lies in them, and every event there, as the kernel tells (inotify)."""

import ctypes
import os
import select
import stat
import struct
from contextlib import suppress
from pathlib import Path

from observer.notes import Notes, plain

CHANNEL = "files"
EVENTS = {
    0x001: "read", 0x002: "written", 0x004: "attributes", 0x008: "closed after writing", 0x010: "closed",
    0x020: "opened", 0x040: "moved from", 0x080: "moved to", 0x100: "made", 0x200: "removed",
}  # fmt: skip
ALL = sum(EVENTS)
FOLDER, OVERFLOW, LISTING, WRITTEN = 0x40000000, 0x4000, 0x031, 0x088
SPILT = "etilqs_"  # by SQLite, when its memory is full
HEAD = struct.Struct("iIII")


class Files:
    """All that lies below `tops`, as far as it can be entered."""

    def __init__(self, notes: Notes, tops: list[str]) -> None:
        self._notes = notes
        self._kernel = ctypes.CDLL(None, use_errno=True)
        self._queue = self._kernel.inotify_init1(os.O_NONBLOCK)
        self._watched: dict[int, str] = {}
        self._seen: set[str] = set()
        self._order: list[str] = []
        for top in tops:
            self._watch(top, new=False)

    def _watch(self, folder: str, *, new: bool) -> None:
        """Events of a folder and of those in it; what lay in a new one before it was watched counts as made."""
        place = self._kernel.inotify_add_watch(self._queue, folder.encode(), ctypes.c_uint32(ALL))
        if place < 0:
            return
        self._watched[place] = folder
        with suppress(OSError):
            for entry in os.scandir(folder):
                self._stat(entry.path)
                if entry.is_dir(follow_symlinks=False) and entry.path not in self._watched.values():
                    self._watch(entry.path, new=new)

    def events(self) -> None:
        """What happened since."""
        while select.select([self._queue], [], [], 0)[0]:
            raw = os.read(self._queue, 1 << 20)
            while raw:
                place, mask, _, length = HEAD.unpack_from(raw)
                name = raw[HEAD.size : HEAD.size + length].rstrip(b"\0").decode(errors="replace")
                raw = raw[HEAD.size + length :]
                if mask & OVERFLOW:
                    self._notes.word(CHANNEL, "the kernel's queue", "overflowed")
                    continue
                if mask & FOLDER and mask & LISTING:
                    continue  # who lists a folder makes these, the observer too
                path = f"{self._watched.get(place, '?')}/{name}"
                for bit, word in EVENTS.items():
                    if mask & bit:
                        what = f"{_named(path)} {word}{' (folder)' if mask & FOLDER else ''}"
                        self._notes.count(CHANNEL, what)
                        if what not in self._seen and SPILT not in what:
                            self._seen.add(what)
                            self._order.append(what)
                if mask & FOLDER and mask & 0x180:
                    self._watch(path, new=True)
                self._stat(path)
                if mask & WRITTEN:  # nothing that reading brings about, or it would never end
                    self._read(path)

    def _stat(self, path: str) -> None:
        with suppress(OSError):
            found = os.lstat(path)
            name = _named(path)
            self._notes.word(CHANNEL, f"{name} is", f"{stat.filemode(found.st_mode)} of {found.st_uid}")
            self._notes.number(CHANNEL, f"{name} size", found.st_size if not stat.S_ISDIR(found.st_mode) else 0)
            self._notes.number(CHANNEL, f"{name} links", found.st_nlink)

    def _read(self, path: str) -> None:
        with suppress(OSError):
            if stat.S_ISREG(os.lstat(path).st_mode):
                text = Path(path).read_bytes()[:100_000].decode(errors="replace")
                self._notes.text(CHANNEL, f"{_named(path)} says", text)

    def look(self) -> None:
        """Every file that is there: names, sizes, modes."""
        for folder in list(self._watched.values()):
            with suppress(OSError):
                for entry in os.scandir(folder):
                    self._stat(entry.path)

    def close(self) -> None:
        """The order in which things first happened."""
        self.events()
        self.look()
        self._notes.word(CHANNEL, "order of first events", "\n".join(self._order))


def _named(path: str) -> str:
    return plain(path)
