"""Sixty-four gzip bombs at once, over each protocol: the collector's memory stays within its limits."""

from __future__ import annotations

import gzip
import random
import re
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from tests.support.collector import Collector
from tests.support.durable import POLICY
from tests.support.load import EXPORT, request, traces
from tests.support.waiting import until

BOMBS = 64
SIZE = 1 << 30
MOST = 700  # MiB: 256 in flight, 64 of one request being inflated, and the program


def by_grpc(collector: Collector, bomb: bytes) -> str:
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(collector.ports["OTLP/gRPC"], options=options) as channel:
        try:
            channel.unary_unary(EXPORT)(bomb, timeout=60)
        except grpc.RpcError as error:
            return str(error.code())
    return "OK"


def by_http(collector: Collector, bomb: bytes) -> str:
    headers = {"content-type": "application/x-protobuf", "content-encoding": "gzip"}
    sent = urllib.request.Request(f"http://{collector.ports['OTLP/HTTP']}/v1/traces", bomb, headers)
    try:
        with urllib.request.urlopen(sent, timeout=60) as answer:
            return str(answer.status)
    except urllib.error.HTTPError as error:
        return str(error.code)


@pytest.mark.parametrize(
    ("send", "allowed"),
    [(by_grpc, {"StatusCode.RESOURCE_EXHAUSTED", "StatusCode.UNAVAILABLE"}), (by_http, {"413", "503"})],
)
def test_many_bombs_at_once(
    tmp_path: Path, send: Callable[[Collector, bytes], str], allowed: set[str], tell: Callable[..., None]
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY, encoding="utf-8")
    bomb = gzip.compress(bytes(SIZE), 9)
    with Collector(policy, tmp_path) as collector, ThreadPoolExecutor(BOMBS) as threads:
        answers = Counter(threads.map(lambda _: send(collector, bomb), range(BOMBS)))
        spans = traces(random.Random(1), 1)
        with grpc.insecure_channel(collector.ports["OTLP/gRPC"]) as channel:
            channel.unary_unary(EXPORT)(request(spans), timeout=20)
        until(lambda: collector.results, lambda: "a verdict after them")
        peak = re.search(r"VmHWM:\s+([0-9]+)", Path(f"/proc/{collector.process.pid}/status").read_text())
    assert set(answers) <= allowed
    assert peak is not None
    assert int(peak[1]) >> 10 < MOST
    tell(f"{len(bomb) >> 10} KiB each, {dict(answers)}, peak rss {int(peak[1]) >> 10} MiB;", collector.ledger)
