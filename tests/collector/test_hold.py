"""Inline mode: spans leave when they are judged, marked, each once; nothing is lost, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from onpath_collector.otlp import Chunk, split
from onpath_collector.otlp.marking import left_over, marked
from tests.collector.journalled import MARK, Journalled, journalled
from tests.collector.test_replay import IDLE, NONE, SETTLE, request

Seen = list[tuple[int, int, bool]]


def seen(body: bytes) -> Seen:
    """Trace, span and whether it is marked, of each span of a request."""
    groups = ExportTraceServiceRequest.FromString(body).resource_spans
    return [
        (int.from_bytes(s.trace_id), int.from_bytes(s.span_id), any(a.key == "onpath.verdict" for a in s.attributes))
        for group in groups
        for scope in group.scope_spans
        for s in scope.spans
    ]


def sent(collector: Journalled) -> list[Seen]:
    return [seen(body) for body in collector.downstream.requests]


async def test_spans_leave_together_when_they_are_judged() -> None:
    async with journalled(hold=True) as (collector, _):
        await collector.intake.traces(request((1, 2, 1), (2, 1, NONE)))
        await collector.intake.traces(request((1, 1, NONE)))
        assert collector.intake.sums()["spans_queued"] == 3
        assert sent(collector) == []
        await collector.walk(SETTLE)
        assert sent(collector) == [], "released, and not judged"
        await collector.judged()
        assert sorted(sent(collector)) == [[(1, 2, False), (1, 1, True)], [(2, 1, True)]]
        assert collector.intake.sums() == {
            "spans_received": 3,
            "spans_forwarded": 3,
            "spans_dropped": {},
            "spans_queued": 0,
        }


async def test_what_has_no_mark_goes_on_as_it_came() -> None:
    async with journalled(hold=True) as (collector, _):
        made = ExportTraceServiceRequest.FromString(request((1, 2, 1)))
        body = made.SerializeToString() + b"\x9a\x06\x03new"  # a field that nobody knows yet
        await collector.intake.traces(body)
        await collector.intake.traces(request((1, 1, NONE)))
        await collector.walk(SETTLE)
        await collector.judged()
        (whole,) = collector.downstream.requests
        assert whole.startswith(body)


async def test_invalid_spans_wait_for_nothing() -> None:
    made = ExportTraceServiceRequest.FromString(request((1, 1, NONE), (1, 2, 1)))
    made.resource_spans[0].scope_spans[0].spans[1].span_id = b"short"
    async with journalled(hold=True) as (collector, _):
        accepted = await collector.intake.traces(made.SerializeToString())
        assert (accepted.items, accepted.rejected) == (2, 1)
        await collector.walk(0.0)
        assert [len(each) for each in sent(collector)] == [1]
        await collector.walk(SETTLE)
        await collector.judged()
        assert sent(collector)[1] == [(1, 1, True)]
        collector.assert_adds_up()


async def test_what_comes_twice_while_it_is_held_is_passed_on_once() -> None:
    async with journalled(hold=True) as (collector, _):
        for _ in range(3):
            await collector.intake.traces(request((1, 1, NONE)))
        await collector.walk(SETTLE)
        await collector.judged()
        assert sent(collector) == [[(1, 1, True)]]
        assert collector.intake.sums()["spans_forwarded"] == 3
        await collector.intake.traces(request((1, 1, NONE)))  # and once more when it has left
        await collector.walk(0.0)
        assert sent(collector)[1:] == [[(1, 1, False)]]


async def test_a_large_trace_leaves_in_requests_that_receivers_take() -> None:
    async with journalled(hold=True) as (collector, _):
        came = [request((1, number, 1), text="x" * size) for number, size in ((2, 2 << 20), (3, 2 << 20), (4, 5 << 20))]
        for body in (*came, request((1, 5, 1)), request((1, 1, NONE))):
            await collector.intake.traces(body)
        await collector.walk(SETTLE)
        await collector.judged()
        assert collector.downstream.requests[:3] == came
        assert sent(collector)[3:] == [[(1, 5, False), (1, 1, True)]]
        assert collector.intake.sums()["spans_forwarded"] == 5
        await collector.written()
        assert collector.journal.requests == 0


async def test_late_spans_wait_for_their_revision() -> None:
    async with journalled(hold=True) as (collector, _):
        await collector.intake.traces(request((1, 1, NONE)))
        await collector.walk(SETTLE)
        await collector.judged()
        await collector.intake.traces(request((1, 2, 1)))
        assert len(sent(collector)) == 1
        await collector.walk(SETTLE)
        await collector.judged()
        assert sent(collector) == [[(1, 1, True)], [(1, 2, False)]]
        assert [r["revision"] for r in collector.exits.reports] == [1, 2]


async def test_late_spans_that_no_report_takes_in_go_on_at_once() -> None:
    async with journalled(hold=True, late_window=0.0) as (collector, _):
        await collector.intake.traces(request((1, 1, NONE)))
        await collector.walk(SETTLE)
        await collector.judged()
        await collector.intake.traces(request((1, 2, 1)))
        await collector.walk(0.0)
        assert sent(collector) == [[(1, 1, True)], [(1, 2, False)]]


async def test_over_a_limit_spans_go_on_unmarked_and_do_not_wait() -> None:
    async with journalled(hold=True, span_limit=2) as (collector, _):
        for number in (1, 2, 3, 4):
            await collector.intake.traces(request((1, number, 9)))
        await collector.walk(0.0)  # nothing is judged yet
        assert sorted(sent(collector)) == [[(1, 1, False), (1, 2, False), (1, 3, False)], [(1, 4, False)]]
        await collector.judged()
        assert len(sent(collector)) == 2
        assert collector.exits.reports[0]["reason"] == "span_limit"


async def test_what_cannot_be_judged_goes_on_unmarked() -> None:
    async with journalled(hold=True) as (collector, _):
        collector.judge.broken = True
        await collector.intake.traces(request((1, 1, NONE)))
        await collector.walk(SETTLE)
        await collector.judged()
        assert sent(collector) == [[(1, 1, False)]]
        await collector.written()
        assert collector.journal.requests == 0


async def test_declared_roots_leave_with_what_they_share() -> None:
    async with journalled(hold=True, root_attributes={"run.of": "agent"}) as (collector, _):
        await collector.intake.traces(request((1, 2, 1), (1, 3, 1), run_of="agent"))
        await collector.intake.traces(request((1, 5, 1)))
        await collector.walk(SETTLE)
        await collector.judged()
        assert sent(collector) == [[(1, 2, True), (1, 3, True)]]
        await collector.walk(IDLE)
        await collector.judged()
        assert [span for each in sent(collector) for span in each][2:] == [(1, 5, False)]


async def test_after_a_crash_spans_are_judged_and_marked() -> None:
    async with journalled(hold=True) as (first, folder):
        await first.intake.traces(request((1, 1, NONE), (2, 1, NONE), (3, 2, 1)))
        await first.intake.traces(request((2, 2, 1)))
        await first.walk(SETTLE)
        first.judge.allow(1)
        await first.walk(0.0)
        second = await first.crash(folder())
        await second.start()
        await second.judged()
        await second.walk(IDLE)
        await second.judged()
        both = [span for each in (*sent(first), *sent(second)) for span in each]
        assert set(both) == {(1, 1, True), (2, 1, True), (2, 2, False), (3, 2, True)}
        await second.written()
        assert second.journal.requests == 0
        await second.stop()


async def test_a_trace_is_not_settled_before_the_downstream_has_it() -> None:
    async with journalled(hold=True) as (first, folder):
        first.downstream.away = True
        await first.intake.traces(request((1, 1, NONE)))
        await first.walk(SETTLE)
        await first.judged()
        assert len(first.exits.reports) == 1
        second = await first.crash(folder())
        await second.start()
        await second.judged()
        assert sent(second) == [[(1, 1, True)]]
        assert second.exits.reports == first.exits.reports
        await second.stop()


async def test_at_the_end_nothing_stays_behind() -> None:
    async with journalled(hold=True) as (collector, _):
        await collector.intake.traces(request((1, 1, NONE), (2, 2, 9)))
        await collector.walk(SETTLE)  # one waits for its verdict, one is open
        assert collector.hold is not None
        collector.hold.let_go()
        assert await collector.forwarder.drain(asyncio.get_running_loop().time() + 20)
        assert sorted(span for each in sent(collector) for span in each) == [(1, 1, False), (2, 2, False)]
        assert collector.intake.sums()["spans_queued"] == 0


SPANS = st.lists(
    st.tuples(st.integers(1, 3), st.integers(1, 6), st.integers(0, 6)).filter(lambda s: s[1] != s[2]),
    min_size=1,
    max_size=5,
)
STEPS = st.lists(st.one_of(SPANS, st.sampled_from([0.5, SETTLE, 11.0, IDLE]), st.integers(1, 2)), max_size=12)


@settings(max_examples=40, deadline=None)
@given(STEPS, st.booleans())
async def test_whatever_comes_when_all_of_it_is_passed_on(steps: list[object], crash: bool) -> None:
    """Spans come, time passes, some jobs are done; once, the collector may crash. Everything is there in the end."""
    async with journalled(hold=True) as (collector, folder):
        given_in: Counter[tuple[int, int]] = Counter()
        for step in steps:
            if isinstance(step, list):
                await collector.intake.traces(request(*step))
                given_in.update((trace, span) for trace, span, _ in step)
            elif isinstance(step, float):
                await collector.walk(step)
            else:
                assert isinstance(step, int)
                collector.judge.allow(step)
                await collector.walk(0.0)
            collector.assert_adds_up()
        last = await collector.crash(folder()) if crash else collector
        if crash:
            await last.start()
        for _ in range(3):
            await last.judged()
            await last.walk(1800.0)
        await last.judged()
        await last.walk(0.0)
        both = [*collector.downstream.requests, *(last.downstream.requests if crash else ())]
        assert {span[:2] for body in both for span in seen(body)} == set(given_in)
        last.assert_adds_up()
        assert last.intake.sums()["spans_queued"] == 0
        await last.written()
        assert last.journal.requests == 0
        if crash:
            await last.stop()


def test_a_mark_replaces_what_was_there() -> None:
    body = request((1, 1, NONE), onpath_verdict="my own", other="kept")
    marks = {((1).to_bytes(16), (1).to_bytes(8)): MARK}
    (group,) = ExportTraceServiceRequest.FromString(marked([body], marks)).resource_spans
    attributes = group.scope_spans[0].spans[0].attributes
    assert [(a.key, a.value.string_value) for a in attributes] == [("other", "kept"), ("onpath.verdict", "pass")]


def test_a_verdict_without_a_score_leaves_none_that_the_agent_made_up() -> None:
    made = ExportTraceServiceRequest.FromString(request((1, 1, NONE), (1, 2, 1)))
    claimed = ("gen_ai.evaluation.score.value", "onpath.summary", "onpath.trace.complete")
    for span in made.resource_spans[0].scope_spans[0].spans:
        for key in claimed:
            span.attributes.add(key=key).value.double_value = 1
    marks = {((1).to_bytes(16), (1).to_bytes(8)): MARK}
    (group,) = ExportTraceServiceRequest.FromString(marked([made.SerializeToString()], marks)).resource_spans
    judged, other = group.scope_spans[0].spans
    assert [a.key for a in judged.attributes] == ["onpath.trace.complete", "onpath.verdict"]
    assert [a.key for a in other.attributes] == [*claimed]


def chunk_of(body: bytes, trace: int) -> Chunk:
    return next(c for c in split(body).chunks if c.trace_id == trace.to_bytes(16))


def test_what_is_left_of_a_request() -> None:
    body = request((1, 1, NONE), (2, 1, NONE), (1, 2, 1))
    assert left_over(body, split(body).chunks, 3) == (body, 3)
    apart = [chunk_of(body, 1), chunk_of(body, 2)]
    apart[0].apart = True
    rest, left = left_over(body, apart, 3)
    assert (seen(rest), left) == ([(2, 1, False)], 1)
    apart[1].apart = True
    assert left_over(body, apart, 3) == (b"", 0)
