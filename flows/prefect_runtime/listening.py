"""A port of the loopback, held by this process from before its server starts until after it ends.

A child that serves on it inherits the socket, so that nobody else can listen there while it is started again.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dpbo.flows.prefect_runtime.own_address import LOOPBACK
from dpbo_core.errors import DpboError

BACKLOG = 2048
LISTENS = "0A"  # the state, in /proc/net/tcp


@contextmanager
def listening(port: int) -> Iterator[socket.socket]:
    """The socket.

    Raises:
        DpboError: another program listens there.
    """
    held = taken(port)
    if held is None:
        raise DpboError(
            f"port {port} cannot be listened on",
            cause="another program does already",
            remedy="choose another --port",
        )
    with held:
        yield held


def taken(port: int) -> socket.socket | None:
    """The socket, now listening; None if another program was first."""
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((LOOPBACK, port))
        held.listen(BACKLOG)
    except OSError:
        held.close()
        return None
    return held


def owners(port: int) -> set[int] | None:
    """The users whose programs listen on `port` of this machine; None where the system does not tell."""
    found: set[int] = set()
    told = False
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        with suppress(OSError):
            rows = [line.split() for line in table.read_text(encoding="ascii").splitlines()[1:]]
            told = True
            found |= {
                int(row[7]) for row in rows if row[3] == LISTENS and int(row[1].rsplit(":", 1)[1], 16) == port
            }
    return found if told else None


def ours_alone(port: int) -> bool:
    """Whether every program that listens on `port` is known to be this user's own."""
    return owners(port) == {os.geteuid()}
