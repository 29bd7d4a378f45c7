"""HTTP/1.1 and gRPC on one port: the first bytes of a connection tell which it is.

    connection -> preface of HTTP/2? yes -> bytes to and fro a unix socket, where gRPC serves
                                     no  -> the protocol of the HTTP server, with all that was read

gRPC has no way of taking connections that others accepted, and HTTP/2 is not spoken twice: bytes go through as they
are, after TLS has been taken off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from onpath_collector.listening import fitting

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_PATIENCE: Final = 10.0  # seconds for as much as tells one from the other
_MOST: Final = 64  # connections relayed at once, and so many that have not told which they are


class Http2Relay:
    """Where connections of HTTP/2 go. Owned by one event loop."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._most = fitting(_MOST)
        self._first: dict[_First, None] = {}  # the longest silent first
        self._relayed: set[asyncio.Transport] = set()
        self._joining: set[asyncio.Task[None]] = set()

    def before(self, otherwise: Callable[[], asyncio.Protocol]) -> asyncio.Protocol:
        """A protocol for a new connection, which turns into the other one unless it speaks HTTP/2."""
        return _First(self, otherwise)

    def opened(self, first: _First) -> None:
        """One more that says nothing yet: over the limit the oldest goes."""
        self._first[first] = None
        if len(self._first) > self._most:
            next(iter(self._first)).abort()

    def told(self, first: _First) -> None:
        """It has said which it is, or has gone."""
        self._first.pop(first, None)

    def take(self, transport: asyncio.Transport, read: bytes) -> None:
        """A connection that has begun so."""
        if len(self._relayed) >= self._most:
            transport.abort()
            return
        transport.pause_reading()
        self._relayed.add(transport)
        transport.set_protocol(_Pipe(None, lambda: self._relayed.discard(transport)))
        task = asyncio.ensure_future(self._join(transport, read))
        self._joining.add(task)
        task.add_done_callback(self._joining.discard)

    async def _join(self, transport: asyncio.Transport, read: bytes) -> None:
        try:
            found: Any = await asyncio.get_running_loop().create_unix_connection(
                lambda: _Pipe(transport, lambda: None), str(self.path)
            )
        except OSError:
            transport.abort()
            return
        inner: asyncio.Transport = found[0]
        if transport.is_closing():
            inner.abort()
            return
        outer: Any = transport.get_protocol()
        outer.other = inner
        inner.write(read)
        transport.resume_reading()

    def close(self) -> None:
        for task in self._joining:
            task.cancel()
        for transport in list(self._relayed):
            transport.abort()
        for first in list(self._first):
            first.abort()


class _First(asyncio.Protocol):
    def __init__(self, relay: Http2Relay, otherwise: Callable[[], asyncio.Protocol]) -> None:
        self._relay = relay
        self._otherwise = otherwise
        self._read = b""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._timer = asyncio.get_running_loop().call_later(_PATIENCE, transport.abort)
        self._relay.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._begun()

    def abort(self) -> None:
        self._begun()
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._read += data
        begun = self._read[: len(PREFACE)]
        if begun == PREFACE:
            self._begun()
            self._relay.take(self._transport, self._read)
        elif not PREFACE.startswith(begun):
            self._begun()
            protocol = self._otherwise()
            self._transport.set_protocol(protocol)
            protocol.connection_made(self._transport)
            protocol.data_received(self._read)

    def _begun(self) -> None:
        self._relay.told(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Pipe(asyncio.Protocol):
    """One side of a relayed connection. What the other side can't take yet is not read here."""

    def __init__(self, other: asyncio.Transport | None, lost: Callable[[], None]) -> None:
        self.other = other
        self._lost = lost

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.write(data)

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and not self.other.is_closing():
            self.other.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost()
        if self.other is not None:
            self.other.close()
