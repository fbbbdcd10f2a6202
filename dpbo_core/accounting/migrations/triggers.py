"""Triggers that refuse whatever changes or removes a row, in the words of each database."""

from alembic import op

REFUSAL = "the ledger is append-only"
AMOUNTS = "an amount of the ledger is a whole number of units, at least 0"
POSTGRESQL_FUNCTION = f"""
CREATE FUNCTION dpbo_append_only() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION '{REFUSAL}' USING ERRCODE = 'restrict_violation'; END $$
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
    does = f"BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
    if on_postgresql():
        does = "FOR EACH STATEMENT EXECUTE FUNCTION dpbo_append_only()"
    op.execute(f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} {does}")


def refuse_replacing(table: str, *keys: tuple[str, ...]) -> None:
    """Refuse a row whose key is there: SQLite's INSERT OR REPLACE removes the old one past the trigger on DELETE.

    A row's number in the file is a key too, with or without a name. PostgreSQL has no such words, and its ON
    CONFLICT DO UPDATE is an UPDATE to its triggers.
    """
    if on_postgresql():
        return
    taken = " OR ".join(
        f"EXISTS (SELECT 1 FROM {table} WHERE {' AND '.join(f'{column} = NEW.{column}' for column in key)})"
        for key in (*keys, ("rowid",))
    )
    op.execute(
        f"CREATE TRIGGER {table}_no_replace BEFORE INSERT ON {table} WHEN {taken} "
        f"BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
    )


def refuse_negative(table: str, *columns: str) -> None:
    """No new row of a table has an amount below 0, or one that is no whole number; older rows are not looked at."""
    if on_postgresql():  # whose columns are typed
        sound = " AND ".join(f"{column} >= 0" for column in columns)
        op.execute(f"ALTER TABLE {table} ADD CONSTRAINT {table}_amounts CHECK ({sound}) NOT VALID")
        return
    unsound = " OR ".join(f"NEW.{c} < 0 OR typeof(NEW.{c}) NOT IN ('integer', 'null')" for c in columns)
    op.execute(
        f"CREATE TRIGGER {table}_amounts BEFORE INSERT ON {table} WHEN {unsound} "
        f"BEGIN SELECT RAISE(ABORT, '{AMOUNTS}'); END"
    )


def lift(table: str, verb: str) -> None:
    """Take one of a table's triggers off, for a step that has to change a row."""
    op.execute(f"DROP TRIGGER {table}_no_{verb.lower()}" + (f" ON {table}" if on_postgresql() else ""))
