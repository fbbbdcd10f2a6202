"""No store, log or stream of a dp_hypo run tells how many trials there were; a planted leak is found."""

import copy
import sqlite3
import struct
from contextlib import closing

import pytest
from audit.leaks import Scenario, make_world
from canary import search

TRIALS = """
from dpbo_core.mechanisms.random_stopping import _Law
from dpbo_core.methods.hypo_search import HypoSearch
_Law.draw = lambda self, source: {K}
HypoSearch._draw_candidate = lambda self, sampler, source: 3
HypoSearch._try = lambda self, index, objective, source: (0, None)
{leak}
"""
TELLS = """
honest = HypoSearch._select
def telling(self, objective, source):
    from prefect import get_run_logger
    get_run_logger().info("%s trials", self._mechanism.stopping.draw(source))
    return honest(self, objective, source)
HypoSearch._select = telling
"""


def rows(run):
    """How many rows each table of each store has."""
    counts = {}
    for store in ("prefect/prefect.db", "mlruns/mlflow.db", "mlruns/ledger.db"):
        with closing(sqlite3.connect(run / store)) as connection:
            tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            for (table,) in tables:
                counts[store, table] = connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0]
    return counts


@pytest.mark.slow
def test_no_store_tells_how_many_trials_there_were(tables, tmp_path):
    """Two, or a planted seven digits: no byte holds them, and no table has a row more. (Durations aside.)"""
    K, counts, found = 1_273_819, {}, {}
    secrets = {"K": {str(K).encode(), f"{K:,}".encode(), struct.pack("<q", K), struct.pack(">q", K)}}
    for name, trials, leak in (("few", 2, ""), ("many", K, ""), ("told", K, TELLS)):
        world = make_world(copy.deepcopy(tables), tmp_path / name)
        streams = world.go(Scenario(TRIALS.format(K=trials, leak=leak)), kinds=("dp_hypo",))
        assert b"differentially private" in streams["stdout"]
        counts[name] = rows(world.run)
        found[name] = search(world.run, secrets, streams)
    assert found["many"] == set()
    varying = ("event", "log", "artifact", "_alembic")  # Prefect's own heartbeats come by the clock
    fixed = {key for key in counts["few"] if not key[1].startswith(varying)}
    assert {key: counts["few"][key] for key in fixed} == {key: counts["many"][key] for key in fixed}
    assert found["told"] != set()  # the planted leak
