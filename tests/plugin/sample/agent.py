"""The agent of the sample project; it uses OpenTelemetry's API as an instrumentation does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Tracer

tracer = trace.get_tracer("agent")  # at import, before any provider is set


@contextmanager
def running(own: Tracer = tracer) -> Iterator[None]:
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "refund"}
    with own.start_as_current_span("invoke_agent refund", attributes=attributes):
        yield


def call(name: str, own: Tracer = tracer) -> None:
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    with own.start_as_current_span(f"execute_tool {name}", attributes=attributes):
        pass


def refund(*tools: str, own: Tracer = tracer) -> None:
    with running(own):
        for name in tools:
            call(name, own)


async def refund_async(*tools: str) -> None:
    with running():
        for name in tools:
            await asyncio.sleep(0)
            call(name)


def refund_with_own_provider(*tools: str) -> None:
    refund(*tools, own=TracerProvider().get_tracer("agent"))
