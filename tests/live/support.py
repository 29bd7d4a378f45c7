"""What the tests of judging in process share: a policy, an agent that runs in a real tracer, a processor to look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Span, Tracer

from onpath import OnPathSpanProcessor
from onpath.testing import MemorySink

POLICY: Mapping[str, Any] = {
    "version": 1,
    "workflows": [
        {
            "name": "refund",
            "match": {"agent": "refund"},
            "adherence": {
                "expected_steps": ["look_up", "check", "pay"],
                "required_steps": ["look_up", "pay"],
                "prohibited_steps": ["override"],
                "extract_from": "tool_calls",
            },
        }
    ],
}


@contextmanager
def agent(tracer: Tracer, name: str = "refund", **options: Any) -> Iterator[Span]:
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}
    with tracer.start_as_current_span(f"invoke_agent {name}", attributes=attributes, **options) as span:
        yield span


@contextmanager
def tool(tracer: Tracer, name: str, **attributes: Any) -> Iterator[Span]:
    found = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, **attributes}
    with tracer.start_as_current_span(f"execute_tool {name}", attributes=found) as span:
        yield span


def run(tracer: Tracer, *tools: str, name: str = "refund") -> None:
    with agent(tracer, name):
        for step in tools:
            with tool(tracer, step):
                pass


class Watched:
    """A provider with an OnPathSpanProcessor whose reports are kept in memory."""

    def __init__(self, policy: Any = POLICY, **options: Any) -> None:
        self.sink = MemorySink()
        self.processor = OnPathSpanProcessor(policy, on_report=self.sink, **options)
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(self.processor)
        self.tracer = self.provider.get_tracer("tests")

    def run(self, *tools: str) -> None:
        run(self.tracer, *tools)

    def flushed(self) -> MemorySink:
        assert self.processor.force_flush()
        return self.sink

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self.processor.shutdown()


def conserved(watched: Watched, still_open: int = 0) -> None:
    counts = watched.processor.counts
    gone = counts.judged.total() + counts.handed_on + counts.dropped.total()
    assert counts.traces_started == gone + still_open, counts.sums()
