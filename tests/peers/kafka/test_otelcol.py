"""The OpenTelemetry Collector's own Kafka exporter in front of a group of collectors: deploy/otelcol/kafka.yaml."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from onpath_collector.otlp import from_json, split
from tests.peers.kafka.broker import Broker, missing
from tests.peers.kafka.test_group import Groups, assert_one_verdict_each
from tests.support.durable import free_address
from tests.support.kafka import read_all
from tests.support.load import Load
from tests.support.otelcol import DEPLOY, program
from tests.support.processes import Child
from tests.support.waiting import until

pytestmark = [pytest.mark.peers, pytest.mark.skipif(missing() is not None, reason=str(missing()))]


@pytest.mark.parametrize("encoding", ["otlp_proto", "otlp_json"])
def test_what_its_exporter_writes_is_judged_whole(
    groups: Groups, tmp_path: Path, broker: Broker, encoding: str
) -> None:
    address, http, metrics = (free_address() for _ in range(3))
    settings = {
        "OTLP_GRPC": address,
        "OTLP_HTTP": http,
        "METRICS_PORT": metrics.rpartition(":")[2],
        "KAFKA_BROKERS": broker.address,
        "KAFKA_TOPIC": encoding,
        "KAFKA_ENCODING": encoding,
    }
    group = groups(tmp_path, broker, encoding, encoding=encoding)
    for _ in range(2):
        group.member("--settle-delay", "6s")  # one span of each batch comes late, on a busy machine later still
    group.until_assigned()
    collector = Child([str(program()), f"--config={DEPLOY / 'kafka.yaml'}"], env={**os.environ, **settings})
    try:
        collector.wait_for_line("Everything is ready")
        with Load(address, threads=2, traces=5, rate=30, late=0.3) as load:
            time.sleep(4)
        truth = dict.fromkeys(load.traces, "pass")
        until(lambda: group.judged >= set(truth), lambda: f"{len(group.judged)} of {len(truth)}")
    finally:
        collector.stop()
    group.leave()
    assert load.failures == []
    assert_one_verdict_each(group.results, truth)
    records = read_all(broker.address, encoding, 10)
    assert records
    for record in records:
        value = from_json("traces", record.value()) if encoding == "otlp_json" else record.value()
        (chunk,) = split(value).chunks
        assert record.key() == chunk.trace_id.hex().encode()
    print(f"\n{encoding}: {len(truth)} runs of {len(load.acknowledged)} spans by its exporter, all judged whole")
