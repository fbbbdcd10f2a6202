"""Every port that listens during the run: what it says to whoever connects, asks for a page, or shakes hands."""

import http.client
import re
import socket
import ssl
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from observer.notes import Notes

CHANNEL = "answers of ports"
PATHS = (
    "/", "/health", "/api/health", "/api/ready", "/api/admin/version", "/api/version", "/api/flows/count",
    "/api/ui/flow_runs/history", "/metrics", "/docs", "/redoc", "/openapi.json", "/api/openapi.json", "/status",
    "/ui-settings", "/version", "/graphql", "/sitemap.json", "/json/counts.json", "/info/main/workers.html",
    "/info/metrics", "/individual-plots.json", "/ajax-api/2.0/mlflow/experiments/search", "/get-artifact",
    "/api/2.0/mlflow/runs/search", "/statics/main.js", "/eventstream", "/dashboard",
    "/favicon.ico", "/../etc/passwd",
)  # fmt: skip
POSTS = (
    "/api/flows/count", "/api/flow_runs/count", "/api/flow_runs/filter", "/api/task_runs/filter",
    "/api/logs/filter",
    "/api/events/filter", "/api/artifacts/filter", "/api/2.0/mlflow/runs/search", "/graphql",
)  # fmt: skip
LINKS = re.compile(r"""(?:href|src)=["'](/[^"'#?]{1,120})""")
LOOPBACK = "127.0.0.1"
UNSAID = ("date", "server-timing", "x-process-time", "etag", "last-modified")
PATIENCE, LONG = 3.0, 40.0  # seconds for a shake of hands, and for a page: a server that begins takes its time
PAUSE = 1.0  # seconds between two rounds


class Sockets:
    """Asks in a thread of its own, since an answer may take long."""

    def __init__(self, notes: Notes) -> None:
        self._notes, self._known, self._through = notes, Counter[int](), set[int]()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._rounds, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(60)

    def _rounds(self) -> None:
        while not self._stop.is_set():
            for port in sorted(listening()):
                self._known[port] += 1
                if self._known[port] <= 12:
                    with suppress(OSError):
                        self._ask(port)
            self._stop.wait(PAUSE)

    def _ask(self, port: int) -> None:
        """One round with one port; it is named by how it answers, since its number is chance."""
        first = _answer(port, "GET", "/")
        kind = _silent(port) if first is None else f"HTTP {first[0]}"
        if kind is None:
            return
        if first is not None:
            self._note(f"{kind}: GET /", first)
        if self._known[port] == 1:
            self._notes.count(CHANNEL, f"{kind}: ports")
        if kind.startswith("TLS") or kind == "silent":
            return
        paths = [("GET", path) for path in PATHS] + [("POST", path) for path in POSTS]
        done = set()
        while paths and not self._stop.is_set():
            method, path = paths.pop(0)
            if (method, path) in done or len(done) > 120:
                continue
            done.add((method, path))
            answer = _answer(port, method, path)
            if answer is None:
                continue
            self._note(f"{kind}: {method} {path}", answer)
            if port not in self._through:
                paths += [("GET", link) for link in LINKS.findall(answer[2])]
        if port not in self._through and not paths:
            self._through.add(port)
            sys.stdout.write(f"asked {port}\n")
            sys.stdout.flush()

    def _note(self, where: str, answer: tuple[int, str, str]) -> None:
        status, headers, body = answer
        self._notes.word(CHANNEL, f"{where} status", str(status))
        self._notes.text(CHANNEL, f"{where} headers", headers)
        self._notes.text(CHANNEL, f"{where} body", body)


def listening() -> set[int]:
    """The ports of this network that listen."""
    found = set()
    for name in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in Path("/proc/net", name).read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == "0A":
                    found.add(int(words[1].rpartition(":")[2], 16))
    return found


def _silent(port: int) -> str | None:
    """How one answers that speaks no HTTP: TLS with what it says of itself, a banner, or nothing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((LOOPBACK, port), PATIENCE) as raw,
            context.wrap_socket(raw, server_hostname="localhost") as wrapped,
        ):
            certificate = wrapped.getpeercert(binary_form=True)
            try:
                wrapped.sendall(b"\0" * 8)
                said = wrapped.recv(4096)
                return f"TLS that says {len(said)} bytes, certificate {certificate is not None}"
            except ssl.SSLError as error:
                return f"TLS that refuses: {error.reason}"
            except OSError:
                return "TLS that refuses"
    except ssl.SSLError as error:
        return f"TLS that refuses early: {error.reason}"
    except ConnectionRefusedError:
        return None
    except OSError:
        pass
    with suppress(OSError), socket.create_connection((LOOPBACK, port), PATIENCE) as raw:
        raw.settimeout(0.5)
        with suppress(TimeoutError):
            return f"banner {raw.recv(200)!r}"
        return "silent"
    return None


def _answer(port: int, method: str, path: str) -> tuple[int, str, str] | None:
    """(status, headers, body), or None where it speaks no HTTP; asked again where the server is busy."""
    for _ in range(2):
        connection = http.client.HTTPConnection(LOOPBACK, port, timeout=LONG)
        try:
            body = b"{}" if method == "POST" else None
            connection.request(
                method, path, body=body, headers={"Content-Type": "application/json"} if body else {}
            )
            got = connection.getresponse()
            headers = "\n".join(sorted(f"{k.lower()}: {v}" for k, v in got.getheaders() if k.lower() not in UNSAID))
            return got.status, headers, got.read(100_000).decode(errors="replace")
        except TimeoutError:
            time.sleep(0.2)
        except (http.client.HTTPException, OSError):
            return None
        finally:
            connection.close()
    return None
