"""What each backend is sent, as its documentation says that it wants it."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any
from uuid import UUID

import pytest

from onpath_collector.exporters.sinks import SinkSettings, open_sinks
from tests.collector.sinks.backend import (
    CREDENTIALS,
    ENDED,
    KEY,
    SPAN_ID,
    TRACE_ID,
    Backend,
    Request,
    document,
    evaluation,
    outcome,
)


async def sent(kind: str, *documents: dict[str, Any], root: bool = True, **environment: str) -> list[Request]:
    """The requests for these results, once all is sent."""
    async with Backend() as backend:
        sink = backend.sink(kind, environment)
        sink.export(outcome(*(documents or (document(),)), root=root))
        await sink.close(sink._clock() + 10)
        assert sink.counts.queued == 0
        assert not sink.counts.dropped
        return backend.requests


async def test_phoenix_annotates_the_trace() -> None:
    (request,) = await sent("phoenix", PHOENIX_API_KEY="px-1")
    assert (request.method, request.path) == ("POST", "/v1/trace_annotations?sync=true")
    assert request.headers["Authorization"] == "Bearer px-1"
    assert request.headers["User-Agent"].startswith("onpath/")
    (annotation,) = request.json["data"]
    metadata = annotation.pop("metadata")
    assert annotation == {
        "trace_id": TRACE_ID,
        "name": "seq",
        "annotator_kind": "CODE",
        "result": {"score": 0.5, "label": "fail", "explanation": "1/2 of the steps, in order."},
        "identifier": KEY,
    }
    assert metadata["onpath.workflow"] == "refund"
    assert metadata["onpath.verdict"] == "fail"


async def test_phoenix_annotates_the_span_of_an_agent_within_another_and_the_session() -> None:
    (inner,) = await sent("phoenix", root=False)
    assert inner.path == "/v1/span_annotations?sync=true"
    assert inner.json["data"][0]["span_id"] == SPAN_ID
    (session,) = await sent("phoenix", document(session="s-1"))
    assert session.path == "/v1/session_annotations?sync=true"
    assert session.json["data"][0]["session_id"] == "s-1"
    assert "trace_id" not in session.json["data"][0]


async def test_phoenix_takes_several_at_once_and_a_label_without_a_score() -> None:
    unknown = evaluation("elapsed", None, "unknown", reason="missing_root")
    (request,) = await sent("phoenix", document(evaluation(), unknown, evaluation("note")))
    results = [each["result"] for each in request.json["data"]]
    assert "score" not in results[1]
    assert results[1]["label"] == "unknown"
    assert request.json["data"][1]["metadata"]["onpath.reason"] == "missing_root"
    assert request.json["data"][2]["name"] == "onpath note"  # Phoenix keeps `note` for people


async def test_mlflow_looks_up_and_adds() -> None:
    looked_up, added = await sent("mlflow", MLFLOW_TRACKING_USERNAME="u", MLFLOW_TRACKING_PASSWORD="p")
    path = f"/api/3.0/mlflow/traces/tr-{TRACE_ID}"
    assert (looked_up.method, looked_up.path) == ("GET", path)
    assert (added.method, added.path) == ("POST", f"{path}/assessments")
    assert added.headers["Authorization"] == "Basic " + base64.b64encode(b"u:p").decode()
    assessment = added.json["assessment"]
    assert assessment["metadata"]["onpath.evaluation.key"] == KEY
    assert {name: assessment[name] for name in ("assessment_name", "source", "feedback", "rationale")} == {
        "assessment_name": "seq",
        "source": {"source_type": "CODE", "source_id": "onpath"},
        "feedback": {"value": 0.5},
        "rationale": "1/2 of the steps, in order.",
    }
    assert "span_id" not in assessment


async def test_mlflow_changes_what_is_there() -> None:
    async with Backend() as backend:
        there = {"assessment_id": "a-1", "metadata": {"onpath.evaluation.key": KEY}}
        other = {"assessment_id": "a-2"}
        backend.answer(200, {"trace": {"trace_info": {"assessments": [other, there]}}})
        sink = backend.sink("mlflow", {"MLFLOW_TRACKING_TOKEN": "t"})
        sink.export(outcome(document(evaluation(score=None, label="unknown"), revision=2)))
        await sink.close(sink._clock() + 10)
        changed = backend.requests[1]
    assert (changed.method, changed.path) == ("PATCH", f"/api/3.0/mlflow/traces/tr-{TRACE_ID}/assessments/a-1")
    assert changed.headers["Authorization"] == "Bearer t"
    assert changed.json["update_mask"] == "feedback,rationale,metadata"
    assert changed.json["assessment"]["feedback"] == {"value": "unknown"}


async def test_langfuse_scores() -> None:
    number, label = await sent("langfuse", document(evaluation(), evaluation("elapsed", None, "pass", key="f" * 32)))
    assert (number.method, number.path) == ("POST", "/api/public/scores")
    assert number.headers["Authorization"] == "Basic " + base64.b64encode(b"pk-lf-1:sk-lf-1").decode()
    body = number.json
    assert {name: body[name] for name in ("id", "traceId", "name", "value", "dataType", "timestamp")} == {
        "id": KEY,
        "traceId": TRACE_ID,
        "name": "seq",
        "value": 0.5,
        "dataType": "NUMERIC",
        "timestamp": "2023-11-14T22:13:20.123Z",  # the same for each revision, by which one replaces another
    }
    assert (label.json["value"], label.json["dataType"]) == ("pass", "CATEGORICAL")


async def test_langfuse_scores_of_spans_and_sessions() -> None:
    (inner,) = await sent("langfuse", root=False)
    assert (inner.json["traceId"], inner.json["observationId"]) == (TRACE_ID, SPAN_ID)
    (session,) = await sent("langfuse", document(session="s-1"))
    assert session.json["sessionId"] == "s-1"
    assert "traceId" not in session.json


async def test_langsmith_feedback() -> None:
    (request,) = await sent("langsmith", LANGSMITH_WORKSPACE_ID="w-1")
    assert (request.method, request.path) == ("POST", "/feedback")
    assert (request.headers["X-API-Key"], request.headers["X-Tenant-Id"]) == ("lsv2-1", "w-1")
    body = request.json
    assert UUID(body["run_id"]).bytes == bytes(8) + bytes.fromhex(SPAN_ID)
    assert UUID(body["id"]).hex == KEY
    assert (body["key"], body["score"], body["value"]) == ("seq", 0.5, "fail")
    assert body["comment"] == "1/2 of the steps, in order."


async def test_langsmith_feedback_that_is_there_is_changed() -> None:
    async with Backend() as backend:
        backend.answer(409, {"detail": "there"})
        sink = backend.sink("langsmith")
        sink.export(outcome(document(revision=2)))
        await sink.close(sink._clock() + 10)
        _, changed = backend.requests
    assert (changed.method, changed.path) == ("PATCH", f"/feedback/{UUID(hex=KEY)}")
    assert changed.json == {"score": 0.5, "value": "fail", "comment": "1/2 of the steps, in order."}


async def test_datadog_evaluation_metrics() -> None:
    checks = (evaluation("plan.used?"), evaluation("1st", None, "pass"), evaluation("scored", 0.25, "unknown"))
    (request,) = await sent("datadog", document(*checks))
    assert (request.method, request.path) == ("POST", "/api/intake/llm-obs/v2/eval-metric")
    assert request.headers["DD-API-KEY"] == "dd-1"
    assert request.json["data"]["type"] == "evaluation_metric"
    score, label, unknown = request.json["data"]["attributes"]["metrics"]
    assert score["join_on"] == {"span": {"span_id": str(int(SPAN_ID, 16)), "trace_id": str(int(TRACE_ID, 16))}}
    assert "source:otel" in score["tags"]
    assert "onpath.workflow:refund" in score["tags"]
    assert (score["ml_app"], score["timestamp_ms"], score["label"]) == ("refund-agent", 1700000005000, "plan_used_")
    assert (score["metric_type"], score["score_value"], score["assessment"]) == ("score", 0.5, "fail")
    assert score["reasoning"] == "1/2 of the steps, in order."
    assert (label["label"], label["metric_type"], label["categorical_value"]) == ("onpath_1st", "categorical", "pass")
    assert (unknown["metric_type"], unknown["score_value"], "assessment" in unknown) == ("score", 0.25, False)


async def test_datadog_has_no_place_for_unknown_without_a_score() -> None:
    async with Backend() as backend:
        sink = backend.sink("datadog", {"DD_LLMOBS_ML_APP": "shop"})
        sink.export(outcome(document(evaluation("elapsed", None, "unknown"), evaluation())))
        sink.export(outcome(document(evaluation("elapsed", None, "unknown"), span_id="00000000000000aa")))
        await sink.close(sink._clock() + 10)
        (request,) = backend.requests
    (metric,) = request.json["data"]["attributes"]["metrics"]
    assert metric["ml_app"] == "shop"
    assert (sink.counts.sent, dict(sink.counts.skipped)) == (1, {"no_score": 2})


async def test_webhook_signs_what_it_sends() -> None:
    async with Backend() as backend:
        sink = backend.sink("webhook", path="/hook?a=1")
        judged = outcome(document(), document(workflow="other"))
        sink.export(judged)
        await sink.close(sink._clock() + 10)
        first, second = sorted(backend.requests, key=lambda request: request.json["workflow"], reverse=True)
    assert (first.method, first.path) == ("POST", "/hook?a=1")
    assert first.body.decode() == judged.lines[0]
    stamp, digest = (part.split("=")[1] for part in first.headers["X-Onpath-Signature"].split(","))
    expected = hmac.new(b"whsec-1", stamp.encode() + b"." + first.body, hashlib.sha256).hexdigest()
    assert hmac.compare_digest(digest, expected)
    assert first.headers["X-Onpath-Key"] != second.headers["X-Onpath-Key"]


@pytest.mark.parametrize("kind", ["phoenix", "mlflow", "langfuse", "langsmith", "datadog", "webhook"])
async def test_text_that_utf8_cannot_hold_is_sent_all_the_same(kind: str) -> None:
    async with Backend() as backend:
        sink = backend.sink(kind)
        sink.export(outcome(document(evaluation(explanation="half \ud83d of a pair"))))
        await sink.close(sink._clock() + 10)
        assert b"half ? of a pair" in backend.requests[-1].body or b"\\ud83d" in backend.requests[-1].body
    assert sink.counts.sent == 1


def test_all_that_sinks_lack_is_told_at_once() -> None:
    every: Any = ["phoenix", "mlflow", "langfuse", "langsmith", "datadog", "webhook"]
    settings = [SinkSettings(type=kind) for kind in every]
    with pytest.raises(ValueError) as caught:
        open_sinks(settings, {})
    assert str(caught.value).splitlines() == [
        "results.sinks[0] (phoenix): it needs a url or PHOENIX_COLLECTOR_ENDPOINT in the environment",
        "results.sinks[1] (mlflow): it needs a url or MLFLOW_TRACKING_URI in the environment",
        "results.sinks[2] (langfuse): it needs LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY in the environment",
        "results.sinks[3] (langsmith): it needs LANGSMITH_API_KEY in the environment",
        "results.sinks[4] (datadog): it needs DD_API_KEY in the environment",
        "results.sinks[5] (webhook): it needs a url",
    ]
    with pytest.raises(ValueError, match="not a url"):
        open_sinks([SinkSettings(type="mlflow")], {"MLFLOW_TRACKING_URI": "databricks"})


async def test_the_environment_says_where_a_backend_is() -> None:
    places = {"PHOENIX_COLLECTOR_ENDPOINT": "http://phoenix:6006/", "DD_SITE": "datadoghq.eu"}
    every: Any = ["phoenix", "langfuse", "langsmith", "datadog"]
    sinks = open_sinks([SinkSettings(type=kind) for kind in every], {**CREDENTIALS, **places})
    assert [sink._sink.url for sink in sinks] == [
        "http://phoenix:6006",
        "https://cloud.langfuse.com",
        "https://api.smith.langchain.com",
        "https://api.datadoghq.eu",
    ]


def test_the_timestamp_is_of_what_was_judged() -> None:
    assert ENDED // 10**9 == 1_700_000_000
