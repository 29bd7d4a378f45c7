"""Reports to a topic: each Result a record, counted until the broker has it, or never will."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest

from onpath_collector.exporters.base import SendingExporter
from onpath_collector.exporters.kafka import KafkaReports
from onpath_collector.judging import Outcome, VerdictLine
from onpath_collector.kafka import Publisher, PublisherSettings
from tests.support.kafka import MockCluster, read_all

TRACE = "0f" * 16


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    with MockCluster() as running:
        yield running


def reports(address: str, topic: str, **options: str) -> KafkaReports:
    return KafkaReports(topic, Publisher("results.kafka", PublisherSettings(brokers=[address], options=options)))


def outcome(*verdicts: str, line: str = "") -> Outcome:
    told = tuple(VerdictLine(f"w{n}", verdict, None, None, TRACE, None) for n, verdict in enumerate(verdicts))
    lines = tuple(line or f'{{"n":{n}}}' for n in range(len(verdicts)))
    return Outcome(trace_id=TRACE, revision=2, signature="s", lines=lines, verdicts=told)


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - what is awaited has no event of its own
            await asyncio.sleep(0.01)


async def test_each_result_is_a_record_under_its_trace(cluster: MockCluster) -> None:
    exporter = reports(cluster.address, "reports")
    assert isinstance(exporter, SendingExporter)
    exporter.export(outcome("pass", "fail"))
    told: list[str] = []
    exporter.when_sent(lambda: told.append("sent"))
    assert told == []
    await until(lambda: told)
    exporter.when_sent(lambda: told.append("nothing to wait for"))
    assert told == ["sent", "nothing to wait for"]
    found = await asyncio.to_thread(read_all, cluster.address, "reports", 2)
    assert [message.value() for message in found] == [b'{"n":0}', b'{"n":1}']
    assert {message.key() for message in found} == {TRACE.encode()}
    assert dict(found[1].headers()) == {
        "content-type": b"application/json",
        "onpath.workflow": b"w1",
        "onpath.verdict": b"fail",
        "onpath.revision": b"2",
    }
    counts = exporter.publisher.counts
    assert (counts.accepted, counts.sent, counts.dropped, counts.queued) == (2, 2, {}, 0)
    await exporter.close(time.monotonic())


async def test_what_no_broker_takes_is_given_up_and_holds_up_nobody() -> None:
    exporter = reports("127.0.0.1:1", "reports", **{"message.timeout.ms": "300"})
    exporter.export(outcome("pass"))
    exporter.export(outcome("pass", line="x" * (2 << 20)))
    told: list[str] = []
    exporter.when_sent(lambda: told.append("sent"))
    assert exporter.publisher.counts.dropped == {"msg_size_too_large": 1}
    await until(lambda: told)
    assert exporter.publisher.counts.dropped == {"msg_size_too_large": 1, "msg_timed_out": 1}
    await exporter.close(time.monotonic())


async def test_what_is_left_at_the_end_is_counted_and_not_called_sent() -> None:
    exporter = reports("127.0.0.1:1", "reports")
    exporter.export(outcome("pass", "pass"))
    told: list[str] = []
    exporter.when_sent(lambda: told.append("sent"))
    await exporter.close(time.monotonic() + 0.1)
    await exporter.close(time.monotonic() + 0.1)
    counts = exporter.publisher.counts
    assert (counts.accepted, counts.sent, counts.dropped, counts.queued) == (2, 0, {"shutdown": 2}, 0)
    assert told == []
