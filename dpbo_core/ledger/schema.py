"""The ledger's tables, the same on SQLite and PostgreSQL: made here, and a ledger of another schema refused.

ledger         what this ledger is: an identity drawn when it was made, and the number of its schema
datasets       one cap a dataset name, written once
reservations   one row a study edition: its whole price, and the method that it was resolved to, written before any
               record is read
draws          one row a draw: its spend and what it drew, written in the transaction that drew it
releases       one row a finished study edition
dataset_facts  what rules need to know of a dataset: k, how a table's rows are answered, what was recovered
history        one row a row of the tables above, in the order they were written, each sealed to the one before,
               with its dataset's totals

There is one schema. Its number stands in the ledger, and whoever opens a ledger of another one changes nothing in
it: `dpbo budget export` still writes its history.
"""

import secrets

import sqlalchemy as sa

from dpbo_core.errors import DpboError

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
    sa.Index("ix_history_dataset", "dataset", "sequence"),
)
HASHED_TABLES = (LEDGER, DATASETS, RESERVATIONS, DRAWS, RELEASES, DATASET_FACTS)

SCHEMA = 1
APPEND_ONLY_MESSAGE = "the ledger is append-only"
AMOUNT_COLUMNS = {
    DATASETS: ("epsilon_units", "delta_units"),
    RESERVATIONS: ("epsilon_units", "delta_units", "rho_units"),
}
NUMBER_QUERY = sa.select(LEDGER.c.schema)
POSTGRESQL_FUNCTION = f"""
CREATE FUNCTION dpbo_append_only() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION '{APPEND_ONLY_MESSAGE}' USING ERRCODE = 'restrict_violation'; END $$
"""


def number_of(connection: sa.Connection) -> int:
    """Return the schema number of a ledger; 0 if it has lost it."""
    numbers = connection.scalars(NUMBER_QUERY).all()
    return numbers[0] if len(numbers) == 1 and type(numbers[0]) is int else 0


def make(connection: sa.Connection) -> dict[str, object]:
    """Create the tables and their append-only triggers; returns the new ledger's row, its identity and schema."""
    METADATA.create_all(connection)
    statements = _postgresql() if connection.dialect.name == "postgresql" else _sqlite()
    for statement in statements:
        connection.exec_driver_sql(statement)
    row: dict[str, object] = {"identity": secrets.token_hex(16), "schema": SCHEMA}
    connection.execute(LEDGER.insert(), row)
    return row


def _postgresql() -> list[str]:
    refused = [
        f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION dpbo_append_only()"
        for table in METADATA.tables
        for verb in ("UPDATE", "DELETE", "TRUNCATE")
    ]
    checked = [
        f"ALTER TABLE {table.name} ADD CONSTRAINT {table.name}_amounts CHECK ("
        + " AND ".join(f"{column} >= 0" for column in columns)
        + ")"
        for table, columns in AMOUNT_COLUMNS.items()
    ]
    return [POSTGRESQL_FUNCTION, *refused, *checked]


def _sqlite() -> list[str]:
    """Return the SQL of SQLite's triggers against UPDATE, DELETE, replaced rows and invalid amounts.

    INSERT OR REPLACE removes the old row past the trigger on DELETE, so a row is refused whose key is there; its
    number in the file is a key too. SQLite keeps a text in a column of numbers, so the type is looked at.
    """
    refusal = f"BEGIN SELECT RAISE(ABORT, '{APPEND_ONLY_MESSAGE}'); END"
    statements = []
    for table in METADATA.tables.values():
        name = table.name
        statements += [
            f"CREATE TRIGGER {name}_no_{verb.lower()} BEFORE {verb} ON {name} {refusal}"
            for verb in ("UPDATE", "DELETE")
        ]
        primary = [tuple(column.name for column in table.primary_key)]
        unique = [(column.name,) for column in table.columns if column.unique]
        taken = " OR ".join(
            f"EXISTS (SELECT 1 FROM {name} WHERE {' AND '.join(f'{column} = NEW.{column}' for column in key)})"  # noqa: S608
            for key in (*primary, *unique, ("rowid",))
        )
        statements.append(f"CREATE TRIGGER {name}_no_replace BEFORE INSERT ON {name} WHEN {taken} {refusal}")
    for table, columns in AMOUNT_COLUMNS.items():
        unsound = " OR ".join(f"NEW.{c} < 0 OR typeof(NEW.{c}) NOT IN ('integer', 'null')" for c in columns)
        statements.append(
            f"CREATE TRIGGER {table.name}_amounts BEFORE INSERT ON {table.name} WHEN {unsound} "
            "BEGIN SELECT RAISE(ABORT, 'an amount of the ledger is a whole number of units, at least 0'); END"
        )
    return statements


def another_schema_error(number: int) -> DpboError:
    """Return the error for a ledger whose tables have another schema number."""
    return DpboError(
        f"the ledger has schema {number}, and this version of dpbo reads and writes schema {SCHEMA} alone",
        cause="another version of dpbo wrote it",
        remedy="go on with that version; nothing was changed, and dpbo budget export still writes its history. "
        "Never delete a ledger: it is the record of what was spent",
    )
