"""Standard output is this command's own: what libraries print while it works is dropped, C libraries' too.

A verbose estimator writes to the file descriptor, past Python; `--json` guarantees one object and nothing else.
"""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress

STDOUT = 1


@contextmanager
def own_output() -> Iterator[None]:
    """Context in which standard output of this process, and of those it starts, is dropped."""
    sys.stdout.flush()
    original = os.dup(STDOUT)
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):  # noqa: PTH123  a device
        os.dup2(nowhere.fileno(), STDOUT)
        try:
            yield
        finally:
            with suppress(OSError, AttributeError):
                ctypes.CDLL(None).fflush(None)  # what C libraries hold back would come out at the end
            os.dup2(original, STDOUT)
            os.close(original)
