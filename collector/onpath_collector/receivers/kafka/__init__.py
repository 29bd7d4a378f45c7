"""OTLP traces from Kafka topics: a member of a consumer group, and what of its records is settled."""

from onpath_collector.receivers.kafka.endings import Endings
from onpath_collector.receivers.kafka.offsets import Offsets
from onpath_collector.receivers.kafka.receiver import KafkaReceiver
from onpath_collector.receivers.kafka.values import KafkaSettings

__all__ = ["Endings", "KafkaReceiver", "KafkaSettings", "Offsets"]
