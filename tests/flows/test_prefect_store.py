"""Prefect's database: migrated by Prefect once a user, kept where nobody else writes, copied for every home."""

import os
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from dpbo.flows.prefect_runtime import prefect_store
from dpbo.flows.prefect_runtime.prefect_store import create_prefect_store, is_migrated, make_database, template

ANOTHER = 12345  # a user


@pytest.fixture
def migrated(here, monkeypatch):
    """An empty cache and homes of this test's own, and the files that Prefect was asked to migrate.

    What stands for Prefect's command, of ten seconds, leaves what it left the first time on this machine.
    """
    whole, asked = template(), []

    def run(command, *, env, **_):
        assert command[3:] == ["prefect", "server", "database", "upgrade", "-y"]
        place = Path(env["PREFECT_API_DATABASE_CONNECTION_URL"].removeprefix(prefect_store.SCHEME))
        shutil.copyfile(whole, place)
        asked.append(place)

    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "cache"))
    monkeypatch.setattr(prefect_store.subprocess, "run", run)
    return asked


def test_prefect_is_asked_once_a_user_and_copied_for_every_home(here, migrated, capsys, monkeypatch):
    for name in ("one", "two"):
        monkeypatch.setattr(prefect_store, "default_home", lambda name=name: here / name)
        create_prefect_store()
        assert is_migrated(here / name / "prefect.db")
        assert (here / name / "prefect.db").stat().st_mode & 0o777 == 0o600
    assert len(migrated) == 1
    assert capsys.readouterr().err == "Setting up Prefect's database, once: about 15 seconds\n"
    folder = here / "cache" / "dpbo"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in folder.glob("prefect-*.db")] == [0o600]


def test_of_many_first_commands_one_asks_prefect(here, migrated):
    with ThreadPoolExecutor(4) as commands:
        list(commands.map(make_database, [here / f"{n}.db" for n in range(4)]))
    assert len(migrated) == 1
    assert all(is_migrated(here / f"{n}.db") for n in range(4))


def linked(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def dangling(place):
    place.unlink()
    place.symlink_to("nowhere")


SPOILT = {
    "writable": lambda place: place.chmod(0o620),
    "link": linked,
    "dangling": dangling,
    "journal": lambda place: place.with_name(f"{place.name}-wal").touch(),
    "open folder": lambda place: place.parent.chmod(0o770),
    "linked folder": lambda place: linked(place.parent),
}
BY_ROOT = {  # who alone gives files away
    "another's": lambda place: os.chown(place, ANOTHER, -1),
    "another's folder": lambda place: os.chown(place.parent, ANOTHER, -1),
}


@pytest.mark.parametrize("how", [*SPOILT, *(BY_ROOT if os.geteuid() == 0 else ())])
def test_a_copy_that_somebody_else_may_have_written_is_not_used(here, migrated, how):
    place = template()
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("CREATE TABLE planted (x)")
    (SPOILT | BY_ROOT)[how](place)
    assert template() is None
    make_database(here / "new.db")
    assert len(migrated) == 2
    with closing(sqlite3.connect(here / "new.db")) as connection:
        assert connection.execute("SELECT name FROM sqlite_master WHERE name = 'planted'").fetchall() == []


@pytest.mark.parametrize("unwritable", ["/proc/nobody", "/dev/null"])
def test_without_a_folder_to_keep_it_in_prefect_works_in_the_new_place(here, migrated, monkeypatch, unwritable):
    monkeypatch.setenv("XDG_CACHE_HOME", unwritable)
    make_database(here / "new.db")
    assert is_migrated(here / "new.db")
    assert migrated == [here / "new.db"]


def test_a_database_of_other_migrations_is_left_to_prefect(here, migrated):
    make_database(here / "old.db")
    with closing(sqlite3.connect(here / "old.db")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9725c1cbee35'")
    assert not is_migrated(here / "old.db")
    (here / "text.db").write_text("no database")
    assert not is_migrated(here / "text.db")
    assert not is_migrated(here / "missing.db")


def test_another_prefect_has_a_copy_of_its_own(here, migrated, monkeypatch):
    first = template()
    monkeypatch.setattr(prefect_store, "_versions", lambda: (here / "2022_another.py",))
    assert template() not in (first, None)
    assert len(migrated) == 2


def test_the_doctor_prepares(dpbo, migrated):
    code, out, err = dpbo("doctor", "--prepare")
    assert (code, len(migrated)) == (0, 1)
    assert out.startswith("Prefect's database is set up")
    assert err.startswith("Setting up Prefect's database")
    assert dpbo("doctor", "--prepare") == (0, out, "")
