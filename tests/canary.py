"""Searching every byte a run left behind for planted secrets, in the forms they could have taken.

A form is looked for in a file's bytes and in everything found inside them: compressed streams wherever they begin
(gzip, zlib, bz2, xz), archives, base64 and hex text, the cells of SQLite databases and Parquet tables. A pickle
keeps text and floats as they are, so its own bytes are searched; a compressed or base64 pickle is opened first.
"""

import base64
import bz2
import gzip
import io
import lzma
import re
import sqlite3
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEPTH = 4  # how deep things may be packed into one another
STREAMS: tuple[tuple[re.Pattern[bytes], Callable[[], Any]], ...] = (
    (re.compile(rb"\x1f\x8b\x08"), lambda: zlib.decompressobj(31)),
    (re.compile(rb"\x78[\x01\x5e\x9c\xda]"), zlib.decompressobj),
    (re.compile(rb"BZh[1-9]1AY&SY"), bz2.BZ2Decompressor),
    (re.compile(rb"\xfd7zXZ\x00"), lzma.LZMADecompressor),
)
BASE64 = re.compile(rb"[A-Za-z0-9+/](?:[A-Za-z0-9+/]|\\n|\n){22,}={0,2}")
HEX = re.compile(rb"[0-9a-fA-F]{16,}")
WRAPS = re.compile(rb"\\n|\n")
MAGIC = (b"\x80\x04", b"\x80\x05", b"\x93NUMPY", b"PAR1", b"PK")
SURE = 6  # shorter forms are found in random bytes by chance
CLOCK = re.compile(rb"\d\d:\d\d:\d")  # what stands before the last digit of the seconds
GAP = b"\0\0\0\0\0\0\0\0"


def forms_of_number(value: float) -> set[bytes]:
    """A number as text at several precisions, and as the bytes of a float both ways round.

    The four bytes of a float32 are looked for only where they are not text, so that no text can look like them, and
    only in bytes that were written as they are: a false alarm in one of 4,000 megabytes of random bytes, for each.
    """
    texts = {repr(value), f"{value:.6f}", f"{value:.8f}", f"{value:.7g}", f"{value:.10g}", f"{value:.8e}"}
    texts = {text for text in texts if sum(c.isdigit() for c in text.lstrip("0.")) >= 6}
    packed = {struct.pack(order + "d", value) for order in "<>"}
    single = {struct.pack(order + "f", value) for order in "<>"}
    return {text.encode() for text in texts} | packed | {form for form in single if not _is_text(form)}


def _is_text(form: bytes) -> bool:
    try:
        form.decode()
    except UnicodeDecodeError:
        return False
    return True


def forms_of_text(text: str) -> set[bytes]:
    raw = text.encode()
    return {raw, text.encode("utf-16-le"), text.encode("utf-16-be")}


@dataclass(frozen=True)
class Piece:
    """Bytes to search. `guessed`: read as base64 or hex although they may never have been that."""

    data: bytes
    guessed: bool = False

    def holds(self, form: bytes) -> bool:
        """Elsewhere than as the seconds of a time: of many times one ends in a score's digits now and then."""
        if form not in self.data or (self.guessed and len(form) < SURE):
            return False
        starts = (found.start() for found in re.finditer(re.escape(form), self.data))
        return any(CLOCK.fullmatch(self.data, start - 7, start) is None for start in starts)


def unpacked(raw: bytes, depth: int = DEPTH, *, guessed: bool = False) -> Iterator[Piece]:
    """These bytes, and everything that is packed inside them."""
    yield Piece(raw, guessed)
    if depth == 0 or not raw:
        return
    for inner in _packed(raw):
        yield from unpacked(inner, depth - 1, guessed=guessed)
    for inner in _encoded(raw):
        yield from unpacked(inner, depth - 1, guessed=not inner.startswith(MAGIC))


def _packed(raw: bytes) -> Iterator[bytes]:
    """What is compressed or archived in these bytes."""
    for magic, opener in STREAMS:
        for match in magic.finditer(raw):
            with suppress(OSError, EOFError, ValueError, zlib.error, lzma.LZMAError):
                if found := opener().decompress(memoryview(raw)[match.start() :]):
                    yield found
    if zipfile.is_zipfile(io.BytesIO(raw)):
        with suppress(zipfile.BadZipFile, OSError), zipfile.ZipFile(io.BytesIO(raw)) as archive:
            yield from (archive.read(name) for name in archive.namelist())
    if raw.startswith(b"PAR1"):
        yield parquet_cells(raw)


def _encoded(raw: bytes) -> Iterator[bytes]:
    """What looks like base64 or hex in these bytes, decoded; what is a pickle or an array then, on its own."""
    letters = [WRAPS.sub(b"", match.group()).rstrip(b"=") for match in BASE64.finditer(raw)]
    digits = [match.group().decode() for match in HEX.finditer(raw)]
    whole = [base64.b64decode(_whole(run)) for run in letters]
    yield from (data for data in whole if data.startswith(MAGIC))
    for start in range(4):  # other letters may stand before the first of them
        yield GAP.join(base64.b64decode(_whole(run[start:])) for run in letters)
    for start in range(2):
        yield GAP.join(bytes.fromhex(run[start : start + (len(run) - start) // 2 * 2]) for run in digits)


def _whole(letters: bytes) -> bytes:
    """The longest decodable beginning, with its padding."""
    keep = len(letters) - (len(letters) % 4 == 1)
    return letters[:keep] + b"=" * (-keep % 4)


def parquet_cells(raw: bytes) -> bytes:
    """Every value of a Parquet file as text, and its columns' buffers."""
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(raw))
    text = "\n".join(repr(value) for column in table.columns for value in column.to_pylist())
    buffers = [
        buffer.to_pybytes()
        for column in table.columns
        for chunk in column.chunks
        for buffer in chunk.buffers()
        if buffer is not None
    ]
    return b"\n".join([text.encode(), *buffers])


def sqlite_cells(path: Path) -> Iterator[bytes]:
    """Every cell of a database: a long one is cut in its file where a page ends."""
    try:
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        connection.text_factory = bytes
        names = [
            row[0].decode() for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        for name in names:
            for row in connection.execute(f'SELECT * FROM "{name}"'):
                yield from (_cell(value) for value in row if value is not None)
        connection.close()
    except sqlite3.DatabaseError:  # a killed process may leave half a database; its bytes were searched already
        return


def rows_of(url: str) -> Iterator[bytes]:
    """Every cell of every table of a database server."""
    import sqlalchemy as sa

    engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
    metadata = sa.MetaData()
    metadata.reflect(engine)
    with engine.connect() as connection:
        for table in metadata.sorted_tables:
            for row in connection.execute(table.select()):
                yield from (_cell(value) for value in row if value is not None)


def _cell(value: Any) -> bytes:
    return bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode()


def contents(path: Path) -> Iterator[Piece]:
    """A file's bytes, what is packed inside them, and the cells of a database."""
    raw = path.read_bytes()
    yield from unpacked(raw)
    if raw.startswith(b"SQLite format 3\0"):
        long = b"\n".join(cell for cell in sqlite_cells(path) if len(cell) > 500)
        yield from unpacked(long)


def _shortest(forms: Iterable[bytes]) -> list[bytes]:
    """The forms that hold no other: bytes that hold a longer one hold that other too. Unsure ones hide nothing."""
    every = set(forms)
    return [form for form in every if not any(SURE <= len(o) < len(form) and o in form for o in every)]


def search(
    folder: Path, secrets: Mapping[str, Iterable[bytes]], also: Mapping[str, bytes] | None = None
) -> set[tuple[str, str]]:
    """(where, which) for every secret found under `folder` or in `also`, by name."""
    found, shortest = set(), {which: _shortest(forms) for which, forms in secrets.items()}
    places = ((path.relative_to(folder).as_posix(), contents(path)) for path in folder.rglob("*") if path.is_file())
    others = ((where, unpacked(data)) for where, data in (also or {}).items())
    for where, pieces in (*places, *others):
        for piece in pieces:
            found |= {(where, which) for which, forms in shortest.items() if any(map(piece.holds, forms))}
    return found


def packed_ways(raw: bytes) -> dict[str, bytes]:
    """The same bytes packed in each way that the search must see through."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as writer:
        writer.writestr("inside", raw)
    return {
        "plain": raw,
        "gzip": gzip.compress(raw),
        "zlib": zlib.compress(raw),
        "bz2": bz2.compress(raw),
        "xz": lzma.compress(raw),
        "zip": archive.getvalue(),
        "hex": raw.hex().encode(),
        "base64": base64.b64encode(raw),
        "wrapped base64": base64.encodebytes(raw),
    }
