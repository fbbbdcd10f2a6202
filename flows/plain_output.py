"""Whether screens are plain words, and a line on standard error for each stage of what takes long."""

import os
import sys

from dpbo_core.errors import printable

PLAIN_SETTING = "DPBO_PLAIN"


def is_plain() -> bool:
    """Return whether screens are plain words, as for a screen reader: --plain, or DPBO_PLAIN in the environment."""
    return os.environ.get(PLAIN_SETTING, "") not in ("", "0")


def announce_stage(name: str, stage: str) -> None:
    """Write on standard error which stage begins; the text has public facts alone."""
    sys.stderr.write(f"{printable(name)}: {printable(stage)}\n")
    sys.stderr.flush()
