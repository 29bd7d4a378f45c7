"""Collectors as members of one consumer group, against a real broker: killed, joined, counted."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer

from tests.peers.kafka.broker import Broker, missing
from tests.support.collector import Collector, Result
from tests.support.durable import POLICY
from tests.support.kafka import read_all
from tests.support.load import request, traces
from tests.support.otlp_sink import OtlpSink
from tests.support.waiting import until

pytestmark = [pytest.mark.peers, pytest.mark.skipif(missing() is not None, reason=str(missing()))]

PARTITIONS = 12
Verdicts = dict[str, str]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


class Runs:
    """Agent runs as records: each in several, under its trace id, mixed with others. `truth` is each one's verdict."""

    def __init__(self, seed: int, count: int) -> None:
        draw = random.Random(seed)
        self.truth: Verdicts = {}
        self.spans: list[list[Any]] = []
        for number in range(count):
            spans = traces(draw, 1)
            if number % 10 == 0:
                del spans[2]  # the receipt is never sent
            self.spans.append(spans)
            self.truth[spans[0].trace_id.hex()] = "fail" if number % 10 == 0 else "pass"

    @property
    def keys(self) -> set[tuple[bytes, bytes]]:
        return {(span.trace_id, span.span_id) for spans in self.spans for span in spans}

    def produce(self, address: str, topic: str, rate: float, within: float, seed: int = 1) -> None:
        """So many runs a second; the spans of each come within so many seconds, a record each."""
        draw = random.Random(seed)
        planned = []
        for number, spans in enumerate(self.spans):
            start = number / rate if rate else 0.0
            times = sorted(start + draw.uniform(0, within) for _ in spans)
            planned += [(at, span) for at, span in zip(times, spans, strict=True)]
        planned.sort(key=lambda each: each[0])
        producer = Producer({"bootstrap.servers": address, "linger.ms": 5, "enable.idempotence": True})
        begun = time.monotonic()
        for at, span in planned:
            while time.monotonic() - begun < at:
                producer.poll(0.005)
            producer.produce(topic, request([span]), span.trace_id.hex())
        assert producer.flush(60) == 0


class Group:
    """Collectors that share a topic. `results` is what all of them have said."""

    def __init__(self, folder: Path, broker: Broker, topic: str, **more: Any) -> None:
        self.folder = folder
        self.topic = topic
        self.policy = folder / "policy.yaml"
        self.policy.write_text(POLICY, encoding="utf-8")
        options = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500}
        kafka = {"brokers": [broker.address], "topics": [topic], "group_id": topic, "options": options, **more}
        results = {"kafka": {"brokers": [broker.address], "topic": f"{topic}-reports"}}
        settings = {"receivers": {"kafka": kafka}, "results": results, "evaluate": {"workers": 1}}
        self.config = folder / "onpath.yaml"
        self.config.write_text(yaml.safe_dump(settings), encoding="utf-8")
        broker.make_topic(topic, PARTITIONS)
        broker.make_topic(f"{topic}-reports", 1)
        self.members: list[Collector] = []

    def member(self, *options: str) -> Collector:
        folder = self.folder / f"member-{len(self.members)}"
        folder.mkdir()
        made = Collector(self.policy, folder, "--config", str(self.config), *options)
        self.members.append(made)
        return made.__enter__()

    def leave(self) -> None:
        for member in self.members:
            if not member.killed:
                member.__exit__(None, None, None)

    @property
    def results(self) -> list[Result]:
        found = []
        for member in self.members:
            text = member.report_file.read_text(encoding="utf-8") if member.report_file.exists() else ""
            found += [json.loads(line) for line in text.split("\n")[:-1]]
        return found

    @property
    def judged(self) -> set[str]:
        return {result["trace_id"] for result in self.results}


def assert_one_verdict_each(results: Sequence[Result], truth: Verdicts) -> int:
    """Every run has its verdict, and what was said again was said under the same ids; how many were said again."""
    said: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        said[result["trace_id"]].append(result)
    assert set(said) == set(truth)
    wrong = {t: [r["verdict"] for r in said[t]] for t in truth if {r["verdict"] for r in said[t]} != {truth[t]}}
    assert not wrong, f"{len(wrong)} of {len(truth)} runs have another verdict than the true one: {wrong}"
    ids = {t: {tuple(e["id"] for e in r["evaluations"]) for r in found} for t, found in said.items()}
    assert all(len(found) == 1 for found in ids.values()), "said again under other ids"
    return len(results) - len(said)


def test_one_is_killed_and_one_joins_under_load(tmp_path: Path, broker: Broker) -> None:
    runs = Runs(1, 6000)
    with OtlpSink() as sink:
        group = Group(tmp_path, broker, "kill")
        forward = ("--forward", f"grpc://{sink.address}")
        members = [group.member(*forward) for _ in range(3)]
        load = threading.Thread(target=runs.produce, args=(broker.address, "kill", 250, 1.5))
        load.start()
        time.sleep(8)
        members[1].kill()
        at_kill = len(group.judged)
        time.sleep(3)
        group.member(*forward)
        load.join()
        until(lambda: group.judged >= set(runs.truth), lambda: f"{len(group.judged)} of {len(runs.truth)}", 90)
        group.leave()
        there = {(span.trace_id, span.span_id) for span in sink.spans()}
    again = assert_one_verdict_each(group.results, runs.truth)
    assert not runs.keys - there, f"{len(runs.keys - there)} spans are not downstream"
    told = read_all(broker.address, "kill-reports", len(group.results))
    reported = [json.loads(message.value()) for message in told]
    assert_one_verdict_each(reported, runs.truth)
    ledgers = [member.ledger for member in group.members if not member.killed]
    dropped = sum((Counter(each["traces_dropped"]) for each in ledgers), Counter())
    print(f"\n{len(runs.truth)} runs in {len(runs.keys)} records; {at_kill} judged when one of three was killed;")
    print(f"{again} judged again, all with the same verdict and ids; handed over open: {dict(dropped)}")
    for member, ledger in zip([m for m in group.members if not m.killed], ledgers, strict=True):
        print(member.report_file.parent.name, ledger)
