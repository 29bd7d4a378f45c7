"""What splitting and decoding share: parsing with one kind of error, and putting serialised records back together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias, TypeVar

from google.protobuf.message import DecodeError as _ProtobufError
from google.protobuf.message import Message

M = TypeVar("M", bound=Message)

_RESOURCES: Final = b"\x0a"  # wire tag of resource_spans and resource_logs: field 1, length-delimited ...
_LARGE: Final = 4096  # bytes of a record: larger ones are not copied for the sake of shorter lists
_INSIDE: Final = b"\x12"  # ... and of scope_spans, spans, scope_logs and log_records: field 2


class DecodeError(ValueError):
    """Bytes that are no such OTLP message."""


def parse(kind: type[M], data: bytes) -> M:
    """Raises DecodeError, whatever the bytes."""
    try:
        return kind.FromString(data)
    except _ProtobufError:
        raise DecodeError(f"not a serialised {kind.DESCRIPTOR.full_name} of {len(data)} bytes") from None


def by_trace(
    request: Any, outer: str, middle: str, inner: str, chosen: Callable[[Any], bool] | None = None
) -> dict[bytes, tuple[bytes, int]]:
    """The records of each trace, serialised under their resources and scopes with all unknown fields, and their number.

    Protobuf lets the fields of a message stand in any order, so an emptied scope followed by its records is the scope
    again, and no record is copied as a message. `request` is taken apart on the way and of no use afterwards.
    """
    traces: dict[bytes, list[_Parts]] = {}
    counts: dict[bytes, int] = {}
    for group in getattr(request, outer):
        groups: dict[bytes, list[_Parts]] = {}
        for scope in getattr(group, middle):
            scopes: dict[bytes, _Parts] = {}
            for record in getattr(scope, inner):
                if chosen is None or chosen(record):
                    trace_id, data = record.trace_id, record.SerializeToString()
                    parts = scopes.get(trace_id)
                    if parts is None:
                        parts = scopes[trace_id] = [b""]  # for what stands around them
                    parts += (_INSIDE, varint(len(data)), data)
            scope.ClearField(inner)
            head = scope.SerializeToString()
            for trace_id, parts in scopes.items():
                counts[trace_id] = counts.get(trace_id, 0) + len(parts) // 3
                parts[0] = head
                groups.setdefault(trace_id, []).append(parts if len(parts[-1]) > _LARGE else [b"".join(parts)])
        group.ClearField(middle)
        head = group.SerializeToString()
        for trace_id, messages in groups.items():
            traces.setdefault(trace_id, []).append(_framed(head, _INSIDE, messages))
    request.ClearField(outer)
    head = request.SerializeToString()
    return {
        trace_id: (b"".join(_framed(head, _RESOURCES, messages)), counts[trace_id])
        for trace_id, messages in traces.items()
    }


_Parts: TypeAlias = list[bytes]  # of one serialised message, not yet joined: large ones are copied once


def _framed(head: bytes, tag: bytes, parts: Iterable[_Parts]) -> _Parts:
    """A serialised message with serialised messages added to one of its fields."""
    pieces = [head]
    for part in parts:
        pieces += (tag, varint(sum(map(len, part))))
        pieces += part
    return pieces


def joined(head: bytes, tag: bytes, parts: Iterable[bytes]) -> bytes:
    """A serialised message with serialised messages added to one of its fields."""
    return b"".join(_framed(head, tag, [[part] for part in parts]))


def varint(number: int) -> bytes:
    if number < 0x80:
        return bytes((number,))
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
