"""What everything that speaks to Kafka shares: librdkafka's options, its log, a producer on the event loop."""

from onpath_collector.kafka.client import EXTRA, OnceLog, connection, library
from onpath_collector.kafka.publisher import Published, Publisher, PublisherSettings
from onpath_collector.kafka.threads import DaemonThreads

__all__ = ["EXTRA", "DaemonThreads", "OnceLog", "Published", "Publisher", "PublisherSettings", "connection", "library"]
