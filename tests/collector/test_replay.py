"""After a crash: what was acknowledged is judged and passed on, what was said is said again under the same ids."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from onpath_collector.journal.records import Ending
from onpath_collector.journal.store import Marks
from tests.collector.journalled import Journalled, journalled, reasons

SETTLE, IDLE = 2.0, 120.0
NONE = 0


def request(*spans: tuple[int, int, int], **attributes: str) -> bytes:
    """Of (trace, span, parent) each, 0 for no parent; the attributes are on each of them."""
    made = ExportTraceServiceRequest()
    inside = made.resource_spans.add().scope_spans.add()
    for trace, number, parent in spans:
        span = inside.spans.add(trace_id=trace.to_bytes(16, "big"), span_id=number.to_bytes(8, "big"), name="x")
        span.parent_span_id = parent.to_bytes(8, "big") if parent else b""
        span.start_time_unix_nano = span.end_time_unix_nano = number
        for key, value in attributes.items():
            span.attributes.add(key=key.replace("_", ".")).value.string_value = value
    return made.SerializeToString()


def log(trace: int, span: int) -> bytes:
    made = ExportLogsServiceRequest()
    record = made.resource_logs.add().scope_logs.add().log_records.add(event_name="content")
    record.trace_id, record.span_id = trace.to_bytes(16, "big"), span.to_bytes(8, "big")
    return made.SerializeToString()


async def test_a_trace_that_was_open_is_recovered() -> None:
    async with journalled() as (first, folder):
        await first.intake.traces(request((1, 1, 2)))
        await first.intake.traces(request((1, 2, NONE)))
        second = await first.crash(folder())
        found = await second.start()
        assert (found.requests, found.unreadable) == (2, 0)
        await second.walk(SETTLE)
        await second.judged()
        assert reasons(second.exits.reports) == [("recovered", 1, [1, 2])]
        await second.written()
        assert second.journal.requests == 0
        await second.stop()


async def test_one_that_was_released_ends_for_the_same_reason_with_the_same_spans() -> None:
    async with journalled() as (first, folder):
        first.exits.prompt = False
        await first.intake.traces(request((1, 1, NONE), (2, 2, 9)))
        await first.walk(SETTLE)
        await first.walk(IDLE)
        await first.judged()
        second = await first.crash(folder())
        await second.start()
        await second.judged()
        assert reasons(first.exits.reports) == [("root_ended", 1, [1]), ("idle", 1, [2])]
        assert sorted(second.exits.reports, key=lambda r: str(r["trace"])) == first.exits.reports
        await second.stop()


async def test_one_that_was_not_judged_in_time_ends_as_it_would_have() -> None:
    async with journalled() as (first, folder):
        await first.intake.traces(request((1, 1, NONE)))
        await first.walk(SETTLE)  # released, and never judged
        second = await first.crash(folder())
        await second.start()
        await second.judged()
        assert reasons(second.exits.reports) == [("root_ended", 1, [1])]
        await second.stop()


async def test_one_that_was_settled_is_not_judged_again_though_another_keeps_its_request() -> None:
    async with journalled() as (first, folder):
        await first.intake.traces(request((1, 1, NONE), (2, 2, 9)))
        await first.walk(SETTLE)
        await first.judged()
        assert reasons(first.exits.reports) == [("root_ended", 1, [1])]
        second = await first.crash(folder())
        await second.start()
        await second.intake.traces(request((1, 3, 1)))  # late, and its bytes are gone
        await second.walk(IDLE)
        await second.judged()
        assert reasons(second.exits.reports) == [("recovered", 1, [2])]
        assert second.buffer.counts.late_unjudged == 1
        await second.stop()


async def test_revisions_are_numbered_as_they_were() -> None:
    async with journalled() as (first, folder):
        first.exits.prompt = False
        await first.intake.traces(request((1, 1, NONE)))
        await first.walk(SETTLE)
        await first.judged()
        await first.intake.traces(request((1, 2, 1)))
        await first.walk(SETTLE)
        await first.judged()
        await first.intake.traces(request((1, 3, 1)))
        second = await first.crash(folder())
        second.judge.allow(2)
        await second.start()
        await second.until_reports(2)
        assert second.exits.reports == first.exits.reports
        assert reasons(second.exits.reports) == [("root_ended", 1, [1]), ("root_ended", 2, [1, 2])]
        await second.walk(SETTLE)
        await second.judged()
        assert reasons(second.exits.reports[2:]) == [("recovered", 3, [1, 2, 3])]
        await second.stop()


async def test_a_second_crash_changes_nothing() -> None:
    async with journalled() as (first, folder):
        first.exits.prompt = False
        await first.intake.traces(request((1, 1, NONE), (2, 2, 9)))
        await first.walk(SETTLE)
        await first.judged()
        await first.intake.traces(request((1, 3, 1)))
        await first.walk(SETTLE)
        await first.judged()
        second = await first.crash(folder())
        second.exits.prompt = False
        second.judge.allow(10)
        await second.start()
        await second.judged()
        third = await second.crash(folder())
        third.judge.allow(10)
        await third.start()
        await third.judged()
        assert first.exits.reports == second.exits.reports == third.exits.reports
        assert reasons(third.exits.reports) == [("root_ended", 1, [1]), ("root_ended", 2, [1, 3])]
        await third.walk(IDLE)
        await third.judged()
        await third.written()
        assert third.journal.requests == 0
        await third.stop()


async def test_a_marked_trace_goes_on_after_a_crash_as_unknown() -> None:
    async with journalled() as (first, folder):
        made = ExportTraceServiceRequest.FromString(request((1, 1, NONE)))
        (span,) = made.resource_spans[0].scope_spans[0].spans
        span.attributes.add(key="onpath.trace.complete").value.bool_value = True
        await first.intake.traces(made.SerializeToString())
        await first.walk(0)
        await first.judged()
        assert reasons(first.exits.reports) == [("marked", 1, [1])]
        second = await first.crash(folder())
        await second.start()
        await second.intake.traces(request((1, 2, NONE)))
        await second.walk(SETTLE)
        await second.judged()
        (report,) = second.exits.reports
        assert (report["revision"], report["unknown"]) == (2, "earlier_spans_gone")
        await second.stop()


async def test_sub_traces_of_declared_roots_end_as_they_did() -> None:
    root = {"kind": "agent"}
    async with journalled(root_attributes={"kind": "agent"}) as (first, folder):
        for spans in (request((1, 9, 8)), request((1, 1, 5)), request((1, 5, 8), **root)):
            await first.intake.traces(spans)
        await first.walk(SETTLE)
        await first.judged()
        await first.intake.traces(request((1, 2, 5)))
        await first.walk(SETTLE)
        await first.judged()
        assert reasons(first.exits.reports) == [("root_ended", 1, [1, 5]), ("root_ended", 2, [1, 2, 5])]
        second = await first.crash(folder())
        second.judge.allow(10)
        await second.start()
        await second.judged()
        assert reasons(second.exits.reports)[-1] == reasons(first.exits.reports)[-1]
        await second.intake.traces(request((1, 8, NONE)))
        await second.walk(10)
        await second.judged()
        assert second.exits.reports[-1]["reason"] == "recovered"
        assert second.exits.reports[-1]["root"] is None
        await second.written()
        assert second.journal.requests == 0
        await second.stop()


async def test_the_traces_of_a_session_come_back_together() -> None:
    async with journalled(group_by="session.id", session_idle=5.0) as (first, folder):
        first.exits.prompt = False
        await first.intake.traces(request((1, 1, NONE), session_id="s"))
        await first.intake.traces(request((2, 2, NONE), session_id="s"))
        await first.walk(5)
        await first.judged()
        await first.intake.traces(request((3, 3, NONE), session_id="open"))
        second = await first.crash(folder())
        await second.start()
        await second.walk(5)
        await second.judged()
        assert [(r["session"], *reasons([r])[0]) for r in second.exits.reports] == [
            ("s", "root_ended", 1, [1, 2]),
            ("open", "recovered", 1, [3]),
        ]
        await second.stop()


async def test_log_records_come_back_as_evidence() -> None:
    async with journalled() as (first, folder):
        await first.intake.traces(request((1, 1, NONE)))
        await first.intake.logs(log(1, 1))
        second = await first.crash(folder())
        await second.start()
        await second.walk(SETTLE)
        await second.judged()
        assert [(r["logs"], r["spans"]) for r in second.exits.reports] == [(1, [1])]
        await second.stop()


async def test_log_records_that_came_before_their_spans_come_back_too() -> None:
    async with journalled() as (first, folder):
        await first.intake.logs(log(1, 1))
        await first.intake.logs(log(2, 2))
        second = await first.crash(folder())
        await second.start()
        await second.intake.traces(request((1, 1, NONE)))
        await second.walk(SETTLE)
        await second.judged()
        assert [(r["logs"], r["spans"]) for r in second.exits.reports] == [(1, [1])]
        await second.written()
        assert second.journal.requests == 1
        await second.walk(IDLE)  # the other one has waited long enough
        assert second.journal.requests == 0
        await second.stop()


async def test_what_the_downstream_has_is_not_sent_again() -> None:
    async with journalled() as (first, folder):
        one, two = request((1, 1, NONE)), request((2, 2, NONE))
        await first.intake.traces(one)
        await asyncio.sleep(0.01)
        first.downstream.away = True
        await first.intake.traces(two)
        assert first.downstream.requests == [one]
        second = await first.crash(folder())
        found = await second.start()
        assert (found.requests, found.unsent) == (2, 1)
        await second.stop()
        assert second.downstream.requests == [two]
        assert second.intake.sums()["spans_received"] == 1  # it was never counted as passed on


async def test_what_stays_at_a_stop_is_there_at_the_next_start() -> None:
    async with journalled() as (first, _):
        first.downstream.away = True
        await first.intake.traces(request((1, 1, 9)))
        first.judge.allow(1)
        await first.stop()
        assert reasons(first.exits.reports) == [("shutdown", 1, [1])]
        assert first.intake.sums()["spans_queued"] == 1
        second = Journalled(first.folder)
        found = await second.start()
        assert (found.requests, found.unsent) == (1, 1)
        await second.stop()
        assert second.exits.reports == []
        assert len(second.downstream.requests) == 1
        third = Journalled(first.folder)
        assert (await third.start()).requests == 0
        await third.stop()


async def test_what_comes_back_is_not_taken_for_ours_no_more_than_before() -> None:
    async with journalled() as (first, folder):
        await first.intake.traces(request((1, 1, NONE)))
        await first.walk(SETTLE)
        await first.judged()
        ours = next(iter(first.own_spans._young))
        second = await first.crash(folder())
        await second.start()
        assert ours in second.own_spans
        assert first.journal.instance == second.journal.instance
        await second.stop()


async def test_where_spans_may_be_lost_nothing_is_complete() -> None:
    async with journalled() as (first, folder):
        first.exits.prompt = False
        await first.intake.traces(request((1, 1, NONE)))
        await first.walk(SETTLE)
        await first.judged()
        second = await first.crash(folder())
        second.journal.contents.damaged = True
        await second.start()
        await second.walk(SETTLE)
        await second.judged()
        assert reasons(second.exits.reports) == [("recovered", 1, [1])]
        await second.stop()


async def test_a_request_that_nobody_can_decode_is_passed_on() -> None:
    async with journalled() as (first, folder):
        first.downstream.away = True
        await first.journal.append("traces", 1, b"\xff", lambda number: first.journal.hold(number, 0, waits=True))
        second = await first.crash(folder())
        await second.start()
        await second.stop()
        assert second.downstream.requests == [b"\xff"]
        assert second.journal.requests == 0


async def test_when_it_takes_long_it_tells_how_far_it_is(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "onpath")
    async with journalled() as (first, folder):
        for number in range(1, 6):
            await first.intake.traces(request((number, number, NONE)))
        second = await first.crash(folder())
        clock = count(100.0, 3.0)
        await second.start(lambda: next(clock))
        await second.stop()
    told = [r.getMessage() for r in caplog.records if "so far" in r.getMessage()]
    assert told
    assert all(re.fullmatch("[1-4] of 5 requests are back from the journal so far", line) for line in told)


async def test_until_all_is_back_senders_are_told_to_come_later() -> None:
    async with journalled() as (first, folder):
        second = await first.crash(folder())
        assert second.intake.closed
        await second.journal.close()


# The law


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, Any]]:
    spans = st.tuples(st.integers(1, 3), st.sampled_from([NONE, 50, 51]))
    op = st.one_of(
        st.tuples(st.just("push"), st.lists(spans, min_size=1, max_size=3)),
        st.tuples(st.just("walk"), st.sampled_from([0.5, SETTLE, 15.0, IDLE])),
        st.tuples(st.just("judge"), st.integers(1, 3)),
        st.tuples(st.just("send"), st.none()),
        st.tuples(st.just("away"), st.booleans()),
    )
    return draw(st.lists(op, min_size=1, max_size=14))


@settings(max_examples=25, deadline=None)
@given(histories())
def test_whenever_it_crashes_nothing_is_lost_and_nothing_is_said_otherwise(history: Sequence[tuple[str, Any]]) -> None:
    asyncio.run(_crash_after(history))


async def _crash_after(history: Sequence[tuple[str, Any]]) -> None:
    async with journalled() as (first, folder):
        first.exits.prompt = False
        number, sent, traces = 0, [], set()
        for kind, value in history:
            if kind == "push":
                spans = [(trace, number + i, parent) for i, (trace, parent) in enumerate(value, 1)]
                number += len(value)
                sent.append(request(*spans))
                traces |= {trace for trace, _ in value}
                await first.intake.traces(sent[-1])
            else:
                await _step(first, kind, value)
        second = await first.crash(folder())
        second.judge.allow(100)
        await second.start()
        for _ in range(4):
            await second.walk(200)
            await second.judged()
        await second.stop()
        assert set(sent) == set(first.downstream.requests + second.downstream.requests)
        before = {(r["trace"], r["revision"]): r for r in first.exits.reports}
        for report in second.exits.reports:
            assert before.get((report["trace"], report["revision"]), report) == report
        judged = {int(r["trace"], 16) for r in first.exits.reports + second.exits.reports}
        assert judged == traces
        assert second.journal.requests == 0


async def _step(first: Journalled, kind: str, value: Any) -> None:
    if kind == "walk":
        await first.walk(value)
    elif kind == "judge":
        first.judge.allow(value)
        await asyncio.sleep(0.003)
    elif kind == "send":
        first.exits.send()
    else:
        first.downstream.away = value
        await asyncio.sleep(0.003)


def test_an_ending_and_its_change_are_written_once() -> None:
    marks = Marks(endings={1: Ending(1, (bytes(16),), 1, "idle")}, forwarded={4})
    marks.add(Marks(endings={1: Ending(1, (bytes(16),), 1, "idle", settled=True)}, removed=[4]))
    assert json.dumps([marks.endings[1].settled, sorted(marks.forwarded), marks.removed]) == "[true, [], [4]]"
    marks.add(Marks(forgotten=[1]))
    assert (marks.endings, marks.forgotten) == ({}, [1])
