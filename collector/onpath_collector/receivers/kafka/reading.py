"""What a record holds, as a request; what of it can't be taken, as a dead letter.

value -> size -> JSON to protobuf -> weight -> ExportTraceServiceRequest
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, Literal, TypeAlias

from onpath_collector.kafka import Publisher
from onpath_collector.otlp import from_json, most_memory
from onpath_collector.receivers.base import TooLarge
from onpath_collector.receivers.http_answers import reason
from onpath_collector.receivers.weight import Scales

Encoding: TypeAlias = Literal["otlp_proto", "otlp_json"]

_SMALL: Final = 64 << 10  # bytes of JSON that are read at once, larger ones beside the loop
_JSON_MEMORY: Final = 16  # times the limit: what the values of a JSON record may take
_IN_FLIGHT: Final = 4  # times the limit: as other receivers weigh requests
_TOLD: Final = 500  # characters of an error that go with a dead letter


class Reader:
    """`limit` is in bytes. A record without a value is an empty request."""

    def __init__(self, encoding: Encoding, limit: int) -> None:
        self._encoding = encoding
        self._limit = limit
        self._scales = Scales(_IN_FLIGHT * limit)

    async def request(self, value: bytes | None) -> bytes:
        """Raises TooLarge, DecodeError, Refused."""
        body = value or b""
        if len(body) > self._limit:
            raise TooLarge(f"larger than {self._limit} bytes")
        if self._encoding == "otlp_json" and body:
            if len(body) <= _SMALL:
                body = self._from_json(body)
            else:
                body = await asyncio.to_thread(self._from_json, body)
        await self._scales.weigh("traces", body)
        return body

    def _from_json(self, body: bytes) -> bytes:
        if most_memory(body) > _JSON_MEMORY * self._limit:
            raise TooLarge("too many values for one JSON record")
        return from_json("traces", body)


class DeadLetters:
    """Where records go that can't be taken: as they were, with headers that say whence and why."""

    def __init__(self, publisher: Publisher, topic: str) -> None:
        self.publisher = publisher
        self.topic = topic

    def headers(self, message: Any, error: Exception) -> list[tuple[str, bytes]]:
        own = {
            "onpath.source.topic": message.topic(),
            "onpath.source.partition": message.partition(),
            "onpath.source.offset": message.offset(),
            "onpath.source.timestamp": message.timestamp()[1],
            "onpath.error.reason": reason(error),
            "onpath.error": str(error)[:_TOLD] or type(error).__name__,
        }
        return [*(message.headers() or ()), *((name, str(value).encode()) for name, value in own.items())]
