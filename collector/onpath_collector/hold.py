"""Inline mode (`forward.hold`): spans wait for the verdict on their trace, and the span it is about carries it on.

    chunk -> buffer keeps it?  no  -> forward queue, as it came
                               yes -> held -> released: a Parcel -> judged -> marked -> forward queue, together

What is over a limit goes on unmarked: a trace let go for its size or for want of memory does not wait for its verdict.
The bytes are those that the buffer has, and count there; here is only which of them are still to be passed on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from onpath_collector.buffer import Reason, Released
from onpath_collector.forward import Forwarder
from onpath_collector.otlp import Chunk
from onpath_collector.otlp.marking import Marks, marked

_REQUEST: Final = 3 << 20  # bytes; gRPC servers take no more than 4 MiB unless they are told to, marks included
_OVER: Final = frozenset[Reason]({"span_limit", "bytes_limit", "memory"})


class Parcel:
    """Spans that leave together, once `waits` releases are judged: in one request, large ones in several."""

    __slots__ = ("_then", "chunks", "gone", "marks", "sent", "waits")

    def __init__(self) -> None:
        self.chunks: dict[bytes, int] = {}  # spans by serialised spans: what comes twice is passed on once
        self.marks: dict[tuple[bytes, bytes], bytes] = {}
        self.waits = 0
        self.gone = False  # into the queue
        self.sent = False
        self._then: list[Callable[[], None]] = []

    @property
    def spans(self) -> int:
        return sum(self.chunks.values())

    def requests(self) -> list[dict[bytes, int]]:
        """The chunks of each request: as many as a usual receiver takes, and one that is larger as it came, alone."""
        found: list[dict[bytes, int]] = []
        size = 0
        for data, spans in self.chunks.items():
            size += len(data)
            if not found or size > _REQUEST:
                found.append({})
                size = len(data)
            found[-1][data] = spans
        return found

    def when_sent(self, then: Callable[[], None]) -> None:
        """Calls `then` once the downstream has it, or will never have it."""
        if self.sent:
            then()
        else:
            self._then.append(then)

    def settle(self) -> None:
        self.sent = True
        for each in self._then:
            each()
        self._then.clear()


class Hold:
    """Owned by the loop. Every chunk that it keeps is passed on: with its parcel, or by `let_go`."""

    def __init__(self, forwarder: Forwarder) -> None:
        self.kept = 0  # spans, since the start
        self.spans = 0  # of these, held or in parcels that wait
        self._forwarder = forwarder
        self._held: dict[bytes, dict[bytes, int]] = {}  # by trace, in order of arrival
        self._waiting: dict[Parcel, None] = {}

    def keep(self, chunk: Chunk, kept: bool) -> None:
        """Holds the chunk when the buffer has `kept` it, or it came again while it is held; `chunk.apart` tells."""
        held = self._held.get(chunk.trace_id)
        chunk.apart = kept or (held is not None and chunk.data in held)
        if not chunk.apart:
            return
        if held is None:
            held = self._held[chunk.trace_id] = {}
        held[chunk.data] = held.get(chunk.data, 0) + len(chunk.spans)
        self.kept += len(chunk.spans)
        self.spans += len(chunk.spans)

    def released(self, found: Sequence[Released]) -> list[Parcel]:
        """The parcel of each. What is let go of one trace together leaves together: its parts may share chunks."""
        by_trace: dict[bytes, Parcel] = {}
        parcels: list[Parcel] = []
        for released in found:
            parcel = by_trace.get(released.trace_id)
            if parcel is None:
                parcel = by_trace[released.trace_id] = Parcel()
                self._waiting[parcel] = None
            parcel.waits += 1
            self._fill(parcel, released)
            parcels.append(parcel)
        for released, parcel in zip(found, parcels, strict=True):
            if released.reason in _OVER:
                self._send(parcel)
        return parcels

    def _fill(self, parcel: Parcel, released: Released) -> None:
        for trace_id in released.trace_ids:
            held = self._held.pop(trace_id, {})
            if released.root is None:
                parcel.chunks.update(held)
                continue
            of_part = set(released.chunks)
            parcel.chunks.update({data: spans for data, spans in held.items() if data in of_part})
            if rest := {data: spans for data, spans in held.items() if data not in of_part}:
                self._held[trace_id] = rest

    def judged(self, parcel: Parcel, marks: Marks) -> None:
        """One of its releases is; `marks` is empty where nothing came of it."""
        parcel.marks.update(marks)
        parcel.waits -= 1
        if parcel.waits == 0:
            self._send(parcel)

    def let_go(self) -> None:
        """Passes everything on, unmarked where it isn't judged: the collector stops, and nothing may be lost."""
        for parcel in list(self._waiting):
            self._send(parcel)
        rest = Parcel()
        for held in self._held.values():
            rest.chunks.update(held)
        self._held.clear()
        self._send(rest)

    def _send(self, parcel: Parcel) -> None:
        if parcel.gone:
            return
        parcel.gone = True
        self._waiting.pop(parcel, None)
        self.spans -= parcel.spans
        requests = parcel.requests()
        left = len(requests)

        def one_less(_: str | None) -> None:
            nonlocal left
            left -= 1
            if not left:
                parcel.settle()

        for chunks in requests:
            self._forwarder.enqueue(marked(chunks, parcel.marks), sum(chunks.values()), one_less)
        if not requests:
            parcel.settle()
        parcel.chunks = {}
