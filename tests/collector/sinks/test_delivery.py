"""Results wait for a backend, are tried again, replaced by revisions, and counted; nothing else waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onpath_collector.downstream.base import Delivered, Failed, Outcome, Retry
from onpath_collector.exporters.base import SendingExporter
from onpath_collector.exporters.sinks.base import Http, Scored
from onpath_collector.exporters.sinks.delivery import DeliverySettings, SinkExporter
from onpath_collector.forward import RetrySettings
from tests.collector.sinks.backend import Backend, document, evaluation, outcome

QUICK = DeliverySettings(retry=RetrySettings(initial=0.01, multiplier=2.0, max=0.04, elapsed=600.0))


class Scripted:
    """A sink that answers as it is told, then takes everything."""

    url = "http://127.0.0.1:1"
    headers: Mapping[str, str] = {}

    def __init__(self, *answers: Outcome | Exception) -> None:
        self.answers = list(answers)
        self.taken: list[Scored] = []
        self.gate = asyncio.Event()
        self.gate.set()

    def holds(self, evaluation: Mapping[str, Any]) -> bool:
        return True

    async def send(self, http: Http, scored: Scored) -> Outcome:
        await self.gate.wait()
        answer = self.answers.pop(0) if self.answers else Delivered()
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Delivered):
            self.taken.append(scored)
        return answer


class Time:
    """Jumps ahead when someone sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


def exporter(sink: Scripted, settings: DeliverySettings | None = None, time: Time | None = None) -> SinkExporter:
    http = Http(sink.url, {}, 5)
    if time is None:
        return SinkExporter("test", sink, http, settings or QUICK)
    return SinkExporter("test", sink, http, settings, clock=time.clock, sleep=time.sleep)


def adds_up(sink: SinkExporter) -> bool:
    counts = sink.counts
    return counts.accepted == counts.sent + counts.replaced + counts.dropped.total() + counts.queued


async def when(there: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not there():  # noqa: ASYNC110 - what is looked at has no event
            await asyncio.sleep(0)


async def idle(sink: SinkExporter) -> None:
    async with asyncio.timeout(10):
        await sink._idle.wait()


async def test_what_is_not_taken_is_tried_again_as_the_backend_asks() -> None:
    time = Time()
    sink = exporter(Scripted(Retry("http_404"), Retry("http_429", 7.0), Retry("http_503")), None, time)
    sink.export(outcome(document()))
    await idle(sink)
    assert time.slept == [1.0, 7.0, 4.0]
    assert (sink.counts.sent, sink.counts.retries, sink.counts.queued) == (1, 3, 0)
    await sink.close(time.now)


async def test_it_is_given_up_after_ten_minutes() -> None:
    time = Time()
    sink = exporter(Scripted(*[Retry("unavailable")] * 100), None, time)
    sink.export(outcome(document(evaluation(), evaluation("plan"))))
    await idle(sink)
    assert 500 < time.now <= 600
    assert max(time.slept) == 30
    assert dict(sink.counts.dropped) == {"retry_exhausted": 2}
    assert adds_up(sink)


async def test_what_is_refused_and_what_surprises_is_dropped_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    sink = exporter(Scripted(Failed("http_401", "no\nsuch key"), Failed("http_401"), ValueError("surprise")))
    for n in range(3):
        sink.export(outcome(document(span_id=f"{n + 1:016x}")))
        await idle(sink)
    assert dict(sink.counts.dropped) == {"http_401": 2, "internal": 1}
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert "\n" not in told[0]
    assert adds_up(sink)


async def test_the_queue_has_bounds() -> None:
    scripted = Scripted()
    scripted.gate.clear()
    sink = exporter(scripted, DeliverySettings(results=2))
    for n in range(4):
        sink.export(outcome(document(span_id=f"{n + 1:016x}")))
    assert (sink.counts.queued, dict(sink.counts.dropped)) == (2, {"queue_full": 2})
    small = exporter(scripted, DeliverySettings(bytes=100))
    small.export(outcome(document()))
    assert dict(small.counts.dropped) == {"queue_full": 1}
    scripted.gate.set()
    await idle(sink)
    assert adds_up(sink)


async def test_a_revision_takes_the_place_of_what_waits() -> None:
    scripted = Scripted(Retry("http_404"))
    sink = exporter(scripted)
    sink.export(outcome(document(evaluation(score=0.1))))
    await when(lambda: sink.counts.retries)
    sink.export(outcome(document(evaluation(score=0.9), revision=2)))
    await idle(sink)
    assert [s.evaluations[0]["score"] for s in scripted.taken] == [0.9]
    assert (sink.counts.sent, sink.counts.replaced) == (1, 1)
    assert adds_up(sink)


async def test_a_revision_follows_what_is_being_sent_and_an_older_one_does_not() -> None:
    scripted = Scripted()
    scripted.gate.clear()
    sink = exporter(scripted)
    sink.export(outcome(document(revision=2)))
    await asyncio.sleep(0)
    sink.export(outcome(document(revision=3)))
    sink.export(outcome(document(revision=1)))
    scripted.gate.set()
    await idle(sink)
    assert [s.revision for s in scripted.taken] == [2, 3]
    assert adds_up(sink)


async def test_one_that_waits_does_not_hold_up_others() -> None:
    scripted = Scripted(Retry("http_404", 500.0))
    sink = exporter(scripted)
    sink.export(outcome(document(span_id="00000000000000aa")))
    sink.export(outcome(document()))
    await when(lambda: scripted.taken)
    assert sink.counts.queued == 1
    await sink.close(sink._clock() + 5)  # what waits has its next attempt at once
    assert sink.counts.sent == 2


ANSWERS = st.sampled_from([Delivered(), Retry("http_404"), Retry("http_503", 3.0), Failed("http_400"), ValueError("x")])
EVENTS = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(0, 5)), max_size=20)


@settings(max_examples=60, deadline=None)
@given(EVENTS, st.lists(ANSWERS, max_size=30), st.integers(1, 4))
def test_scores_are_never_lost_from_the_counts(
    events: list[tuple[int, int, int]], answers: list[Outcome | Exception], room: int
) -> None:
    """Results of three scopes in any revisions, at any pace, to a backend that answers anything."""

    async def run() -> None:
        scripted, time = Scripted(*answers), Time()
        sink = exporter(scripted, DeliverySettings(results=room), time)
        for scope, revision, rounds in events:
            sink.export(outcome(document(span_id=f"{scope:016x}", revision=revision)))
            for _ in range(rounds):
                await asyncio.sleep(0)
            assert adds_up(sink)
            assert sink.counts.results == len(sink._entries) <= room
        await idle(sink)
        await sink.close(time.now + 1)
        assert adds_up(sink)
        assert (sink.counts.queued, sink.counts.results, sink._bytes) == (0, 0, 0)
        assert sink.counts.accepted == len(events)

    asyncio.run(run())


async def test_a_trace_that_is_not_there_yet_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    time = Time()
    sink = exporter(Scripted(*[Retry("http_404")] * 100), None, time)
    sink.export(outcome(document()))
    await idle(sink)
    told = [(record.levelname, "not taken a score for 600 s" in record.getMessage()) for record in caplog.records]
    assert told == [("INFO", False), ("WARNING", True)]


async def test_at_the_end_what_is_not_taken_is_dropped() -> None:
    sink = exporter(Scripted(*[Retry("unavailable", 100.0)] * 100))
    sink.export(outcome(document()))
    called: list[str] = []
    sink.when_sent(lambda: called.append("sent"))
    await sink.close(sink._clock() + 0.1)
    assert dict(sink.counts.dropped) == {"shutdown": 1}
    assert called == []  # a journal keeps it for the next start
    assert adds_up(sink)
    await sink.close(sink._clock())


async def test_a_journal_hears_when_all_so_far_is_sent() -> None:
    scripted = Scripted()
    sink = exporter(scripted)
    assert isinstance(sink, SendingExporter)
    called: list[str] = []
    sink.when_sent(lambda: called.append("nothing"))
    scripted.gate.clear()
    sink.export(outcome(document(), document(workflow="other")))
    sink.when_sent(lambda: called.append("two"))
    assert called == ["nothing"]
    scripted.gate.set()
    await idle(sink)
    assert called == ["nothing", "two"]


@pytest.mark.parametrize(
    ("status", "reason"), [(400, "http_400"), (401, "http_401"), (302, "http_302"), (422, "http_422")]
)
async def test_answers_that_are_final(status: int, reason: str) -> None:
    async with Backend() as backend:
        backend.answer(status, {"detail": "no"}, Location="/elsewhere")
        sink = backend.sink("phoenix")
        sink.export(outcome(document()))
        await idle(sink)
        await sink.close(sink._clock())
        assert dict(sink.counts.dropped) == {reason: 1}
        assert len(backend.requests) == 1


@pytest.mark.parametrize("status", [404, 408, 425, 429, 500, 502, 503])
async def test_answers_after_which_it_is_tried_again(status: int) -> None:
    async with Backend() as backend:
        backend.answer(status, None, **{"Retry-After": "0"})
        http = Http(backend.url, {}, 5)
        reply = await http.call("POST", "/x", {"a": 1})
        assert reply.outcome == Retry(f"http_{status}", 0.0, "null")
        await http.close()


@pytest.mark.parametrize("answer", [b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"])
async def test_what_a_url_hides_is_not_told_when_a_backend_speaks_no_http(answer: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    http = Http(f"http://me:hunter2@127.0.0.1:{port}/hunter3?key=hunter4", {}, 5)
    reply = await http.call("POST", "", {})
    await http.close()
    server.close()
    await server.wait_closed()
    assert isinstance(reply.outcome, Retry)
    assert "hunter" not in reply.outcome.message


@pytest.mark.parametrize("kind", ["phoenix", "mlflow", "langfuse", "langsmith", "datadog"])
async def test_a_login_page_takes_no_scores(kind: str) -> None:
    async with Backend() as backend:
        backend.answer(200, "<!doctype html><title>Sign in</title>")
        sink = backend.sink(kind)
        sink.export(outcome(document()))
        async with asyncio.timeout(10):
            while not sink.counts.retries:  # noqa: ASYNC110 - what is looked at has no event
                await asyncio.sleep(0.01)
        assert (sink.counts.sent, sink.counts.queued) == (0, 1)
        await sink.close(sink._clock() + 10)
        assert sink.counts.sent == 1


async def test_a_webhook_may_answer_in_whatever_words() -> None:
    async with Backend() as backend:
        backend.answer(200, "ok")
        sink = backend.sink("webhook")
        sink.export(outcome(document()))
        await idle(sink)
        await sink.close(sink._clock())
        assert (sink.counts.sent, sink.counts.retries) == (1, 0)


async def test_nobody_there_and_nobody_answering() -> None:
    http = Http("http://127.0.0.1:1", {}, 5)
    assert isinstance((await http.call("GET", "/")).outcome, Retry)
    await http.close()

    gone = asyncio.Event()

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        await writer.wait_closed()
        gone.set()

    server = await asyncio.start_server(mute, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    slow = Http(f"http://127.0.0.1:{port}", {}, 0.05)
    assert (await slow.call("GET", "/")).outcome == Retry("timeout")
    await slow.close()
    await gone.wait()
    server.close()
    await server.wait_closed()
