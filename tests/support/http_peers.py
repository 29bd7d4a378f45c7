"""Senders of OTLP over HTTP: one that speaks it well, and bare bytes on a socket."""

from __future__ import annotations

import asyncio
import io
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import aiohttp
from google.protobuf.json_format import ParseDict
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

PROTOBUF = "application/x-protobuf"
JSON = "application/json"


@dataclass(frozen=True)
class HttpReply:
    """A receiver's answer as it stood on the wire."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def content_type(self) -> str:
        return self.headers["Content-Type"]

    @property
    def told(self) -> Status:
        """The google.rpc.Status of an error, in whichever encoding the content type names."""
        if self.content_type == PROTOBUF:
            return Status.FromString(self.body)
        assert self.content_type == JSON
        found: Status = ParseDict(json.loads(self.body), Status())
        return found

    @property
    def hint(self) -> float | None:
        """Seconds to wait, as the Status says."""
        for detail in self.told.details:
            info = RetryInfo()
            assert detail.Unpack(info)
            return info.retry_delay.ToTimedelta().total_seconds()
        return None


class HttpClient:
    """Posts to one address, over kept-alive connections."""

    def __init__(self, session: aiohttp.ClientSession, base: str) -> None:
        self._session = session
        self._base = base

    async def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None, **options: Any
    ) -> HttpReply:
        """`body` may be an async iterator, which is sent in chunks."""
        skip = ["Content-Type", "Accept-Encoding"]
        if isinstance(body, bytes) and len(body) >= 1 << 20:
            body = io.BytesIO(body)  # aiohttp warns of long bytes
        async with self._session.request(
            method, self._base + path, data=body, headers=headers, skip_auto_headers=skip, **options
        ) as answer:
            return HttpReply(answer.status, answer.headers, await answer.read())

    async def send(self, signal: str, body: Any, content_type: str = PROTOBUF, **headers: str) -> HttpReply:
        """Underscores in the names of headers stand for hyphens."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.request("POST", f"/v1/{signal}", body, {"Content-Type": content_type, **named})


@asynccontextmanager
async def http_client(address: str, context: ssl.SSLContext | None = None) -> AsyncIterator[HttpClient]:
    connector = aiohttp.TCPConnector(limit=0, ssl=context or True)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=30)) as session:
        yield HttpClient(session, f"{'https' if context else 'http'}://{address}")


class RawConnection:
    """Bytes to a socket, and what comes back."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def end(self) -> None:
        """Nothing more will be sent; answers are still read."""
        self._writer.write_eof()

    async def rest(self, patience: float = 20) -> bytes:
        """All that comes until the other side closes, however it does."""
        found = bytearray()
        with suppress(ConnectionError):
            async with asyncio.timeout(patience):
                while part := await self._reader.read(65536):
                    found += part
        return bytes(found)

    async def until(self, pattern: bytes, patience: float = 20) -> bytes:
        async with asyncio.timeout(patience):
            return await self._reader.readuntil(pattern)

    async def close(self) -> None:
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


@asynccontextmanager
async def raw_connection(address: str) -> AsyncIterator[RawConnection]:
    host, _, port = address.rpartition(":")
    connection = RawConnection(*await asyncio.open_connection(host, int(port)))
    try:
        yield connection
    finally:
        await connection.close()


def post(body: bytes, *, length: int | None = None, path: str = "/v1/traces", more: str = "") -> bytes:
    """A request's bytes; `length` is what its header claims."""
    claimed = len(body) if length is None else length
    head = f"POST {path} HTTP/1.1\r\nHost: test\r\nContent-Type: {PROTOBUF}\r\nContent-Length: {claimed}\r\n{more}\r\n"
    return head.encode() + body
