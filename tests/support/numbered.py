"""Agent runs by number: their spans are known by place again, so that millions are counted in a byte each.

Span `place` (0 to 3, the root last) of run `number` has the index 4 * number + place.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.load import request, traces

SPANS = 4
ALL = tuple(range(SPANS))


def encoded(number: int, places: Sequence[int] = ALL) -> bytes:
    """A request of these spans of one run; requests put one after another are a request of all."""
    body, trace_id, span_ids = _template(tuple(places))
    body = body.replace(trace_id, (number + 1).to_bytes(16, "big"))
    for place, span_id in enumerate(span_ids):
        body = body.replace(span_id, (SPANS * number + place + 1).to_bytes(8, "big"))
    return body


@cache
def _template(places: tuple[int, ...]) -> tuple[bytes, bytes, list[bytes]]:
    spans = traces(random.Random(1), 1)
    body = request(spans[place] for place in places)
    return body, spans[0].trace_id, [span.span_id for span in spans]


def indices(number: int, places: Sequence[int] = ALL) -> list[int]:
    return [SPANS * number + place for place in places]


def number_of(trace_id: str) -> int:
    """Of a trace id in hex."""
    return int(trace_id, 16) - 1


def read(body: bytes) -> tuple[list[int], int]:
    """Indices of the spans in a request, and how many spans are not an agent's: results of the collector's."""
    found, others = [], 0
    for group in ExportTraceServiceRequest.FromString(body).resource_spans:
        for scope in group.scope_spans:
            if scope.scope.name == "onpath":
                others += len(scope.spans)
            else:
                found += [int.from_bytes(span.span_id, "big") - 1 for span in scope.spans]
    return found, others


class Tally:
    """How often each index has come, up to 255 times."""

    def __init__(self) -> None:
        self.counts = bytearray()

    def add(self, found: Sequence[int]) -> None:
        most = max(found, default=-1)
        if most >= len(self.counts):
            self.counts.extend(bytes(most + 65_536 - len(self.counts)))
        for index in found:
            self.counts[index] = min(255, self.counts[index] + 1)

    @property
    def total(self) -> int:
        return sum(self.counts)

    @property
    def distinct(self) -> int:
        return len(self.counts) - self.counts.count(0)

    def missing_of(self, wanted: Tally) -> int:
        """How many of what is wanted are not here so often."""
        here = self.counts.ljust(len(wanted.counts), b"\0")
        return sum(max(0, w - h) for w, h in zip(wanted.counts, here, strict=False))

    def numbers(self) -> set[int]:
        """The runs of which something has come."""
        return {index // SPANS for index, count in enumerate(self.counts) if count}
