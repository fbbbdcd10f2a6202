"""The ledger's tables, the same on SQLite and PostgreSQL; `schema` makes them.

ledger         what this ledger is: an identity drawn when it was made, and the number of its schema
datasets       one cap a dataset name, written once
reservations   one row a study edition: its whole price, and the method that it was resolved to, written before any
               record is read
draws          one row a draw: its spend and what it drew, written in the transaction that drew it
releases       one row a finished study edition
dataset_facts  what rules need to know of a dataset: k, how a table's rows are answered, what was recovered
history        one row a row of the tables above, in the order they were written, each sealed to the one before, and
               to the owner's key where there is one, with its dataset's totals
"""

import sqlalchemy as sa

METADATA = sa.MetaData()
LEDGER = sa.Table(
    "ledger",
    METADATA,
    sa.Column("identity", sa.String(32), primary_key=True),
    sa.Column("schema", sa.Integer, nullable=False),
)
DATASETS = sa.Table(
    "datasets",
    METADATA,
    sa.Column("name", sa.String(200), primary_key=True),
    sa.Column("public", sa.Boolean, nullable=False),
    sa.Column("epsilon_units", sa.BigInteger, nullable=False),
    sa.Column("delta_units", sa.BigInteger, nullable=False),
    sa.Column("relation", sa.String(40), nullable=False),
    sa.Column("accepts", sa.JSON, nullable=False),
    sa.Column("opened_at", sa.String(32), nullable=False),
)
RESERVATIONS = sa.Table(
    "reservations",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("dataset", sa.ForeignKey("datasets.name"), nullable=False),
    sa.Column("fingerprint", sa.String(64), nullable=False, unique=True),
    sa.Column("study", sa.String(200), nullable=False),
    sa.Column("edition", sa.String(200), nullable=False),
    sa.Column("method", sa.String(64), nullable=False),
    sa.Column("resolved", sa.JSON, nullable=False),
    sa.Column("unit", sa.String(40), nullable=False),
    sa.Column("guarantee", sa.JSON, nullable=False),
    sa.Column("spends", sa.JSON, nullable=False),
    sa.Column("epsilon_units", sa.BigInteger, nullable=True),
    sa.Column("delta_units", sa.BigInteger, nullable=False),
    sa.Column("rho_units", sa.BigInteger, nullable=False),
    sa.Column("noise", sa.String(32), nullable=False),
    sa.Column("reserved_at", sa.String(32), nullable=False),
    # what admission adds up, so that no row has to be read for it
    sa.Index("ix_reservations_dataset", "dataset", "unit", "epsilon_units", "delta_units", "rho_units"),
)
DRAWS = sa.Table(
    "draws",
    METADATA,
    sa.Column("reservation", sa.ForeignKey("reservations.id"), primary_key=True),
    sa.Column("what", sa.String(200), primary_key=True),
    sa.Column("spend", sa.JSON, nullable=False),
    sa.Column("outcome", sa.JSON, nullable=False),
    sa.Column("drawn_at", sa.String(32), nullable=False),
)
RELEASES = sa.Table(
    "releases",
    METADATA,
    sa.Column("reservation", sa.ForeignKey("reservations.id"), primary_key=True),
    sa.Column("release", sa.JSON, nullable=False),
    sa.Column("released_at", sa.String(32), nullable=False),
)
DATASET_FACTS = sa.Table(
    "dataset_facts",
    METADATA,
    sa.Column("dataset", sa.ForeignKey("datasets.name"), primary_key=True),
    sa.Column("about", sa.String(64), primary_key=True),
    sa.Column("item", sa.String(512), primary_key=True),
    sa.Column("value", sa.JSON, nullable=False),
    sa.Column("written_at", sa.String(32), nullable=False),
)
HISTORY = sa.Table(
    "history",
    METADATA,
    sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("about", sa.String(64), nullable=False),
    sa.Column("dataset", sa.String(200), nullable=False),
    sa.Column("content", sa.Text, nullable=False),
    sa.Column("totals", sa.Text, nullable=False),
    sa.Column("hash", sa.String(64), nullable=False, unique=True),
    sa.Column("mac", sa.String(96), nullable=True),
    sa.Index("ix_history_dataset", "dataset", "sequence"),
)
RECORDED = (LEDGER, DATASETS, RESERVATIONS, DRAWS, RELEASES, DATASET_FACTS)
