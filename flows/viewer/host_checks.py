"""A port of this machine's loopback: who listens on it, and who may ask the server there.

A port is held by this process from before its server starts until after it ends: a child that serves on it inherits
the socket, so that nobody else can listen there while it is started again.

A browser lets any page send requests to the loopback; what it cannot forge is `Host` (another name that resolves to
127.0.0.1 stays in it) and `Origin`. The pages themselves may load from this server, and tell it, alone.
"""

import socket
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

from dpbo.flows.prefect_runtime.prefect_process import LOOPBACK, bound_socket
from dpbo_core.errors import DpboError

REFUSAL = b"Only by this server's own address, and from its own pages.\n"
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


@contextmanager
def listening(port: int) -> Iterator[socket.socket]:
    """Context with a socket that listens on `port` of the loopback; refused where another program does."""
    held = bound_socket(port)
    if held is None:
        raise DpboError(
            f"port {port} cannot be listened on",
            cause="another program does already",
            remedy="choose another --port",
        )
    with held:
        yield held


def names(port: int) -> tuple[str, ...]:
    """The values of `Host` that a server on this port of the loopback accepts."""
    return f"{LOOPBACK}:{port}", f"localhost:{port}"


def origins(port: int) -> tuple[str, ...]:
    """The values of `Origin` that a server on this port of the loopback accepts."""
    return tuple(f"http://{name}" for name in names(port))


def page_policy(port: int) -> bytes:
    """A Content-Security-Policy under which a page reaches this server and nobody else."""
    ours = " ".join((*origins(port), *(f"ws://{name}" for name in names(port))))
    return f"default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob: {ours}; frame-ancestors 'self'".encode()


class HostChecks:
    """Middleware: 403 for another `Host`, another `Origin`, or a fetch that the browser says began elsewhere."""

    def __init__(self, app: App, port: int) -> None:
        self._app = app
        self._strict = (
            (b"content-security-policy", page_policy(port)),
            (b"x-content-type-options", b"nosniff"),
            (b"x-frame-options", b"SAMEORIGIN"),
            (b"referrer-policy", b"no-referrer"),
        )
        self._hosts = frozenset(name.encode() for name in names(port))
        self._origins = frozenset(name.encode() for name in origins(port))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with 403."""

        async def strictly(message: Message) -> None:
            """Send a message, with the page's strict headers if it begins a response."""
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *self._strict]
            await send(message)

        if scope["type"] == "lifespan" or self._ours(scope):
            await self._app(scope, receive, strictly)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            headers = [(b"content-type", b"text/plain; charset=utf-8")]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            await send({"type": "http.response.body", "body": REFUSAL})

    def _ours(self, scope: Scope) -> bool:
        """Whether a request has our host and no foreign origin, and began on our pages or as a followed link."""
        sent: list[tuple[bytes, bytes]] = list(scope["headers"])
        hosts = [value.lower() for name, value in sent if name == b"host"]
        senders = [value.lower() for name, value in sent if name == b"origin"]
        sites = [value for name, value in sent if name == b"sec-fetch-site"]
        modes = [value for name, value in sent if name == b"sec-fetch-mode"]
        elsewhere = any(site in (b"cross-site", b"same-site") for site in sites)  # the port is no part of a site
        opened = scope.get("method") == "GET" and modes == [b"navigate"]  # a link that was followed
        return (
            len(hosts) == 1
            and hosts[0] in self._hosts
            and all(origin in self._origins for origin in senders)
            and (opened or not elsewhere)
        )
