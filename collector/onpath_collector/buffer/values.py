"""What goes into the buffer and what comes out: settings, pushed spans and evidence, released traces, counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from onpath_collector.buffer.settled import Judgement

Reason: TypeAlias = Literal[
    "root_ended", "idle", "max_age", "span_limit", "bytes_limit", "memory", "marked", "shutdown", "recovered"
]


LATENESS: Final = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferSettings:
    """Durations in seconds, sizes in bytes. `memory_limit` None: no limit; its owner knows the machine."""

    settle_delay: float = 2.0
    orphan_delay: float = 10.0
    idle_timeout: float = 120.0
    max_age: float = 1800.0
    span_limit: int = 20_000
    trace_bytes_limit: int = 32 << 20
    memory_limit: int | None = None
    late_window: float = 600.0
    late_bytes: int = 64 << 20
    settled_memory: int = 1_000_000
    group_by: str | None = None
    session_idle: float = 600.0
    root_attributes: Mapping[str, str] = field(default_factory=dict)
    evidence_bytes: int = 16 << 20  # log records whose trace has no span yet; they wait for one for `idle_timeout`


class Spans(Protocol):
    """Spans of one trace, pushed together; `onpath_collector.otlp.Chunk` is one."""

    @property
    def trace_id(self) -> bytes: ...
    @property
    def data(self) -> bytes:
        """Serialised, opaque to the buffer."""

    @property
    def spans(self) -> Sequence[tuple[bytes, bytes, bool, int, int]]:
        """Span id, parent span id (empty for none), whether the parent is remote, start and end."""

    @property
    def complete(self) -> bool:
        """A span carries the mark that ends the trace."""

    @property
    def session(self) -> str | None: ...
    @property
    def roots(self) -> Sequence[bytes]:
        """Ids of spans that are declared to be roots."""


class Evidence(Protocol):
    """Log records that name spans of one trace; `onpath_collector.otlp.Evidence` is one."""

    @property
    def trace_id(self) -> bytes: ...
    @property
    def data(self) -> bytes: ...


@dataclass(slots=True, eq=False)
class Released:
    """A trace, a session or a declared root's sub-trace, let go for one reason. Hand it to `TraceBuffer.settle`."""

    trace_id: bytes  # of a session: the trace that came first
    trace_ids: tuple[bytes, ...]
    session: str | None
    reason: Reason
    chunks: tuple[bytes, ...]
    evidence: tuple[bytes, ...]
    spans: int  # with different ids
    size: int  # bytes of chunks and evidence
    traces: int  # how many traces are released for the first time; 0 for a trace that late spans have re-opened
    revision: int  # number of its report, if that differs from the one before; 1 for the first
    late: int  # spans that came after the first release
    duplicates: int  # spans of chunks that were dropped as duplicates; not those told apart when decoded
    partial: bool  # earlier spans are gone: its verdicts can only be unknown
    opened_at: float
    due_at: float  # its deadline; how long ago that is, is the deadline's lag
    tags: tuple[int, ...]  # given with the chunks that this is the first whole release of
    judgement: Judgement = field(repr=False)  # the buffer's own
    root: bytes | None = None  # span id of a declared root: only the subtree of this span is judged
    without: tuple[bytes, ...] = ()  # declared roots already judged: the trace is judged without their subtrees

    @property
    def before(self) -> Hashable | None:
        """The outcome of the release that this one follows."""
        return self.judgement.outcome


@dataclass(slots=True)
class Counts:
    """Since the start. Spans are counted once each, as they are pushed."""

    spans: int = 0
    duplicates: int = 0  # of known trace and span id
    late_spans: int = 0  # of settled traces
    late_unjudged: int = 0  # of these: after the window, or the trace had been over a limit
    dropped_spans: Counter[str] = field(default_factory=Counter)  # not judged, by reason: span_limit, bytes_limit, late
    dropped_evidence: Counter[str] = field(default_factory=Counter)  # log records' chunks, by reason
    traces_started: int = 0
    traces_released: int = 0
    reopened: int = 0
    forgotten: int = 0  # settled ids pushed out of `settled_memory`
    lateness: list[int] = field(default_factory=lambda: [0] * (len(LATENESS) + 1))
    """New spans by how long after their root they came: up to each of LATENESS, and longer."""
    released: Counter[str] = field(default_factory=Counter)  # by reason, also of re-opened traces
