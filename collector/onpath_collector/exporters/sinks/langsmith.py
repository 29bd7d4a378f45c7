"""LangSmith: feedback on a run (POST /feedback). The run of a span has its id, zeros before it, as a UUID.

The feedback's id is the evaluation's key as a UUID; one that is there already (409) is changed in its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from onpath_collector.downstream.base import Delivered, Outcome
from onpath_collector.exporters.sinks.base import Http, Scored, Target, explained

_CLOUD: Final = "https://api.smith.langchain.com"
_CHANGED: Final = ("score", "value", "comment")


class LangSmith:
    """Needs LANGSMITH_API_KEY; a key for several workspaces also LANGSMITH_WORKSPACE_ID."""

    def __init__(self, target: Target) -> None:
        self.url = target.url("LANGSMITH_ENDPOINT", default=_CLOUD)
        (api_key,) = target.required("LANGSMITH_API_KEY")
        workspace = target.optional("LANGSMITH_WORKSPACE_ID")
        self.headers = {"X-API-Key": api_key, **({"X-Tenant-Id": workspace} if workspace else {})}

    def holds(self, evaluation: Mapping[str, Any]) -> bool:
        return True

    async def send(self, http: Http, scored: Scored) -> Outcome:
        for evaluation in scored.evaluations:
            feedback = _feedback(scored, evaluation)
            reply = await http.call("POST", "/feedback", feedback)
            if reply.status == 409:
                changed = {name: feedback[name] for name in _CHANGED}
                reply = await http.call("PATCH", f"/feedback/{feedback['id']}", changed)
            if not isinstance(reply.outcome, Delivered):
                return reply.outcome
        return Delivered()


def run_id(span_id: str) -> UUID:
    """Of the run that LangSmith makes of a span with this id (16 hex digits)."""
    return UUID(hex=span_id.rjust(32, "0"))


def _feedback(scored: Scored, evaluation: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": str(UUID(hex=evaluation["key"])),
        "run_id": str(run_id(scored.document["span_id"])),
        "key": evaluation["name"],
        "score": evaluation["score"],
        "value": evaluation["label"],
        "comment": explained(evaluation),
        "feedback_source": {"type": "api", "metadata": scored.about(evaluation)},
    }
