"""The gate in front of MLflow's server: a token, then a cookie, then what a reader may ask.

GET /?token=T      303 to the same page without the token, with a cookie of this port's own name
with the cookie    what `passes` allows goes to MLflow's server; artifacts are read here; all else is 403

Requests are on an allow-list, so that what MLflow adds is refused. Artifacts of the store's own folder are opened
name by name from its root, and no link of a name is followed: MLflow takes an experiment's root as whoever made the
experiment wrote it, so its server is never asked for a file.
"""

import json
import mimetypes
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

import httpx
from graphql import FieldNode, FragmentDefinitionNode, OperationDefinitionNode, OperationType, parse
from graphql.error import GraphQLError
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

TOKEN_PARAMETER = "token"  # noqa: S105  the name of the parameter
PAGE_PATH = "/"  # all of MLflow's pages are this one
LIST_PATHS = ("/ajax-api/2.0/mlflow/artifacts/list", "/ajax-api/3.0/mlflow/artifacts/list")
GATEWAY_PATH = "/ajax-api/2.0/mlflow/gateway-proxy"  # every page of runs asks which language models there are
FILE_PATHS = ("/get-artifact", "/model-versions/get-artifact")
FORWARDED_HEADERS = ("accept", "content-type", "if-none-match", "if-modified-since")
RETURNED_HEADERS = ("content-type", "cache-control", "etag", "last-modified")
NO_ANSWER_MESSAGE = "MLflow's server does not answer.\n"
LOCKED_MESSAGE = "Open the link that `dpbo ui` printed: it holds this session's token.\n"
STYLE_SHEET = b"""<style>
#root div:has(> [data-testid="truncation-gradient"]) {max-height: none !important; overflow: visible !important}
#root [data-testid="truncation-gradient"], #root [data-testid="show-comment-toggle"] {display: none !important}
#root [data-assistant-ui] {display: none !important}
[data-testid="note-editor-preview-content"] p {margin: 0 0 8px !important}
[data-testid="note-editor-preview-content"] img {max-width: 100%}
</style>"""
HEAD_END = b"</head>"
API_PATTERN = r"/ajax-api/[23]\.0/mlflow"
NAME_PATTERN = r"[A-Za-z0-9_.~-]+"
READABLE_PATHS = re.compile(
    rf"""/ | /version | /static-files/(?:{NAME_PATTERN}/)*{NAME_PATTERN}
    | {API_PATTERN}/(?: server-info | ui-telemetry
        | experiments/(?:get|get-by-name|search) | runs/get | logged-models/{NAME_PATTERN}
        | metrics/(?:get-history|get-history-bulk|get-history-bulk-interval)
        | registered-models/(?:get|search|get-latest-versions|alias)
        | model-versions/(?:get|search|get-download-uri)
    )""",
    re.VERBOSE,
)
SEARCH_PATHS = re.compile(rf"{API_PATTERN}/(?:[a-z][a-z-]*/search|experiments/search-datasets)")
GRAPHQL_PATH = "/graphql"
READING_FIELDS = frozenset(  # of the schema's root; the one that lists artifacts is not among them
    ("mlflowGetExperiment", "mlflowGetRun", "mlflowGetMetricHistoryBulkInterval", "mlflowSearchModelVersions",
     "mlflowSearchRuns", "mlflowSearchDatasets")
)  # fmt: skip
MAX_REQUEST_BYTES = 2**20  # bytes of a request
MAX_QUERY_LENGTH = 2**15  # characters of a GraphQL document
PIECE_BYTES = 2**16


class Gate:
    """An ASGI application that passes reading requests on to MLflow's server, and reads `artifacts` itself."""

    def __init__(self, server: httpx.AsyncClient, *, base: Path, artifacts: Path, port: int, token: str) -> None:
        self._server, self._base, self._artifacts = server, base, artifacts
        self._token, self._cookie = token, f"dpbo-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request; a websocket is closed."""
        if scope["type"] == "http":
            response = await self._answer(Request(scope, receive))
            await response(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})

    async def _answer(self, request: Request) -> Response:
        scope = request.scope  # as they were sent, decoded once; not put together from the `Host` again
        method, path, query = request.method, scope["path"], scope["query_string"].decode("latin-1")
        if (method, path) == ("GET", "/health"):
            return PlainTextResponse("OK")
        tokens = parse_qs(query).get(TOKEN_PARAMETER)
        if method == "GET" and tokens is not None and self._is_token(tokens[0]):
            return self._let_in(path, query)
        if not self._is_token(request.cookies.get(self._cookie, "")):
            return PlainTextResponse(LOCKED_MESSAGE, 403)
        if method == "GET" and path in (*LIST_PATHS, *FILE_PATHS):
            return await self._artifact(path, dict(request.query_params))
        if (method, path) == ("GET", GATEWAY_PATH):
            return JSONResponse({"endpoints": []})  # as MLflow without a gateway; with one it would ask that
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > MAX_REQUEST_BYTES:
                break
        if not passes(method, path, body):
            return refusal("these pages only read")
        return await self._from_mlflow(method, path, query, body if method == "POST" else b"", request.headers)

    def _is_token(self, token: str) -> bool:
        return secrets.compare_digest(token.encode(), self._token.encode())

    def _let_in(self, path: str, query: str) -> Response:
        rest = urlencode(
            {name: values for name, values in parse_qs(query).items() if name != TOKEN_PARAMETER}, doseq=True
        )
        local = "/" + path.lstrip("/")  # two slashes would name another host
        response = RedirectResponse(f"{local}?{rest}" if rest else local, 303)
        response.set_cookie(self._cookie, self._token, httponly=True, samesite="strict", path="/")
        return response

    async def _artifact(self, path: str, words: Mapping[str, str]) -> Response:
        try:
            location = await self._location(path, words)
            below = names_below(location, self._artifacts, self._base)
            inside = words.get("path", "")
            names = (*below, *names_of(inside))
            if path in LIST_PATHS:
                files = listing(self._artifacts, names, inside)
                return JSONResponse({"root_uri": location, "files": files})
            kind, raw = content(self._artifacts, names)
        except ForeignItem:
            return refusal("no such artifact in this store", 404)
        return Response(raw, media_type=kind, headers={"Content-Disposition": "attachment"})

    async def _location(self, path: str, words: Mapping[str, str]) -> str:
        what, inside = "runs/get", ["run", "info", "artifact_uri"]
        asked = {"run_id": words.get("run_id") or words.get("run_uuid") or ""}
        if path == FILE_PATHS[1]:
            what, inside = "model-versions/get", ["model_version", "source"]
            asked = {name: words.get(name, "") for name in ("name", "version")}
        try:
            answer = await self._server.get(f"/api/2.0/mlflow/{what}", params=asked)
            location: Any = answer.json() if answer.status_code == 200 else None
            for name in inside:
                location = location[name]
        except (httpx.HTTPError, ValueError, LookupError, TypeError):
            location = None
        if not isinstance(location, str):
            raise ForeignItem
        return location

    async def _from_mlflow(
        self, method: str, path: str, query: str, body: bytes, headers: Mapping[str, str]
    ) -> Response:
        whole = path == PAGE_PATH  # never a copy that a browser kept of MLflow's own
        sent = {name: headers[name] for name in FORWARDED_HEADERS[: 2 if whole else None] if name in headers}
        url = httpx.URL(path=path, query=query.encode())
        try:
            answer = await self._server.request(method, url, content=body, headers=sent)
        except httpx.HTTPError:
            return refusal(NO_ANSWER_MESSAGE.strip(), 502)
        back = {
            name: answer.headers[name]
            for name in RETURNED_HEADERS[: 1 if whole else None]
            if name in answer.headers
        }
        if whole:  # MLflow folds a description to 100 pixels, and opens a chat, whose requests are refused here
            page = answer.content.replace(HEAD_END, STYLE_SHEET + HEAD_END, 1)
            return Response(page, answer.status_code, back | {"cache-control": "no-store"})
        return Response(answer.content, answer.status_code, back)


def refusal(why: str, status: int = 403) -> Response:
    """Return a refusing response in the form of MLflow's own errors."""
    return JSONResponse({"error_code": "PERMISSION_DENIED", "message": why}, status)


def passes(method: str, path: str, body: bytes) -> bool:
    """Whether a request to MLflow's server only reads, and no artifact, so that it may go on; `path` is decoded."""
    if len(body) > MAX_REQUEST_BYTES or ".." in path.split("/"):
        return False
    if method == "GET":
        return READABLE_PATHS.fullmatch(path) is not None
    if method == "POST" and path == GRAPHQL_PATH:
        return only_reads(body)
    return method == "POST" and SEARCH_PATHS.fullmatch(path) is not None


def only_reads(body: bytes) -> bool:
    """Return whether a GraphQL request holds only queries, of fields that open no artifact."""
    try:
        request: Any = json.loads(body)
        text = request["query"]
        document = parse(text, no_location=True) if len(text) <= MAX_QUERY_LENGTH else None
    except (ValueError, TypeError, KeyError, RecursionError, GraphQLError):
        return False
    if document is None:
        return False
    for part in document.definitions:
        if isinstance(part, FragmentDefinitionNode):
            if part.type_condition.name.value in ("Query", "Mutation"):
                return False  # MLflow's page has none; the fields below are then all there are
        elif (
            not isinstance(part, OperationDefinitionNode)
            or part.operation is not OperationType.QUERY
            or not all(
                isinstance(field, FieldNode) and field.name.value in READING_FIELDS
                for field in part.selection_set.selections
            )
        ):
            return False
    return True


class ForeignItem(Exception):
    """A place is outside the store's root, a link, or missing."""


def names_below(location: str, root: Path, base: Path) -> tuple[str, ...]:
    """Return the path from `root` to an MLflow `location`, as folder names, relative ones from `base`."""
    parts = urlsplit(location)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        location = unquote(parts.path)
    elif parts.scheme or "\0" in location:
        raise ForeignItem
    place = base / location
    if ".." in place.parts or not place.is_relative_to(root):
        raise ForeignItem
    return place.relative_to(root).parts


def names_of(path: str) -> tuple[str, ...]:
    """Return the folder and file names in an artifact's path within its run, () for the run's folder; no ".."."""
    names = tuple(path.split("/")) if path else ()
    if any(name in ("", ".", "..") or "\0" in name or "\\" in name for name in names):
        raise ForeignItem
    return names


@contextmanager
def opened(root: Path, names: tuple[str, ...]) -> Iterator[int]:
    """Context with a descriptor of the file or folder at `names` below `root`; NotOurs at a link or nothing."""
    handles: list[int] = []
    try:
        try:
            handles.append(os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW))
            for name in names:
                handles.append(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=handles[-1]))
        except (OSError, ValueError):
            raise ForeignItem from None
        yield handles[-1]
    finally:
        for handle in handles:
            os.close(handle)


def listing(root: Path, names: tuple[str, ...], path: str) -> list[dict[str, Any]]:
    """A folder's files and folders, without links, as MLflow's API lists them below `path`; [] for a file."""
    entries = []
    with opened(root, names) as folder:
        if not stat.S_ISDIR(os.fstat(folder).st_mode):
            return []
        for name in sorted(os.listdir(folder)):  # noqa: PTH208  by descriptor
            facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
            below = f"{path}/{name}" if path else name
            if stat.S_ISDIR(facts.st_mode):
                entries.append({"path": below, "is_dir": True})
            elif stat.S_ISREG(facts.st_mode):
                entries.append({"path": below, "is_dir": False, "file_size": facts.st_size})
    return entries


def content(root: Path, names: tuple[str, ...]) -> tuple[str, bytes]:
    """Return the media type and the bytes of a file; NotOurs for a link, a folder or nothing there."""
    with opened(root, names) as handle:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ForeignItem
        pieces = []
        while piece := os.read(handle, PIECE_BYTES):
            pieces.append(piece)
    kind = "text/plain" if names[-1] == "MLmodel" else mimetypes.guess_type(names[-1])[0]
    return kind or "application/octet-stream", b"".join(pieces)
