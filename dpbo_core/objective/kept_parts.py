"""Parts that were read and encoded, kept in the memory of the process that scores them while they fit.

| symbol | name here | meaning |
|---|---|---|
| V_j | `part` | one file, or object of a store, of a partitioned set |
| L | `limit` | bytes that a process may keep, public |

What is kept follows from the order in which parts are asked for and from their numbers of records and features,
never from what a record holds. A file that was written again is read again, and one that is gone is missed, whether
it was kept or not.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from dpbo_core.data.addresses import ObjectAddress, Part
from dpbo_core.data.fetched import state_of
from dpbo_core.privacy.sensitive import Opaque

T = TypeVar("T")

State = tuple[int, ...]


class KeptParts(Opaque, Generic[T]):
    """What one process keeps, for one reader at a time. As sensitive as the records."""

    __slots__ = ("_bytes", "_parts", "_reader")

    def __init__(self) -> None:
        self._reader, self._bytes = "", 0
        self._parts: dict[Part, tuple[State, T]] = {}

    def get(self, reader: str, part: Part, read: Callable[[], T], *, size: Callable[[T], int], limit: int) -> T:
        """What `read` makes of a part, or made of it when it was last asked for.

        Args:
            reader: whose it is; what was kept for another is dropped.
            part: the file.
            read: opens it.
            size: its bytes, from public numbers.
            limit: L; what would go beyond it is not kept.

        Raises:
            OSError: there is no such file.
        """
        if reader != self._reader:
            self._reader, self._bytes, self._parts = reader, 0, {}
        state = _state(part)
        kept = self._parts.get(part)
        if kept is not None and kept[0] == state:
            return kept[1]
        if kept is not None:
            self._bytes -= size(self._parts.pop(part)[1])
        made = read()
        if self._bytes + size(made) <= limit:
            self._bytes += size(made)
            self._parts[part] = (state, made)
        return made


def _state(part: Part) -> State:
    """Which file it is, when it was written as it says and as the disk says, how long it is; of an object the last
    write and the length, as the store says them.
    """
    if isinstance(part, ObjectAddress):
        return state_of(part)
    found = part.stat()
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size
