"""Reports to a Kafka topic: one record a Result, the JSON line of a report file.

Its key is the trace id in hex, as the Collector's Kafka exporter keys spans, so what is said of a trace stays in order.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from onpath_collector.judging import Outcome
from onpath_collector.kafka import Publisher

log: Final = logging.getLogger("onpath")


class KafkaReports:
    """Owned by one event loop. What is given up is counted by the publisher, and each kind of trouble logged once."""

    def __init__(self, topic: str, publisher: Publisher) -> None:
        self.topic = topic
        self.publisher = publisher
        self._made = 0  # records are numbered
        self._under_way: set[int] = set()
        self._order: deque[int] = deque()  # of those that are or were under way
        self._waiting: deque[tuple[int, Callable[[], None]]] = (
            deque()
        )  # whom to tell when all up to a number are through
        self._told: set[str] = set()

    def export(self, outcome: Outcome) -> None:
        for line, verdict in zip(outcome.lines, outcome.verdicts, strict=True):
            headers = {"content-type": "application/json", "onpath.workflow": verdict.workflow}
            headers |= {"onpath.verdict": verdict.verdict, "onpath.revision": str(outcome.revision)}
            encoded = [(name, value.encode("utf-8", "replace")) for name, value in headers.items()]
            self._made += 1
            self._under_way.add(self._made)
            self._order.append(self._made)
            value, done = line.encode("utf-8", "replace"), partial(self._done, self._made)
            self.publisher.send(self.topic, outcome.trace_id.encode(), value, encoded, done)

    def _done(self, number: int, why: str | None) -> None:
        if why is not None and why not in self._told:
            self._told.add(why)
            log.warning("results.kafka: a report is not sent (%s); further ones are only counted", why)
        self._under_way.discard(number)
        while self._order and self._order[0] not in self._under_way:
            self._order.popleft()
        while self._waiting and (not self._order or self._waiting[0][0] < self._order[0]):
            self._waiting.popleft()[1]()

    def when_sent(self, then: Callable[[], None]) -> None:
        """See `base.SendingExporter`."""
        if self._order:
            self._waiting.append((self._made, then))
        else:
            then()

    async def close(self, deadline: float) -> None:
        """Sends what is left until the monotonic clock reads `deadline`; the rest is dropped, and counted."""
        await self.publisher.close(deadline)
