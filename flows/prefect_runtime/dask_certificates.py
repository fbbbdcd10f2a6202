"""Certificates of one run of Dask that are in no file: not in $TMPDIR either, where Dask writes them.

Python's TLS reads a certificate by its path alone. The path here is that of a pipe, which holds it until then.
"""

import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from distributed.security import Security


class UnwrittenSecurity(Security):  # type: ignore[misc]  # untyped
    """Dask's, whose private key is read from memory. Made by `temporary()`; workers get it by a pipe."""

    def _get_tls_context(self, tls: Mapping[str, Any], purpose: ssl.Purpose) -> ssl.SSLContext:
        with readable_once(tls["cert"]) as cert, readable_once(tls["key"]) as key:
            context: ssl.SSLContext = super()._get_tls_context({**tls, "cert": cert, "key": key}, purpose)
        return context


@contextmanager
def readable_once(text: str) -> Iterator[str]:
    """A path under which `text`, of less than a pipe's 64 KiB, can be read once."""
    reading, writing = os.pipe()
    try:
        with os.fdopen(writing, "w", encoding="ascii") as file:
            file.write(text)
        yield f"/dev/fd/{reading}"
    finally:
        os.close(reading)
