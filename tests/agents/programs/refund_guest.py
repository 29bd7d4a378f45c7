"""The refund agent in pydantic-ai, recorded by whatever tracer provider is set: by whoever started it, or by itself.

GUEST says how: `code` adds the processor by code, `configured` has the SDK configure itself from its variables; else it
is left to `opentelemetry-instrument`.
"""

from __future__ import annotations

import os

import refund
import verdicts
from opentelemetry import trace
from opentelemetry.sdk._configuration import _OTelSDKConfigurator
from opentelemetry.sdk.trace import TracerProvider
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

scenario = refund.scenario()
tools = refund.RefundTools(scenario, error=ModelRetry)


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    parts = [part for message in messages if isinstance(message, ModelResponse) for part in message.parts]
    calls = refund.asked_for(scenario, sum(isinstance(part, ToolCallPart) for part in parts))
    return ModelResponse(parts=[ToolCallPart(name, args) for name, args in calls] or [TextPart(refund.DONE)])


how = os.environ.get("GUEST")
if how == "code":
    from onpath import OnPathSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(OnPathSpanProcessor(os.environ["GUEST_POLICY"], on_report=verdicts.show))
    trace.set_tracer_provider(provider)
elif how == "configured":
    _OTelSDKConfigurator().configure()
Agent.instrument_all()
agent = Agent(FunctionModel(answer), name="refund", tools=tools.all, retries=2)
assert agent.run_sync(refund.PROMPT).output == refund.DONE
tools.ledger.show()
