"""Reading rows back: whatever they hold instead of what was written is told as damage, and not repeated."""

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from dpbo_core.errors import DpboError, LedgerDamaged


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
    raise LedgerDamaged(
        "a row of the ledger cannot be read: it does not hold what was written there",
        cause="somebody wrote to its database past dpbo, or a disk failed",
        remedy="run dpbo budget verify; restore the newest sound copy",
    )
