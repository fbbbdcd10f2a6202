"""The tables as the first version of dpbo made them: caps, reservations, draws, releases, all append-only."""

import sqlalchemy as sa
from alembic import op

from dpbo_core.accounting.migrations.triggers import POSTGRESQL_FUNCTION, make_append_only, on_postgresql

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables, and the triggers that refuse to change a row."""
    op.create_table(
        "facts",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.create_table(
        "datasets",
        sa.Column("name", sa.String(200), primary_key=True),
        sa.Column("public", sa.Boolean, nullable=False),
        sa.Column("epsilon_units", sa.BigInteger, nullable=False),
        sa.Column("delta_units", sa.BigInteger, nullable=False),
        sa.Column("relation", sa.String(40), nullable=False),
        sa.Column("accepts", sa.JSON, nullable=False),
        sa.Column("opened_at", sa.String(32), nullable=False),
    )
    op.create_table(
        "reservations",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("dataset", sa.String(200), sa.ForeignKey("datasets.name"), nullable=False, index=True),
        sa.Column("fingerprint", sa.String(64), nullable=False, unique=True),
        sa.Column("study", sa.String(200), nullable=False),
        sa.Column("edition", sa.String(200), nullable=False),
        sa.Column("method", sa.String(64), nullable=False),
        sa.Column("unit", sa.String(40), nullable=False),
        sa.Column("guarantee", sa.JSON, nullable=False),
        sa.Column("spends", sa.JSON, nullable=False),
        sa.Column("epsilon_units", sa.BigInteger, nullable=True),
        sa.Column("delta_units", sa.BigInteger, nullable=False),
        sa.Column("rho_units", sa.BigInteger, nullable=False),
        sa.Column("noise", sa.String(32), nullable=False),
        sa.Column("reserved_at", sa.String(32), nullable=False),
    )
    op.create_table(
        "draws",
        sa.Column("reservation", sa.Integer, sa.ForeignKey("reservations.id"), primary_key=True),
        sa.Column("what", sa.String(200), primary_key=True),
        sa.Column("spend", sa.JSON, nullable=False),
        sa.Column("outcome", sa.JSON, nullable=False),
        sa.Column("drawn_at", sa.String(32), nullable=False),
    )
    op.create_table(
        "releases",
        sa.Column("reservation", sa.Integer, sa.ForeignKey("reservations.id"), primary_key=True),
        sa.Column("release", sa.JSON, nullable=False),
        sa.Column("released_at", sa.String(32), nullable=False),
    )
    if on_postgresql():
        op.execute(POSTGRESQL_FUNCTION)
    for table in ("facts", "datasets", "reservations", "draws", "releases"):
        make_append_only(table)
    op.execute("INSERT INTO facts (name, value) VALUES ('schema', '1')")


def downgrade() -> None:
    """Never: a ledger only grows."""
    raise RuntimeError("a ledger is never taken back to an earlier schema")
