"""Phoenix: annotations of traces, of spans within them, of sessions (POST /v1/trace_annotations and its like).

With `sync`, Phoenix says at once whether it has the trace; without, it would keep what it can't place in memory.
An annotation is one by name, place and identifier: the identifier is the evaluation's key, so revisions replace it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onpath_collector.downstream.base import Outcome
from onpath_collector.exporters.sinks.base import Http, Scored, Target, explained

_RESERVED = "note"  # a name that Phoenix keeps for what people write


class Phoenix:
    """A server with authentication needs PHOENIX_API_KEY."""

    def __init__(self, target: Target) -> None:
        self.url = target.url("PHOENIX_COLLECTOR_ENDPOINT")
        api_key = target.optional("PHOENIX_API_KEY")
        self.headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}

    def holds(self, evaluation: Mapping[str, Any]) -> bool:
        return True

    async def send(self, http: Http, scored: Scored) -> Outcome:
        path, place = _place(scored)
        data = [{**place, **_annotation(scored, e)} for e in scored.evaluations]
        return (await http.call("POST", f"/v1/{path}?sync=true", {"data": data})).outcome


def _place(scored: Scored) -> tuple[str, dict[str, str]]:
    document = scored.document
    if document["session"] is not None:
        return "session_annotations", {"session_id": document["session"]}
    if scored.place.root:
        return "trace_annotations", {"trace_id": document["trace_id"]}
    return "span_annotations", {"span_id": document["span_id"]}


def _annotation(scored: Scored, evaluation: Mapping[str, Any]) -> dict[str, Any]:
    result = {"score": evaluation["score"], "label": evaluation["label"], "explanation": explained(evaluation)}
    name = evaluation["name"]
    return {
        "name": f"onpath {name}" if name == _RESERVED else name,
        "annotator_kind": "CODE",
        "result": {k: v for k, v in result.items() if v not in (None, "")},
        "metadata": scored.about(evaluation),
        "identifier": evaluation["key"],
    }
