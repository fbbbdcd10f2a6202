"""Limits on waiting for a PostgreSQL ledger: a server or a writer that has stopped ends in a message.

| what has stopped | what ends the wait | seconds |
|---|---|---|
| a server that accepts and never answers | connect_timeout | 5 |
| a network that loses everything | TCP user timeout, keepalives | 12 |
| a server after the connection, its machine still acknowledging | the connection itself | 12 |
| another writer, before its commit: those behind it | lock_timeout | 10 |
| the same: the writer itself, which lets go of the lock | idle_in_transaction_session_timeout | 30 |

Whoever waits gets a message within 15 seconds. A writer has twice as long, since a published table is drawn and
written to its vault between two statements. A URL may say otherwise of the first two.
"""

import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

if TYPE_CHECKING:
    from psycopg import Connection

CONNECTING, QUEUED, SILENCE, IDLE_TIMEOUT_S = 5, 10, 12, 30  # seconds
APPLICATION_NAME = "dpbo"  # what a connection calls itself that this process opens, MLflow's among them
CONNECTION_OPTIONS = {
    "connect_timeout": CONNECTING,
    "tcp_user_timeout": 1000 * SILENCE,
    "keepalives": 1,
    "keepalives_idle": 4,
    "keepalives_interval": 4,
    "keepalives_count": 2,
}
# A writer's first words: durable on commit whatever the server's default, and its turn is not waited for for ever.
QUEUE_STATEMENT = (
    "SELECT set_config('synchronous_commit', 'on', true), "
    f"set_config('lock_timeout', '{QUEUED}s', true), "
    f"set_config('idle_in_transaction_session_timeout', '{IDLE_TIMEOUT_S}s', true), pg_advisory_xact_lock(%d)"
)


def patient_url(address: sa.URL) -> sa.URL:
    """Return the URL with libpq's timeouts added, where it sets none itself."""
    return address.update_query_dict(
        {name: str(value) for name, value in CONNECTION_OPTIONS.items() if name not in address.query}
    )


def make_patient_by_name() -> None:
    """Make this process's connections whose application name is NAMED fail when the server stays silent.

    TCP does not detect this: the machine of a stopped server still acknowledges what is sent. The name selects the
    connections, because MLflow creates its engines itself.
    """
    if not sa.event.contains(sa.engine.Engine, "do_connect", _connect_named):
        sa.event.listen(sa.engine.Engine, "do_connect", _connect_named)


def named(address: sa.URL) -> sa.URL:
    """Return the URL with libpq's timeouts and the application name by which `make_patient_by_name` knows it."""
    return patient_url(address).update_query_dict({"application_name": APPLICATION_NAME})


def _connect_named(dialect, _record, words, options) -> Any:  # type: ignore[no-untyped-def]
    """SQLAlchemy's hook: a connection with timeouts where the application name is NAMED, else None."""
    if dialect.driver == "psycopg" and options.get("application_name") == APPLICATION_NAME:
        plain = {"prepare_threshold": None}  # a pooler gives a statement that was prepared to another client
        return _connection_with_timeout().connect(*words, **plain | options)
    return None  # as the dialect would


def _connection_with_timeout() -> "type[Connection[Any]]":
    """Return a subclass of psycopg's Connection that gives up on a silent server. psycopg is imported only here, as
    it is optional.
    """
    import psycopg

    class PatientConnection(psycopg.Connection[Any]):
        """A connection that is closed when nothing came for `silence` seconds while it waited."""

        silence: float = SILENCE

        def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
            return super().wait(self._limited(gen), *args, **options)

        def _limited(self, work: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
            """`work`, woken now and then though nothing is ready; whatever comes begins the count again."""
            heard = time.monotonic()
            try:
                awaited = next(work)
                while True:
                    ready = yield awaited
                    if ready:
                        heard = time.monotonic()
                    elif time.monotonic() - heard > self.silence:
                        self.pgconn.finish()  # what it would still say belongs to a statement that was given up
                        raise psycopg.OperationalError("the server is silent")
                    awaited = work.send(ready)
            except StopIteration as done:
                return done.value

    return PatientConnection
