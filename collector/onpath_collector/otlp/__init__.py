"""OTLP protobuf <-> what the buffer and the core need: the only reader of protobuf spans and log records.

Received bytes -> `split` -> one Chunk of bytes and small tuples a trace -> the buffer -> `decode` -> Span values.
Protobuf messages never leave this package: a retained sub-message keeps its whole request in memory.
"""

from onpath_collector.otlp.decoding import decode
from onpath_collector.otlp.items import counting_points
from onpath_collector.otlp.json import from_json, most_memory
from onpath_collector.otlp.parts import more_parts
from onpath_collector.otlp.recorded import decode_recorded
from onpath_collector.otlp.splitting import (
    COMPLETE,
    Batch,
    Chunk,
    Evidence,
    SpanIndex,
    Wanted,
    is_declared_root,
    sound_only,
    split,
    split_logs,
    splitting,
    splitting_logs,
)
from onpath_collector.otlp.steps import STEP, Steps, at_once
from onpath_collector.otlp.wire import DecodeError, TooManyCopies

__all__ = [
    "COMPLETE",
    "STEP",
    "Batch",
    "Chunk",
    "DecodeError",
    "Evidence",
    "SpanIndex",
    "Steps",
    "TooManyCopies",
    "Wanted",
    "at_once",
    "counting_points",
    "decode",
    "decode_recorded",
    "from_json",
    "is_declared_root",
    "more_parts",
    "most_memory",
    "sound_only",
    "split",
    "split_logs",
    "splitting",
    "splitting_logs",
]
