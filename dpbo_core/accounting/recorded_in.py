"""Whether a ledger still holds what a certificate names: a release takes the ledger's newest hash with it."""

from pathlib import Path
from typing import Literal

import sqlalchemy as sa

from dpbo_core.accounting.history import RESTORATION
from dpbo_core.accounting.store import LedgerStore
from dpbo_core.accounting.tables import HISTORY, RELEASES
from dpbo_core.errors import LedgerDamaged
from dpbo_core.privacy.release import Release

Standing = Literal["held", "accepted", "another"]


def at_hand(url: str) -> bool:
    """Whether there is a ledger at all; none is made by asking."""
    address = sa.engine.make_url(url)
    return address.get_backend_name() != "sqlite" or Path(address.database or "").is_file()


def standing_of(release: Release, url: str) -> Standing:
    """What the ledger says of the entry that the release names.

    Args:
        release: as its certificate has it.
        url: the ledger's.

    Returns:
        "held"; "accepted" where it is missing and a person answered for an older copy; "another" where the release
        is of another ledger, or of a version that named none.

    Raises:
        LedgerDamaged: it is missing, and nobody answered for that.
    """
    if not release.ledger:
        return "another"
    store = LedgerStore(url, restored=True)
    if release.ledger.get("identity") != store.identity:
        return "another"
    with store.reading() as connection:
        before = sa.select(HISTORY.c.sequence).where(HISTORY.c.hash == release.ledger.get("head"))
        own = sa.select(HISTORY.c.about).where(HISTORY.c.sequence == before.scalar_subquery() + 1)
        if connection.scalar(own) == RELEASES.name:
            return "held"
        accepted = sa.select(HISTORY.c.sequence).where(HISTORY.c.about == RESTORATION).limit(1)
        if connection.scalar(accepted) is not None:
            return "accepted"
    raise LedgerDamaged(
        "the ledger is older than it was: the entry that this release names is not in its history",
        cause="an old copy of the ledger was restored, and what was spent since is missing from it",
        remedy="restore the newest copy; if it is lost, and you answer for the spends that are missing, run: "
        "dpbo budget verify --accept-restored",
    )
