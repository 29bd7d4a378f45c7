"""What splitting and decoding share: parsing with one kind of error, and putting serialised records back together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias, TypeVar

from google.protobuf.message import DecodeError as _ProtobufError
from google.protobuf.message import Message

from onpath_collector.otlp.steps import Pace, Steps, slices

M = TypeVar("M", bound=Message)

_RESOURCES: Final = b"\x0a"  # wire tag of resource_spans and resource_logs: field 1, length-delimited ...
_LARGE: Final = 4096  # bytes of a record: larger ones are not copied for the sake of shorter lists
_COPIES: Final = 64 << 20  # bytes that resources and scopes may take for being copied to each trace of a request
_INSIDE: Final = b"\x12"  # ... and of scope_spans, spans, scope_logs and log_records: field 2


class DecodeError(ValueError):
    """Bytes that are no such OTLP message."""


class TooManyCopies(DecodeError):
    """A request whose resources and scopes, which each of its traces gets a copy of, would take too much memory."""


def parse(kind: type[M], data: bytes) -> M:
    """Raises DecodeError, whatever the bytes."""
    try:
        return kind.FromString(data)
    except _ProtobufError:
        raise DecodeError(f"not a serialised {kind.DESCRIPTOR.full_name} of {len(data)} bytes") from None


def by_trace(
    request: Any, outer: str, middle: str, inner: str, pace: Pace, chosen: Callable[[Any], bool] | None = None
) -> Steps[dict[bytes, tuple[bytes, int]]]:
    """The records of each trace, serialised under their resources and scopes with all unknown fields, and their number.

    Protobuf lets the fields of a message stand in any order, so an emptied scope followed by its records is the scope
    again, and no record is copied as a message. `request` is taken apart on the way and of no use afterwards. Raises
    TooManyCopies.
    """
    traces: dict[bytes, list[_Parts]] = {}
    counts: dict[bytes, int] = {}
    copies = 0
    for group in getattr(request, outer):
        groups: dict[bytes, list[_Parts]] = {}
        for scope in getattr(group, middle):
            scopes = yield from _by_trace(getattr(scope, inner), pace, chosen)
            scope.ClearField(inner)
            head = scope.SerializeToString()
            copies = _copied(copies, head, len(scopes))
            for few in slices(scopes.items()):
                for trace_id, parts in few:
                    counts[trace_id] = counts.get(trace_id, 0) + len(parts) // 3
                    parts[0] = head
                    groups.setdefault(trace_id, []).append(parts if len(parts[-1]) > _LARGE else [b"".join(parts)])
                if pace.over(1 + len(few)):
                    yield
        group.ClearField(middle)
        head = group.SerializeToString()
        copies = _copied(copies, head, len(groups))
        for some in slices(groups.items()):
            for trace_id, messages in some:
                traces.setdefault(trace_id, []).append(_framed(head, _INSIDE, messages))
            if pace.over(1 + len(some)):
                yield
    request.ClearField(outer)
    head = request.SerializeToString()
    _copied(copies, head, len(traces))
    found: dict[bytes, tuple[bytes, int]] = {}
    for these in slices(traces.items()):
        for trace_id, messages in these:
            found[trace_id] = b"".join(_framed(head, _RESOURCES, messages)), counts[trace_id]
            messages.clear()  # giving it all back at the end would take long
        if pace.over(len(these)):
            yield
    return found


def _by_trace(records: Any, pace: Pace, chosen: Callable[[Any], bool] | None) -> Steps[dict[bytes, _Parts]]:
    """The records of one scope, serialised, with room for what stands around them."""
    scopes: dict[bytes, _Parts] = {}
    for few in slices(records):
        for record in few:
            if chosen is None or chosen(record):
                trace_id, data = record.trace_id, record.SerializeToString()
                parts = scopes.get(trace_id)
                if parts is None:
                    parts = scopes[trace_id] = [b""]
                parts += (_INSIDE, varint(len(data)), data)
        if pace.over(len(few)):
            yield
    return scopes


def _copied(copies: int, head: bytes, traces: int) -> int:
    """Bytes of copies, those of one more head counted."""
    copies += len(head) * max(0, traces - 1)
    if copies > _COPIES:
        raise TooManyCopies("resources and scopes too large for so many traces in one request; send smaller ones")
    return copies


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
