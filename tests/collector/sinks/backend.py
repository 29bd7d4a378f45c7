"""A backend on loopback that keeps what it is sent and answers as it is told; and results to send to it."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from aiohttp import web

from onpath_collector.exporters.sinks import SinkSettings, open_sinks
from onpath_collector.exporters.sinks.base import Scored
from onpath_collector.exporters.sinks.delivery import SinkExporter
from onpath_collector.judging import Outcome, Place

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
SPAN_ID = "b7ad6b7169203331"
KEY = "7ce35b1702e760cfd998255314772f57"
ENDED = 1_700_000_000_123_456_789

CREDENTIALS = {
    "LANGFUSE_PUBLIC_KEY": "pk-lf-1",
    "LANGFUSE_SECRET_KEY": "sk-lf-1",
    "LANGSMITH_API_KEY": "lsv2-1",
    "DD_API_KEY": "dd-1",
    "ONPATH_WEBHOOK_SECRET": "whsec-1",
}


@dataclass(frozen=True)
class Request:
    method: str
    path: str  # with its query
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Backend:
    """`async with Backend() as backend`. `answers` are used up one a request; after them it says 200 and {}.

    A text is answered as HTML, all else as JSON.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.answers: deque[tuple[int, Any, dict[str, str]]] = deque()

    def answer(self, status: int, document: Any = None, **headers: str) -> None:
        self.answers.append((status, document, headers))

    async def __aenter__(self) -> Backend:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.requests.append(Request(request.method, request.path_qs, dict(request.headers), body))
        status, document, headers = self.answers.popleft() if self.answers else (200, {}, {})
        if isinstance(document, str):
            return web.Response(text=document, content_type="text/html", status=status, headers=headers)
        return web.json_response(document, status=status, headers=headers)

    def sink(self, kind: Any, environment: Mapping[str, str] | None = None, path: str = "") -> SinkExporter:
        (made,) = open_sinks([SinkSettings(type=kind, url=self.url + path)], {**CREDENTIALS, **(environment or {})})
        return made


def evaluation(name: str = "seq", score: float | None = 0.5, label: str = "fail", **more: Any) -> dict[str, Any]:
    return {
        "key": more.pop("key", KEY),
        "id": "9e50db7dde6d1295be1783a40102ccee",
        "name": name,
        "score": score,
        "label": label,
        "explanation": "1/2 of the steps, in order.",
        "findings": [],
        "alignment": [],
        **more,
    }


def document(*evaluations: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "trace_id": TRACE_ID,
        "span_id": SPAN_ID,
        "session": None,
        "service": "refund-agent",
        "agent": "refund",
        "workflow": "refund",
        "verdict": "fail",
        "complete": True,
        "release_reason": "root_ended",
        "revision": 1,
        "supersedes": None,
        "policy_fingerprint": "a515",
        "version": "0.1.0",
        "judged_at": "2023-11-14T22:13:25.000Z",
        "evaluations": list(evaluations) or [evaluation()],
        "coverage": {},
        **more,
    }


def outcome(*documents: dict[str, Any], root: bool = True, end_ns: int | None = ENDED) -> Outcome:
    lines = tuple(json.dumps(each) for each in documents)
    return Outcome(TRACE_ID, 1, "", lines=lines, places=tuple(Place(root, end_ns) for _ in lines))


def scored(*evaluations: dict[str, Any], root: bool = True, **more: Any) -> Scored:
    return Scored.of(json.dumps(document(*evaluations, **more)), Place(root, ENDED))
