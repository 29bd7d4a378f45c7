"""Reads a call by channel: the inputs as they were laid out, the output as the operation describes it.

A channel without a value is MISSING; one that was not recorded is NOT_CAPTURED (plan.md section 3, Channels).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from onpath.json_values import parse
from onpath.redaction import is_redacted
from onpath.steps.model import NOT_CAPTURED
from onpath.validators.plan.calls import Call
from onpath.validators.plan.model import Operation
from onpath.validators.plan.pointers import INPUT_CHANNELS, Kind, Pointer
from onpath.validators.plan.values import MISSING, at

_STREAMS: Final = frozenset({"stdout", "stderr", "artifacts"})
_ABSENT: Final = {"kind": "absent"}


def read(call: Call, operation: Operation, pointer: Pointer) -> Any:
    """The value at a place of a call; MISSING, or NOT_CAPTURED, which a redaction mark is too."""
    value = _channel(call, operation, pointer)
    if value is not MISSING and value is not NOT_CAPTURED:
        value = at(value, pointer.tail)
    return NOT_CAPTURED if is_redacted(value) else value


def _channel(call: Call, operation: Operation, pointer: Pointer) -> Any:
    channel = pointer.channel
    if channel == "call-inputs":
        return input_channel(call.input, operation.kind, pointer.part or "")
    if channel == "response-status":
        status: Any = "error" if call.failed else "ok"
        return call.http_status if operation.kind == "api" and call.http_status is not None else status
    if channel in ("http-status", "exit-code"):
        figure = call.http_status if channel == "http-status" else call.exit_code
        return MISSING if figure is None else figure
    if channel == "response-headers" or call.output is NOT_CAPTURED:
        return NOT_CAPTURED  # headers never are
    if channel == "response-body":
        return call.output
    return _stream(call.output, operation, pointer)


def _stream(output: Any, operation: Operation, pointer: Pointer) -> Any:
    """What a command wrote to a stream or an artifact."""
    if not (isinstance(output, Mapping) and output and output.keys() <= _STREAMS):
        return output if pointer.full_channel == operation.described else MISSING
    if pointer.channel == "artifact":
        artifacts = output.get("artifacts")
        return _parsed(artifacts.get(pointer.part, MISSING)) if isinstance(artifacts, Mapping) else MISSING
    return _parsed(output.get(pointer.channel, MISSING))


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return parse(value)
    except ValueError:
        return value


def input_channel(value: Any, kind: Kind, channel: str) -> Any:
    """What an input holds on a channel; MISSING where it holds nothing."""
    if channel not in INPUT_CHANNELS.get(kind, ()):
        return MISSING
    if value is NOT_CAPTURED or kind == "mcp":
        return value
    if value is None:
        return MISSING
    by_channel = channels_of(value, kind)
    return value if by_channel is None else by_channel.get(channel, MISSING)


def channels_of(value: Mapping[str, Any] | None, kind: Kind) -> dict[str, Any] | None:
    """The channels that hold something, of an input laid out by channel; None for a flat one.

    Absent, null, `{}` and `{kind: absent}` all hold nothing; `{kind: json, value: V}` is V.
    """
    if value is None:
        return {}
    names = INPUT_CHANNELS.get(kind, ())
    if not all(key in names and (held is None or isinstance(held, Mapping)) for key, held in value.items()):
        return None
    return {key: unwrapped(held) for key, held in value.items() if held and held != _ABSENT}


def unwrapped(value: Any) -> Any:
    """V of `{kind: json, value: V}`, anything else as it is."""
    wrapped = isinstance(value, Mapping) and value.keys() == {"kind", "value"} and value["kind"] == "json"
    return value["value"] if wrapped else value


def uncaptured(call: Call, operation: Operation, pointers: Iterable[Pointer]) -> bool:
    """Whether one of these places was not recorded of the call."""
    return any(read(call, operation, pointer) is NOT_CAPTURED for pointer in pointers)
