"""Message content that an instrumentation puts into events instead of spans: taken from the application's logs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opentelemetry.sdk._logs import LogRecordProcessor


class LogEvidence(LogRecordProcessor):
    """For a LoggerProvider, beside the span processor whose traces it completes."""

    def __init__(self, take: Callable[[Any], None]) -> None:
        self._take = take

    def on_emit(self, log_record: Any) -> None:
        """Never raises: `take` doesn't."""
        self._take(log_record)

    def shutdown(self) -> None:
        """Nothing is held here."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True
