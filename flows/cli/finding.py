"""One line of `dpbo doctor`."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["fine", "note", "wrong"]


@dataclass(frozen=True)
class Finding:
    """What was looked at, the verdict, what was seen, and what to do where something is wrong."""

    what: str
    verdict: Verdict
    seen: str
    remedy: str = ""
