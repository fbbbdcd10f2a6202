"""Writes the tables of the ledger's SQLite database down, as its migrations make them.

python tests/known_tables.py
"""

import sqlalchemy as sa

from dpbo_core.accounting import schema

OBJECTS = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type = 'trigger', type = 'index', rowid"


def ledger_statements():
    """What makes a new ledger's tables, their indexes and their triggers, in that order."""
    with sa.create_engine("sqlite://").begin() as connection:
        schema.migrate(connection, None)
        return "".join(f"{sql}{schema.END}" for sql in connection.exec_driver_sql(OBJECTS).scalars())


if __name__ == "__main__":
    schema.statements_file(schema.HEAD).write_text(ledger_statements(), encoding="utf-8")
