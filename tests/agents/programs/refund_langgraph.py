"""The refund agent in LangGraph (LangChain's create_agent) with a fake chat model, recorded by OpenInference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import refund
import telemetry
from langchain.agents import create_agent
from langchain.agents.middleware import wrap_tool_call
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import ToolException
from openinference.instrumentation.langchain import LangChainInstrumentor

scenario = refund.scenario()
tools = refund.RefundTools(scenario, error=ToolException)


class FakeChat(BaseChatModel):
    @property
    def _llm_type(self) -> str:
        return "fake"

    def bind_tools(self, tools: Any, **_: Any) -> FakeChat:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        made = sum(len(message.tool_calls) for message in messages if isinstance(message, AIMessage))
        asked = refund.asked_for(scenario, made)
        calls = [{"name": name, "args": args, "id": f"call_{made + i}"} for i, (name, args) in enumerate(asked)]
        message = AIMessage("" if calls else refund.DONE, tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])


@wrap_tool_call
def tell_the_model(request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
    try:
        return handler(request)
    except ToolException as error:
        call = request.tool_call
        return ToolMessage(str(error), tool_call_id=call["id"], name=call["name"], status="error")


LangChainInstrumentor().instrument(tracer_provider=telemetry.start())
agent = create_agent(FakeChat(), tools=tools.all, middleware=[tell_the_model], name="refund")
state = agent.invoke({"messages": [("user", refund.PROMPT)]})
assert state["messages"][-1].content == refund.DONE
tools.ledger.show()
