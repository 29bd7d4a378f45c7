"""Content that a real instrumentation puts into log records alone, through the live collector."""

from __future__ import annotations

from pathlib import Path

import grpc

from onpath_collector.otlp.json import from_json
from tests.support.collector import Collector

RUN = "openai-v2-only/happy"  # recorded from the official OpenAI instrumentation, which keeps messages out of its spans
POLICY = """
version: 1
workflows:
  - name: looks-up
    match: {}
    lookup_user: {input: {user_id: {eq!: U-1001}}}
"""


def test_arguments_that_stand_in_log_records_alone_are_judged(shared: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY, encoding="utf-8")
    with Collector(policy, tmp_path) as collector:
        with grpc.insecure_channel(collector.endpoint.removeprefix("http://")) as channel:
            for signal, service, ending in (("logs", "Logs", "logs.jsonl"), ("trace", "Trace", "jsonl")):
                method = f"/opentelemetry.proto.collector.{signal}.v1.{service}Service/Export"
                for line in (shared / "traces" / "py" / f"{RUN}.{ending}").read_bytes().splitlines():
                    body = from_json("traces" if signal == "trace" else "logs", line)
                    assert channel.unary_unary(method)(body, timeout=20) == b""
        results = collector.wait_for(lambda result: result["verdict"] == "pass")
    assert len(results) == 1  # each model call is a trace of its own; one of them asked for lookup_user
    assert {r["evaluations"][0]["name"] for r in collector.results} == {"lookup_user"}
