"""The OTLP/HTTP receiver: bodies as protobuf bytes to the consumer, its answer or error as OTLP wants it on HTTP.

    path, method, token, types -> length -> body (as there is room) -> inflate -> JSON to protobuf -> consumer -> answer

Whatever is wrong is answered with a google.rpc.Status in the encoding of the request (`http_answers`).
"""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import dataclass, field
from typing import Final

from onpath_collector.http_server import Answer, Headers, HttpServer, Receive, Scope, Send
from onpath_collector.otlp import DecodeError, from_json, most_memory
from onpath_collector.receivers.base import (
    Consumer,
    Faults,
    ReceiverCounts,
    Refused,
    Signal,
    TooLarge,
    Unauthenticated,
    consume,
)
from onpath_collector.receivers.compression import Inflater
from onpath_collector.receivers.http_answers import (
    JSON,
    PROTOBUF,
    Encoding,
    NotServed,
    encoding_of,
    failure,
    reason,
    success,
)
from onpath_collector.receivers.room import Room, Share, turn
from onpath_collector.receivers.weight import Scales
from onpath_collector.security import Certificates, Tokens

log: Final = logging.getLogger(__name__)

PATHS: Final[dict[str, Signal]] = {"/v1/traces": "traces", "/v1/metrics": "metrics", "/v1/logs": "logs"}

_CHARSET: Final = re.compile(r';\s*charset\s*+=\s*+(?!"?utf-?8\b)', re.IGNORECASE)  # another than UTF-8
_SMALL: Final = 64 << 10  # bytes: a body of unknown length asks for room beyond; JSON is read beside the loop beyond
_CLOSING: Final = 0.2  # seconds for connections to close once nothing is in flight
_RATIO: Final = 1032  # deflate makes at most so many bytes of one
_JSON_MEMORY: Final = 16  # times max_request: what the values of a JSON request may take


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """Seconds and bytes. `max_in_flight` bounds what is read and not yet handed on, all connections together."""

    endpoint: str = "127.0.0.1:4318"
    max_request: int = 64 << 20
    max_in_flight: int = 256 << 20
    read_timeout: float = 10.0  # for a body to arrive whole


class _HungUp(Exception):
    """The sender has gone away, or what it sent was no HTTP: there is nobody to answer."""


@dataclass(slots=True)
class _Request:
    scope: Scope
    receive: Receive
    headers: Headers = field(default_factory=dict)
    read: bool = False  # its body was asked for

    def __post_init__(self) -> None:
        self.headers = dict(self.scope["headers"])

    @property
    def compressed(self) -> bool:
        return self.header(b"content-encoding", "identity") != "identity"

    @property
    def length(self) -> int | None:
        value = self.headers.get(b"content-length")
        return None if value is None else int(value)

    def header(self, name: bytes, default: str = "") -> str:
        value = self.headers.get(name)
        return default if value is None else value.decode("latin-1").strip().lower()


class HttpReceiver:
    """Serves /v1/traces, /v1/metrics and /v1/logs on one port.

    `start` may be called once. `stop` may be called at any time and again: new requests are told to come back, those in
    flight are finished within the grace period. Owned by one event loop.
    """

    transport: Final = "http"

    def __init__(
        self,
        settings: HttpSettings,
        consumer: Consumer,
        certificates: Certificates | None = None,
        tokens: Tokens | None = None,
    ) -> None:
        self._settings = settings
        self._tokens = tokens
        self._server = HttpServer(self._serve, settings.endpoint, _malformed, certificates)
        self._takes = {signal: consume(consumer, signal) for signal in PATHS.values()}
        self._room = Room(settings.max_in_flight)
        self._inflater = Inflater(settings.max_request)
        self._scales = Scales(settings.max_in_flight)
        self._one_json = asyncio.Lock()
        self._faults = Faults()
        self._closing = False
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self.counts: dict[Signal, ReceiverCounts] = {signal: ReceiverCounts() for signal in PATHS.values()}

    @property
    def address(self) -> str:
        """HOST:PORT once started."""
        return self._server.address

    async def start(self) -> str:
        """Listens; the address it got, as HOST:PORT. Raises ListenError."""
        return await self._server.start("OTLP/HTTP")

    async def stop(self, grace: float = 5.0) -> None:
        self._closing = True
        try:
            await asyncio.wait_for(self._idle.wait(), grace)
        except TimeoutError:
            log.warning("stopped receiving OTLP/HTTP with %d requests unfinished", self._in_flight)
        await self._server.stop(_CLOSING)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = _Request(scope, receive)
        encoding = encoding_of(request.headers)
        self._in_flight += 1
        self._idle.clear()
        try:
            signal = PATHS.get(scope["path"])
            if signal is None:
                answer = failure(NotServed(404, "path", f"served here: {', '.join(PATHS)}", {}), encoding)
            else:
                answer = await self._answer(signal, request, encoding)
            if b"expect" in request.headers and not request.read:
                answer = answer.closing()  # nobody knows whether the body will still come
            await answer.send(send)
        except _HungUp:
            return
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()

    async def _answer(self, signal: Signal, request: _Request, encoding: Encoding) -> Answer:
        counts = self.counts[signal]
        try:
            with self._room.share() as share:
                self._admit(request)
                body = await self._receive(signal, request, share)
                share.keep(len(body))
                accepted = await self._takes[signal](body)
        except _HungUp:
            counts.failed["not_received"] += 1
            raise
        except Refused as refused:
            counts.refuse(refused)
            return failure(refused, encoding)
        except Exception as error:  # noqa: BLE001 - whatever it is, the sender gets an answer and we a count
            counts.failed[reason(error)] += 1
            if reason(error) == "internal":
                self._faults.tell(error)
            return failure(error, encoding)
        counts.accept(accepted)
        return success(signal, accepted, encoding)

    def _admit(self, request: _Request) -> None:
        """All that can be told without the body."""
        if request.scope["method"] != "POST":
            raise NotServed(405, "method", f"{request.scope['method'][:20]} is not for OTLP", {"allow": "POST"})
        if self._closing:
            raise Refused("shutting_down")
        if self._tokens is not None and not self._tokens.allow(request.headers.get(b"authorization")):
            raise Unauthenticated("a bearer token is needed")
        content_type = request.header(b"content-type")
        if content_type.partition(";")[0].rstrip() not in (PROTOBUF, JSON) or _CHARSET.search(content_type):
            wanted = f"{PROTOBUF}, {JSON}"
            raise NotServed(415, "content_type", f"the content type must be one of {wanted}", {"accept": wanted})
        if request.header(b"content-encoding", "identity") not in ("identity", "gzip", "deflate"):
            known = "gzip, deflate"
            raise NotServed(415, "content_encoding", f"the encoding must be one of {known}", {"accept-encoding": known})
        if (request.length or 0) > self._settings.max_request:
            raise TooLarge(f"larger than {self._settings.max_request} bytes")

    async def _receive(self, signal: Signal, request: _Request, share: Share) -> bytes:
        """The request as serialised protobuf."""
        body = await self._read(request, share)
        if request.compressed:
            body = await self._inflater.inflate(body)
        if request.header(b"content-type").startswith(JSON):
            body = await self._read_json(signal, body)
        await self._scales.weigh(signal, body)
        if self._closing:
            raise Refused("shutting_down")
        return body

    async def _read(self, request: _Request, share: Share) -> bytes:
        limit = self._settings.max_request
        room = request.length
        if room is not None:
            await share.take(self._needed(room, request))
        parts: list[bytes] = []
        size, more = 0, True
        request.read = True
        async with self._room.reading(self._settings.read_timeout):
            while more:
                message = await request.receive()
                if message["type"] != "http.request":
                    raise _HungUp
                parts.append(message["body"])
                size, more = size + len(message["body"]), message["more_body"]
                if size > limit:
                    raise TooLarge(f"larger than {limit} bytes")
                if room is None and (size > _SMALL or not more):
                    room = limit if more else size
                    await share.take(self._needed(room, request))
        return b"".join(parts)

    def _needed(self, size: int, request: _Request) -> int:
        return size + (min(size * _RATIO, self._settings.max_request) if request.compressed else 0)

    async def _read_json(self, signal: Signal, body: bytes) -> bytes:
        most = _JSON_MEMORY * self._settings.max_request
        if len(body) <= _SMALL:
            return _from_json(signal, body, most)
        async with turn(self._one_json):  # so that many at once cost the memory of one
            return await asyncio.to_thread(_from_json, signal, body, most)


def _from_json(signal: Signal, body: bytes, most: int) -> bytes:
    if most_memory(body) > most:
        raise TooLarge("too many values for one JSON request; send smaller ones, or protobuf")
    return from_json(signal, body)


def _malformed(headers: Headers) -> Answer:
    return failure(DecodeError("this is no HTTP request"), encoding_of(headers))
