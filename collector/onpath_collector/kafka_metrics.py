"""What is counted of Kafka, as metrics: read when someone asks, never kept twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from onpath_collector.exporters.kafka import KafkaReports
from onpath_collector.receivers.kafka import KafkaReceiver


class KafkaMetrics:
    """A prometheus_client collector. Labels `topic` and `partition` are those of partitions that are assigned."""

    def __init__(self, receiver: KafkaReceiver | None, reports: KafkaReports | None) -> None:
        self._receiver = receiver
        self._reports = reports

    def describe(self) -> Iterable[Metric]:
        """Nothing: registering must not read what is not there yet."""
        return ()

    def collect(self) -> Iterator[Metric]:
        if self._receiver is not None:
            yield from _partitions(self._receiver)
            yield from _records(self._receiver)
        if self._reports is not None:
            yield from _reports(self._reports)


def _partitions(receiver: KafkaReceiver) -> Iterator[Metric]:
    labels = ["topic", "partition"]
    position = GaugeMetricFamily("onpath_kafka_position", "The offset of the next record to be taken", labels=labels)
    told = "The low watermark: every record before this offset is settled"
    watermark = GaugeMetricFamily("onpath_kafka_watermark", told, labels=labels)
    told = "The committed offset, where the next owner begins to read"
    committed = GaugeMetricFamily("onpath_kafka_committed", told, labels=labels)
    lag = GaugeMetricFamily("onpath_kafka_lag_records", "Records of the partition not taken yet", labels=labels)
    unsettled = GaugeMetricFamily("onpath_kafka_unsettled_records", "Records taken and not settled", labels=labels)
    for place, partition in receiver.offsets.partitions.items():
        values = [place.topic, str(place.partition)]
        unsettled.add_metric(values, partition.held)
        if partition.mark is not None:
            committed.add_metric(values, partition.mark.start)
        if partition.position is None or partition.watermark is None:
            continue
        position.add_metric(values, partition.position)
        watermark.add_metric(values, partition.watermark)
        if place in receiver.ends:
            lag.add_metric(values, max(0, receiver.ends[place] - partition.position))
    yield from (position, watermark, committed, lag, unsettled)


def _records(receiver: KafkaReceiver) -> Iterator[Metric]:
    counts = receiver.records
    outcomes = {
        "taken": counts.taken,
        "poison": counts.poison,
        "settled_before": counts.settled_before,
        "given_back": counts.given_back,
    }
    yield CounterMetricFamily("onpath_kafka_records_read", "Records read", value=counts.read)
    yield _by("onpath_kafka_records", "Records by what became of them", outcomes, "outcome")
    yield GaugeMetricFamily("onpath_kafka_records_waiting", "Records read and not taken yet", value=receiver.waiting)
    yield GaugeMetricFamily("onpath_kafka_paused_partitions", "Partitions not read for now", value=receiver.paused)
    yield CounterMetricFamily("onpath_kafka_pauses", "Times that reading was paused", value=counts.pauses)
    yield _by("onpath_kafka_partitions", "Partitions that came and went", counts.rebalances, "event")
    yield _by("onpath_kafka_dead_letters", "Records that can't be taken, by outcome", counts.dead_letters, "outcome")
    yield _by("onpath_kafka_errors", "Errors that the client told of, by name", counts.errors, "error")


def _reports(reports: KafkaReports) -> Iterator[Metric]:
    counts = reports.publisher.counts
    yield CounterMetricFamily("onpath_kafka_reports", "Results to be sent to the topic", value=counts.accepted)
    yield CounterMetricFamily("onpath_kafka_sent_reports", "Results that the topic has", value=counts.sent)
    yield _by("onpath_kafka_dropped_reports", "Results given up, by reason", counts.dropped, "reason")
    yield GaugeMetricFamily("onpath_kafka_queued_reports", "Results on their way", value=counts.queued)


def _by(name: str, told: str, counts: Mapping[str, int], label: str) -> Metric:
    family = CounterMetricFamily(name, told, labels=[label])
    for value, count in counts.items():
        family.add_metric([value], count)
    return family
