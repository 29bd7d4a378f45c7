"""Datadog: evaluations of its agent observability (POST /api/intake/llm-obs/v2/eval-metric), joined on the span.

For spans that came over OTLP, ids are decimal and the tag `source:otel` says so. An evaluation is one by its label and
its span, and the newest counts: a revision has a later time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from onpath_collector.downstream.base import Outcome
from onpath_collector.exporters.sinks.base import Http, Scored, Target, explained

_PATH: Final = "/api/intake/llm-obs/v2/eval-metric"
_NOT_IN_LABELS: Final = re.compile(r"[^A-Za-z0-9_]")
_LONGEST_LABEL: Final = 200
_NO_APP: Final = "unknown"


class Datadog:
    """Needs DD_API_KEY; DD_SITE says which site, DD_LLMOBS_ML_APP the application if it is not the service's name."""

    def __init__(self, target: Target) -> None:
        site = target.optional("DD_SITE") or "datadoghq.com"
        self.url = target.url(default=f"https://api.{site}")
        (api_key,) = target.required("DD_API_KEY")
        self.headers = {"DD-API-KEY": api_key}
        self._app = target.optional("DD_LLMOBS_ML_APP")

    def holds(self, evaluation: Mapping[str, Any]) -> bool:
        """An assessment is pass or fail: an unknown one needs a score to be one."""
        return evaluation["score"] is not None or evaluation["label"] != "unknown"

    async def send(self, http: Http, scored: Scored) -> Outcome:
        app = self._app or scored.document["service"] or _NO_APP
        metrics = [_metric(scored, evaluation, app) for evaluation in scored.evaluations]
        body = {"data": {"type": "evaluation_metric", "attributes": {"metrics": metrics}}}
        return (await http.call("POST", _PATH, body)).outcome


def _metric(scored: Scored, evaluation: Mapping[str, Any], app: str) -> dict[str, Any]:
    document = scored.document
    span = {"span_id": str(int(document["span_id"], 16)), "trace_id": str(int(document["trace_id"], 16))}
    score, label = evaluation["score"], evaluation["label"]
    found = {
        "join_on": {"span": span},
        "ml_app": app,
        "timestamp_ms": round(datetime.fromisoformat(document["judged_at"]).timestamp() * 1000),
        "label": _label(evaluation["name"]),
        "reasoning": explained(evaluation),
        "tags": ["source:otel", *(f"{name}:{value}" for name, value in scored.about(evaluation).items())],
    }
    found |= (
        {"metric_type": "categorical", "categorical_value": label}
        if score is None
        else {"metric_type": "score", "score_value": score}
    )
    return found if label == "unknown" else {**found, "assessment": label}


def _label(name: str) -> str:
    """Letters, digits and underscores, a letter first."""
    found = _NOT_IN_LABELS.sub("_", name)
    return (found if found[:1].isalpha() else f"onpath_{found}")[:_LONGEST_LABEL]
