"""Langfuse: scores (POST /api/public/scores). They may come before their trace.

A score with the same id and timestamp replaces the one before it: the id is the evaluation's key, the timestamp the
end of what was judged, which no revision changes.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from onpath_collector.downstream.base import Outcome
from onpath_collector.exporters.sinks.base import Http, Scored, Target, explained

_CLOUD: Final = "https://cloud.langfuse.com"


class Langfuse:
    """Needs LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY."""

    def __init__(self, target: Target) -> None:
        self.url = target.url("LANGFUSE_BASE_URL", "LANGFUSE_HOST", default=_CLOUD)
        public, secret = target.required("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY")
        self.headers = {"Authorization": "Basic " + base64.b64encode(f"{public}:{secret}".encode()).decode()}

    def holds(self, evaluation: Mapping[str, Any]) -> bool:
        return True

    async def send(self, http: Http, scored: Scored) -> Outcome:
        return await http.each("POST", "/api/public/scores", (_score(scored, e) for e in scored.evaluations))


def _score(scored: Scored, evaluation: Mapping[str, Any]) -> dict[str, Any]:
    number = evaluation["score"]
    found = {
        "id": evaluation["key"],
        **_place(scored),
        "name": evaluation["name"],
        "value": evaluation["label"] if number is None else number,
        "dataType": "CATEGORICAL" if number is None else "NUMERIC",
        "comment": explained(evaluation),
        "metadata": scored.about(evaluation),
    }
    if scored.place.end_ns is not None:
        ended = datetime.fromtimestamp(scored.place.end_ns // 1_000_000 / 1000, UTC)
        found["timestamp"] = ended.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return found


def _place(scored: Scored) -> dict[str, str]:
    document = scored.document
    if document["session"] is not None:
        return {"sessionId": document["session"]}
    if scored.place.root:
        return {"traceId": document["trace_id"]}
    return {"traceId": document["trace_id"], "observationId": document["span_id"]}
