"""One of several collectors that share the traces: what began before it came may be in part with another one."""

from __future__ import annotations

import time
import urllib.request
from pathlib import Path

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.collector import Collector
from tests.support.durable import POLICY
from tests.support.load import request

CONFIG = "gateway: {members: localhost, lag: 0s}\n"


def run(trace_id: bytes, start: int) -> bytes:
    """One that goes by the policy, at nanosecond `start`."""
    spans = [Span(trace_id=trace_id, span_id=b"the root", name="invoke_agent refund", start_time_unix_nano=start)]
    for number, tool in enumerate(("lookup_user", "check_balance", "send_receipt")):
        span = Span(trace_id=trace_id, span_id=bytes([number + 1]) * 8, parent_span_id=b"the root")
        span.name = f"execute_tool {tool}"
        span.start_time_unix_nano = start + 1_000 * number
        span.end_time_unix_nano = span.start_time_unix_nano + 500
        span.attributes.add(key="gen_ai.operation.name").value.string_value = "execute_tool"
        span.attributes.add(key="gen_ai.tool.name").value.string_value = tool
        spans.append(span)
    spans[0].end_time_unix_nano = start + 10_000
    spans[0].attributes.add(key="gen_ai.operation.name").value.string_value = "invoke_agent"
    return request(spans)


def send(address: str, body: bytes) -> None:
    headers = {"content-type": "application/x-protobuf"}
    with urllib.request.urlopen(urllib.request.Request(f"http://{address}/v1/traces", body, headers), timeout=10):
        pass


def test_a_trace_that_began_before_it_came_is_unknown(tmp_path: Path) -> None:
    policy, config = tmp_path / "policy.yaml", tmp_path / "onpath.yaml"
    policy.write_text(POLICY, encoding="utf-8")
    config.write_text(CONFIG + "buffer: {settle_delay: 2s}\n", encoding="utf-8")
    earlier = time.time_ns()
    with Collector(policy, tmp_path, "--config", str(config), "--settle-delay", "2s") as collector:
        collector.process.wait_for_line("gateways were 0")
        time.sleep(0.01)
        send(collector.ports["OTLP/HTTP"], run(b"\x01" * 16, earlier))
        send(collector.ports["OTLP/HTTP"], run(b"\x02" * 16, time.time_ns()))
        collector.wait_for(lambda result: result["trace_id"] == "01" * 16)
        collector.wait_for(lambda result: result["trace_id"] == "02" * 16)
    found = {r["trace_id"]: (r["verdict"], {e.get("reason") for e in r["evaluations"]}) for r in collector.results}
    assert found["01" * 16] == ("unknown", {"earlier_spans_gone"})
    assert found["02" * 16][0] == "pass"
