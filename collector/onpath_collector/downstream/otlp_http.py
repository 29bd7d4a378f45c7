"""OTLP over HTTP to the downstream: protobuf bodies, one POST a request."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from datetime import datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from importlib.metadata import version
from typing import Final

import aiohttp
from google.protobuf.message import DecodeError
from google.rpc.status_pb2 import Status

from onpath_collector.downstream.base import (
    Delivered,
    Downstream,
    Failed,
    Outcome,
    Retry,
    Signal,
    TlsSettings,
    delivered,
)
from onpath_collector.downstream.endpoint import parse_endpoint

_PATHS: Final[dict[Signal, str]] = {"traces": "/v1/traces", "metrics": "/v1/metrics", "logs": "/v1/logs"}
_RETRYABLE: Final = frozenset({429, 502, 503, 504})
_ANSWER_LIMIT: Final = 4 << 20  # bytes read of an answer
_PROTOBUF: Final = "application/x-protobuf"


class HttpSender:
    """OTLP over HTTP/1.1 with kept-alive connections. Redirects are not followed: OTLP has none."""

    def __init__(self, downstream: Downstream, signal: Signal) -> None:
        endpoint = parse_endpoint(downstream.endpoint)
        self._signal = signal
        self._url = f"{endpoint.scheme}://{endpoint.target}{endpoint.path}{_PATHS[signal]}"
        self._timeout = aiohttp.ClientTimeout(total=downstream.timeout)
        self._gzip = downstream.compression == "gzip"
        self._headers = {"User-Agent": f"onpath/{version('onpath')}", **downstream.headers, "Content-Type": _PROTOBUF}
        if self._gzip:
            self._headers["Content-Encoding"] = "gzip"
        self._tls = _context(downstream.tls) if endpoint.secure else None
        self._server_name = downstream.tls.server_name
        self._session: aiohttp.ClientSession | None = None

    async def send(self, request: bytes) -> Outcome:
        if self._session is None:  # not sooner: it belongs to the running loop
            self._session = aiohttp.ClientSession(trust_env=True)  # proxies as in other OTLP exporters
        body = await asyncio.to_thread(gzip.compress, request, 6) if self._gzip else request
        try:
            async with self._session.post(
                self._url,
                data=body,
                headers=self._headers,
                timeout=self._timeout,
                allow_redirects=False,
                ssl=self._tls or True,
                server_hostname=self._server_name,
            ) as response:
                return _outcome(self._signal, response, await read_limited(response))
        except TimeoutError:
            return Retry("timeout")
        except (aiohttp.ClientError, OSError) as error:
            return Retry("unavailable", message=str(error))

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()


async def read_limited(response: aiohttp.ClientResponse) -> bytes:
    """The body, or nothing of one that is beyond all reason: the status has said what matters."""
    parts, size = [], 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > _ANSWER_LIMIT:
            return b""
        parts.append(part)
    return b"".join(parts)


def _outcome(signal: Signal, response: aiohttp.ClientResponse, body: bytes) -> Outcome:
    """OTLP's table for HTTP."""
    protobuf = response.content_type == _PROTOBUF
    if 200 <= response.status < 300:
        return delivered(signal, body) if protobuf else Delivered()
    message = _message(body) if protobuf else ""
    reason = f"http_{response.status}"
    if response.status in _RETRYABLE:
        return Retry(reason, retry_after(response), message or _phrase(response.status))
    return Failed(reason, message or _phrase(response.status))


def _message(body: bytes) -> str:
    try:
        return Status.FromString(body).message
    except DecodeError:
        return ""


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def retry_after(response: aiohttp.ClientResponse) -> float | None:
    """Seconds to wait: as they stand, or up to a date, which is measured by the downstream's own clock."""
    value = response.headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    until, now = _date(value), _date(response.headers.get("Date", ""))
    return None if until is None or now is None else max(0.0, (until - now).total_seconds())


def _date(value: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, TypeError):
        return None
    return date if date.tzinfo is not None else None


def _context(tls: TlsSettings) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.ca)
    if tls.cert is not None:
        context.load_cert_chain(tls.cert, tls.key)
    return context
