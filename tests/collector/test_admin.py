"""The admin port: probes, pages, tokens; and the page of metrics, which is OpenMetrics and adds up."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as older_text
from prometheus_client.samples import Sample

from onpath.results_metrics import Measure, Measured
from onpath_collector.admin import Admin, Health, reading
from onpath_collector.buffer import BufferSettings, TraceBuffer
from onpath_collector.downstream import Delivered, Retry, Signal
from onpath_collector.exporters.prometheus import PrometheusResults
from onpath_collector.forward import Forwarder, ForwardSettings
from onpath_collector.http_server import Answer
from onpath_collector.intake import Intake
from onpath_collector.judging import Outcome
from onpath_collector.otlp import Wanted
from onpath_collector.own_metrics import OwnMetrics, Parts
from onpath_collector.receivers.base import Refused
from onpath_collector.receivers.otlp_http import HttpReceiver, HttpSettings
from onpath_collector.release import Release
from onpath_collector.security import Certificates, Tokens
from onpath_collector.telemetry import Telemetry
from tests.support.http_peers import JSON, HttpClient, http_client
from tests.support.requests import metrics, traces
from tests.support.tls import Authority, secret

PAGES = {"/page": reading(lambda accept: Answer(200, f"a page; {accept}".encode()))}


@asynccontextmanager
async def serving(health: Health | None = None, **security: Any) -> AsyncIterator[str]:
    admin = Admin("127.0.0.1:0", health or Health("ready"), PAGES, **security)
    try:
        yield await admin.start()
    finally:
        await admin.stop()
        await admin.stop()


@pytest.mark.parametrize(("state", "status"), [("starting", 503), ("ready", 200), ("stopping", 503)])
async def test_probes_are_told_how_it_stands(state: Any, status: int) -> None:
    async with serving(Health(state)) as address, http_client(address) as client:
        reply = await client.request("GET", "/healthz")
        assert (reply.status, reply.content_type, json.loads(reply.body)) == (status, JSON, {"status": state})
        assert (await client.request("HEAD", "/healthz")).status == status
        assert (await client.request("GET", "/livez")).status == 200


async def test_what_is_not_there_is_told() -> None:
    async with serving() as address, http_client(address) as client:
        reply = await client.request("GET", "/nothing")
        assert (reply.status, json.loads(reply.body)) == (404, {"error": "there is /healthz, /livez, /page"})
        reply = await client.request("POST", "/page", b"x")
        assert (reply.status, reply.headers["Allow"]) == (405, "GET, HEAD")
        assert (await client.request("GET", "/page", headers={"Accept": "x/y"})).body == b"a page; x/y"


async def test_with_tokens_only_probes_are_open(tmp_path: Path) -> None:
    ours = Authority(tmp_path)
    security = {"certificates": Certificates(*ours.issue()), "tokens": Tokens([secret(tmp_path / "token", "letmein")])}
    async with serving(**security) as address, http_client(address, ours.client_context()) as client:
        assert (await client.request("GET", "/healthz")).status == 200
        reply = await client.request("GET", "/page")
        assert (reply.status, reply.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert (await client.request("GET", "/page", headers={"Authorization": "Bearer letmein"})).status == 200


# Metrics


def samples(telemetry: Telemetry) -> dict[str, Sample]:
    """By name and the values of labels, in order of these."""
    text, content_type = telemetry.page("*/*")
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    families = text_string_to_metric_families(text.decode())
    return {" ".join([s.name, *sorted(s.labels.values())]): s for family in families for s in family.samples}


class Downstream:
    """Takes every other request."""

    def __init__(self) -> None:
        self.asked = 0

    async def send(self, request: bytes) -> Delivered | Retry:
        self.asked += 1
        return Delivered(rejected=1) if self.asked % 2 else Retry("unavailable")

    async def close(self) -> None: ...


class Whole:
    """The parts of a collector without workers: what is released is not judged by a policy."""

    def __init__(self) -> None:
        self.telemetry = Telemetry()
        self.now = 1000.0
        clock = lambda: self.now  # noqa: E731
        self.buffer = TraceBuffer(BufferSettings(memory_limit=1 << 30))
        settings = ForwardSettings(queue_requests=3)
        self.forwarders: dict[Signal, Forwarder] = {
            signal: Forwarder(settings, Downstream()) for signal in ("traces", "metrics")
        }
        self.release = Release(
            self.buffer, None, clock=clock, wall_clock=lambda: 0, parallel=1, queue=10, observer=self.telemetry
        )
        self.intake = Intake(self.buffer, self.forwarders, Wanted(), lambda: None, clock=clock)
        self.receiver = HttpReceiver(HttpSettings(endpoint="127.0.0.1:0"), self.intake)
        parts = Parts([self.receiver], self.intake, self.buffer, self.release, self.forwarders, None, 10)
        self.telemetry.registry.register(OwnMetrics(parts))

    def page(self) -> dict[str, float]:
        return {place: sample.value for place, sample in samples(self.telemetry).items()}


@asynccontextmanager
async def whole() -> AsyncIterator[tuple[Whole, HttpClient]]:
    made = Whole()
    async with http_client(await made.receiver.start()) as client:
        try:
            yield made, client
        finally:
            await made.receiver.stop()
            for forwarder in made.forwarders.values():
                await forwarder.close()


def adds_up(page: dict[str, float]) -> None:
    def total(name: str) -> float:
        return sum(value for place, value in page.items() if place.split()[0] == name)

    spans = total("onpath_spans_received_total")
    assert spans == total("onpath_receiver_accepted_spans_total") + total("onpath_receiver_rejected_spans_total")
    assert (
        spans
        == total("onpath_spans_forwarded_total") + total("onpath_spans_dropped_total") + page["onpath_spans_queued"]
    )
    judged = total("onpath_traces_judged_total") + total("onpath_traces_dropped_total") + page["onpath_traces_open"]
    assert total("onpath_traces_started_total") == judged


async def test_metrics_say_what_happened_and_add_up() -> None:
    async with whole() as (made, client):
        adds_up(made.page())
        assert (await client.send("traces", traces(1, 2, 3))).status == 200
        assert (await client.send("traces", traces(4, trace=2))).status == 200
        assert (await client.send("traces", traces(5, trace=0))).status == 200
        assert (await client.send("traces", traces(6, 7))).status == 503  # the queue is full
        assert (await client.send("traces", b"\x0a")).status == 400
        assert (await client.send("metrics", metrics())).status == 200
        page = made.page()
        adds_up(page)
        assert page["onpath_receiver_accepted_spans_total http"] == 4
        assert page["onpath_receiver_rejected_spans_total http"] == 1
        assert page["onpath_receiver_refused_spans_total http queue_full"] == 2
        assert page["onpath_receiver_accepted_metric_points_total http"] == 1
        assert page["onpath_receiver_accepted_requests_total http traces"] == 3
        assert page["onpath_receiver_refused_requests_total http queue_full traces"] == 1
        assert page["onpath_receiver_failed_requests_total http traces undecodable"] == 1
        assert page["onpath_spans_invalid_total trace_id"] == 1
        assert (page["onpath_traces_open"], page["onpath_buffer_traces"]) == (2, 2)
        assert page["onpath_buffer_bytes"] > 0
        assert page["onpath_exporter_queue_size forward traces"] == 3
        assert page["onpath_exporter_queue_capacity forward traces"] == 3

        made.forwarders["traces"].start()
        await made.forwarders["traces"].drain(0.0)
        made.now += 5
        await made.release.stop(made.now)
        page = made.page()
        adds_up(page)
        assert page["onpath_traces_judged_total no_policy"] == 2
        assert page["onpath_buffer_releases_total shutdown"] == 2
        assert page["onpath_buffer_deadline_lag_seconds_count"] == 2


async def test_the_process_is_measured() -> None:
    page = Whole().page()
    assert page["onpath_process_resident_memory_bytes"] > 1 << 20
    assert page["onpath_process_cpu_seconds_total"] > 0


def test_older_text_is_given_where_only_that_is_understood() -> None:
    text, content_type = Telemetry().page("text/plain;version=0.0.4;q=0.5")
    assert content_type.startswith("text/plain")
    assert list(older_text(text.decode()))
    prometheus = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
    assert Telemetry().page(prometheus)[1].startswith("application/openmetrics-text; version=1.0.0")


def test_results_are_counted_with_the_spans_they_are_about() -> None:
    telemetry = Telemetry()
    exporter = PrometheusResults(telemetry.registry)
    ids = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")
    found: tuple[Measure, ...] = (
        ("onpath.verdicts", 1, ("refund", "fail")),
        ("onpath.evaluations", 1, ("refund", "seq", "fail")),
        ("onpath.evaluation.score", 0.4, ("refund", "seq")),
        ("onpath.findings", 1, ("refund", "missing_step", "check")),
        ("onpath.revised", 1, ("refund", "unknown", "fail")),
    )
    exporter.export(Outcome("t", 1, "s", measured=(Measured(found, *ids),)))
    page = samples(telemetry)
    exemplar = page["onpath_verdicts_total fail refund"].exemplar
    assert exemplar is not None
    assert exemplar.labels == {"trace_id": ids[0], "span_id": ids[1]}
    assert page["onpath_evaluations_total fail refund seq"].value == 1
    assert page["onpath_findings_total check missing_step refund"].value == 1
    assert page["onpath_revised_total fail refund unknown"].value == 1
    assert page["onpath_evaluation_score_bucket 0.4 refund seq"].exemplar
    assert page["onpath_evaluation_score_bucket 0.3 refund seq"].value == 0


def test_checks_are_timed_by_workflow_and_validator() -> None:
    telemetry = Telemetry()
    telemetry.judged({("refund", "seq"): 0.002})
    assert samples(telemetry)["onpath_evaluation_duration_seconds_sum refund seq"].value == 0.002


async def test_items_of_a_refused_request_are_counted() -> None:
    made = Whole()
    for number in (1, 2, 3):
        await made.intake.traces(traces(number))
    with pytest.raises(Refused) as refused:
        await made.intake.traces(traces(4, 5))
    assert (refused.value.reason, refused.value.items) == ("queue_full", 2)
