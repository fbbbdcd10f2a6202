"""The tables of a library's SQLite database, written from a text: its own way is a migration for every past change.

A text holds for the migrations whose names it was made from, and is otherwise not used: a library that has others
makes its tables itself. `python tests/known_tables.py` writes the texts, by taking every migration.
"""

import hashlib
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

MIGRATION = "[0-9a-z]*.py"


@dataclass(frozen=True)
class KnownTables:
    """Tables that were written down.

    Attributes:
        package: the library's name.
        migrations: the folder of its migrations, within the package.
        text: the file of statements; its first line names the migrations that they come of.
    """

    package: str
    migrations: str
    text: Path

    def names(self) -> str:
        """SHA-256 of the names of the installed library's migrations, in hex."""
        found = find_spec(self.package)
        folder = Path((found and found.origin) or "").parent / self.migrations
        names = sorted(path.name for path in folder.glob(MIGRATION))
        return hashlib.sha256("\n".join(names).encode()).hexdigest()

    def statements(self) -> str | None:
        """The text, if it is of the installed library's migrations."""
        first, _, rest = self.text.read_text(encoding="utf-8").partition("\n")
        return rest if first == f"-- {self.names()}" else None

    def write(self, place: Path) -> bool:
        """Make the tables in a new file; whether they are known."""
        statements = self.statements()
        if statements is None:
            return False
        with closing(sqlite3.connect(place)) as connection:
            connection.executescript(statements)
        return True

    def are_in(self, place: Path) -> bool:
        """Whether the database at `place` has had every migration that the installed library has."""
        statements = self.statements()
        if statements is None or not place.is_file():
            return False
        try:
            with closing(sqlite3.connect(f"{place.resolve().as_uri()}?mode=ro", uri=True)) as connection:
                found = connection.execute("SELECT version_num FROM alembic_version").fetchall()
        except sqlite3.Error:
            return False
        return len(found) == 1 and f"INSERT INTO \"alembic_version\" VALUES('{found[0][0]}');" in statements
