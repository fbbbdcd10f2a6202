"""The ledger's `Source` for a text that names data: a path, an address, a database URL with `#table`, and so on."""

from collections.abc import Iterable
from pathlib import Path

import sqlalchemy as sa

from dpbo_core.data.addresses import QUERY_PREFIX, S3, Place, parse_address
from dpbo_core.ledger.sources import MEMORY_SOURCE, Role, Source, file_source


def place_source(place: Place, role: Role = "records") -> Source:
    """Return what the ledger knows a path or an address by; nothing is opened or asked."""
    return file_source(place, role) if isinstance(place, Path) else Source("table", place.identity, role)


def named_source(text: str, bundled: Iterable[str] = ()) -> Source:
    """Return the ledger's source for a text: `memory`, a bundled set, an address, URL#table, or a file."""
    if text == "memory":
        return MEMORY_SOURCE
    if text in bundled and not Path(text).exists():
        return Source("bundled", text)
    if text.lower().startswith(f"{S3}://") or QUERY_PREFIX in text:
        return place_source(parse_address(text, display_name="the address"))
    url, separator, table = text.partition("#")
    if separator and "://" in url:
        return Source("table", f"{_without_credentials(url)}#{table}")
    return file_source(text)


def _without_credentials(url: str) -> str:
    try:
        address = sa.engine.make_url(url)
        parts = {name: getattr(address, name) for name in ("drivername", "host", "port", "database")}
        return sa.URL.create(**parts).render_as_string()
    except (sa.exc.ArgumentError, ValueError):
        return url.rpartition("@")[2]
