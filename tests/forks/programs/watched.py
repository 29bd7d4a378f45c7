"""What every server of these tests loads before it forks: an agent, and onpath watching it.

`run` is the agent; each report becomes a line of FORKS_REPORTS with the process that judged it. With FORKS_BEFORE,
loading this module runs the agent once, so that the judging thread is there when the server forks.
"""

from __future__ import annotations

import json
import os
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from onpath import OnPathSpanProcessor

POLICY = {
    "version": 1,
    "workflows": [
        {
            "name": "refund",
            "match": {"agent": "refund"},
            "adherence": {
                "expected_steps": ["look_up", "pay"],
                "required_steps": ["look_up", "pay"],
                "prohibited_steps": ["override"],
                "extract_from": "tool_calls",
            },
        }
    ],
}


def report(found: Any) -> None:
    lines = [
        json.dumps({"pid": os.getpid(), "trace": r.trace_id, "verdict": str(r.verdict), "complete": found.complete})
        for r in found.results
    ]
    with open(os.environ["FORKS_REPORTS"], "a", encoding="utf-8") as file:
        file.write("".join(line + "\n" for line in lines))


processor = OnPathSpanProcessor(POLICY, on_report=report)
provider = TracerProvider()
provider.add_span_processor(processor)
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("forks")


def run(*tools: str) -> str:
    """The trace's id."""
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "refund"}
    with tracer.start_as_current_span("invoke_agent refund", attributes=attributes) as span:
        for name in tools:
            called = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
            with tracer.start_as_current_span(f"execute_tool {name}", attributes=called):
                pass
    return f"{span.get_span_context().trace_id:032x}"


GOOD, BAD = ("look_up", "pay"), ("look_up", "override")

if os.environ.get("FORKS_BEFORE"):
    run(*GOOD)
