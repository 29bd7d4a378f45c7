"""Random histories: the buffer and its model say the same at every step."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from onpath_collector.buffer import BufferSettings, Released, TraceBuffer
from onpath_collector.otlp import Chunk
from tests.collector.buffer.model import Model, Past
from tests.collector.buffer.pushing import Parent, chunk, evidence, trace

# Every limit is met within a few steps, and settled bytes are compressed; nothing is pushed out before its window ends.
LIMITS = BufferSettings(
    settle_delay=2.0,
    orphan_delay=10.0,
    idle_timeout=20.0,
    max_age=50.0,
    span_limit=7,
    trace_bytes_limit=150,
    late_window=40.0,
    late_bytes=12_000,
)
TRACES = st.integers(1, 4)
SPAN = st.integers(1, 9)
PARENT = st.one_of(st.none(), SPAN, SPAN.map(lambda n: ("remote", n)))
SPANS = st.dictionaries(SPAN, PARENT, min_size=1, max_size=4)


class AgainstModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.buffer = TraceBuffer(LIMITS)
        self.model = Model(LIMITS)
        self.now = 0.0
        self.sent: list[tuple[int, dict[int, Parent], Chunk]] = []
        self.in_judgement: list[tuple[Past, Released]] = []

    @rule(number=TRACES, spans=SPANS, size=st.integers(0, 60), complete=st.sampled_from([False] * 19 + [True]))
    def push(self, number: int, spans: dict[int, Parent], size: int, complete: bool) -> None:
        self._push(number, spans, chunk(number, spans, size=size, complete=complete))

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def push_again(self, data: st.DataObject) -> None:
        self._push(*data.draw(st.sampled_from(self.sent[-6:])))

    def _push(self, number: int, spans: dict[int, Parent], pushed: Chunk) -> None:
        self.sent.append((number, spans, pushed))
        self.buffer.push(self.now, pushed)
        self.model.push(self.now, number, spans, pushed.data, pushed.complete)

    @precondition(lambda self: self.model.open or self.model.past)
    @rule(data=st.data(), content=st.integers(0, 3))
    def attach(self, data: st.DataObject, content: int) -> None:
        number = data.draw(st.sampled_from(sorted({*self.model.open, *self.model.past})))
        log = b"log %d" % content
        self.buffer.attach(self.now, evidence(number, log))
        self.model.attach(self.now, number, log)

    @precondition(lambda self: self.model.open)
    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.model.open)))
        assert self.buffer.complete(self.now, trace(number))
        self.model.complete(self.now, number)

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 2.0, 2.0, 5.0, 12.0, 45.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def tick(self) -> None:
        expected = self.model.due(self.now)
        found = self.buffer.tick(self.now, 1000)
        assert {int.from_bytes(r.trace_id): r.reason for r in found} == expected
        assert len(found) == len(expected)
        for released in found:
            self._compare(released)

    @precondition(lambda self: self.in_judgement)
    @rule(data=st.data(), outcome=st.sampled_from(["a", "b", None]))
    def settle(self, data: st.DataObject, outcome: str | None) -> None:
        past, released = self.in_judgement.pop(data.draw(st.integers(0, len(self.in_judgement) - 1)))
        self.buffer.settle(released, outcome)
        past.judged = True

    def _compare(self, released: Released) -> None:
        number = int.from_bytes(released.trace_id)
        past = self.model.release(self.now, number, released.reason)
        opening = past.opening
        assert b"".join(released.chunks) == b"".join(opening.chunks)
        assert released.evidence == tuple(opening.logs)
        assert released.size == opening.bytes
        assert released.spans == len(opening.parents)
        assert released.late == opening.late
        assert released.traces == opening.fresh
        assert released.partial == opening.partial
        self.in_judgement.append((past, released))

    @invariant()
    def counts_agree(self) -> None:
        counts, model = self.buffer.counts, self.model
        assert counts.traces_started == model.started == counts.traces_released + self.buffer.open_traces
        assert counts.traces_released == model.first_released
        assert counts.released == model.released
        assert self.buffer.open_runs == len(model.open)
        assert self.buffer.open_bytes == sum(opening.bytes for opening in model.open.values())
        assert counts.duplicates == model.spans["duplicate"]
        assert counts.dropped_spans == {r: n for r, n in model.spans.items() if r not in ("new", "duplicate")}
        assert counts.spans == model.spans.total()

    @invariant()
    def no_deadline_is_missed(self) -> None:
        dues = [o.due(LIMITS)[0] for n, o in self.model.open.items() if not self.model.waiting(n)]
        deadline = self.buffer.next_deadline()
        assert not dues or (deadline is not None and deadline <= min(dues))

    def teardown(self) -> None:
        for released in self.buffer.drain(self.now):
            self._compare(released)
        assert not self.model.open
        for _, released in self.in_judgement:
            self.buffer.settle(released, "end")
        self.buffer.tick(self.now + 1000.0)
        assert self.buffer.memory == 0
        self.counts_agree()


TestAgainstModel = AgainstModel.TestCase
TestAgainstModel.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
