"""Whether Arrow could convert the columns of a sensitive half, in place of our own value-by-value rules.

    python -m benchmarks.arrow_columns [N]

A sensitive column must be converted totally: whatever stands in a record changes nothing but that record. So two
things are asked of Arrow. How many spellings does its cast read as ours does, and what does it cost to read the
rest as gaps? And what does one odd value in memory do to the other values of its column?

Arrow's cast of texts stops at the first text that is no number, for the whole column. With the numbers picked by a
regular expression first, so that nothing can stop it, it takes longer than ours. Values in memory are worse: of
most kinds one odd value fails the whole column, so that a second, value-by-value reader has to stay. That is why
the values of a table are converted by `dpbo_core/data/values.py`.
"""

import datetime
import decimal
import sys
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpbo_core.data.csv_file import N_LINES_PER_BLOCK
from dpbo_core.data.values import text_column

NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
SPELLINGS = (
    *("1", " 1", "1 ", "+1", "1.", ".5", "1e5", "1E5", "1e400", "-0", "inf", "Infinity", "nan", "NaN", "1_0"),
    *("0x10", "1,5", "１", "٣", "true", "1d", "1f", "", "NA", "1e", "--1", "1 000", "1\u00a0", "1\x00"),
)
ODD = (
    *(decimal.Decimal("1.5"), np.float32(1.5), "x", 2**70, float("inf"), datetime.date(2020, 1, 1), object()),
    *([1], {"a": 1}, True, b"1", np.datetime64("2020"), None, 1j),
)


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """Return the least processor time of several runs."""
    found = []
    for _ in range(repeats):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return min(found)


def ours(texts: list[str]) -> None:
    for start in range(0, len(texts), N_LINES_PER_BLOCK):
        text_column(texts[start : start + N_LINES_PER_BLOCK])


def arrow_total(texts: list[str]) -> pa.Array:
    """Arrow's cast of what a regular expression says is a number; the rest is null."""
    stripped = pc.utf8_trim_whitespace(pa.array(texts))
    return pc.cast(pc.if_else(pc.match_substring_regex(stripped, NUMBER), stripped, None), pa.float64())


def as_ours(text: str) -> bool:
    """Whether Arrow's cast of one text is what our reader makes of it."""
    value = text_column([text])[0]
    try:
        other = pc.cast(pa.array([text]), pa.float64())[0].as_py()
    except pa.ArrowInvalid:
        return False
    return bool(value == other or (value != value and other != other))


def fails(odd: object) -> bool:
    """Whether one odd value keeps a column of numbers from becoming an Arrow array."""
    try:
        pa.array([1.0, 2, 3.5, odd])
    except (pa.ArrowException, TypeError):
        return True
    return False


def main() -> None:
    """Print what was measured, a row each."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    texts = [repr(value) for value in np.random.default_rng(0).normal(size=n).round(6).tolist()]
    own = seconds(lambda: ours(texts))
    once = seconds(lambda: pc.cast(pa.array(texts), pa.float64()))
    total = seconds(lambda: arrow_total(texts))
    print(f"{n:,} numbers as texts, processor seconds: ours {own:.3f}")
    print(f"  Arrow, which stops at the first text that is no number: {once / own:.2f} of that")
    print(f"  Arrow, made total: {total / own:.2f} of that")
    print(f"{len(SPELLINGS)} spellings: Arrow's cast reads {sum(map(as_ours, SPELLINGS))} as ours does")
    print(f"{len(ODD)} odd values in memory: {sum(map(fails, ODD))} fail their whole column")


if __name__ == "__main__":
    main()
