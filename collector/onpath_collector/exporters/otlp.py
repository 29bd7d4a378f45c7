"""Results as OTLP to where people already look: evaluation spans as traces, events as logs, counts as metrics.

Outcome.spans, .logs (serialised requests) -> gathered for a moment -> one request -> forward queue of the signal
Outcome.measured -> ResultMetrics -> a request every so often -> forward queue of the signal

Serialised protobuf messages of one type, put one after another, are one message with all their repeated fields, so
gathering is joining bytes. Results can't be refused like a sender can: over the queue's bounds they are dropped, with a
count. A backend without the service (Phoenix and MLflow take no logs) switches that signal off, with one log line.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from onpath_collector.downstream import Signal
from onpath_collector.forward import Forwarder
from onpath_collector.judging import Outcome

if TYPE_CHECKING:
    from onpath_collector.exporters.otlp_metrics import ResultMetrics

_log: Final = logging.getLogger("onpath")
_GATHER: Final = 0.2  # seconds; nobody waits for a result, and one request a trace would be many
_GATHER_BYTES: Final = 1 << 20
NO_SERVICE: Final = frozenset({"unimplemented", "http_404", "http_405", "http_501"})  # why a signal is off
_STOPPED: Final = "shutdown"  # why what is left at the end is dropped


class _Batch:
    """Outcomes that leave in one request."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.items = 0
        self.size = 0
        self.settled = False
        self.then: list[Callable[[], None]] = []

    def settle(self) -> None:
        self.settled = True
        for each in self.then:
            each()
        self.then.clear()


class _Signal:
    def __init__(self, name: str, forwarder: Forwarder) -> None:
        self.forwarder = forwarder
        self.dropped: Counter[str] = Counter()
        self._name = name
        self._gathered = _Batch()
        self._last: _Batch | None = None  # that something was put into
        self._timer: asyncio.TimerHandle | None = None
        self.off = False

    def add(self, body: bytes, items: int) -> None:
        if self.off:
            self.dropped["switched_off"] += items
            return
        if self._gathered.size + len(body) > _GATHER_BYTES:
            self.flush()  # one that is too large for the backend is refused alone
        batch = self._last = self._gathered
        batch.parts.append(body)
        batch.items += items
        batch.size += len(body)
        if batch.size >= _GATHER_BYTES:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_GATHER, self.flush)

    def flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch = self._gathered
        if not batch.parts:
            return
        self._gathered = _Batch()
        body = b"".join(batch.parts)
        batch.parts.clear()
        if self.forwarder.fits(len(body)):
            self.forwarder.enqueue(body, batch.items, lambda reason: self._settled(batch, reason))
        else:
            self.dropped["queue_full"] += batch.items
            batch.settle()

    def when_sent(self, then: Callable[[], None]) -> None:
        if self._last is None or self._last.settled:
            then()
        else:
            self._last.then.append(then)

    def _settled(self, batch: _Batch, reason: str | None) -> None:
        if reason in NO_SERVICE and not self.off:
            self.off = True
            _log.warning("results: the backend takes no OTLP %s; they are no longer sent there", self._name)
        if reason != _STOPPED:
            batch.settle()


class OtlpResults:
    """Sends what outcomes hold. `dropped` counts results by signal and reason; what the queues lose they count."""

    def __init__(
        self, forwarders: Mapping[Signal, Forwarder], metrics: ResultMetrics | None = None, interval: float = 60.0
    ) -> None:
        """A signal without a forwarder isn't sent. `metrics` is sent every `interval` seconds, and at the end."""
        self._signals: dict[Signal, _Signal] = {name: _Signal(name, each) for name, each in forwarders.items()}
        self._metrics = metrics
        self._interval = interval
        self._timer: asyncio.TimerHandle | None = None

    @property
    def forwarders(self) -> Mapping[Signal, Forwarder]:
        return {name: signal.forwarder for name, signal in self._signals.items()}

    @property
    def dropped(self) -> Mapping[Signal, Counter[str]]:
        return {name: signal.dropped for name, signal in self._signals.items()}

    def start(self) -> None:
        for signal in self._signals.values():
            signal.forwarder.start()
        self._schedule()

    def export(self, outcome: Outcome) -> None:
        self._add("traces", outcome.spans, len(outcome.verdicts))
        self._add("logs", outcome.logs, outcome.evaluations)
        if self._metrics is not None and not self._signals["metrics"].off:
            self._metrics.record(outcome.measured)

    def _add(self, name: Signal, body: bytes, items: int) -> None:
        signal = self._signals.get(name)
        if body and signal is not None:
            signal.add(body, items)

    def _schedule(self) -> None:
        if self._metrics is not None:
            self._timer = asyncio.get_running_loop().call_later(self._interval, self._send_metrics)

    def _send_metrics(self) -> None:
        self._collect()
        self._schedule()

    def _collect(self) -> None:
        if self._metrics is not None and not self._signals["metrics"].off:
            body, count = self._metrics.collect()
            self._add("metrics", body, count)

    def when_sent(self, then: Callable[[], None]) -> None:
        """See `base.SendingExporter`."""
        for name in ("traces", "logs"):  # metrics are sums: they start anew with the collector
            signal = self._signals.get(name)
            if signal is not None:
                then = partial(signal.when_sent, then)
        then()

    async def close(self, deadline: float) -> None:
        """Sends what is left until the forwarders' clock reads `deadline`."""
        if self._timer is not None:
            self._timer.cancel()
        self._collect()
        for signal in self._signals.values():
            signal.flush()
        await asyncio.gather(*(s.forwarder.drain(deadline) for s in self._signals.values()))
        await asyncio.gather(*(s.forwarder.close(_STOPPED) for s in self._signals.values()))
