"""Collectors as members of one consumer group, against a real broker: killed, joined, counted."""

from __future__ import annotations

import json
import random
import threading
import time
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from benchmarks._load import cpu
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
Groups = Callable[..., "Group"]


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

    def produce(self, address: str, topic: str, rate: float = 0, within: float = 0, seed: int = 1) -> None:
        """So many runs a second, 0 at once; the spans of each come within so many seconds, a record each, or in one."""
        draw = random.Random(seed)
        planned: list[tuple[float, list[Any]]] = []
        for number, spans in enumerate(self.spans):
            start = number / rate if rate else 0.0
            if within:
                times = sorted(start + draw.uniform(0, within) for _ in spans)
                planned += [(at, [span]) for at, span in zip(times, spans, strict=True)]
            else:
                planned.append((start, spans))
        planned.sort(key=lambda each: each[0])
        producer = Producer({"bootstrap.servers": address, "linger.ms": 5, "enable.idempotence": True, "log_level": 0})
        begun = time.monotonic()
        for at, spans in planned:
            while time.monotonic() - begun < at:
                producer.poll(0.005)
            producer.produce(topic, request(spans), spans[0].trace_id.hex())
        assert producer.flush(60) == 0


class Group:
    """Collectors that share a topic. `results` is what all of them have said."""

    def __init__(self, folder: Path, broker: Broker, topic: str, *, secure: bool = False, **more: Any) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.topic = topic
        self.policy = folder / "policy.yaml"
        self.policy.write_text(POLICY, encoding="utf-8")
        brokers = [broker.secure_address if secure else broker.address]
        access = broker.options if secure else {}
        options = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500, **access}
        kafka = {"brokers": brokers, "topics": [topic], "group_id": topic, "options": options, **more}
        results = {"kafka": {"brokers": brokers, "topic": f"{topic}-reports", "options": access}}
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

    def until_assigned(self) -> None:
        """Each member has its partitions."""

        def counts() -> list[float]:
            return [metric(member, "onpath_kafka_partitions_total", event="assigned") for member in self.members]

        until(lambda: sum(counts()) >= PARTITIONS and all(counts()), lambda: f"partitions for all: {counts()}")

    def until_judged(self, count: int, patience: float) -> None:
        """By their metrics: looking through all reports again and again would take the cores that they are made on."""
        deadline = time.monotonic() + patience
        while (judged := sum(metric(member, "onpath_traces_judged_total") for member in self.members)) < count:
            assert time.monotonic() < deadline, f"{judged} of {count} runs judged in {patience} s"
            time.sleep(0.25)

    def leave(self) -> None:
        for member in self.members:
            if not member.killed:
                member.__exit__(None, None, None)

    @property
    def cpu(self) -> float:
        """Seconds that they and their workers have taken."""
        return sum(cpu(member.process.pid) for member in self.members)

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


def metric(member: Collector, name: str, **labels: str) -> float:
    """The sum of the series that have these labels."""
    with urllib.request.urlopen(f"http://{member.ports['admin']}/metrics", timeout=10) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())


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


def assert_nothing_unsettled(group: Group) -> None:
    """And the watermark is at the end of each partition, once the last results are out."""
    members = [member for member in group.members if not member.killed]
    until(
        lambda: (
            not sum(
                metric(member, f"onpath_kafka_{name}_records") for member in members for name in ("unsettled", "lag")
            )
        ),
        lambda: "every record to be settled",
    )


def test_one_is_killed_and_one_joins_under_load(groups: Groups, tmp_path: Path, broker: Broker) -> None:
    runs = Runs(1, 6000)
    with OtlpSink() as sink:
        group = groups(tmp_path, broker, "kill")
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
        for member in (member for member in group.members if not member.killed):
            read, waiting = (
                metric(member, "onpath_kafka_records_read_total"),
                metric(member, "onpath_kafka_records_waiting"),
            )
            assert read == metric(member, "onpath_kafka_records_total") + waiting
        assert_nothing_unsettled(group)
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


def test_a_broker_that_asks_for_tls_and_a_password(groups: Groups, tmp_path: Path, broker: Broker) -> None:
    runs = Runs(4, 30)
    group = groups(tmp_path, broker, "secure", secure=True)
    group.member()
    runs.produce(broker.address, "secure")
    until(lambda: group.judged >= set(runs.truth), lambda: f"{len(group.judged)} of {len(runs.truth)}")
    group.leave()
    assert len(read_all(broker.address, "secure-reports", len(runs.truth))) == len(runs.truth)
    refused = groups(tmp_path / "refused", broker, "refused", secure=True)
    told = yaml.safe_load(refused.config.read_text(encoding="utf-8"))
    told["receivers"]["kafka"]["options"]["sasl.password"] = "wrong"
    refused.config.write_text(yaml.safe_dump(told), encoding="utf-8")
    member = refused.member()
    member.process.wait_for_line("receivers.kafka: .*[Aa]uthentication failed")
    refused.leave()
    assert "for-tests-alone" not in member.output


def test_throughput_by_number_of_consumers(groups: Groups, tmp_path: Path, broker: Broker) -> None:
    runs = Runs(2, 8000)
    spans = len(runs.keys)
    rows = []
    for consumers in (1, 2, 3):
        topic = f"speed-{consumers}"
        group = groups(tmp_path / topic, broker, topic)
        for _ in range(consumers):
            group.member()
        group.until_assigned()
        before, begun = group.cpu, time.time()
        runs.produce(broker.address, topic)
        group.until_judged(len(runs.truth), 120)
        taken = group.cpu - before
        seconds = max(datetime.fromisoformat(r["judged_at"]).timestamp() for r in group.results) - begun
        group.leave()
        assert assert_one_verdict_each(group.results, runs.truth) == 0
        rows.append((consumers, len(runs.truth) / seconds, spans / seconds, taken / spans * 1e6))
    print(f"\n{len(runs.truth)} runs of 3 or 4 spans, a record each; {PARTITIONS} partitions; broker on the same cores")
    print("consumers  runs/s  spans/s  CPU us a span, workers included")
    for consumers, by_run, by_span, by_cpu in rows:
        print(f"{consumers:9d} {by_run:7.0f} {by_span:8.0f} {by_cpu:8.0f}")


def test_the_collector_ends_in_time_when_the_broker_has_gone(groups: Groups, tmp_path: Path) -> None:
    with Broker() as broker:
        runs = Runs(3, 50)
        group = groups(tmp_path, broker, "gone")
        group.member()
        runs.produce(broker.address, "gone")
        until(lambda: group.judged >= set(runs.truth), lambda: f"{len(group.judged)} of {len(runs.truth)}")
        (member,) = group.members
        until(lambda: metric(member, "onpath_kafka_queued_reports") == 0, lambda: "all reports to be sent")
        broker.kill()
        time.sleep(1)
        begun = time.monotonic()
        group.leave()
        assert time.monotonic() - begun < 20  # its shutdown_timeout
