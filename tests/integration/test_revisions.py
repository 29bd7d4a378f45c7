"""What belongs together and what comes late, through a whole collector: revisions, sessions, evidence, sub-traces."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.load import request, traces
from tests.support.otlp_sink import OtlpSink
from tests.support.service import Result, collecting

SOON = {"settle_delay": "100ms", "orphan_delay": "200ms"}


def run(seed: int = 1) -> list[Span]:
    """lookup_user, check_balance, send_receipt, and the agent above them."""
    return traces(random.Random(seed), 1)


def log_record(span: Span, name: str, **attributes: str) -> bytes:
    made = ExportLogsServiceRequest()
    record = made.resource_logs.add().scope_logs.add().log_records.add(event_name=name)
    record.trace_id, record.span_id, record.time_unix_nano = span.trace_id, span.span_id, 5_000
    for key, value in attributes.items():
        record.attributes.add(key=key).value.string_value = value
    return made.SerializeToString()


def mark(span: Span, key: str, value: str | bool) -> Span:
    held = span.attributes.add(key=key).value
    if isinstance(value, bool):
        held.bool_value = value
    else:
        held.string_value = value
    return span


def ids(result: Result, which: str) -> list[str]:
    return [evaluation[which] for evaluation in result["evaluations"]]


async def test_a_late_span_that_changes_the_verdict_is_a_revision(tmp_path: Path, policy: Path, sink: OtlpSink) -> None:
    lookup, balance, receipt, agent = run()
    forward = {"endpoint": f"grpc://{sink.address}"}
    async with collecting(tmp_path, policy, buffer=SOON, forward=forward) as collector:
        await collector.send(request([lookup, balance, agent]))
        await collector.until_results(1)
        await collector.send(request([receipt]))
        first, second = await collector.until_results(2)
        unrelated = Span(trace_id=agent.trace_id, span_id=b"12345678", parent_span_id=agent.span_id, name="GET /")
        await collector.send(request([unrelated]))
        await collector.until(lambda: collector.service.release.counts.unchanged == 1)
        assert len(collector.results) == 2  # late, and nothing to say
    assert (first["verdict"], first["revision"], first["supersedes"]) == ("fail", 1, None)
    assert (second["verdict"], second["revision"], second["supersedes"]) == ("pass", 2, 1)
    assert second["coverage"]["late"] == 1
    assert ids(first, "key") == ids(second, "key")
    assert not set(ids(first, "id")) & set(ids(second, "id"))
    assert collector.ledger.traces_started == collector.ledger.traces_judged == 1
    assert collector.ledger.spans_forwarded == 5  # late ones too
    evaluated = [span for span in sink.spans() if span.name == "onpath.evaluate refund"]
    assert len({span.span_id for span in evaluated}) == 2
    counts = collector.service.release.counts
    assert (+counts.judged, +counts.standing) == ({"fail": 1}, {"pass": 1})
    standing = collector.service.reports.verdicts
    assert +standing == {("refund", "pass"): 1}, "one run, one verdict"


async def test_after_the_window_late_spans_are_passed_on_and_counted(
    tmp_path: Path, policy: Path, sink: OtlpSink
) -> None:
    *tools, agent = run()
    forward = {"endpoint": f"grpc://{sink.address}"}
    async with collecting(tmp_path, policy, buffer={**SOON, "late_window": 0}, forward=forward) as collector:
        await collector.send(request([*tools[:2], agent]))
        await collector.until_results(1)
        await collector.send(request(tools[2:]))
        await collector.until(lambda: collector.ledger.spans_forwarded == 4)
    assert len(collector.results) == 1
    assert collector.service.buffer.counts.late_unjudged == 1


async def test_spans_of_a_trace_that_is_forgotten_are_unknown(tmp_path: Path, policy: Path) -> None:
    buffer = {**SOON, "settled_memory": 1, "idle_timeout": "200ms"}
    *tools, agent = run()
    async with collecting(tmp_path, policy, buffer=buffer) as collector:
        await collector.send(request([*tools[:2], agent]))
        await collector.until_results(1)
        await collector.send(request(run(2)))
        await collector.until_results(2)
        await collector.send(request(tools[2:]))
        *_, last = await collector.until_results(3)
    assert last["trace_id"] == agent.trace_id.hex()
    assert (last["verdict"], last["complete"], last["release_reason"]) == ("unknown", False, "idle")
    assert last["coverage"]["root"] is False


async def test_the_traces_of_a_session_are_judged_as_one_run(tmp_path: Path, policy: Path) -> None:
    buffer = {**SOON, "group_by": "session.id", "session_idle": "300ms"}
    (lookup, _, _, first), (_, balance, receipt, second) = run(1), run(2)
    for number, span in enumerate((lookup, balance, receipt)):
        span.start_time_unix_nano = number * 1000
        span.end_time_unix_nano = number * 1000 + 500
    second.start_time_unix_nano = 900
    for agent in (first, second):
        mark(agent, "session.id", "s-1")
    async with collecting(tmp_path, policy, buffer=buffer) as collector:
        await collector.send(request([lookup, first]))
        await asyncio.sleep(0.15)  # longer than a trace by itself would wait
        await collector.send(request([balance, receipt, second]))
        results = await collector.until_results(1)
        await asyncio.sleep(0.3)
        assert collector.results == results
    assert {result["session"] for result in results} == {"s-1"}
    assert {result["trace_id"] for result in results} == {first.trace_id.hex()}  # that of its earliest span
    assert sum(result["coverage"]["steps"] for result in results) == 3
    assert collector.ledger.traces_judged == 2


@pytest.mark.parametrize("declared", [False, True])
async def test_in_a_session_nothing_is_missing_above_a_declared_root(
    tmp_path: Path, policy: Path, declared: bool
) -> None:
    roots = {"agent.run": "yes"} if declared else {}
    buffer = {**SOON, "group_by": "session.id", "session_idle": "300ms", "root_attributes": roots}
    lookup, balance, _, agent = run()
    agent.parent_span_id = b"\x07" * 8  # of a request that is not traced here
    mark(mark(agent, "session.id", "s-1"), "agent.run", "yes")
    async with collecting(tmp_path, policy, buffer={**buffer, "idle_timeout": "600ms"}) as collector:
        await collector.send(request([lookup, balance, agent]))
        (result,) = await collector.until_results(1)
    assert (result["session"], result["complete"]) == ("s-1", declared)
    assert result["verdict"] == ("fail" if declared else "unknown")


@pytest.mark.parametrize("order", ["before", "after", "late"])
async def test_log_records_tell_of_steps(tmp_path: Path, policy: Path, order: str) -> None:
    lookup, balance, _, agent = run()
    record = log_record(agent, "codex.tool_result", tool_name="send_receipt", call_id="c1")
    async with collecting(tmp_path, policy, buffer=SOON) as collector:
        if order == "before":
            await collector.send(record, "logs")
        await collector.send(request([lookup, balance, agent]))
        if order == "late":
            await collector.until_results(1)
        if order != "before":
            await collector.send(record, "logs")
        *_, result = await collector.until_results(2 if order == "late" else 1)
    assert (result["verdict"], result["revision"]) == ("pass", 2 if order == "late" else 1)
    assert result["coverage"]["steps"] == 3


async def test_a_declared_root_ends_a_sub_trace_of_its_own(tmp_path: Path, policy: Path) -> None:
    buffer = {**SOON, "root_attributes": {"gen_ai.operation.name": "invoke_agent"}, "idle_timeout": "10m"}
    *tools, agent = run()
    agent.parent_span_id = b"stillopn"
    async with collecting(tmp_path, policy, buffer=buffer) as collector:
        await collector.send(request([*tools, agent]))
        (result,) = await collector.until_results(1)
        assert (result["verdict"], result["complete"], result["release_reason"]) == ("pass", True, "root_ended")
        outer = Span(trace_id=agent.trace_id, span_id=b"stillopn", name="POST /refunds")
        await collector.send(request([outer]))
        await collector.until(lambda: not collector.service.buffer.open_runs)
    assert collector.ledger.traces_judged == collector.ledger.traces_started


async def test_a_mark_ends_a_trace_at_once(tmp_path: Path, policy: Path) -> None:
    *tools, agent = run()
    async with collecting(tmp_path, policy, buffer={"settle_delay": "10m"}) as collector:
        await collector.send(request([*tools, mark(agent, "onpath.trace.complete", True)]))
        (result,) = await collector.until_results(1)
    assert (result["verdict"], result["complete"], result["release_reason"]) == ("pass", True, "marked")


async def test_a_mark_with_a_parent_missing_is_not_complete(tmp_path: Path, policy: Path) -> None:
    *tools, agent = run()
    tools[0].parent_span_id = b"absent.."
    async with collecting(tmp_path, policy, buffer={"settle_delay": "10m"}) as collector:
        await collector.send(request([*tools, mark(agent, "onpath.trace.complete", True)]))
        (result,) = await collector.until_results(1)
    assert (result["complete"], result["release_reason"]) == (False, "marked")
    assert result["verdict"] != "pass"


async def test_after_a_mark_a_trace_may_go_on(tmp_path: Path, policy: Path) -> None:
    lookup, balance, receipt, agent = run()
    buffer = {"settle_delay": "100ms", "idle_timeout": "200ms", "late_window": 0}
    async with collecting(tmp_path, policy, buffer=buffer) as collector:
        await collector.send(request([lookup, balance, mark(agent, "onpath.trace.complete", True)]))
        await collector.until_results(1)
        await collector.send(request([receipt]))
        first, second = await collector.until_results(2)
    assert (first["verdict"], first["revision"]) == ("fail", 1)
    assert (second["verdict"], second["revision"], second["supersedes"]) == ("unknown", 2, 1)
