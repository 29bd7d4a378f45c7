"""A whole collector against a cluster that speaks Kafka's protocol: records become verdicts, offsets follow them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.durable import POLICY
from tests.support.kafka import QUICK, MockCluster, Sent, committed, produce
from tests.support.load import request, traces
from tests.support.otlp_sink import OtlpSink
from tests.support.service import Collecting, collecting


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    with MockCluster() as running:
        yield running


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY, encoding="utf-8")
    return path


def from_kafka(cluster: MockCluster, **settings: Any) -> dict[str, Any]:
    """Options of a collector that settles fast."""
    kafka = {"brokers": [cluster.address], "commit_interval": "100ms", "options": QUICK, **settings}
    ports = {"grpc": {"endpoint": "127.0.0.1:0"}, "http": {"endpoint": "127.0.0.1:0"}}
    return {"receivers": {**ports, "kafka": kafka}, "buffer": {"settle_delay": "200ms"}}


def runs(seed: int, count: int) -> list[list[Any]]:
    """The spans of so many agent runs."""
    draw = random.Random(seed)
    return [traces(draw, 1) for _ in range(count)]


def records(runs: list[list[Any]], parts: int = 2) -> list[Sent]:
    """Each run in so many records under its key; the parts of all runs are mixed."""
    made = []
    for part in range(parts):
        for spans in runs:
            key = spans[0].trace_id.hex().encode()
            made.append(Sent(request(spans[part::parts]), key))
    return made


def kafka_of(collector: Collecting) -> Any:
    (receiver,) = collector.service._kafka.receivers
    return receiver


async def test_records_are_judged_passed_on_and_committed(cluster: MockCluster, policy: Path, tmp_path: Path) -> None:
    found = runs(1, 30)
    await asyncio.to_thread(produce, cluster.address, records(found), "whole")
    with OtlpSink() as sink:
        options = from_kafka(cluster, topics=["whole"], group_id="whole")
        async with collecting(tmp_path, policy, forward={"endpoint": f"grpc://{sink.address}"}, **options) as collector:
            results = await collector.until_results(30)
            receiver = kafka_of(collector)
            await collector.until(lambda: all(p.mark and not p.held for p in receiver.offsets.partitions.values()))
            counts = receiver.records
        assert {r["verdict"] for r in results} == {"pass"}
        assert {r["trace_id"] for r in results} == {spans[0].trace_id.hex() for spans in found}
        assert len([span for span in sink.spans() if not span.name.startswith("onpath.")]) == 120
    assert (counts.read, counts.taken) == (60, 60)
    offsets = await asyncio.to_thread(committed, cluster.address, "whole", "whole")
    assert sum(offset for offset, _ in offsets.values()) == 60
