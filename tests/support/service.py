"""A whole collector in the test's own process: its ports, its buffer, its judge (on a thread), its report file.

    async with collecting(folder, policy, buffer={"settle_delay": "100ms"}) as collector: ...

Leaving stops it and asserts that every trace and span is accounted for.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from grpc import aio

from onpath_collector.config import load_settings
from onpath_collector.counts import Ledger
from onpath_collector.policy_source import PolicySource
from onpath_collector.service import Service
from tests.support.grpc_peers import METHODS, UNLIMITED

ANY_PORTS = {
    "receivers": {"grpc": {"endpoint": "127.0.0.1:0"}, "http": {"endpoint": "127.0.0.1:0"}},
    "admin": {"endpoint": "127.0.0.1:0"},
    "evaluate": {"workers": 0},
}

Result = dict[str, Any]


class Collecting:
    """A running collector and a sender to it."""

    def __init__(self, service: Service, addresses: Mapping[str, str], report_file: Path) -> None:
        """`addresses` are those of its ports, by transport."""
        self.service = service
        self.addresses = addresses
        self.address = address = addresses["grpc"]
        self._report_file = report_file
        self._channel = aio.insecure_channel(address, options=UNLIMITED)

    async def send(self, body: bytes, signal: str = "traces") -> bytes:
        """Raises grpc.aio.AioRpcError."""
        answer: bytes = await self._channel.unary_unary(METHODS[signal])(body, timeout=30)
        return answer

    @property
    def results(self) -> list[Result]:
        text = self._report_file.read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    @property
    def ledger(self) -> Ledger:
        return self.service.ledger()

    async def until(self, holds: Callable[[], object], patience: float = 30) -> None:
        async with asyncio.timeout(patience):
            while not holds():  # noqa: ASYNC110 - what is awaited has no event of its own
                await asyncio.sleep(0.01)

    async def until_results(self, count: int) -> list[Result]:
        """So many, at least."""
        await self.until(lambda: len(self.results) >= count)
        return self.results

    async def close(self) -> None:
        await self._channel.close()


@asynccontextmanager
async def collecting(folder: Path, policy: Path | PolicySource | None, **options: Any) -> AsyncIterator[Collecting]:
    """`policy` is a file, or what gives one. `options` are the parts of a configuration file."""
    report_file = folder / "reports.jsonl"
    results = {**options.pop("results", {}), "report_file": str(report_file)}
    settings = load_settings(None, {**ANY_PORTS, **options, "results": results})
    service = Service(settings, PolicySource(str(policy)) if isinstance(policy, Path) else policy)
    addresses = await service.start()
    collector = Collecting(service, addresses, report_file)
    try:
        yield collector
    finally:
        await collector.close()
        await service.stop()
    assert service.ledger().adds_up, str(service.ledger())
