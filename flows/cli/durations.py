"""How often, as people write it: `--every 6h`."""

import re

from dpbo_core.errors import StudyInvalid

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(text: str) -> float:
    """`6h`, `30m`, `5s` or `1d` in seconds.

    Raises:
        StudyInvalid: it is none of them.
    """
    found = re.fullmatch(r"(\d{1,6})([smhd])", text.strip())
    if found is None or int(found[1]) == 0:
        raise StudyInvalid(f"--every {text!r} is no duration", remedy="write 30m, 6h or 1d")
    return float(int(found[1]) * _UNITS[found[2]])
