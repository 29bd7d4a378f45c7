"""Values as recorded -> values as meant: JSON in texts, envelopes around what a tool was given and gave.

A text that holds a JSON object or array is decoded, twice if that is a text with JSON again. A JSON scalar is decoded
only by `decode_json`, for attributes whose convention says that their value is JSON. What can't be read stays text.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping
from typing import Any, Final

from onpath.json_values import decoded as decode
from onpath.json_values import parse, too_deep
from onpath.model import NOT_CAPTURED

__all__ = ["arguments", "decode", "decode_json", "decorated", "given", "invocation", "literal"]

_LITERAL_LIMIT: Final = 100_000  # characters; a Python literal is parsed into a tree many times its size


def decode_json(value: Any) -> Any:
    """A text that its convention says is JSON, scalars too; a text in it that holds JSON again as `decode` reads it."""
    if not isinstance(value, str):
        return value
    try:
        return decode(parse(value))
    except ValueError:
        return value


def literal(value: Any) -> Any:
    """As `decode`; a Python literal of a dict or list, as `repr` writes it, is read too."""
    value = decode(value)
    if not isinstance(value, str):
        return value
    text = value.strip()
    if text[:1] not in ("{", "[") or len(text) > _LITERAL_LIMIT or too_deep(text):
        return value
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _plain(ast.literal_eval(text))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return value


def _plain(value: Any) -> Any:
    """A Python literal as a JSON value; raises ValueError for what JSON can't hold."""
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {_key(k): _plain(v) for k, v in value.items()}
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise ValueError(type(value).__name__)


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    raise ValueError("keys of a JSON object are texts")


# ------------------------------------------------------------------ what a tool was given


_HANDLER_INPUTS: Final = frozenset({"inputs", "input_str"})
_HANDLER_KEYS: Final = frozenset({"input_str", "inputs", "tags", "metadata", "kwargs"})
_CALL_KEYS: Final = frozenset({"type", "name", "args"})
_REQUEST_KEYS: Final = frozenset({"jsonrpc", "id", "method", "params"})


def arguments(value: Any) -> Any:
    """Arguments of a tool call: decoded, the envelopes of callback handlers and protocols taken off."""
    return _call_arguments(literal(value))


def invocation(value: Any) -> Any:
    """As `arguments`, where the recorded value is the function's `{args, kwargs}`."""
    held = literal(value)
    if isinstance(held, dict):
        kwargs, args = held.get("kwargs"), held.get("args")
        if isinstance(kwargs, dict) and isinstance(args, list | None) and not _HANDLER_INPUTS & held.keys():
            if kwargs and not args:
                return decode_members(kwargs)
            if not kwargs:
                return _sole(args or [])
    return _call_arguments(held)


def decorated(value: Any) -> Any:
    """As `invocation`, for decorators that write `{"args": [...]}` alone, too; the text is JSON by convention."""
    held = decode_json(value)
    if isinstance(held, dict) and set(held) == {"args"} and isinstance(held["args"], list):
        return _sole(held["args"])
    return invocation(held)


def decode_members(held: Mapping[str, Any]) -> dict[str, Any]:
    return {k: decode(v) for k, v in held.items()}


def _sole(args: list[Any]) -> Any:
    if not args:
        return {}
    return _call_arguments(literal(args[0])) if len(args) == 1 else args


def _call_arguments(held: Any) -> Any:
    """What an envelope holds: one has all its own keys and no other, as a tool may name its arguments alike."""
    if not isinstance(held, dict):
        return held
    keys = held.keys()
    if keys <= _HANDLER_KEYS and "input_str" in keys and ("inputs" in keys or "kwargs" in keys):
        inputs = held.get("inputs")
        return inputs if isinstance(inputs, dict) else literal(held["input_str"])
    if keys == {"inputs"}:
        return literal(held["inputs"])
    if keys <= _HANDLER_KEYS and isinstance(held.get("inputs"), dict) and isinstance(held.get("tags"), list):
        return held["inputs"]
    if keys == {"input"} and isinstance(held["input"], str) and isinstance(inner := decode(held["input"]), dict):
        return inner  # LangChain's callbacks give a tool's arguments as one JSON text
    if held.get("type") == "tool_call" and _CALL_KEYS <= keys <= _CALL_KEYS | {"id"}:
        return literal(held["args"])
    return _protocol_arguments(held)


def _protocol_arguments(held: dict[str, Any]) -> Any:
    """Out of a request of Bedrock's or MCP's."""
    keys, used, params = held.keys(), held.get("toolUse"), held.get("params")
    if keys == {"toolUse"} and isinstance(used, dict) and "toolUseId" in used:
        return literal(used.get("input"))
    if held.get("method") == "tools/call" and keys <= _REQUEST_KEYS and isinstance(params, dict):
        return literal(params.get("arguments", {}))
    if keys == {"name", "arguments", "_meta"} and isinstance(held["arguments"], dict):
        return held["arguments"]
    return held


def given(value: Any) -> Any:
    """NOT_CAPTURED for the marks by which some write that they left a value out."""
    return NOT_CAPTURED if value is None or value == "" or value == "N/A" else value
