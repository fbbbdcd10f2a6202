"""Whether what is shown is to be listened to."""

import os

PLAIN = "DPBO_PLAIN"


def is_plain() -> bool:
    """Whether somebody listens to the screens: --plain, or DPBO_PLAIN in the environment."""
    return os.environ.get(PLAIN, "") not in ("", "0")
