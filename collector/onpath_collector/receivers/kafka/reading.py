"""What a record holds, as a request; what of it can't be taken, as a dead letter.

value -> size -> JSON to protobuf -> weight -> ExportTraceServiceRequest
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

from onpath_collector.kafka import Publisher
from onpath_collector.otlp import from_json, most_memory
from onpath_collector.receivers.base import TooLarge
from onpath_collector.receivers.http_answers import reason
from onpath_collector.receivers.weight import Scales

Encoding: TypeAlias = Literal["otlp_proto", "otlp_json"]

log: Final = logging.getLogger("onpath")

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
    """Where records go that can't be taken: to a topic, if one is opened, as they were, with headers that say whence
    and why."""

    def __init__(self) -> None:
        self._publisher: Publisher | None = None
        self._topic = ""
        self._told: set[str] = set()

    def open(self, publisher: Publisher, topic: str) -> None:
        self._publisher, self._topic = publisher, topic

    def send(self, message: Any, error: Exception, then: Callable[[str | None], None]) -> None:
        """`then` is called once, maybe at once, with the reason why no dead letter is kept, if so."""

        def done(why: str | None) -> None:
            if why is not None and why not in self._told:
                self._told.add(why)
                text = "a record can't be taken (%s, %s [%d] at %d) and no dead letter of it is kept (%s); further ones"
                place = (message.topic(), message.partition(), message.offset())
                log.error(f"{text} are only counted", error, *place, why)
            then(why)

        if self._publisher is None:
            done("no_topic")
        else:
            self._publisher.send(self._topic, message.key(), message.value(), _headers(message, error), done)

    async def close(self, deadline: float) -> None:
        """Sends what is left until the monotonic clock reads `deadline`."""
        if self._publisher is not None:
            await self._publisher.close(deadline)


def _headers(message: Any, error: Exception) -> list[tuple[str, bytes]]:
    own = {
        "onpath.source.topic": message.topic(),
        "onpath.source.partition": message.partition(),
        "onpath.source.offset": message.offset(),
        "onpath.source.timestamp": message.timestamp()[1],
        "onpath.error.reason": reason(error),
        "onpath.error": str(error)[:_TOLD] or type(error).__name__,
    }
    return [*(message.headers() or ()), *((name, str(value).encode("utf-8", "replace")) for name, value in own.items())]
