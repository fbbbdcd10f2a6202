"""Prefect's and MLflow's tables, written down: what a new store gets is what their own migrations would make."""

import sqlite3
from contextlib import closing

import known_tables
import pytest

from dpbo.flows.prefect_runtime import prefect_store
from dpbo.tasks.reporting import mlflow_store

BOTH = {
    "prefect": (prefect_store.TABLES, known_tables.migrated_prefect),
    "mlflow": (mlflow_store.TABLES, known_tables.migrated_mlflow),
}


@pytest.fixture(params=BOTH)
def tables(request):
    return BOTH[request.param][0]


def test_they_are_of_the_installed_versions(tables):
    """If not: python tests/known_tables.py."""
    assert tables.statements() is not None


@pytest.mark.slow
@pytest.mark.parametrize("name", BOTH)
def test_they_are_what_the_migrations_make(name):
    """Line by line; in which order a table's constraints and indexes come, SQLAlchemy's versions differ."""
    tables, migrated = BOTH[name]
    made, kept = known_tables.written(tables, migrated), known_tables.place(tables).read_text()
    assert lines(made) == lines(kept)


def lines(text):
    return sorted(line.strip().rstrip(",") for line in text.splitlines())


def test_each_line_of_prefects_versions_has_a_text_of_its_own():
    """The line that pyproject.toml allows and the next, so that a first run on either waits for no migration."""
    names = [text.stem for text in prefect_store.TABLES.texts]
    assert names == ["prefect_tables_3.8", "prefect_tables_3.9"]
    heads = {text.read_text().partition("\n")[0] for text in prefect_store.TABLES.texts}
    assert len(heads) == 2


def test_they_are_whole_at_the_last_revision(tables, tmp_path):
    assert tables.write(tmp_path / "new.db")
    assert tables.are_in(tmp_path / "new.db")
    with closing(sqlite3.connect(tmp_path / "new.db")) as connection:
        assert "\n".join([*connection.iterdump(), ""]) == tables.statements()
        connection.execute("UPDATE alembic_version SET version_num = 'an earlier one'")
        connection.commit()
    assert not tables.are_in(tmp_path / "new.db")


@pytest.mark.parametrize("content", [b"", b"no database, but long enough to be taken for one" * 99])
def test_a_file_that_is_no_such_store_is_left_to_the_library(tables, tmp_path, content):
    (tmp_path / "other.db").write_bytes(content)
    assert not tables.are_in(tmp_path / "other.db")
    assert not tables.are_in(tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()


def test_a_library_with_other_migrations_makes_its_own(tables, tmp_path, monkeypatch):
    """One migration more, and the text is not used: nothing is written, and nothing is taken for migrated."""
    tables.write(tmp_path / "before.db")
    monkeypatch.setattr(type(tables), "names", lambda self: "0" * 64)
    assert tables.statements() is None
    assert not tables.write(tmp_path / "new.db")
    assert not (tmp_path / "new.db").exists()
    assert not tables.are_in(tmp_path / "before.db")
    migrated = []
    monkeypatch.setattr(prefect_store, "_migrate", migrated.append)
    prefect_store._make(tmp_path / "new.db")
    assert migrated == [tmp_path / "new.db"]


def test_every_migration_counts(tables, tmp_path, monkeypatch):
    """The names are those of the installed package's own folder."""
    folder = tmp_path / "package" / tables.migrations
    folder.mkdir(parents=True)
    (tmp_path / "package" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    package = type(tables)("package", tables.migrations, tables.texts)
    seen = {package.names()}
    for name in ("a1b2_first.py", "c3d4_second.py"):
        (folder / name).touch()
        seen.add(package.names())
    (folder / "__init__.py").touch()
    assert package.names() in seen
    assert len(seen) == 3
