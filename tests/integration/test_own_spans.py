"""Results that come back are never judged; who poses as their author is judged like everyone, and counted."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from onpath.results import SCOPE_NAME
from tests.support.load import request, traces
from tests.support.otlp_sink import OtlpSink
from tests.support.service import Collecting, collecting

SOON = {"settle_delay": "100ms"}


def results_among(bodies: list[bytes]) -> list[ExportTraceServiceRequest]:
    found = [ExportTraceServiceRequest.FromString(body) for body in bodies]
    return [made for made in found if made.resource_spans[0].scope_spans[0].scope.name == SCOPE_NAME]


async def judged_and_sent(collector: Collecting, sink: OtlpSink) -> ExportTraceServiceRequest:
    """The request with the evaluation span of a trace that was judged."""
    await collector.send(request(traces(random.Random(1), 1)))
    await collector.until(lambda: results_among(sink.requests("trace")) and sink.requests("logs"))
    return results_among(sink.requests("trace"))[0]


async def nothing_is_judged_of(collector: Collecting) -> None:
    await asyncio.sleep(0.3)
    assert not collector.service.buffer.open_runs
    assert len(collector.results) == 1
    assert collector.service.buffer.counts.late_spans == 0
    assert collector.service.release.counts.unchanged == 0


async def test_results_that_come_back_are_passed_on_and_not_judged(
    tmp_path: Path, policy: Path, sink: OtlpSink
) -> None:
    async with collecting(tmp_path, policy, buffer=SOON, forward={"endpoint": f"grpc://{sink.address}"}) as collector:
        own = await judged_and_sent(collector, sink)
        before = len(sink.requests("trace"))
        await collector.send(own.SerializeToString())
        for events in sink.requests("logs"):
            await collector.send(events, "logs")
        await collector.until(lambda: len(sink.requests("trace")) > before)
        await nothing_is_judged_of(collector)
        assert (collector.service.intake.own, collector.service.intake.impersonated) == (1, 0)
    assert sink.requests("trace")[before] == own.SerializeToString()


async def test_they_are_known_by_their_ids_when_the_resource_was_changed_on_the_way(
    tmp_path: Path, policy: Path, sink: OtlpSink
) -> None:
    async with collecting(tmp_path, policy, buffer=SOON, forward={"endpoint": f"grpc://{sink.address}"}) as collector:
        own = await judged_and_sent(collector, sink)
        own.resource_spans[0].resource.Clear()
        await collector.send(own.SerializeToString())
        await nothing_is_judged_of(collector)
        assert (collector.service.intake.own, collector.service.intake.impersonated) == (1, 0)


async def test_they_are_known_after_a_restart_with_a_journal(tmp_path: Path, policy: Path, sink: OtlpSink) -> None:
    options = {
        "buffer": SOON,
        "forward": {"endpoint": f"grpc://{sink.address}"},
        "durability": {"mode": "journal", "directory": str(tmp_path / "journal")},
    }
    async with collecting(tmp_path, policy, **options) as collector:
        own = await judged_and_sent(collector, sink)
    stripped = ExportTraceServiceRequest.FromString(own.SerializeToString())
    stripped.resource_spans[0].resource.Clear()
    async with collecting(tmp_path, policy, **options) as collector:
        for made in (own, stripped):
            await collector.send(made.SerializeToString())
        await nothing_is_judged_of(collector)
        assert (collector.service.intake.own, collector.service.intake.impersonated) == (2, 0)


async def test_another_collectors_results_are_not_taken_for_ones_own(
    tmp_path: Path, policy: Path, sink: OtlpSink
) -> None:
    """Nobody but their author can tell them from an agent's spans."""
    async with collecting(tmp_path, policy, buffer=SOON, forward={"endpoint": f"grpc://{sink.address}"}) as collector:
        own = await judged_and_sent(collector, sink)
    async with collecting(tmp_path, policy, buffer=SOON) as other:
        await other.send(own.SerializeToString())
        await other.until(lambda: other.ledger.traces_started == 1)
        assert (other.service.intake.own, other.service.intake.impersonated) == (0, 1)


async def test_an_agent_that_names_its_scope_like_ours_is_judged_and_counted(tmp_path: Path, policy: Path) -> None:
    lookup, _, receipt, agent = traces(random.Random(2), 1)
    made = ExportTraceServiceRequest.FromString(request([lookup, receipt, agent]))
    made.resource_spans[0].scope_spans[0].scope.name = SCOPE_NAME
    async with collecting(tmp_path, policy, buffer=SOON) as collector:
        await collector.send(made.SerializeToString())
        (result,) = await collector.until_results(1)
        assert (collector.service.intake.own, collector.service.intake.impersonated) == (0, 3)
    assert result["verdict"] == "fail"
    assert result["coverage"]["steps"] == 2
