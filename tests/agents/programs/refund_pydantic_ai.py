"""The refund agent in pydantic-ai, whose model is a function; its own instrumentation records it."""

from __future__ import annotations

import refund
import telemetry
from pydantic_ai import Agent, InstrumentationSettings, ModelRetry
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

scenario = refund.scenario()
tools = refund.RefundTools(scenario, error=ModelRetry)


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    parts = [part for message in messages if isinstance(message, ModelResponse) for part in message.parts]
    calls = refund.asked_for(scenario, sum(isinstance(part, ToolCallPart) for part in parts))
    return ModelResponse(parts=[ToolCallPart(name, args) for name, args in calls] or [TextPart(refund.DONE)])


settings = InstrumentationSettings(tracer_provider=telemetry.start())
Agent.instrument_all(settings)
agent = Agent(FunctionModel(answer), name="refund", tools=tools.all, retries=2)
assert agent.run_sync(refund.PROMPT).output == refund.DONE
tools.ledger.show()
