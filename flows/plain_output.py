"""Whether what is shown is to be listened to."""

import os

PLAIN = "DPBO_PLAIN"


def is_plain() -> bool:
    """Whether screens are plain words, as for a screen reader: --plain, or DPBO_PLAIN in the environment."""
    return os.environ.get(PLAIN, "") not in ("", "0")
