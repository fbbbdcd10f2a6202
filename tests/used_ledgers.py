"""A ledger that was used: made once in each database, and copied for every test that changes it."""

import shutil

import pytest
import sqlalchemy as sa
from conftest import maintenance, new_database

from dpbo_core.ledger.address import open_engine
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.rollback_guard import RollbackGuard
from dpbo_core.ledger.store import LedgerStore

DATABASES = ("sqlite", "postgresql")


def on_each(values, *on_postgresql):
    """Parameters (database, value): all `values` on SQLite, and in the short run `on_postgresql` alone there.

    For what is compared in Python, whatever the database; `make audit` has all on both.
    """
    assert set(on_postgresql) <= set(values)
    slow = [pytest.mark.slow]
    return [
        *(("sqlite", value) for value in values),
        *(pytest.param("postgresql", value, marks=[] if value in on_postgresql else slow) for value in values),
    ]


class UsedLedger:
    """What `use` makes of a new ledger at a URL; `folder` keeps what is made of a SQLite one."""

    def __init__(self, use, folder):
        self.use, self.folder, self.made = use, folder, {}

    def copy(self, here, server=None):
        """The URL of a copy: of a file in `here`, the current folder, or of a new database in `server`.

        It is the same ledger at another place, with its generation, and its user has just read it.
        """
        if server is None:
            if "sqlite" not in self.made:
                self.made["sqlite"] = self._used(f"sqlite:///{self.folder / 'ledger.db'}")
            for file in self.folder.glob("ledger.db*"):
                shutil.copy(file, here / file.name)
            url = f"sqlite:///{here / 'ledger.db'}"
        else:
            if server not in self.made:
                self.made[server] = self._used(new_database(server), server)
            database, beside, identity = self.made[server]
            url = new_database(server, database)
            generation = generation_of(url)
            RollbackGuard(generation, identity).path_of_user.unlink(missing_ok=True)  # of another copy, by a test
            generation.write_bytes(beside)
            generation.chmod(0o600)
        PrivacyLedger(url).accounts()
        return url

    def _used(self, url, server=None):
        """Its database, the bytes of its generation, and its identity."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_STATE_HOME", str(self.folder / "state"))
            self.use(url)
            identity = LedgerStore(url).identity
        database, generation = sa.make_url(url).database, generation_of(url)
        beside = generation.read_bytes()
        if server is None:
            return database, beside, identity
        with maintenance(server) as connection:  # nobody may be in a database that is copied
            connection.exec_driver_sql(
                f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'"
            )
        generation.unlink()
        return database, beside, identity


def generation_of(url):
    """The file in which the ledger's generation is kept."""
    engine, generation = open_engine(url)
    engine.dispose()
    return generation
