"""What receivers share: the one consumer they call, what it answers, and what is counted.

A receiver turns a transport into `Consumer` calls and the consumer's answer into the transport's words. The consumer
takes a request whole or not at all: when it raises a `Refused` or a `DecodeError`, nothing of the request has been
kept.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeAlias

log: Final = logging.getLogger("onpath")

Signal = Literal["traces", "metrics", "logs"]


@dataclass(frozen=True, slots=True)
class Accepted:
    """A request was taken. `items` are its spans, data points or log records, of which `rejected` were invalid.

    `message` is for the sender's eyes: why items were rejected, or a warning. English, empty when all is well.
    """

    items: int
    rejected: int = 0
    message: str = ""


class Refused(Exception):
    """Not now: the sender is to come back after `retry_after` seconds. `reason` is a label of the counter.

    `items` are those of the request, where it was decoded before it was refused.
    """

    def __init__(self, reason: str, retry_after: float = 1.0, items: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after = retry_after
        self.items = items


class TooLarge(Exception):
    """The request is over the receiver's limit, as sent or after decompression; the message says so."""


class Unauthenticated(Exception):
    """The sender has no token, or a wrong one."""


class Consumer(Protocol):
    """Where every receiver puts its requests: serialised Export...ServiceRequest messages, as they came.

    Called on the event loop; waits for nothing but the journal, where there is one, and a moment for what comes after
    it. Raises `Refused` to have the sender come back and `onpath_collector.otlp.DecodeError` for bytes that are no such
    message; anything else is a fault of ours. Cancelled, it has kept the request or has not.
    """

    async def traces(self, request: bytes) -> Accepted: ...

    async def metrics(self, request: bytes) -> Accepted: ...

    async def logs(self, request: bytes) -> Accepted: ...


class Source(Protocol):
    """Where a request comes from that its sender keeps until nothing needs it any more: a record of a log.

    `begin` gives it a number, which holds it once; so does each trace that keeps spans of it, and the downstream until
    it has the request. `let_go` is called as often.
    """

    @property
    def passes_on(self) -> bool:
        """Whether it goes on to the downstream."""

    def begin(self, traces: Sequence[bytes]) -> int: ...

    def hold(self, number: int, by: int) -> None: ...

    def let_go(self, number: int) -> None: ...


class RecordConsumer(Protocol):
    """What takes traces that their sender keeps. Raises as `Consumer` does, and then has kept nothing."""

    async def take(self, request: bytes, source: Source) -> Accepted: ...

    async def recall(self, request: bytes) -> Sequence[bytes]:
        """The ids of its traces, which another has judged: what follows of them is late."""


Take: TypeAlias = Callable[[bytes], Awaitable[Accepted]]


@dataclass(slots=True)
class ReceiverCounts:
    """One signal over one transport. `refused` may come again, `failed` must not; both by reason."""

    requests: int = 0  # accepted
    items: int = 0  # accepted, those with invalid ids left out
    rejected: int = 0  # items with invalid ids, in accepted requests
    refused: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    refused_items: Counter[str] = field(default_factory=Counter)  # of requests that were decoded before

    def accept(self, accepted: Accepted) -> None:
        self.requests += 1
        self.items += accepted.items - accepted.rejected
        self.rejected += accepted.rejected

    def refuse(self, refused: Refused) -> None:
        self.refused[refused.reason] += 1
        if refused.items:
            self.refused_items[refused.reason] += refused.items


class Faults:
    """Tells of each kind of fault of our own once, with its stack: one that comes with every request must not fill the
    disk. All are counted, by the receiver."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()

    def tell(self, error: Exception) -> None:
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else ""
        if (type(error).__name__, place) not in self._told:
            self._told.add((type(error).__name__, place))
            log.error("a request failed by a fault of the collector; others like it are only counted", exc_info=error)


def consume(consumer: Consumer, signal: Signal) -> Take:
    """The consumer's method for a signal."""
    methods: dict[Signal, Take] = {
        "traces": consumer.traces,
        "metrics": consumer.metrics,
        "logs": consumer.logs,
    }
    return methods[signal]
