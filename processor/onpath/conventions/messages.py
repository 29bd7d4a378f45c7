"""Message values in one readable shape, whatever provider or framework shaped them.

Messages of OpenAI, Anthropic and the GenAI conventions are left as they are. What others write is rewritten to these:
Bedrock's toolUse and toolResult, Gemini's functionCall, Vercel's tool-call parts, Genkit's toolRequest, Haystack's
tool_call, LangChain's serialised messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import is_
from typing import Any, Final

from onpath.conventions.results import says_failed, text_or_none
from onpath.conventions.values import decode, literal

_DEPTH: Final = 12  # messages nest their content a few levels; what lies deeper is content
_INSIDE: Final = (
    "parts", "content", "message", "messages", "choices", "output", "replies", "generations", "candidates",
)  # fmt: skip
_HOLDERS: Final = ("outputs", "inputs", "messages", "choices", "replies")  # where a state or response has its messages
_ENVELOPES: Final = 3
_LC_ROLES: Final = {
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "human": "user",
    "system": "system",
    "tool": "tool",
}


def readable(value: Any, depth: int = 0) -> Any:
    """A message, a list of them, or what holds them, with foreign parts rewritten. Texts with JSON are decoded.

    What needs no rewriting is handed back as it is, not copied.
    """
    if depth < 2 and isinstance(value, str):
        value = decode(value)
    if depth > _DEPTH:
        return value
    if isinstance(value, list):
        read = [readable(v, depth + 1) if isinstance(v, (list, dict, str)) else v for v in value]
        return value if all(map(is_, read, value)) else read
    return _object(value, depth) if isinstance(value, dict) else value


def _object(value: dict[str, Any], depth: int) -> Any:
    if not _PART_KEYS.isdisjoint(value):
        for key, rewrite in _PARTS.items():
            part = rewrite(value) if key in value else None
            if part is not None:
                return part
    held = _langchain(value) or value
    if "tool_call_id" in held and held.get("role") == "tool" and says_failed(held.get("content")):
        return {"role": "tool", "content": [_answer(held["tool_call_id"], held["content"], True)]}
    if held.get("type") == "tool_call_response" and says_failed(held.get("response", held.get("result"))):
        return _answer(held.get("id"), held.get("response", held.get("result")), True)
    changed: dict[str, Any] = {}
    for key in _INSIDE:
        inner = held.get(key)
        if isinstance(inner, (list, dict)):
            read = readable(inner, depth + 1)
            if read is not inner:
                changed[key] = read
    return {**held, **changed} if changed else held


def messages(value: Any) -> list[Any]:
    """The same as a list: what a key holds that is one message, a list of them, or an envelope of either."""
    read = readable(value)
    if isinstance(read, dict):
        for key in ("messages", "choices", "replies", "generations", "candidates"):
            if isinstance(read.get(key), list):
                return list(read[key])
    return read if isinstance(read, list) else [read]


def _call(call_id: Any, name: Any, arguments: Any, kind: str = "tool_call") -> dict[str, Any]:
    call = {"type": kind, "name": name, "arguments": decode(arguments)}
    return call if call_id is None else {**call, "id": call_id}


def _answer(call_id: Any, response: Any, failed: Any) -> dict[str, Any]:
    answer = {"type": "tool_call_response", "id": call_id, "response": response}
    if failed is True:  # Anthropic's spelling of a failed result, the one that says so
        answer = {"type": "tool_result", "tool_use_id": call_id, "content": response, "is_error": True}
    return answer


def _tool_use(part: Mapping[str, Any]) -> Any:
    held = part.get("toolUse", part)
    return _call(held.get("toolUseId"), held.get("name"), held.get("input")) if isinstance(held, dict) else None


def _tool_result(part: Mapping[str, Any]) -> Any:
    held = part["toolResult"] if isinstance(part["toolResult"], dict) else part
    return _answer(held.get("toolUseId"), held.get("content"), held.get("status") == "error")


def _gemini_call(part: Mapping[str, Any]) -> Any:
    held = part.get("functionCall", part.get("function_call"))
    if not isinstance(held, dict) or "args" not in held:
        return None  # OpenAI's old function_call has `arguments`, and is known as it is
    return _call(held.get("id"), held.get("name"), held.get("args"))


def _gemini_answer(part: Mapping[str, Any]) -> Any:
    held = part.get("functionResponse", part.get("function_response"))
    return _answer(held.get("id"), held.get("response"), None) if isinstance(held, dict) else None


def _vercel(part: Mapping[str, Any]) -> Any:
    if not isinstance(part.get("toolName"), str):
        return None
    if part.get("type") == "tool-result" or ("result" in part and "args" not in part and "input" not in part):
        return _answer(part["toolCallId"], part.get("output", part.get("result")), part.get("isError"))
    ran_by_provider = part.get("providerExecuted") is True
    kind = "server_tool_call" if ran_by_provider else "tool_call"
    given = next((part[k] for k in ("input", "args", "arguments") if k in part), None)
    return _call(part["toolCallId"], part["toolName"], given, kind)


def _genkit_call(part: Mapping[str, Any]) -> Any:
    held = part["toolRequest"]
    return _call(held.get("ref"), held.get("name"), held.get("input")) if isinstance(held, dict) else None


def _genkit_answer(part: Mapping[str, Any]) -> Any:
    held = part["toolResponse"]
    return _answer(held.get("ref"), held.get("output"), None) if isinstance(held, dict) else None


def _haystack_call(part: Mapping[str, Any]) -> Any:
    held = part["tool_call"]
    if not isinstance(held, dict) or "tool_name" not in held:
        return None
    return _call(held.get("id"), held.get("tool_name"), held.get("arguments"))


def _haystack_answer(part: Mapping[str, Any]) -> Any:
    held = part["tool_call_result"]
    if not isinstance(held, dict) or not isinstance(held.get("origin"), dict):
        return None
    return _answer(held["origin"].get("id"), literal(held.get("result")), held.get("error"))


_PARTS: Final[Mapping[str, Callable[[Mapping[str, Any]], Any]]] = {
    "toolUse": _tool_use,
    "toolUseId": lambda part: _tool_use(part) if part.get("type") == "toolUse" else None,
    "toolResult": _tool_result,
    "functionCall": _gemini_call,
    "function_call": _gemini_call,
    "functionResponse": _gemini_answer,
    "function_response": _gemini_answer,
    "toolCallId": _vercel,
    "toolRequest": _genkit_call,
    "toolResponse": _genkit_answer,
    "tool_call": _haystack_call,
    "tool_call_result": _haystack_answer,
}


_PART_KEYS: Final = frozenset(_PARTS)


def _langchain(value: Mapping[str, Any]) -> dict[str, Any] | None:
    """A serialised LangChain message as a plain one: role, content, tool_calls, tool_call_id, status."""
    body: Any = None
    kind: Any = None
    if value.get("lc") is not None and isinstance(value.get("kwargs"), dict):
        body = value["kwargs"]
        names = value.get("id")
        last = names[-1] if isinstance(names, list) and names and isinstance(names[-1], str) else ""
        kind = body.get("type") or last.replace("MessageChunk", "").replace("Message", "").lower()
    elif isinstance(value.get("data"), dict) and value.get("type") in _LC_ROLES:
        body, kind = value["data"], value["type"]
    elif value.get("type") in _LC_ROLES and "content" in value and "role" not in value:
        body, kind = value, value["type"]
    if body is None:
        return {"message": value["message"]} if _is_generation(value) else None
    message = {"role": _LC_ROLES.get(kind, kind), "content": body.get("content")}
    for key in ("tool_calls", "tool_call_id", "name", "status"):
        if body.get(key):
            message[key] = body[key]
    if message.get("status") == "error" and "tool_call_id" in message:
        answer = _answer(message["tool_call_id"], message["content"], True)
        return {"role": "tool", "content": [answer]}
    return message


def _is_generation(value: Mapping[str, Any]) -> bool:
    return "generation_info" in value and isinstance(value.get("message"), dict)


def spoken(value: Any, role: str) -> str | None:
    """The last text of a role in what an agent was given or gave: messages, or a state or response that holds them."""
    for _ in range(_ENVELOPES):
        inner = next((value[k] for k in _HOLDERS if k in value), None) if isinstance(value, dict) else None
        if inner is None:
            break
        value = inner
    if not isinstance(value, list):
        return None
    return last_text(readable(value), role)


def last_text(found: Sequence[Any], role: str) -> str | None:
    """The text of the last message of a role that has any; None when there is none."""
    for message in reversed(found):
        if isinstance(message, dict):
            inner = message.get("message")
            held = inner if isinstance(inner, dict) and "role" not in message else message
            text = message_text(held) if held.get("role") == role else None
            if text is not None:
                return text
    return None


def message_text(message: Mapping[str, Any]) -> str | None:
    """The texts of one message, one after another; None when it holds none."""
    for key in ("content", "parts"):
        held = message.get(key)
        if isinstance(held, str):
            return held
        if isinstance(held, list):
            texts = [t for t in map(_part_text, held) if t is not None]
            if texts:
                return "\n".join(texts)
    return None


def _part_text(part: Any) -> str | None:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict) or part.get("type") not in (None, "text", "input_text", "output_text"):
        return None
    return text_or_none(part.get("text")) or text_or_none(part.get("content"))


def walk(found: Iterable[Any], depth: int = 0) -> Iterable[Mapping[str, Any]]:
    """Every message and part in a list of messages, in order."""
    for item in found:
        if isinstance(item, list):
            if depth < _DEPTH:
                yield from walk(item, depth + 1)
        elif isinstance(item, dict):
            yield item
            if depth < _DEPTH:
                inner = [item[k] for k in _INSIDE if isinstance(item.get(k), (list, dict))]
                yield from walk(inner, depth + 1)
