"""Kafka for tests: librdkafka's mock cluster, which speaks the protocol on loopback; producing and reading records."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

TOPIC = "otlp_spans"
QUICK = {"heartbeat.interval.ms": 200, "session.timeout.ms": 6000, "topic.metadata.refresh.interval.ms": 500}


class MockCluster:
    """`with MockCluster() as cluster`: brokers at `cluster.address`, topics made when they are named, 4 partitions."""

    def __enter__(self) -> MockCluster:
        holder = Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 1, "log_level": 3})
        self._holder: Producer | None = holder
        (broker,) = holder.list_topics(timeout=10).brokers.values()
        self.address = f"{broker.host}:{broker.port}"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """No broker is there any more."""
        self._holder = None


@dataclass(frozen=True, slots=True)
class Sent:
    """A record to be produced; `key` as the Collector's Kafka exporter sets it: the trace id in hex."""

    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    headers: Sequence[tuple[str, bytes]] = field(default=())


def produce(address: str, records: Iterable[Sent], topic: str = TOPIC) -> None:
    producer = Producer({"bootstrap.servers": address, "linger.ms": 1, "enable.idempotence": False})
    for record in records:
        partition = {} if record.partition is None else {"partition": record.partition}
        while True:
            try:
                producer.produce(topic, record.value, record.key, headers=list(record.headers), **partition)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(30) == 0


def read_all(address: str, topic: str, count: int, patience: float = 20) -> list[Any]:
    """The first `count` messages of a topic, or fewer when time is up."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "reader", "enable.auto.commit": False})
    deadline = time.monotonic() + patience
    found: list[Any] = []
    try:
        while (topics := consumer.list_topics(topic, timeout=10).topics[topic]).error is not None:
            assert time.monotonic() < deadline, topics.error
            time.sleep(0.1)
        consumer.assign([TopicPartition(topic, number, 0) for number in topics.partitions])
        while len(found) < count and time.monotonic() < deadline:
            found += [m for m in consumer.consume(100, timeout=0.2) if m.error() is None]
    finally:
        consumer.close()
    return found


def committed(address: str, group: str, topic: str = TOPIC, partitions: int = 4) -> dict[int, tuple[int, str | None]]:
    """Offset and metadata by partition, of those that have any."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": group})
    try:
        found = consumer.committed([TopicPartition(topic, n) for n in range(partitions)], timeout=10)
        return {each.partition: (each.offset, each.metadata) for each in found if each.offset >= 0}
    finally:
        consumer.close()
