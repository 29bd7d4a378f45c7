"""The refund agent around the OpenAI client, recorded by Traceloop's instrumentation and decorators."""

from __future__ import annotations

import os
from typing import Any

import chat_loop
import refund
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from traceloop.sdk import Traceloop
from traceloop.sdk.decorators import tool as traced_tool
from traceloop.sdk.decorators import workflow
from traceloop.sdk.instruments import Instruments

scenario = refund.scenario()
tools = refund.RefundTools(scenario)


def traced(function: Any) -> Any:
    kept = traced_tool(name=function.__name__)(function)
    return lambda call, **args: kept(**args)


Traceloop.init(
    app_name=os.environ["OTEL_SERVICE_NAME"],
    exporter=OTLPSpanExporter(),
    telemetry_enabled=False,
    instruments={Instruments.OPENAI},
)


@workflow(name="refund")
def run(prompt: str) -> str:
    return chat_loop.converse(scenario, {name: traced(tool) for name, tool in tools.by_name.items()})


assert run(refund.PROMPT) == refund.DONE
tools.ledger.show()
