"""What the receiver is told, and what it counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from onpath_collector.receivers.kafka.reading import Encoding


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings:
    """Seconds and bytes. `options` are librdkafka's."""

    brokers: Sequence[str]
    topics: Sequence[str] = ("otlp_spans",)
    encoding: Encoding = "otlp_proto"
    group_id: str = "onpath"
    initial_offset: str = "earliest"
    commit_interval: float = 1.0
    look_back: float = 30.0
    dead_letter_topic: str | None = None
    forward: bool = True
    max_request: int = 64 << 20
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class RecordCounts:
    """Records read = taken + poison + settled before + given back + waiting.

    What is given back is read again by its next owner.
    """

    read: int = 0
    taken: int = 0
    poison: int = 0
    settled_before: int = 0  # by whoever had the partition before
    given_back: int = 0  # read, and the partition gone before they were taken
    dead_letters: Counter[str] = field(default_factory=Counter)  # sent, dropped (none is configured), or why not sent
    rebalances: Counter[str] = field(default_factory=Counter)  # partitions, by what became of them
    errors: Counter[str] = field(default_factory=Counter)  # that librdkafka told of, by name
    pauses: int = 0
