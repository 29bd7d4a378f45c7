"""The refund agent in the OpenAI Agents SDK (Responses API of the stub server), recorded by OpenInference."""

from __future__ import annotations

import refund
import telemetry
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

from agents import Agent, Runner, function_tool

scenario = refund.scenario()
tools = refund.RefundTools(scenario)

OpenAIAgentsInstrumentor().instrument(tracer_provider=telemetry.start())
agent = Agent(name="refund", model=f"refund-{scenario}", tools=[function_tool(tool) for tool in tools.all])
assert Runner.run_sync(agent, refund.PROMPT).final_output == refund.DONE
tools.ledger.show()
