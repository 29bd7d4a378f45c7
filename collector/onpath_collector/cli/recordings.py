"""Reads recorded OTLP protobuf: one message, or messages with the length before each. Found as `onpath.readers`.

A file is framed in one of three ways: one message alone, a varint length before each (protobuf's own delimited
streams), or a length of four bytes, big-endian (the OpenTelemetry Collector's file exporter). Nothing in the bytes says
which, so each is tried, and the one that leads through the whole file counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from onpath.recordings import Recording, RecordingError
from onpath_collector.otlp import DecodeError, decode_recorded

Framing: TypeAlias = Callable[[bytes], Iterator[tuple[int, bytes]]]
"""Yields each message with its place in the file; raises _Unreadable."""


class _Unreadable(Exception):
    def __init__(self, at: int, problem: str) -> None:
        super().__init__(problem)
        self.at = at
        self.messages = 0  # read before it


def read(data: bytes, name: str) -> Recording:
    """All spans and log records of a recording, in the order they stand there. Raises RecordingError.

    The error is that of the framing in which most messages could be read.
    """
    errors = []
    for framing in _FRAMINGS:
        try:
            return _recording(framing(data))
        except _Unreadable as error:
            errors.append(error)
    best = max(errors, key=lambda e: e.messages)  # the first of equals: one message alone
    what = "no OTLP protobuf" if best.messages else "neither OTLP/JSON nor OTLP protobuf"
    raise RecordingError(f"{name}: {what} at byte {best.at}: {best}")


def _recording(messages: Iterator[tuple[int, bytes]]) -> Recording:
    recording = Recording()
    read = 0
    try:
        for at, message in messages:
            try:
                recording.extend(Recording(*decode_recorded(message)))
            except DecodeError as error:
                raise _Unreadable(at, str(error)) from None
            read += 1
    except _Unreadable as error:
        error.messages = read
        raise
    return recording


def _alone(data: bytes) -> Iterator[tuple[int, bytes]]:
    yield 0, data


def _delimited(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        size = shift = 0
        start = at
        while True:
            if at == len(data) or shift > 28:
                raise _Unreadable(start, "no length of a message")
            byte = data[at]
            size |= (byte & 0x7F) << shift
            shift += 7
            at += 1
            if byte < 0x80:
                break
        yield at, _message(data, at, size)
        at += size


def _fixed(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4])
        yield at + 4, _message(data, at + 4, size)
        at += 4 + size


def _message(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise _Unreadable(at, f"message of {size} bytes, {max(0, len(data) - at)} left")
    return data[at : at + size]


_FRAMINGS: Final[tuple[Framing, ...]] = (_alone, _delimited, _fixed)
