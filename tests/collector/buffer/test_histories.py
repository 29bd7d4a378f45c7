"""Random histories with sessions, declared roots and scarce memory: what must hold whatever the rules say."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from onpath_collector.buffer import BufferSettings, Released, TraceBuffer
from onpath_collector.otlp import Chunk
from tests.collector.buffer.pushing import Parent, chunk, evidence, span, trace

SPAN = st.integers(1, 12)
PARENT = st.one_of(st.none(), SPAN, SPAN, SPAN.map(lambda n: ("remote", n)))
SPANS = st.dictionaries(SPAN, PARENT, min_size=1, max_size=4)


class Histories(RuleBasedStateMachine):
    @initialize(
        declares=st.booleans(),
        limits=st.fixed_dictionaries(
            {},
            optional={
                "span_limit": st.integers(1, 20),
                "trace_bytes_limit": st.integers(50, 2000),
                "memory_limit": st.integers(5_000, 60_000),
                "late_bytes": st.integers(0, 20_000),
                "late_window": st.sampled_from([0.0, 10.0, 100.0]),
                "settled_memory": st.integers(1, 6),
                "evidence_bytes": st.integers(0, 1000),
                "session_idle": st.sampled_from([0.0, 5.0, 50.0]),
                "settle_delay": st.sampled_from([0.0, 2.0, 30.0]),
            },
        ),
    )
    def make(self, declares: bool, limits: dict[str, float]) -> None:
        self.buffer = TraceBuffer(
            BufferSettings(group_by="session.id", root_attributes={"a": "b"} if declares else {}, **limits)
        )
        self.now = 0.0
        self.sent: list[Chunk] = []
        self.kept: dict[int, Chunk] = {}  # by tag, not yet released
        self.tags = 0
        self.released: Counter[str] = Counter()
        self.unsettled: list[Released] = []

    @rule(
        number=st.integers(1, 5),
        spans=SPANS,
        roots=st.booleans(),
        session=st.sampled_from([None, None, "s", "t"]),
        complete=st.sampled_from([False] * 9 + [True]),
        size=st.integers(0, 3000),
    )
    def push(
        self,
        number: int,
        spans: dict[int, Parent],
        roots: bool,
        session: str | None,
        complete: bool,
        size: int,
    ) -> None:
        self._push(
            chunk(
                number,
                spans,
                size=size,
                complete=complete,
                session=session,
                roots=(span(min(spans)),) if roots else (),
            )
        )

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def push_again(self, data: st.DataObject) -> None:
        self._push(data.draw(st.sampled_from(self.sent[-5:])))

    def _push(self, pushed: Chunk) -> None:
        self.sent.append(pushed)
        self.tags += 1
        if self.buffer.push(self.now, pushed, self.tags):
            self.kept[self.tags] = pushed

    @rule(number=st.integers(1, 7), content=st.integers(0, 3))
    def attach(self, number: int, content: int) -> None:
        self.buffer.attach(self.now, evidence(number, b"log %d" % content))

    @rule(size=st.integers(0, 30_000))
    def admit(self, size: int) -> None:
        limit = self.buffer.settings.memory_limit
        admitted = self.buffer.admits(self.now, size)
        assert admitted == (limit is None or self.buffer.memory + size <= limit + limit // 8)

    @rule(number=st.integers(1, 5))
    def complete(self, number: int) -> None:
        self.buffer.complete(self.now, trace(number))

    @rule(seconds=st.sampled_from([0.0, 1.0, 2.0, 5.0, 12.0, 130.0, 2000.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(budget=st.sampled_from([1, 2, 100]))
    def tick(self, budget: int) -> None:
        self._take(self.buffer.tick(self.now, budget))

    def _take(self, found: list[Released]) -> None:
        for released in found:
            self.released[released.reason] += 1
            self.unsettled.append(released)
            content = b"".join(released.chunks)
            assert released.size == len(content) + sum(map(len, released.evidence))
            for tag in released.tags:
                pushed = self.kept.pop(tag)  # each is released whole exactly once
                assert released.root is not None or pushed.data in content
                assert pushed.trace_id in released.trace_ids
            assert released.traces <= len(released.trace_ids)

    @precondition(lambda self: self.unsettled)
    @rule(data=st.data(), outcome=st.sampled_from(["a", "b", None]))
    def settle(self, data: st.DataObject, outcome: str | None) -> None:
        released = self.unsettled.pop(data.draw(st.integers(0, len(self.unsettled) - 1)))
        self.buffer.settle(released, outcome)

    @invariant()
    def sums_hold(self) -> None:
        buffer, counts = self.buffer, self.buffer.counts
        assert counts.traces_started == counts.traces_released + buffer.open_traces
        assert counts.released == self.released
        assert counts.spans == sum(len(c.spans) for c in self.sent)
        assert min(buffer.open_traces, buffer.open_runs, buffer.open_bytes, buffer.late_bytes, buffer.memory) >= 0
        assert buffer.late_bytes <= buffer.settings.late_bytes
        assert (buffer.next_deadline() is None) <= (buffer.open_runs <= len(self.unsettled))

    def teardown(self) -> None:
        if not hasattr(self, "buffer"):
            return
        self._take(self.buffer.drain(self.now))
        assert not self.kept
        assert self.buffer.open_runs == self.buffer.open_traces == self.buffer.open_bytes == 0
        self.sums_hold()
        for released in self.unsettled:
            self.buffer.settle(released, "end")
        self.now += 10_000.0
        self.buffer.tick(self.now)
        self.buffer.attach(self.now, evidence(99, b""))  # makes what waits for spans leave
        assert self.buffer.memory <= 200


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=100, stateful_step_count=60, deadline=None)
