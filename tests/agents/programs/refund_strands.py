"""The refund agent in Strands with a scripted model; its own instrumentation records it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import refund
import telemetry
from strands import Agent, tool
from strands.models import Model

scenario = refund.scenario()
tools = refund.RefundTools(scenario)


class ScriptedModel(Model):
    def update_config(self, **_: Any) -> None:
        """Nothing to configure."""

    def get_config(self) -> dict[str, Any]:
        return {"model_id": f"refund-{scenario}"}

    async def structured_output(self, *_: Any, **__: Any) -> AsyncIterator[dict[str, Any]]:
        raise NotImplementedError
        yield {}

    async def stream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterator[Any]:
        made = sum("toolUse" in block for message in messages for block in message["content"])
        asked = refund.asked_for(scenario, made)
        yield {"messageStart": {"role": "assistant"}}
        for i, (name, args) in enumerate(asked):
            yield {"contentBlockStart": {"start": {"toolUse": {"name": name, "toolUseId": f"call_{made + i}"}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(args)}}}}
            yield {"contentBlockStop": {}}
        if not asked:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": refund.DONE}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if asked else "end_turn"}}
        yield {
            "metadata": {
                "usage": {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15},
                "metrics": {"latencyMs": 1},
            }
        }


telemetry.start()
agent = Agent(
    name="refund", model=ScriptedModel(), tools=[tool(function) for function in tools.all], callback_handler=None
)
assert str(agent(refund.PROMPT)).strip() == refund.DONE
tools.ledger.show()
