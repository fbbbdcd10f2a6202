"""Searching every byte a run left behind for planted secrets, in the forms they could have taken."""

import base64
import gzip
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path


def forms_of_number(value: float) -> set[bytes]:
    """A number as text at several precisions, and as float bytes both ways round."""
    texts = {repr(value), f"{value:.6f}", f"{value:.8f}", f"{value:.7g}", f"{value:.10g}", f"{value:.8e}"}
    texts = {text for text in texts if sum(c.isdigit() for c in text.lstrip("0.")) >= 6}
    packed = {struct.pack(order + kind, value) for order in "<>" for kind in "d"}
    return {text.encode() for text in texts} | packed


def forms_of_text(text: str) -> set[bytes]:
    raw = text.encode()
    return {raw, text.encode("utf-16-le"), raw.hex().encode(), base64.b64encode(raw)[: len(raw)]}


def contents(path: Path) -> Iterator[bytes]:
    """A file's bytes, and what is inside them where they are compressed."""
    raw = path.read_bytes()
    yield raw
    for unpack in (gzip.decompress, zlib.decompress):
        try:
            yield unpack(raw)
        except (OSError, EOFError, zlib.error):
            continue
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            yield from (archive.read(name) for name in archive.namelist())


def search(folder: Path, secrets: dict[str, Iterable[bytes]], also: Iterable[bytes] = ()) -> set[tuple[str, str]]:
    """(where, which) for every secret found under `folder` or in the streams `also`."""
    found = set()
    places = [
        (path.relative_to(folder).as_posix(), data)
        for path in folder.rglob("*")
        if path.is_file()
        for data in contents(path)
    ]
    places += [(f"stream {n}", data) for n, data in enumerate(also)]
    for where, data in places:
        for which, forms in secrets.items():
            if any(form in data for form in forms):
                found.add((where, which))
    return found
