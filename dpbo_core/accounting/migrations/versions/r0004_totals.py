"""What each entry's dataset comes to after it, beside the entry; and no row takes the place of another.

The totals of a history of before are sealed by the next entry, once the whole of it was found to be the tables'.
"""

import sqlalchemy as sa
from alembic import op

from dpbo_core.accounting.migrations.triggers import refuse_replacing

revision = "0004"
down_revision = "0003"

KEYS: dict[str, tuple[tuple[str, ...], ...]] = {
    "facts": (("name",),),
    "datasets": (("name",),),
    "reservations": (("id",), ("fingerprint",)),
    "draws": (("reservation", "what"),),
    "releases": (("reservation",),),
    "dataset_facts": (("dataset", "about", "item"),),
    "history": (("sequence",), ("hash",)),
}


def upgrade() -> None:
    """Add the totals to each entry, and refuse rows that would replace others."""
    op.add_column("history", sa.Column("totals", sa.Text, nullable=True))
    for table, keys in KEYS.items():
        refuse_replacing(table, *keys)


def downgrade() -> None:
    """Never: a ledger only grows."""
    raise RuntimeError("a ledger is never taken back to an earlier schema")
