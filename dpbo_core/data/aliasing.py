"""Whether two tables in memory are one table: the same object, the same rows, or the same bytes of memory.

Which objects a call was given, and where in memory they lie, are facts about the call, as which file a study names
is a fact about the study (one file named twice is refused, by a hard link too): the same for all neighbours. WHAT
the objects hold is not, so it is never compared. A refusal is an output. "V equals X" would be said of V = X with
certainty and of none of its neighbours; "nearly equal" only moves the place where two neighbours are distinguished,
and no ε prices it.

For the same reason rows and cells are not compared as objects: Python and its libraries may keep equal numbers,
texts and tuples as one object, so that their identity tells what they hold.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

MAX_OVERLAP_TRIES = 100_000  # tries at an exact answer for two strided arrays; "shared" where it is not had
VALUE_ATTRIBUTES = ("_ndarray", "_data", "_pa_array", "_codes")  # where pandas' own arrays hold their values

Memory = NDArray[Any]


def aliased(public: Iterable[Any], sensitive: Iterable[Any]) -> bool:
    """Return whether public and sensitive tables or targets share an object or memory; equal values do not count.

    Slices that share no element are two tables, as the two parts of a split are. Tables of pandas, polars, Arrow
    and NumPy are looked through; those of other libraries are compared as objects only. (Truth values of Arrow and
    polars are compared by whole bytes, so up to 15 of them may go unseen.)
    """
    ours, theirs = list(public), list(sensitive)
    if {id(one) for one in ours} & {id(one) for one in theirs}:
        return True
    memory = ([array for table in tables for array in _memory_of_table(table)] for tables in (ours, theirs))
    return _arrays_overlap(*memory)


def _memory_of_table(table: Any) -> Iterator[Memory]:
    arrow = nw.dependencies.get_pyarrow()
    try:
        frame = nw.from_native(table, allow_series=True, eager_only=True, pass_through=True)
    except Exception:  # noqa: BLE001  no table: whoever reads it says so
        return
    if isinstance(frame, nw.DataFrame):
        for place in range(len(frame.columns)):
            yield from _memory_of_column(frame[:, place].to_native())
    elif isinstance(frame, nw.Series):
        yield from _memory_of_column(frame.to_native())
    elif isinstance(table, np.ndarray):
        yield np.asarray(table)
    elif arrow is not None and isinstance(table, arrow.Array):
        yield from _memory_of_chunk(table)
    else:
        yield from _memory_of_column(table)


def _memory_of_column(column: Any) -> Iterator[Memory]:
    arrow, polars = nw.dependencies.get_pyarrow(), nw.dependencies.get_polars()
    if isinstance(column, np.ndarray):
        yield np.asarray(column)
    elif polars is not None and isinstance(column, polars.Series):
        yield from _memory_of_polars(column, polars)
    elif arrow is not None and isinstance(column, arrow.ChunkedArray):
        for chunk in column.chunks:
            yield from _memory_of_chunk(chunk)
    else:
        own = getattr(column, "array", column)  # of a series or an index
        for held in (getattr(own, name, None) for name in VALUE_ATTRIBUTES):
            if isinstance(held, np.ndarray):
                yield np.asarray(held)
            elif arrow is not None and isinstance(held, arrow.ChunkedArray):
                yield from _memory_of_column(held)


def _memory_of_polars(column: Any, polars: Any) -> Iterator[Memory]:
    """Yield the memory ranges in which the values of a polars column lie; none for a kind that would be copied."""
    physical = column.to_physical()  # of dates and categories, their numbers; else itself
    kind = physical.dtype
    if kind.is_numeric() or kind in (polars.Boolean, polars.String, polars.Binary):  # what is handed over uncopied
        for chunk in physical.get_chunks():
            yield from _memory_of_chunk(chunk.to_arrow(compat_level=polars.CompatLevel.newest()))


def _memory_of_chunk(chunk: Any) -> Iterator[Memory]:
    """Yield the memory range of an Arrow array's own values; a slice shares the buffers of the whole array."""
    import pyarrow as pa

    if isinstance(chunk.type, pa.BaseExtensionType):
        chunk = chunk.storage
    if pa.types.is_dictionary(chunk.type):
        chunk = chunk.indices
    buffers = chunk.buffers()
    if len(buffers) < 2 or buffers[1] is None:
        return
    bits = _bits_per_record(chunk.type)
    # Whole bytes inside: two neighbouring slices of truth values may have one byte in common.
    start, stop = -(-chunk.offset * bits // 8), (chunk.offset + len(chunk)) * bits // 8
    yield np.frombuffer(buffers[1], dtype=np.uint8)[start:stop]


def _bits_per_record(kind: Any) -> int:
    """Return how many bits a record of this Arrow type takes in the second buffer, as a value, view or offset."""
    import pyarrow as pa

    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return 128
    if any(test(kind) for test in (pa.types.is_large_string, pa.types.is_large_binary, pa.types.is_large_list)):
        return 64
    try:
        return int(kind.bit_width)
    except ValueError:  # texts and lists: offsets
        return 32


def _arrays_overlap(ours: list[Memory], theirs: list[Memory]) -> bool:
    """The arrays are visited by their first byte; only those whose byte ranges overlap are compared by element."""
    ends = sorted(
        (*np.lib.array_utils.byte_bounds(array), side, number)
        for side, arrays in enumerate((ours, theirs))
        for number, array in enumerate(arrays)
        if array.size
    )
    open_: tuple[list[tuple[int, Memory]], list[tuple[int, Memory]]] = ([], [])
    for low, high, side, number in ends:
        array = (ours, theirs)[side][number]
        for stop, other in open_[1 - side]:
            if stop > low and _share_an_element(array, other):
                return True
        open_[side][:] = [item for item in open_[side] if item[0] > low]
        open_[side].append((high, array))
    return False


def _share_an_element(one: Memory, other: Memory) -> bool:
    """Return whether two arrays share an element of memory; True if that is too hard to tell."""
    work: Any = MAX_OVERLAP_TRIES  # NumPy's annotation knows two of the numbers it takes
    try:
        return bool(np.shares_memory(one, other, max_work=work))
    except (np.exceptions.TooHardError, OverflowError):
        return True
