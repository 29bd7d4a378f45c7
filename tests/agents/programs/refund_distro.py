"""The refund agent as a plain application that `opentelemetry-instrument` records: spans, metrics and logs.

The OpenAI client is instrumented from outside; the agent and its tools write GenAI spans with the API alone.
"""

from __future__ import annotations

import json
import logging
from typing import Any

import chat_loop
import refund
from opentelemetry import metrics, trace

scenario = refund.scenario()
tools = refund.RefundTools(scenario)
tracer = trace.get_tracer("refund")
refunds = metrics.get_meter("refund").create_counter("refund.calls")
log = logging.getLogger("refund")


def traced(function: Any) -> Any:
    name = function.__name__

    def run(call: Any, **args: Any) -> Any:
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": call.id,
            "gen_ai.tool.call.arguments": json.dumps(args),
        }
        with tracer.start_as_current_span(f"execute_tool {name}", attributes=attributes) as span:
            log.info("calling %s", name)
            refunds.add(1, {"tool": name})
            result = function(**args)
            span.set_attribute("gen_ai.tool.call.result", result if isinstance(result, str) else json.dumps(result))
            return result

    return run


logging.getLogger().setLevel(logging.INFO)
complaints = logging.StreamHandler()  # OpenTelemetry's handler on the root logger would swallow the exporters' errors
complaints.setLevel(logging.WARNING)
logging.getLogger().addHandler(complaints)
attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "refund"}
with tracer.start_as_current_span("invoke_agent refund", attributes=attributes):
    said = chat_loop.converse(scenario, {name: traced(tool) for name, tool in tools.by_name.items()})
assert said == refund.DONE
tools.ledger.show()
