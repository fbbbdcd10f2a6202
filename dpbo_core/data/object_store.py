"""Objects of a store that speaks S3's protocol: one of them, its end, and those right under a prefix.

Whatever fails here, the store's own words may repeat what it was asked or what it holds: whoever calls seals them
(`fetched`). Who runs the store sees which object was asked for, and when.
"""

import struct
from typing import Any

from dpbo_core.data.addresses import FolderAddress, ObjectAddress

SECONDS = 10.0  # for a first answer
TAIL = 2**16  # bytes that are asked for first: most footers are shorter
END, MAGIC = 8, b"PAR1"  # of a Parquet file: the length of its footer, and the sign
SUFFIX = ".parquet"

ObjectState = tuple[int, int]  # when it was written, in nanoseconds, and its length


def downloaded(place: ObjectAddress) -> bytes:
    """All of its bytes."""
    with _opened(place) as file:
        return bytes(file.read())


def footer_of(place: ObjectAddress) -> bytes:
    """The end of a Parquet object, in which its footer is whole; of another object its last bytes."""
    with _opened(place) as file:
        size = file.size()
        found = bytes(file.read_at(min(size, TAIL), max(0, size - TAIL)))
        if len(found) < END or not found.endswith(MAGIC):
            return found
        wanted = min(size, struct.unpack("<I", found[-END:][:4])[0] + END)
        return found if wanted <= len(found) else bytes(file.read_at(wanted, size - wanted))


def parquet_objects(folder: FolderAddress) -> tuple[ObjectAddress, ...]:
    """The Parquet objects right under it, each once, by their keys; whatever else the store lists is left out."""
    from pyarrow import fs

    selected = fs.FileSelector(f"{folder.bucket}/{folder.prefix.rstrip('/')}", allow_not_found=True)
    found = _store(folder.settings).get_file_info(selected)
    under = f"{folder.bucket}/{folder.prefix}"
    paths = {info.path for info in found if info.type == fs.FileType.File and info.path.endswith(SUFFIX)}
    names = sorted(path.removeprefix(under) for path in paths if path.startswith(under))
    return tuple(
        ObjectAddress(folder.bucket, folder.prefix + name, folder.settings) for name in names if "/" not in name
    )


def state_of(place: ObjectAddress) -> ObjectState:
    """By which a change is noticed.

    Raises:
        OSError: there is no such object.
    """
    (found,) = _store(place.settings).get_file_info([_path(place)])
    if found.mtime_ns is None or found.size is None:
        raise FileNotFoundError
    return int(found.mtime_ns), int(found.size)


def _opened(place: ObjectAddress) -> Any:
    return _store(place.settings).open_input_file(_path(place))


def _path(place: ObjectAddress) -> str:
    return f"{place.bucket}/{place.key}"


def _store(settings: tuple[tuple[str, str], ...]) -> Any:
    from pyarrow import fs

    return fs.S3FileSystem(
        **dict(settings),
        connect_timeout=SECONDS,
        request_timeout=6 * SECONDS,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=2),
    )
