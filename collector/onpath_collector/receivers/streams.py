"""Calls that last for as long as the caller likes, health watches and reflection: so many at once, of all callers.

Each takes some twenty KiB, and a connection may have hundreds.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any, Final

from grpc import StatusCode
from grpc_health.v1 import health

_MOST: Final = 128


class Streams:
    """Counts those of one kind."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._open = 0

    @contextmanager
    def one(self) -> Iterator[bool]:
        """Around one; whether it may be."""
        self._open += 1
        try:
            yield self._open <= self._most
        finally:
            self._open -= 1


class HealthService(health.aio.HealthServicer):
    """Health as gRPC has it, but for the number of watches."""

    def __init__(self) -> None:
        super().__init__()
        self._watches = Streams()

    async def Watch(self, request: Any, context: Any) -> None:
        with self._watches.one() as allowed:
            if not allowed:
                await too_many(context)
            await super().Watch(request, context)


def bounded(answers: Any, streams: Streams) -> Any:
    """A handler of streams, but for the number of them."""

    async def handler(requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        with streams.one() as allowed:
            if not allowed:
                await too_many(context)
            async for answer in answers(requests, context):
                yield answer

    return handler


async def too_many(context: Any) -> None:
    await context.abort(StatusCode.UNAVAILABLE, "too many calls that last; try again later")
