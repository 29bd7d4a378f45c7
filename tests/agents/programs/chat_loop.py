"""The loop that applications write around the OpenAI client's chat completions: ask, run the tools, ask again."""

from __future__ import annotations

import contextvars
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import refund
from openai import OpenAI


def converse(scenario: str, tools: Mapping[str, Callable[..., Any]]) -> str:
    """Talks until the model asks for nothing more; calls that it asks for at once run at once."""
    messages: list[Any] = [{"role": "user", "content": refund.PROMPT}]
    offered = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in tools]
    with OpenAI() as client, ThreadPoolExecutor() as pool:
        while True:
            answer = client.chat.completions.create(model=f"refund-{scenario}", messages=messages, tools=offered)
            message = answer.choices[0].message
            if not message.tool_calls:
                return message.content or ""
            messages.append(message.model_dump(exclude_none=True))
            running = [
                pool.submit(contextvars.copy_context().run, _run, tools[call.function.name], call)
                for call in message.tool_calls
            ]
            messages += [future.result() for future in running]


def _run(tool: Callable[..., Any], call: Any) -> dict[str, Any]:
    try:
        content = json.dumps(tool(call=call, **json.loads(call.function.arguments)))
    except refund.BankError as error:
        content = f"error: {error}"
    return {"role": "tool", "tool_call_id": call.id, "content": content}
