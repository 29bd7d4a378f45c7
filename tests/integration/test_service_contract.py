"""The whole collector through the contract checker: what it acknowledged is downstream once, and judged once.

Its own parts give the answers: a request that can't be decoded is refused for good, a queue for one request and a
downstream that is slow or away most of the time make it tell senders to come back.
"""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from grpc import StatusCode

from tests.support import contract
from tests.support.contract_senders import grpc_sender, http_sender
from tests.support.grpc_peers import raw_client
from tests.support.http_peers import JSON, PROTOBUF, http_client
from tests.support.otlp_sink import OtlpSink
from tests.support.service import Collecting, collecting

NO_RESULTS = {signal: {"enabled": False} for signal in ("traces", "logs", "metrics")}
RETRY = {"initial": "5ms", "max": "20ms"}
BROKEN = b"\x0a\xff"
SPOILT: dict[contract.Mode, Callable[[int], bool]] = {
    "success": lambda number: False,
    "partial": lambda number: False,
    "permanent": lambda number: True,
    "retryable": lambda number: False,
    "mixed": lambda number: number % 5 == 0,
}


class Arrived:
    def __init__(self, sink: OtlpSink) -> None:
        self._sink = sink

    def requests(self) -> list[bytes]:
        return self._sink.requests("trace")


@asynccontextmanager
async def sending(collector: Collecting, transport: str) -> AsyncIterator[contract.Send]:
    if transport == "grpc":
        async with raw_client(collector.address) as client:
            yield grpc_sender(client)
        return
    receiver = next(r for r in collector.service.receivers if r.transport == "http")
    async with http_client(receiver.address) as posting:
        yield http_sender(posting, transport)


@pytest.mark.parametrize("durability", ["memory", "journal"])
@pytest.mark.parametrize("transport", ["grpc", PROTOBUF, JSON])
@pytest.mark.parametrize("mode", contract.MODES)
async def test_what_is_acknowledged_is_passed_on_once_and_judged_once(
    tmp_path: Path, policy: Path, sink: OtlpSink, mode: contract.Mode, transport: str, durability: str
) -> None:
    draw = random.Random(1)
    forward: dict[str, Any] = {"endpoint": f"grpc://{sink.address}", "retry": RETRY}
    if mode in ("retryable", "mixed"):
        forward["queue"] = {"requests": 2}
        sink.answer = lambda signal, body: StatusCode.UNAVAILABLE if draw.random() < 0.5 else slowly()
    options: dict[str, Any] = {"buffer": {"settle_delay": "50ms"}, "forward": forward, "results": NO_RESULTS}
    if durability == "journal":
        options["durability"] = {"mode": "journal", "directory": str(tmp_path / "journal")}
    async with collecting(tmp_path, policy, **options) as collector, sending(collector, transport) as send:

        async def arrived() -> None:
            await collector.until(lambda: not collector.ledger.spans_queued)

        acknowledged = await contract.check(
            send,
            Arrived(sink),
            mode,
            requests=30,
            spoil=lambda number, body: BROKEN if SPOILT[mode](number) else body,
            arrived=arrived,
        )
        await collector.until(lambda: collector.ledger.traces_judged == len(acknowledged))
    assert collector.ledger.traces_started == collector.ledger.traces_judged == len(acknowledged)
    assert collector.ledger.spans_dropped == {}
    assert collector.ledger.spans_received == collector.ledger.spans_forwarded == contract.SPANS * len(acknowledged)


def slowly() -> bytes:
    time.sleep(0.003)
    return b""
