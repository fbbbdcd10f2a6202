"""Reading rows back: whatever they hold instead of what was written is told as damage, and not repeated."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import sqlalchemy as sa

from dpbo_core.errors import DpboError, LedgerDamaged

SHOWN = 3  # problems a message names; the rest it counts


def changed(problems: Sequence[str], name: str = "the ledger", *, hint: str = "") -> LedgerDamaged:
    """The message for a ledger that somebody wrote to past dpbo, or for an exported copy of one.

    Args:
        problems: what is wrong with it, in words.
        name: the ledger's.
        hint: what else may be done.
    """
    more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
    return LedgerDamaged(
        f"{name} was tampered with: {'; '.join(problems[:SHOWN])}{more}",
        cause="somebody wrote to its database past dpbo, or a disk failed",
        remedy="restore the newest sound copy; spend nothing on its datasets until what was spent is known; "
        f"dpbo budget verify names the rows{hint}",
    )


@contextmanager
def row_decoding() -> Iterator[None]:
    """Around reading rows back: a cell that holds something else than was written there is damage.

    Raises:
        LedgerDamaged: it says so; what the cell holds it does not repeat.
    """
    try:
        yield
    except DpboError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
        pass
    except (sa.exc.DataError, sa.exc.IntegrityError):  # a line of an export that refers to nothing, or comes twice
        pass
    else:
        return
    raise changed(["a row of the ledger cannot be read: it does not hold what was written there"])
