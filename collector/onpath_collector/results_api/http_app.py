"""The results API over HTTP: JSON as report files have it, and server-sent events.

    GET  /v1/reports?workflow=&verdict=&service=&since=&page_size=&page_token=
    GET  /v1/reports/TRACE_ID            GET /v1/reports/TRACE_ID:wait?timeout=10s
    GET  /v1/reports:watch?...           POST /v1/traces/TRACE_ID:complete

A browser must be no way in: what changes something takes application/json, which pages of others can't send unasked,
and a Host that is the bound address; without tokens what is read takes a Host that no one else's name server controls.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, suppress
from datetime import datetime
from typing import Any, Final
from urllib.parse import parse_qsl

import orjson

from onpath_collector.http_server import Answer, Headers, Receive, Scope, Send
from onpath_collector.reports import Filter, StoredReport
from onpath_collector.results_api.calls import LONGEST_WAIT, CallError, Calls
from onpath_collector.security.hosts import Hosts

PREFIX: Final = "/v1/"
_STATUS: Final = {"INVALID_ARGUMENT": 400, "NOT_FOUND": 404, "DEADLINE_EXCEEDED": 504, "RESOURCE_EXHAUSTED": 429}
_FILTER: Final = frozenset({"workflow", "verdict", "service", "since"})
_TIMEOUT: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)s?")
_LARGEST: Final = 64 << 10  # bytes of a request's body, which says nothing
_ALIVE: Final = 15.0  # seconds between signs of life, so that nobody between takes a stream for dead
_PLAIN: Final = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


class HttpApi:
    """An ASGI application."""

    def __init__(self, calls: Calls, hosts: Hosts) -> None:
        self._calls = calls
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            answer = await self._answer(scope, receive, send)
        except CallError as error:
            answer = _error(_STATUS[error.code], error.code, str(error))
        if answer is not None:
            await answer.send(send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> Answer | None:
        """None: a stream, which is over."""
        path, method, headers = scope["path"].removeprefix(PREFIX), scope["method"], dict(scope["headers"])
        resource, _, rest = path.partition("/")
        name, _, verb = rest.partition(":")
        known = {("reports", ""), ("reports", "wait")} if rest else {("reports", ""), ("reports:watch", "")}
        if rest and (resource, verb) == ("traces", "complete"):
            return await self._complete(name, method, headers, scope, receive)
        if (resource, verb) not in known:
            return _error(404, "NOT_FOUND", "there is /v1/reports and /v1/traces/ID:complete")
        if method not in ("GET", "HEAD"):
            return _error(405, "INVALID_ARGUMENT", "this is only read", {"allow": "GET, HEAD"})
        if not self._hosts.may_read(headers.get(b"host")):
            return _misdirected()
        asked = _query(scope)
        if resource == "reports:watch":
            await self._watch(_filter(asked), receive, send, head=method == "HEAD")
            return None
        if not rest:
            return await self._list(asked)
        return _json(200, await self._report(name, verb, asked, receive))

    async def _report(self, trace_id: str, verb: str, asked: Mapping[str, str], receive: Receive) -> Any:
        if not verb:
            _only(asked, frozenset())
            return (await self._calls.get(trace_id)).json()
        _only(asked, frozenset({"timeout"}))
        waiting = asyncio.ensure_future(self._calls.wait(trace_id, _seconds(asked.get("timeout"))))
        return (await _unless_gone(waiting, receive)).json()

    async def _list(self, asked: dict[str, str]) -> Answer:
        size, token = asked.pop("page_size", "0"), asked.pop("page_token", "")
        if not re.fullmatch("[0-9]{1,9}", size):
            raise CallError("INVALID_ARGUMENT", "page_size is a number")
        page = await self._calls.page(_filter(asked), int(size), token)
        return _json(200, {"reports": [r.json() for r in page.reports], "next_page_token": page.next_token})

    async def _watch(self, wanted: Filter, receive: Receive, send: Send, *, head: bool) -> None:
        headers = {"content-type": "text/event-stream", **_PLAIN}
        fields = [(name.encode(), value.encode()) for name, value in headers.items()]
        if head:  # has no stream to wait for
            await send({"type": "http.response.start", "status": 200, "headers": fields})
            await send({"type": "http.response.body", "body": b""})
            return
        async with aclosing(self._calls.watch(wanted)) as reports:
            streaming = asyncio.ensure_future(_stream(reports, fields, send))
            with suppress(asyncio.CancelledError):
                await _unless_gone(streaming, receive)

    async def _complete(self, trace_id: str, method: str, headers: Headers, scope: Scope, receive: Receive) -> Answer:
        if method != "POST":
            return _error(405, "INVALID_ARGUMENT", "this is done by POST", {"allow": "POST"})
        if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != b"application/json":
            return _error(415, "INVALID_ARGUMENT", "the content type must be application/json")
        if not self._hosts.may_change(headers.get(b"host"), scope["server"]):
            return _misdirected()
        _only(_query(scope), frozenset())
        await _take_empty(receive)
        self._calls.complete(trace_id)
        return _json(200, {})


async def _stream(reports: AsyncIterator[StoredReport], fields: list[tuple[bytes, bytes]], send: Send) -> None:
    following = asyncio.ensure_future(anext(reports))  # watches from here on
    await asyncio.sleep(0)
    await send({"type": "http.response.start", "status": 200, "headers": fields})
    await send({"type": "http.response.body", "body": b": watching\n\n", "more_body": True})
    try:
        while True:
            done, _ = await asyncio.wait({following}, timeout=_ALIVE)
            text = b": still here\n\n"
            if done:
                text = f"event: report\ndata: {json.dumps(following.result().json())}\n\n".encode()
                following = asyncio.ensure_future(anext(reports))
            await send({"type": "http.response.body", "body": text, "more_body": True})
    except CallError as error:
        text = f"event: error\ndata: {json.dumps({'code': error.code, 'error': str(error)})}\n\n".encode()
        await send({"type": "http.response.body", "body": text})
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def _unless_gone(doing: asyncio.Future[Any], receive: Receive) -> Any:
    """What comes of it, unless the client leaves before. Raises CancelledError then."""
    leaving = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({doing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise asyncio.CancelledError
        return doing.result()
    finally:
        doing.cancel()
        leaving.cancel()
        await asyncio.gather(doing, leaving, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _take_empty(receive: Receive) -> None:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > _LARGEST:
            raise CallError("INVALID_ARGUMENT", "the body is an empty object")
        if not message.get("more_body", False):
            break
    try:
        empty = not body or orjson.loads(body) == {}  # nested however deep
    except ValueError:
        empty = False
    if not empty:
        raise CallError("INVALID_ARGUMENT", "the body is an empty object")


def _query(scope: Scope) -> dict[str, str]:
    try:
        return dict(parse_qsl(scope["query_string"].decode("ascii"), keep_blank_values=True, max_num_fields=20))
    except ValueError:
        raise CallError("INVALID_ARGUMENT", "the query can't be read") from None


def _only(asked: Mapping[str, str], known: frozenset[str]) -> None:
    if unknown := sorted(asked.keys() - known):
        raise CallError("INVALID_ARGUMENT", f"unknown parameter {', '.join(unknown)}")


def _filter(asked: Mapping[str, str]) -> Filter:
    _only(asked, _FILTER)
    if asked.get("verdict") not in (None, "pass", "fail", "unknown"):
        raise CallError("INVALID_ARGUMENT", "a verdict is pass, fail or unknown")
    return Filter(
        workflow=asked.get("workflow"),
        verdict=asked.get("verdict"),
        service=asked.get("service"),
        since_ms=_milliseconds(asked.get("since")),
    )


def _milliseconds(since: str | None) -> int | None:
    if since is None:
        return None
    try:
        at = datetime.fromisoformat(since.replace(" ", "+"))  # an unescaped plus of an offset
        if at.tzinfo is None:
            raise ValueError("no offset")
        return round(at.timestamp() * 1000)
    except (ValueError, OverflowError):
        raise CallError("INVALID_ARGUMENT", "since is a time by RFC 3339, such as 2026-01-31T12:00:00Z") from None


def _seconds(timeout: str | None) -> float:
    if timeout is None:
        return LONGEST_WAIT
    found = _TIMEOUT.fullmatch(timeout)
    if not found:
        raise CallError("INVALID_ARGUMENT", "a timeout is a number of seconds, such as 10s")
    return float(found[1])


def _misdirected() -> Answer:
    return _error(421, "INVALID_ARGUMENT", "the Host is not the address of this port")


def _json(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Answer:
    data = json.dumps(body).encode() + b"\n"
    return Answer(status, data, "application/json", {**_PLAIN, **(headers or {})})


def _error(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Answer:
    return _json(status, {"code": code, "error": message}, headers)
