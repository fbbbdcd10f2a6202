"""Writes the tables of the ledger's, Prefect's and MLflow's SQLite databases down, as their migrations make them.

python tests/known_tables.py
"""

import os
import sqlite3
import tempfile
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import sqlalchemy as sa

from dpbo.flows.prefect_runtime import prefect_store
from dpbo.tasks.reporting import mlflow_store
from dpbo_core.accounting import schema

OBJECTS = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type = 'trigger', type = 'index', rowid"


def migrated_prefect(place):
    prefect_store._migrate(place)


def migrated_mlflow(place):
    """MLflow's tables without the experiment that a new store holds, which the store itself adds."""
    mlflow_store._sql_store(f"{mlflow_store.SQLITE}{place}", place.parent).engine.dispose()
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("DELETE FROM experiments")
        connection.commit()


def place(tables):
    """The file of the installed version's line."""
    if len(tables.texts) == 1:
        return tables.texts[0]
    line = ".".join(version(tables.package).split(".")[:2])
    (found,) = [text for text in tables.texts if text.stem.endswith(f"_{line}")]
    return found


def written(tables, migrated):
    """What the text has to be."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "new.db"
        migrated(place)
        with closing(sqlite3.connect(place)) as connection:
            return "\n".join([f"-- {tables.names()}", *connection.iterdump(), ""])


def ledger_statements():
    """What makes a new ledger's tables, their indexes and their triggers, in that order."""
    with sa.create_engine("sqlite://").begin() as connection:
        schema.migrate(connection, None)
        return "".join(f"{sql}{schema.END}" for sql in connection.exec_driver_sql(OBJECTS).scalars())


if __name__ == "__main__":
    schema.statements_file(schema.HEAD).write_text(ledger_statements(), encoding="utf-8")
    os.environ.update(mlflow_store.UNREPORTED)
    for tables, migrated in ((prefect_store.TABLES, migrated_prefect), (mlflow_store.TABLES, migrated_mlflow)):
        place(tables).write_text(written(tables, migrated), encoding="utf-8")
