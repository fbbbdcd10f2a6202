"""The tables of a library's SQLite database, written from a text: its own way is a migration for every past change.

A text holds for the migrations whose names it was made from, and is otherwise not used: there may be one for each
line of a library's versions, and a library that has other migrations makes its tables itself. `python
tests/known_tables.py` writes the text of the installed version, by taking every migration.
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
        texts: files of statements; the first line of each names the migrations that they come of.
    """

    package: str
    migrations: str
    texts: tuple[Path, ...]

    def names(self) -> str:
        """SHA-256 of the names of the installed library's migrations, in hex."""
        found = find_spec(self.package)
        folder = Path((found and found.origin) or "").parent / self.migrations
        names = sorted(path.name for path in folder.glob(MIGRATION))
        return hashlib.sha256("\n".join(names).encode()).hexdigest()

    def statements(self) -> str | None:
        """The text that is of the installed library's migrations, if there is one."""
        wanted = f"-- {self.names()}\n"
        for text in self.texts:
            with text.open(encoding="utf-8") as file:
                if file.readline() == wanted:
                    return file.read()
        return None

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
