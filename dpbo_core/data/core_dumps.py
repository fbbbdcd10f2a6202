"""A crash must not leave the records of this process in a file: no core dump once sensitive data is open."""

from contextlib import suppress
from pathlib import Path

FILTER = Path("/proc/self/coredump_filter")  # what of the memory a dump holds; its collector may ignore the limit


def no_core_dumps() -> None:
    """From now on, for this process and those it starts; nothing where the system has no such limit."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        _, ceiling = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (0, ceiling))
    with suppress(OSError):
        FILTER.write_text("0", encoding="ascii")
