"""Runs in the environment of the SDKs: holds the bodies that onpath sent, by backend, to the SDKs' models.

Prints what is wrong, a line each.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any


def langfuse(body: dict[str, Any]) -> Iterator[str]:
    from langfuse.api.core.serialization import convert_and_respect_annotation_metadata
    from langfuse.api.scores.types.create_score_request import CreateScoreRequest

    read = convert_and_respect_annotation_metadata(object_=body, annotation=CreateScoreRequest, direction="read")
    made = CreateScoreRequest.model_validate(read)
    if made.model_extra:
        yield f"the SDK knows no {', '.join(made.model_extra)}"
    if (made.id, made.name) != (body["id"], body["name"]) or not (made.trace_id or made.session_id):
        yield f"the SDK reads {made!r}"


def langsmith(body: dict[str, Any]) -> Iterator[str]:
    from langsmith.integrations.otel import langsmith_run_id_from_otel_span_id
    from langsmith.schemas import FeedbackCreate

    made = FeedbackCreate.model_validate({"trace_id": None, **body})
    if unknown := set(body) - set(FeedbackCreate.model_fields):
        yield f"the SDK knows no {', '.join(sorted(unknown))}"
    if made.run_id != langsmith_run_id_from_otel_span_id(made.run_id.bytes[8:]):
        yield f"{made.run_id} is no run of a span that came over OTLP"


def datadog(body: dict[str, Any]) -> Iterator[str]:
    """The SDK has no model of the evaluation API; metrics of experiments have the same fields but for the joining."""
    from datadog_api_client.v2.model.llm_obs_experiment_metric import LLMObsExperimentMetric
    from datadog_api_client.v2.model.llm_obs_metric_assessment import LLMObsMetricAssessment
    from datadog_api_client.v2.model.llm_obs_metric_score_type import LLMObsMetricScoreType

    for metric in body["data"]["attributes"]["metrics"]:
        fields = {name: value for name, value in metric.items() if name not in ("join_on", "ml_app")}
        if unknown := set(fields) - set(LLMObsExperimentMetric.attribute_map):
            yield f"the SDK knows no {', '.join(sorted(unknown))}"
        fields["metric_type"] = LLMObsMetricScoreType(fields["metric_type"])
        if "assessment" in fields:
            fields["assessment"] = LLMObsMetricAssessment(fields["assessment"])
        LLMObsExperimentMetric(span_id=metric["join_on"]["span"]["span_id"], **fields)


CHECKS: dict[str, Callable[[dict[str, Any]], Iterator[str]]] = {
    "langfuse": langfuse,
    "langsmith": langsmith,
    "datadog": datadog,
}


def main() -> None:
    for backend, bodies in json.load(sys.stdin).items():
        for body in bodies:
            for problem in CHECKS[backend](body):
                print(f"{backend}: {problem}")


if __name__ == "__main__":
    main()
