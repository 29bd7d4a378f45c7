"""A whole collector against a cluster that speaks Kafka's protocol: records become verdicts, offsets follow them."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from onpath_collector.receivers.kafka.offsets import Mark
from tests.support.durable import POLICY
from tests.support.kafka import QUICK, MockCluster, Sent, committed, produce, read_all
from tests.support.load import request, traces
from tests.support.otlp_sink import OtlpSink
from tests.support.requests import as_json
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
            await collector.until(lambda: receiver.ends)
            page = collector.service.telemetry.page("")[0].decode()
        assert 'onpath_kafka_records_total{outcome="taken"} 60.0' in page
        assert 'onpath_receiver_accepted_spans_total{transport="kafka"} 120.0' in page
        lags = re.findall(r"onpath_kafka_(lag|unsettled)_records{.*} (.*)", page)
        assert {value for _, value in lags} == {"0.0"}
        assert {r["verdict"] for r in results} == {"pass"}
        assert {r["trace_id"] for r in results} == {spans[0].trace_id.hex() for spans in found}
        assert len([span for span in sink.spans() if not span.name.startswith("onpath.")]) == 120
    assert (counts.read, counts.taken) == (60, 60)
    offsets = await asyncio.to_thread(committed, cluster.address, "whole", "whole")
    assert sum(Mark.of(*each).settled for each in offsets.values()) == 60


async def test_a_replay_in_another_group_says_the_same_and_poison_goes_to_its_own_topic(
    cluster: MockCluster, policy: Path, tmp_path: Path
) -> None:
    found = runs(2, 10)
    sound = [Sent(as_json(record.value or b""), record.key) for record in records(found)]
    poison = [Sent(b"{not json", b"k", partition=1, headers=[("of", b"someone")]), Sent(None, b"k", partition=1)]
    await asyncio.to_thread(produce, cluster.address, [*sound[:5], *poison, *sound[5:]], "json")
    said = []
    async with asyncio.TaskGroup() as group:
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            options = from_kafka(
                cluster, topics=["json"], group_id=name, encoding="otlp_json", forward=False, dead_letter_topic="dead"
            )
            group.create_task(replayed(tmp_path / name, policy, options, said))
    first, second = said
    assert [r["trace_id"] for r in first] == sorted(spans[0].trace_id.hex() for spans in found)
    assert [[e["id"] for e in r["evaluations"]] for r in first] == [[e["id"] for e in r["evaluations"]] for r in second]
    letters = await asyncio.to_thread(read_all, cluster.address, "dead", 2)
    for letter in letters:
        headers = dict(letter.headers())
        assert (letter.value(), letter.key(), headers["of"]) == (b"{not json", b"k", b"someone")
        assert (headers["onpath.source.topic"], headers["onpath.source.partition"]) == (b"json", b"1")
        assert headers["onpath.source.offset"].isdigit()
        assert headers["onpath.error.reason"] == b"undecodable"
        assert headers["onpath.error"]
    assert len(letters) == 2


async def replayed(folder: Path, policy: Path, options: dict[str, Any], said: list[list[dict[str, Any]]]) -> None:
    async with collecting(folder, policy, **options) as collector:
        await collector.until_results(10)
        receiver = kafka_of(collector)
        await collector.until(lambda: receiver.records.dead_letters["sent"] and receiver.records.read == 22)
        await collector.until(lambda: not any(p.held for p in receiver.offsets.partitions.values()))
        said.append(sorted(collector.results, key=lambda result: str(result["trace_id"])))
        assert collector.ledger.spans_dropped == {"not_passed_on": 40}
        assert (receiver.records.taken, receiver.records.poison) == (21, 1)
        assert receiver.counts["traces"].failed == {"undecodable": 1}


async def test_what_has_no_room_downstream_waits_in_kafka(cluster: MockCluster, policy: Path, tmp_path: Path) -> None:
    found = runs(3, 40)
    await asyncio.to_thread(produce, cluster.address, records(found), "pressure")
    up = False

    def answer(signal: str, body: bytes) -> grpc.StatusCode | bytes:
        return b"" if up else grpc.StatusCode.UNAVAILABLE

    with OtlpSink(answer=answer) as sink:
        forward = {
            "endpoint": f"grpc://{sink.address}",
            "queue": {"requests": 5},
            "retry": {"initial": "100ms", "max": "100ms"},
        }
        options = from_kafka(cluster, topics=["pressure"], group_id="pressure")
        async with collecting(
            tmp_path, policy, forward=forward, **{**options, "results": {"spans": "off"}}
        ) as collector:
            receiver = kafka_of(collector)
            await collector.until(lambda: receiver.paused)
            await asyncio.sleep(0.5)
            assert receiver.records.taken == 5
            assert receiver.waiting == receiver.records.read - 5
            assert (receiver.counts["traces"].refused, receiver.records.pauses) == ({"queue_full": 1}, 1)
            up = True
            await collector.until(lambda: receiver.records.taken == 80)
            await collector.until(lambda: not receiver.paused)
            results = await collector.until_results(40)
    assert len([span for span in sink.spans() if not span.name.startswith("onpath.")]) == 160
    assert len({result["trace_id"] for result in results}) == 40


async def test_open_traces_go_to_whom_their_partition_goes(cluster: MockCluster, policy: Path, tmp_path: Path) -> None:
    found = runs(4, 24)
    begun = [Sent(request(spans[:2]), spans[0].trace_id.hex().encode()) for spans in found]
    ended = [Sent(request(spans[2:]), spans[0].trace_id.hex().encode()) for spans in found]
    await asyncio.to_thread(produce, cluster.address, begun, "handover")
    options = from_kafka(cluster, topics=["handover"], group_id="handover")
    for name in ("former", "next"):
        (tmp_path / name).mkdir()
    async with collecting(tmp_path / "former", policy, **options) as former:
        await former.until(lambda: former.ledger.traces_open == 24)
        async with collecting(tmp_path / "next", policy, **options) as following:
            await following.until(lambda: following.ledger.traces_open)
            await following.until(lambda: former.ledger.traces_open + following.ledger.traces_open == 24)
            assert former.ledger.traces_dropped == {"partition_revoked": following.ledger.traces_open}
            await asyncio.to_thread(produce, cluster.address, ended, "handover")
            await following.until(lambda: len(former.results) + len(following.results) >= 24)
            results = former.results + following.results
    assert {r["verdict"] for r in results} == {"pass"}
    assert len({r["trace_id"] for r in results}) == len(results) == 24


async def test_what_comes_late_after_a_handover_is_known_as_late(
    cluster: MockCluster, policy: Path, tmp_path: Path
) -> None:
    found = runs(7, 4)
    late = [Sent(request(spans[1:2]), spans[0].trace_id.hex().encode()) for spans in found]
    whole = [spans[:1] + spans[2:] for spans in found]
    options = from_kafka(cluster, topics=["late"], group_id="late")
    await asyncio.to_thread(produce, cluster.address, records(whole), "late")
    for name in ("former", "next"):
        (tmp_path / name).mkdir()
    async with collecting(tmp_path / "former", policy, **options) as former:
        await former.until_results(4)
        await former.until(lambda: not any(p.held for p in kafka_of(former).offsets.partitions.values()))
    await asyncio.to_thread(produce, cluster.address, late, "late")
    async with collecting(tmp_path / "next", policy, **options) as following:
        receiver = kafka_of(following)
        await following.until(lambda: receiver.records.taken == 4)
        assert receiver.records.settled_before == 8
        assert following.service.buffer.counts.late_unjudged == 4
        assert following.ledger.traces_started == 0
    assert following.results == []


async def test_a_group_that_begins_with_the_latest_goes_on_from_there(
    cluster: MockCluster, policy: Path, tmp_path: Path
) -> None:
    await asyncio.to_thread(produce, cluster.address, records(runs(6, 5)), "latest")
    options = from_kafka(cluster, topics=["latest"], group_id="latest", initial_offset="latest")
    async with collecting(tmp_path, policy, **options) as collector:
        receiver = kafka_of(collector)
        await collector.until(lambda: sum(p.mark is not None for p in receiver.offsets.partitions.values()) == 4)
    offsets = await asyncio.to_thread(committed, cluster.address, "latest", "latest")
    assert sum(Mark.of(*each).settled for each in offsets.values()) == 10
    assert receiver.records.read == 0
