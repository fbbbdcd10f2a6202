"""What the parties see who may read a store: every row of Prefect's and MLflow's databases, of the ledger, files.

The curator's vault of an exchange is inside his boundary and left out; what he publishes is a file like any other.
"""

import hashlib
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

from observer.notes import Notes, plain

ORDERED = {"events": "occurred, id", "log": "timestamp, id", "task_run": "created, id", "flow_run": "created, id"}
TEXTS = (".json", ".html", ".toml", ".txt", ".yaml", ".yml", ".svg", ".csv", "MLmodel", ".seen")


def databases(notes: Notes, stores: dict[str, Path]) -> None:
    """Every table: how many rows, and each of them without what is random and public."""
    for store, path in stores.items():
        if not path.exists():
            notes.word(store, "is", "not there")
            continue
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            master = "SELECT name FROM sqlite_master WHERE type = 'table'"
            for (table,) in connection.execute(master).fetchall():
                _table(notes, store, table, connection.execute(f'SELECT * FROM "{table}"').fetchall())
            for table, order in ORDERED.items():
                if store == "Prefect" and connection.execute(f"{master} AND name = ?", (table,)).fetchone():
                    rows = connection.execute(f'SELECT * FROM "{table}" ORDER BY {order}').fetchall()
                    column = {"events": "event", "log": "message"}.get(table, "name")
                    notes.word(store, f"order of {table}", "\n".join(plain(str(row[column])) for row in rows))


def _table(notes: Notes, store: str, table: str, rows: list[sqlite3.Row]) -> None:
    """By column: every value and how often it comes."""
    notes.number(store, f"{table}: rows", len(rows))
    values: dict[str, Counter[str]] = {}
    for row in rows:
        for column in row.keys():  # noqa: SIM118  a row has no iterator over names
            values.setdefault(column, Counter())[_cell(row[column])] += 1
    for column, counts in values.items():
        told = "\n".join(f"{many} x {value}" for value, many in sorted(counts.items()))
        notes.word(store, f"{table}.{column}", told)


def _cell(value: Any) -> str:
    if isinstance(value, bytes):
        return f"{len(value)} bytes" if len(value) == 16 else hashlib.sha256(value).hexdigest()[:12]
    return plain(str(value))


def folder(notes: Notes, channel: str, top: Path, left_out: tuple[str, ...] = ()) -> None:
    """Every file below: its name, its mode, its size, and its text or the digest of its bytes."""
    for path in sorted(top.rglob("*")):
        name = path.relative_to(top).as_posix()
        if any(name.startswith(out) for out in left_out):
            continue
        shown, found = plain(name), path.lstat()
        notes.count(channel, f"{shown} times")
        notes.word(channel, f"{shown} is", oct(found.st_mode))
        if path.is_file() and not path.is_symlink():
            raw = path.read_bytes()
            if raw.startswith(b"SQLite") or name.endswith(("-wal", "-shm")):
                continue  # its rows were read
            notes.number(channel, f"{shown} size", len(raw))
            if path.name.endswith(TEXTS):
                notes.text(channel, f"{shown} says", raw.decode(errors="replace"))
            else:
                notes.word(channel, f"{shown} digest", "bytes " + hashlib.sha256(raw).hexdigest()[:12])


def streams(notes: Notes, said: dict[str, bytes], exit_code: int) -> None:
    """Both streams of the command as a log of jobs keeps them, in bytes and lines, and how it ended."""
    notes.number("streams", "exit code", exit_code)
    for name, raw in said.items():
        notes.number("streams", f"{name} bytes", len(plain(raw.decode(errors="replace"))))
        notes.number("streams", f"{name} lines", raw.count(b"\n"))
        notes.text("streams", name, raw.decode(errors="replace"))
