"""What of a collector speaks to Kafka, made of its settings: the receiver, the exporter of reports, their metrics.

records -> KafkaReceiver -> RecordIntake -> ... -> results out -> Endings -> Offsets -> committed
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from onpath_collector.buffer import TraceBuffer
from onpath_collector.config import Settings
from onpath_collector.counts import TraceCounts
from onpath_collector.exporters.kafka import KafkaReports
from onpath_collector.kafka import Publisher, PublisherSettings
from onpath_collector.kafka_metrics import KafkaMetrics
from onpath_collector.receivers.kafka import Endings, KafkaReceiver, KafkaSettings, Offsets
from onpath_collector.record_intake import RecordIntake

log: Final = logging.getLogger("onpath")


class KafkaParts:
    """`keeper` is who is told of released traces; None without a receiver. `wire` once, before `start`."""

    def __init__(self, settings: Settings) -> None:
        """Raises ValueError where the extra is missing, or for options that librdkafka refuses."""
        self._settings = settings.receivers.kafka
        self._offsets = Offsets(self._settings.look_back)
        self.keeper = Endings(self._offsets) if self._settings.brokers else None
        self._receiver: KafkaReceiver | None = None
        self._reports: KafkaReports | None = None
        results = settings.results.kafka
        if results.brokers:
            publisher = Publisher("results.kafka", PublisherSettings(brokers=results.brokers, options=results.options))
            self._reports = KafkaReports(results.topic, publisher)

    def wire(self, intake: RecordIntake, buffer: TraceBuffer, counts: TraceCounts) -> None:
        """Raises ValueError where the extra is missing."""
        if self.keeper is None:
            return

        def give_up(numbers: set[int], reason: str) -> set[int]:
            traces, tags = buffer.give_up(numbers, reason)
            if traces:
                counts.dropped[reason] += traces
            return tags

        settings = KafkaSettings(**self._settings.model_dump())
        self._receiver = KafkaReceiver(settings, intake, self._offsets, give_up, intake.behind)

    @property
    def receivers(self) -> Sequence[KafkaReceiver]:
        return () if self._receiver is None else (self._receiver,)

    @property
    def exporters(self) -> Sequence[KafkaReports]:
        return () if self._reports is None else (self._reports,)

    @property
    def metrics(self) -> KafkaMetrics:
        return KafkaMetrics(self._receiver, self._reports)

    async def start(self) -> None:
        """Raises ValueError for options that librdkafka refuses."""
        if self._receiver is not None:
            await self._receiver.start()
            settings = self._settings
            log.info("receiving from Kafka: %s, as group %s", ", ".join(settings.topics), settings.group_id)

    async def stop(self, grace: float) -> None:
        await asyncio.gather(*(receiver.stop(grace) for receiver in self.receivers))

    async def close(self, deadline: float) -> None:
        """Sends what is left until the monotonic clock reads `deadline`."""
        await asyncio.gather(*(exporter.close(deadline) for exporter in self.exporters))
