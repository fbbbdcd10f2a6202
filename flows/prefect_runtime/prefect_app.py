"""Prefect's server on a socket that its starter holds: python -m dpbo.flows.prefect_runtime.prefect_app FD PORT.

Its password, origins and address for its page come from the environment that `prefect_child` gives it.
"""

import atexit
import gc
import os
import socket
import sys

from dpbo.flows.prefect_runtime.child_process import follow
from dpbo.flows.prefect_runtime.loopback import HostChecks

OBJECTS = 100_000  # between two searches for garbage: imports make many objects, and none of it


def main() -> None:
    """Serve Prefect's API on the inherited socket, until stopped."""
    gc.set_threshold(OBJECTS)
    atexit.register(gc.freeze)
    import uvicorn
    from prefect.server.api.server import create_app

    follow(str(os.getppid()))  # its leash
    handle, port = int(sys.argv[1]), int(sys.argv[2])
    config = uvicorn.Config(HostChecks(create_app(final=True), port), log_level="error", timeout_keep_alive=5)
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=handle)])


if __name__ == "__main__":
    main()
