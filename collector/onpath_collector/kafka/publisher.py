"""A Kafka producer on the event loop: records wait in librdkafka, answers are looked for while there are any to come.

send -> librdkafka's queue (bounded) -> broker -> `then(None)`, or the reason why it will never have the record
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from onpath_collector.kafka.client import connection, library

_LOOK: Final = 0.02  # seconds between looks for answers
_DRAINING: Final = 0.005
STOPPED: Final = "shutdown"

Headers = Sequence[tuple[str, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublisherSettings:
    """`options` are librdkafka's, over these defaults; bytes bound what waits."""

    brokers: Sequence[str]
    options: Mapping[str, str] = field(default_factory=dict)
    bytes: int = 64 << 20


@dataclass(slots=True)
class Published:
    """Records: accepted = sent + dropped (by reason) + queued."""

    accepted: int = 0
    sent: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    queued: int = 0


class Publisher:
    """Owned by one event loop; `close` is safe again. Raises ValueError for options that librdkafka refuses."""

    def __init__(self, name: str, settings: PublisherSettings) -> None:
        kafka = library()
        self.counts = Published()
        self._errors: tuple[type[Exception], ...] = (BufferError, kafka.KafkaException)
        kibibytes = {"queue.buffering.max.kbytes": str(max(1, settings.bytes >> 10)), "linger.ms": "50"}
        defaults = {**kibibytes, "enable.idempotence": "true", "compression.type": "lz4", **settings.options}
        try:
            self._producer = kafka.Producer(connection(name, settings.brokers, defaults, {}))
        except kafka.KafkaException as error:
            raise ValueError(f"{name}: {error.args[0].str()}") from None
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def send(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, then: Callable[[str | None], None]
    ) -> None:
        """`then` is called once, maybe at once, with the reason why the record will never get there, if so; not for
        what is left at `close`."""
        self.counts.accepted += 1
        self.counts.queued += 1
        try:
            done = partial(self._done, then)
            self._producer.produce(topic, value=value, key=key, headers=list(headers), on_delivery=done)
        except self._errors as error:  # its queue is full, or the record too large for it
            self._settle("queue_full" if isinstance(error, BufferError) else _reason(error.args[0]), then)
            return
        self._watch()

    def _done(self, then: Callable[[str | None], None], error: Any, _: object) -> None:
        if not self._closed:
            self._settle(None if error is None else _reason(error), then)

    def _settle(self, reason: str | None, then: Callable[[str | None], None]) -> None:
        self.counts.queued -= 1
        if reason is None:
            self.counts.sent += 1
        else:
            self.counts.dropped[reason] += 1
        then(reason)

    def _watch(self) -> None:
        if self._timer is None and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(_LOOK, self._look)

    def _look(self) -> None:
        self._timer = None
        self._producer.poll(0)
        if self.counts.queued:
            self._watch()

    async def close(self, deadline: float) -> None:
        """Sends what is queued until the monotonic clock reads `deadline`; the rest is dropped, and counted."""
        while self.counts.queued and not self._closed and time.monotonic() < deadline:
            self._producer.poll(0)
            await asyncio.sleep(_DRAINING)
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.counts.queued:
            self.counts.dropped[STOPPED] += self.counts.queued
            self.counts.queued = 0
            self._producer.purge()


def _reason(error: Any) -> str:
    """A label: librdkafka's own name of the error."""
    name: str = error.name()
    return name.strip("_").lower()
