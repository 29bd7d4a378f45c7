"""A downstream for OTLP over HTTP on loopback that answers as told."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

PROTOBUF = "application/x-protobuf"


@dataclass(frozen=True)
class HttpAnswer:
    """`status` None never answers."""

    status: int | None = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = PROTOBUF


@dataclass
class HttpSink:
    """Requests as they came: path, headers, and the body, decompressed."""

    behave: Callable[[int], HttpAnswer] = lambda number: HttpAnswer()
    requests: list[tuple[str, bytes]] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    address: str = ""

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        number = len(self.requests)
        self.requests.append((request.path, body))
        self.headers.append(request.headers)
        answer = self.behave(number)
        if answer.status is None:
            await asyncio.Event().wait()
        assert answer.status is not None
        return web.Response(
            status=answer.status, body=answer.body, headers=answer.headers, content_type=answer.content_type
        )


@asynccontextmanager
async def serving_http(sink: HttpSink, context: ssl.SSLContext | None = None) -> AsyncIterator[HttpSink]:
    server = web.Server(sink.handle)  # type: ignore[arg-type]  # every path and method
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    host, port = runner.addresses[0][:2]
    sink.address = f"{host}:{port}"
    try:
        yield sink
    finally:
        await runner.cleanup()
