"""MLflow: assessments of a trace. A trace's id there is `tr-` and its 32 hex digits.

MLflow keeps every assessment that it is given, so those of the trace are looked up first, by the evaluation's key in
their metadata: one that is there is changed in its place. A trace that is not there yet is 404, and is tried again.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

from onpath_collector.downstream.base import Delivered, Outcome
from onpath_collector.exporters.sinks.base import Http, Scored, Target, explained

_TRACES: Final = "/api/3.0/mlflow/traces"
_KEY: Final = "onpath.evaluation.key"
_CHANGED: Final = "feedback,rationale,metadata"


class MLflow:
    """Credentials, if the server asks for any: MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and _PASSWORD."""

    def __init__(self, target: Target) -> None:
        self.url = target.url("MLFLOW_TRACKING_URI")
        self.headers = _credentials(target)

    def holds(self, evaluation: Mapping[str, Any]) -> bool:
        return True

    async def send(self, http: Http, scored: Scored) -> Outcome:
        trace_id = f"tr-{scored.document['trace_id']}"
        looked_up = await http.call("GET", f"{_TRACES}/{trace_id}")
        if not isinstance(looked_up.outcome, Delivered):
            return looked_up.outcome
        there = _there(looked_up.json())
        for evaluation in scored.evaluations:
            assessment = _assessment(trace_id, scored, evaluation)
            path, known = f"{_TRACES}/{trace_id}/assessments", there.get(evaluation["key"])
            if known is None:
                reply = await http.call("POST", path, {"assessment": assessment})
            else:
                changed = {"assessment": {**assessment, "assessment_id": known}, "update_mask": _CHANGED}
                reply = await http.call("PATCH", f"{path}/{known}", changed)
            if not isinstance(reply.outcome, Delivered):
                return reply.outcome
        return Delivered()


def _there(answer: Any) -> dict[str, str]:
    """The ids of the trace's assessments by the key of the evaluation."""
    match answer:
        case {"trace": {"trace_info": {"assessments": [*found]}}}:
            return {
                each["metadata"][_KEY]: each["assessment_id"] for each in found if _KEY in (each.get("metadata") or {})
            }
        case _:
            return {}


def _assessment(trace_id: str, scored: Scored, evaluation: Mapping[str, Any]) -> dict[str, Any]:
    """The value is the score, or the label of an evaluation without one: MLflow shows numbers and texts."""
    score = evaluation["score"]
    metadata = scored.about(evaluation)
    found = {
        "assessment_name": evaluation["name"],
        "trace_id": trace_id,
        "source": {"source_type": "CODE", "source_id": "onpath"},
        "feedback": {"value": evaluation["label"] if score is None else score},
        "rationale": explained(evaluation),
        "metadata": metadata,
    }
    return found if scored.place.root else {**found, "span_id": scored.document["span_id"]}


def _credentials(target: Target) -> dict[str, str]:
    if token := target.optional("MLFLOW_TRACKING_TOKEN"):
        return {"Authorization": f"Bearer {token}"}
    user, password = target.optional("MLFLOW_TRACKING_USERNAME"), target.optional("MLFLOW_TRACKING_PASSWORD")
    if user and password:
        return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}
    return {}
