"""An object store for tests: what the protocol of S3 asks of whoever reads, on loopback, and no more of it.

It answers HEAD and GET (ranges and lists of a folder too), signed with the one key that it knows; to anybody else
it says no, and says it with whatever is in `quoted`, as servers do.
"""

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

KEY = "READER"


@contextmanager
def object_store(objects: Mapping[str, bytes], *, quoted: str = "") -> Iterator[tuple[str, list[str]]]:
    """`objects` by "bucket/key"; "host:port" of the server, and what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        disable_nagle_algorithm = True  # an answer is two writes, and the second would wait for an acknowledgement
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, *, body: bool) -> None:
            asked.append(f"{self.command} {self.path} {self.headers.get('Range', '')}")
            if f"Credential={KEY}/" not in self.headers.get("Authorization", ""):
                return self._send(
                    403, f"<Error><Code>AccessDenied</Code><Message>{quoted}</Message></Error>".encode(), body=body
                )
            if "list-type=2" in self.path:
                return self._send(200, self._listed().encode(), body=body)
            found = objects.get(self.path.lstrip("/").partition("?")[0])
            if found is None:
                return self._send(
                    404, f"<Error><Code>NoSuchKey</Code><Message>{quoted}</Message></Error>".encode(), body=body
                )
            ends = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            if ends is None:
                return self._send(200, found, body=body)
            first, last = int(ends[1]), min(int(ends[2] or len(found)), len(found) - 1)
            return self._send(206, found[first : last + 1], body=body, ranged=f"bytes {first}-{last}/{len(found)}")

        def _listed(self) -> str:
            url = urlsplit(self.path)
            prefix = dict(parse_qsl(url.query)).get("prefix", "")
            bucket = url.path.strip("/")
            keys = [name.removeprefix(f"{bucket}/") for name in objects if name.startswith(f"{bucket}/{prefix}")]
            right_under = [key for key in keys if "/" not in key.removeprefix(prefix)]
            entries = "".join(
                f"<Contents><Key>{key}</Key><LastModified>2026-11-22T00:00:00.000Z</LastModified>"
                f"<Size>{len(objects[f'{bucket}/{key}'])}</Size></Contents>"
                for key in right_under
            )
            return (
                f"<ListBucketResult><Name>{bucket}</Name><Prefix>{prefix}</Prefix><KeyCount>{len(right_under)}"
                f"</KeyCount><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>"
            )

        def _send(self, status: int, content: bytes, *, body: bool, ranged: str = "") -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Last-Modified", "Sun, 22 Nov 2026 00:00:00 GMT")
            self.send_header("ETag", '"0"')
            if ranged:
                self.send_header("Content-Range", ranged)
            self.end_headers()
            if body:
                self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Nothing on the test's output."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
