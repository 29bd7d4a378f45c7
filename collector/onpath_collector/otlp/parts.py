"""How many messages a serialised request is made of, told without making them.

An empty message takes two bytes on the wire and some sixty in memory, whoever sent it: so a large request is looked
through before it is parsed.
"""

from __future__ import annotations

from functools import cache
from typing import Final, Literal, TypeAlias

from google.protobuf.descriptor import Descriptor
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_Table: TypeAlias = "dict[int, _Table]"
"""Of a message type: the table of each field that holds messages, by the field's key on the wire."""

_REQUESTS: Final = {
    "traces": ExportTraceServiceRequest.DESCRIPTOR,
    "metrics": ExportMetricsServiceRequest.DESCRIPTOR,
    "logs": ExportLogsServiceRequest.DESCRIPTOR,
}
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5  # wire types


def more_parts(signal: Literal["traces", "metrics", "logs"], data: bytes, most: int) -> bool:
    """Whether a request holds more than `most` messages. What is malformed counts as far as it goes: parsing tells."""
    try:
        return _count(data, _table(_REQUESTS[signal]), most) > most
    except IndexError:
        return False


@cache
def _table(descriptor: Descriptor) -> _Table:
    tables: dict[str, _Table] = {}

    def made(of: Descriptor) -> _Table:
        if of.full_name not in tables:
            table = tables[of.full_name] = {}
            for field in of.fields:
                if field.message_type is not None:
                    table[field.number << 3 | _LENGTH] = made(field.message_type)
        return tables[of.full_name]

    return made(descriptor)


def _count(data: bytes, table: _Table, most: int) -> int:
    """Raises IndexError where the data ends in the midst of something."""
    count, at, end = 0, 0, len(data)
    outer: list[tuple[int, _Table]] = []
    while count <= most:
        while at >= end:
            if not outer:
                return count
            end, table = outer.pop()
        key = data[at]
        at += 1
        if key >= 0x80:
            key, at = _varint(data, at - 1)
        wire = key & 7
        if wire == _LENGTH:
            length = data[at]
            at += 1
            if length >= 0x80:
                length, at = _varint(data, at - 1)
            inner = table.get(key)
            if inner is None:
                at += length
            else:
                count += 1
                outer.append((end, table))
                end, table = min(at + length, end), inner
        elif wire == _VARINT:
            while data[at] >= 0x80:
                at += 1
            at += 1
        elif wire == _FIXED64:
            at += 8
        elif wire == _FIXED32:
            at += 4
        else:
            raise IndexError
    return count


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A varint and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80 or shift > 63:
            return value, at
        shift += 7
