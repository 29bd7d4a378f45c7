"""Outcomes for tests, as a worker makes them of a run of named tools."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

from onpath.policy.load import load_policy
from onpath.policy.model import Policy
from onpath_collector.judging import Job, Outcome, Setup, judge
from onpath_collector.otlp import Wanted, split

AT = 1_767_225_600_000_000_000  # 2026-01-01, nanoseconds since the Unix epoch
POLICY = """
version: 1
workflows:
  - name: refund
    match: {service: "shop*"}
    adherence:
      extract_from: tool_calls
      expected_steps: [lookup_user, check_balance, pay]
      required_steps: [check_balance]
      prohibited_steps: [delete_user]
"""


@cache
def policy(text: str = POLICY) -> Policy:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "policy.yaml"
        path.write_text(text, encoding="utf-8")
        return load_policy([str(path)])


def trace_id(number: int) -> str:
    return f"{number:032x}"


def outcome(
    number: int = 1,
    tools: Sequence[str] = ("lookup_user", "check_balance", "pay"),
    *,
    agent: str = "refund",
    service: str = "shop",
    revision: int = 1,
    judged_at_ns: int = AT,
    root: bytes | None = None,
    text: str = POLICY,
    release_reason: str = "root_ended",
) -> Outcome:
    """Of a run in which each tool took 100 ms, one after the other."""
    group = ResourceSpans()
    group.resource.attributes.add(key="service.name").value.string_value = service
    spans = group.scope_spans.add().spans
    for index, name in enumerate([agent, *tools]):
        span = spans.add(trace_id=number.to_bytes(16, "big"), span_id=(index + 1).to_bytes(8, "big"), name=name)
        span.parent_span_id = b"" if not index else (1).to_bytes(8, "big")
        span.start_time_unix_nano = AT + index * 100_000_000
        span.end_time_unix_nano = AT + (index + 1 if index else len(tools) + 1) * 100_000_000
        operation, key = ("execute_tool", "gen_ai.tool.name") if index else ("invoke_agent", "gen_ai.agent.name")
        span.attributes.add(key="gen_ai.operation.name").value.string_value = operation
        span.attributes.add(key=key).value.string_value = name
    job = Job(
        chunks=[_chunk(group)], release_reason=release_reason, judged_at_ns=judged_at_ns, revision=revision, root=root
    )
    return judge(job, Setup(policy(text), {}))


def _chunk(group: ResourceSpans) -> bytes:
    request = ExportTraceServiceRequest(resource_spans=[group]).SerializeToString()
    (chunk,) = split(request, Wanted()).chunks
    return chunk.data
