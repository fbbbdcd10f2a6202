"""How a row is written down and sealed: the same bytes on every machine, for ever."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def canonical(row: Mapping[str, Any]) -> str:
    """The one way a row is written down: sorted keys, no spaces, no NaN."""
    return json.dumps(row, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def seal(previous: str, sequence: int, about: str, row: str, totals: str | None = None) -> str:
    """h_n, in hex. An entry of before there were totals has four lines; none of them can hold a line's end."""
    lines = [previous, str(sequence), about, row, *(() if totals is None else (totals,))]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
