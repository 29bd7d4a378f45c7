"""An HTTP server for an ASGI application: uvicorn's protocol on a port of its own, bounded in time and memory.

    connection -> header (limited in bytes, fields, time) -> application -> the rest of the body, thrown away (in time)

uvicorn waits for ever for a header, takes one of any size and any number of requests sent ahead: each has a limit here.
Over the limit of connections, the one goes that has not finished a request for longest.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from onpath_collector.http2_relay import Http2Relay
from onpath_collector.listening import BACKLOG, bind, fitting
from onpath_collector.security import Certificates

log: Final = logging.getLogger(__name__)
log.setLevel(logging.ERROR)  # no line for each malformed request, which anyone may send

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers: TypeAlias = Mapping[bytes, bytes]

_HANDSHAKE: Final = 10.0  # seconds
_TURN: Final = 32  # connections taken in one turn of the loop: fewer than may be open, so that a new one can speak


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """Seconds, bytes, numbers."""

    header_time: float = 10.0  # from its first byte; of the first on a connection, from the connection
    header_bytes: int = 64 << 10  # also of what stands between the parts of a body, and after them
    header_fields: int = 100
    idle_time: float = 300.0  # longer than exporters wait between batches, a minute for metrics
    discard_time: float = 10.0  # for the rest of a request that is answered already
    ahead: int = 4  # requests sent before the one before them is answered
    connections: int = 512  # fewer where the process may open few files


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole response; its length is added."""

    status: int
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)

    def closing(self) -> Answer:
        """The same, and the connection is closed after it."""
        return replace(self, headers={**self.headers, "connection": "close"})

    async def send(self, send: Send) -> None:
        fields = {"content-type": self.content_type, "content-length": str(len(self.body)), **self.headers}
        headers = [(name.encode(), value.encode("latin-1")) for name, value in fields.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


Malformed: TypeAlias = Callable[[Headers], Answer]
"""What to say to bytes that are no HTTP, given the header as far as it was read."""


class HttpServer:
    """One port. `start` may be called once; `stop` at any time and again. Owned by one event loop."""

    def __init__(
        self,
        app: App,
        endpoint: str,
        malformed: Malformed,
        certificates: Certificates | None = None,
        limits: HttpLimits = HttpLimits(),
        relay: Http2Relay | None = None,
    ) -> None:
        """`relay` takes the connections that speak HTTP/2; they are closed otherwise."""
        self.address = ""  # HOST:PORT once started
        self.limits = replace(limits, connections=fitting(limits.connections))
        self.malformed = malformed
        self.connections: dict[_Connection, None] = {}  # who has not finished a request for longest comes first
        self._endpoint = endpoint
        self._certificates = certificates
        self._state = ServerState()
        self._config = Config(
            app,
            http=_Connection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
        )
        self._relay = relay
        self._listening: list[asyncio.Server] = []
        self._empty = asyncio.Event()

    async def start(self, what: str) -> str:
        """Listens; the address it got, as HOST:PORT. Raises ListenError, which says that `what` cannot be received."""
        self.address, sockets = bind(self._endpoint, what)
        self._config.load()
        loop = asyncio.get_running_loop()
        secure: dict[str, Any] = {}
        if self._certificates is not None:
            secure = {"ssl": self._certificates.server_context(), "ssl_handshake_timeout": _HANDSHAKE}
        for each in sockets:
            made = await loop.create_server(self._new_protocol, sock=each, backlog=fitting(_TURN), **secure)
            each.listen(BACKLOG)  # in the kernel more may wait
            self._listening.append(made)
        return self.address

    async def stop(self, grace: float) -> None:
        """Listens no more, closes what is idle, lets the rest finish within so many seconds."""
        for server in self._listening:
            server.close()
        self._listening = []
        if self._relay is not None:
            self._relay.close()
        for connection in list(self.connections):
            connection.shutdown()
        if self.connections:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), grace)
        for connection in list(self.connections):
            connection.transport.abort()
        await asyncio.sleep(0)  # which closes their sockets

    def opened(self, connection: _Connection) -> None:
        self.connections[connection] = None
        self._empty.clear()
        if len(self.connections) > self.limits.connections:
            one_too_many = next((c for c in self.connections if not c.answering), connection)
            del self.connections[one_too_many]  # now: more may open before it is closed
            one_too_many.transport.abort()

    def used(self, connection: _Connection) -> None:
        """It has finished a request."""
        self.connections[connection] = self.connections.pop(connection)

    def closed(self, connection: _Connection) -> None:
        self.connections.pop(connection, None)
        if not self.connections:
            self._empty.set()

    def _new_protocol(self) -> asyncio.Protocol:
        return self._connection() if self._relay is None else self._relay.before(self._connection)

    def _connection(self) -> _Connection:
        return _Connection(self._config, self._state, {}, owner=self)


class _Connection(HttpToolsProtocol):
    def __init__(self, config: Config, server_state: ServerState, app_state: dict[str, Any], owner: HttpServer) -> None:
        super().__init__(config, server_state, app_state)
        self.logger = log
        self._owner = owner
        self._limits = owner.limits
        self._timer: asyncio.TimerHandle | None = None
        self._fields = 0  # of the request that is being read
        self._overhead = 0  # bytes since the last that were body
        self._whole = True  # no request is being read

    @property
    def answering(self) -> bool:
        """It is our turn, not the client's."""
        return self._whole and self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._within(self._limits.header_time)
        self._owner.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.closed(self)
        self._within(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        try:
            if self._overhead > self._limits.header_bytes:
                raise HttpParserError("nothing but header")
            self._overhead += len(data)
            self._feed(data)
        except HttpParserError:
            self.send_400_response("")

    def _feed(self, data: bytes) -> None:
        """An upgrade that a request offers is declined: the parser, which would drop the body, gets it without."""
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade as offered:
            lines = [b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())]
            lines += [b"%s: %s" % field for field in self.headers if field[0] not in (b"upgrade", b"connection")]
            self.parser = HttpRequestParser(self)
            self._feed(b"\r\n".join([*lines, b"", data[offered.args[0] :]]))

    def send_400_response(self, msg: str) -> None:
        """Answers what is no HTTP, if that is what the client waits to have answered, and hangs up."""
        cycle = self.cycle
        broken_body = cycle is not None and cycle.more_body and not cycle.response_started and not self.pipeline
        if cycle is None or cycle.response_complete or broken_body:
            answer = self._owner.malformed(dict(self.headers or ()))
            head = f"HTTP/1.1 {answer.status} Bad Request\r\ncontent-type: {answer.content_type}\r\n"
            head += f"content-length: {len(answer.body)}\r\nconnection: close\r\n\r\n"
            self.transport.write(head.encode() + answer.body)
        self.transport.close()

    # The parser's findings. What is raised in them, the parser tells as malformed.

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._fields, self._whole = 0, False
        self._within(self._limits.header_time)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields += 1
        if self._fields > self._limits.header_fields:
            raise ValueError("too many header fields")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= self._limits.ahead:
            raise ValueError("too many requests sent ahead")
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise ValueError("this is no proxy")
            return
        self._within(None)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._overhead = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._overhead, self._whole = 0, True
        super().on_message_complete()
        if self.cycle.response_complete:
            self._within(self._limits.idle_time)

    def on_response_complete(self) -> None:
        """The application's part is done."""
        last = not self.pipeline
        super().on_response_complete()
        self._unset_keepalive_if_required()  # uvicorn's own five seconds
        if self in self._owner.connections:
            self._owner.used(self)
            self._within((self._limits.idle_time if self._whole else self._limits.discard_time) if last else None)

    def _within(self, seconds: float | None) -> None:
        """The connection is cut off unless something else happens in so many seconds."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)
