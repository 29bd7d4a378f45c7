"""The admin port: whether the collector is ready, and pages about it; for probes, Prometheus and people.

/healthz is 200 while requests are accepted, else 503, and needs no token; /livez is 200 as long as anything answers.
Whatever else there is comes as `pages`, by path, and is behind the tokens.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from onpath_collector.http2_relay import Http2Relay
from onpath_collector.http_server import Answer, App, Headers, HttpLimits, HttpServer, Receive, Scope, Send
from onpath_collector.security import Certificates, Tokens

State = Literal["starting", "ready", "stopping"]

_LIMITS: Final = HttpLimits(connections=128)
_CLOSING: Final = 0.2  # seconds for what is being answered


@dataclass(slots=True)
class Health:
    """What the probes are told."""

    state: State = "starting"

    @property
    def ready(self) -> bool:
        return self.state == "ready"


class Admin:
    """`start` may be called once, `stop` at any time and again. Owned by one event loop."""

    def __init__(
        self,
        endpoint: str,
        health: Health,
        pages: Mapping[str, App],
        certificates: Certificates | None = None,
        tokens: Tokens | None = None,
        trees: Mapping[str, App] | None = None,
    ) -> None:
        """`pages` are exact paths, `trees` whole ones, by the path they begin with."""
        self._health = health
        self._pages = pages
        self._trees = trees or {}
        self._tokens = tokens
        self._endpoint = endpoint
        self._certificates = certificates
        self._server: HttpServer | None = None

    async def start(self, grpc: Path | None = None) -> str:
        """Listens; the address it got, as HOST:PORT. Raises ListenError.

        `grpc` is the socket of a gRPC server, which checks tokens itself: connections that speak HTTP/2 go there.
        """
        relay = None if grpc is None else Http2Relay(grpc)
        self._server = HttpServer(self._serve, self._endpoint, _malformed, self._certificates, _LIMITS, relay)
        return await self._server.start("admin requests")

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(_CLOSING)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: Headers = dict(scope["headers"])
        path = scope["path"]
        if path in ("/healthz", "/livez"):
            return await self._probe(path, scope, receive, send)
        page = self._pages.get(path) or next((app for at, app in self._trees.items() if path.startswith(at)), None)
        if page is None:
            known = ", ".join(["/healthz", "/livez", *self._pages, *self._trees])
            return await _problem(404, f"there is {known}").send(send)
        if self._tokens is not None and not self._tokens.allow(_bearer(headers.get(b"authorization"))):
            return await _denied(headers).send(send)
        await page(scope, receive, send)

    async def _probe(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        def found(_: str) -> Answer:
            well = self._health.ready or path == "/livez"
            return _json(200 if well else 503, {"status": self._health.state})

        await reading(found)(scope, receive, send)


def _bearer(authorization: bytes | None) -> bytes | None:
    """Browsers ask for a name and a password: the password is the token."""
    scheme, _, given = (authorization or b"").partition(b" ")
    if scheme.lower() != b"basic":
        return authorization
    try:
        return b"Bearer " + base64.b64decode(given, validate=True).partition(b":")[2]
    except ValueError:
        return None


def reading(answer: Callable[[str], Answer]) -> App:
    """A page that is only read: `answer` is given the Accept header."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            return await _problem(405, "this is only read", {"allow": "GET, HEAD"}).send(send)
        accept = dict(scope["headers"]).get(b"accept", b"").decode("latin-1")
        await answer(accept).send(send)

    return app


def _json(status: int, body: Mapping[str, str], headers: Mapping[str, str] | None = None) -> Answer:
    return Answer(status, json.dumps(body).encode() + b"\n", "application/json", headers or {})


def _problem(status: int, message: str, headers: Mapping[str, str] | None = None) -> Answer:
    return _json(status, {"error": message}, headers)


def _denied(headers: Headers) -> Answer:
    """A browser is told of a way that it knows."""
    person = b"text/html" in headers.get(b"accept", b"")
    ways = 'Bearer, Basic realm="onpath: any name, the token is the password"' if person else "Bearer"
    return _problem(401, "a bearer token is needed", {"www-authenticate": ways})


def _malformed(_: Headers) -> Answer:
    return _problem(400, "this is no HTTP request")
