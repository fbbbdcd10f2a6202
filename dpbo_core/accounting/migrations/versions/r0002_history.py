"""The history: every row there is, sealed to the one before; and an identity, so that no two ledgers look alike.

The schema's number leaves `facts`: Alembic keeps it, and a version of dpbo that cannot write the history must not
take the ledger for its own.
"""

import secrets

import sqlalchemy as sa
from alembic import op

from dpbo_core.accounting.history import ORIGIN, canonical, seal
from dpbo_core.accounting.migrations.triggers import lift, make_append_only, refuse

revision = "0002"
down_revision = "0001"

ORDER = {
    "facts": "name",
    "datasets": "opened_at, name",
    "reservations": "id",
    "draws": "reservation, drawn_at, what",
    "releases": "released_at, reservation",
}


def upgrade() -> None:
    """Make it, and fill it with the rows of a ledger that had none."""
    history = op.create_table(
        "history",
        sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("about", sa.String(64), nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False, unique=True),
    )
    make_append_only("history")
    connection = op.get_bind()
    lift("facts", "DELETE")
    op.execute("DELETE FROM facts WHERE name = 'schema'")
    refuse("facts", "DELETE")
    facts = sa.Table("facts", sa.MetaData(), autoload_with=connection)
    connection.execute(facts.insert().values(name="identity", value=secrets.token_hex(16)))
    sequence, last = 0, ORIGIN
    for name, order in ORDER.items():
        # reflected with the types it was made with: JSON comes back as JSON, truth values as such
        table = sa.Table(name, sa.MetaData(), autoload_with=connection)
        for found in connection.execute(sa.select(table).order_by(sa.text(order))).mappings().all():
            sequence, row = sequence + 1, canonical(dict(found))
            last = seal(last, sequence, name, row)
            connection.execute(history.insert().values(sequence=sequence, about=name, content=row, hash=last))


def downgrade() -> None:
    """Never: a ledger only grows."""
    raise RuntimeError("a ledger is never taken back to an earlier schema")
