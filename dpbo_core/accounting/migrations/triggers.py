"""Triggers that refuse whatever changes or removes a row, in the words of each database."""

from alembic import op

LETTER = "the ledger is append-only"
POSTGRESQL_FUNCTION = f"""
CREATE FUNCTION dpbo_append_only() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION '{LETTER}' USING ERRCODE = 'restrict_violation'; END $$
"""


def on_postgresql() -> bool:
    """Whether this ledger is in PostgreSQL."""
    return op.get_bind().dialect.name == "postgresql"


def make_append_only(table: str) -> None:
    """Refuse UPDATE and DELETE, and TRUNCATE where it exists."""
    for verb in ("UPDATE", "DELETE", "TRUNCATE") if on_postgresql() else ("UPDATE", "DELETE"):
        refuse(table, verb)


def refuse(table: str, verb: str) -> None:
    """Put one trigger on a table."""
    does = f"BEGIN SELECT RAISE(ABORT, '{LETTER}'); END"
    if on_postgresql():
        does = "FOR EACH STATEMENT EXECUTE FUNCTION dpbo_append_only()"
    op.execute(f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} {does}")


def lift(table: str, verb: str) -> None:
    """Take one of a table's triggers off, for a step that has to change a row."""
    op.execute(f"DROP TRIGGER {table}_no_{verb.lower()}" + (f" ON {table}" if on_postgresql() else ""))
