"""The calls that a plan selects among: tool steps of a scope, or observations from a file.

Data flow: Scope -> calls_of -> in_sequence -> select. A Call holds what was recorded of one logical call; a principal
is a label of the policy, never the raw value.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from onpath.model import Attributes
from onpath.policy.model import Principal
from onpath.redaction import is_redacted
from onpath.steps.model import NOT_CAPTURED, Scope, Step

Status: TypeAlias = Literal["ok", "error", "unset"]

LEG_ATTRIBUTE: Final = "onpath.preflight.leg"
DEFAULT_PRINCIPAL: Final = Principal(attribute=("enduser.id", "user.id"))
# Where instrumentations put the name of an MCP server; the MCP conventions name no attribute for it.
_SERVER_NAMES: Final = ("mcp.server.name", "fastmcp.server.name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call as recorded. Times are nanoseconds, None where not known.

    `input` is an object, None if what was recorded is none, or NOT_CAPTURED; `output` is any JSON or NOT_CAPTURED.
    `position` and `turn` stand for times in calls read from messages.
    """

    span_id: str
    name: str
    interface: str | None = None
    input: Any = NOT_CAPTURED
    output: Any = NOT_CAPTURED
    status: Status = "unset"
    http_status: int | None = None
    exit_code: int | None = None
    principal: str | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    position: int | None = None
    turn: int | None = None
    leg: str | None = None

    @property
    def failed(self) -> bool:
        return self.status == "error"


def in_sequence(calls: Iterable[Call]) -> tuple[Call, ...]:
    """By start, end and span id; by position where times are missing. The order of arrival does not matter.

    Where only some have times, those with a position of their own keep their places among all.
    """
    held = [_ordered_times(call) for call in calls]
    if all(call.start_ns is not None for call in held) or not all(call.position is not None for call in held):
        return tuple(sorted(held, key=_by_time))
    return tuple(sorted(held, key=lambda call: (call.position or 0, _by_time(call))))


def _ordered_times(call: Call) -> Call:
    if call.start_ns is not None and call.end_ns is not None and call.end_ns < call.start_ns:
        return replace(call, end_ns=call.start_ns)
    return call


def _by_time(call: Call) -> tuple[bool, float, float, float, str]:
    """Calls without a time come after those with one, by position."""
    late = float("inf")
    start = late if call.start_ns is None else call.start_ns
    end = late if call.end_ns is None else call.end_ns
    return (call.start_ns is None, start, end, late if call.position is None else call.position, call.span_id)


def calls_of(scope: Scope, principals: frozenset[str], principal: Principal | None = None) -> tuple[Call, ...]:
    """The tool calls of a scope that ran, in sequence."""
    reading = principal or DEFAULT_PRINCIPAL
    return in_sequence(
        _call(step, index, _who(step, scope, principals, reading))
        for index, step in enumerate(scope.steps)
        if step.kind == "tool" and step.ran and step.name is not None
    )


def _call(step: Step, position: int, principal: str | None) -> Call:
    leg = step.attributes.get(LEG_ATTRIBUTE)
    return Call(
        span_id=step.span_ids[0] if step.span_ids else step.call_id or f"step-{position}",
        name=step.name or "",
        interface=_first_text(step.attributes, _SERVER_NAMES),
        input=NOT_CAPTURED if is_redacted(step.input) else as_input(step.input),
        output=NOT_CAPTURED if is_redacted(step.output) else as_json(step.output),
        status="error" if step.failed else "ok" if step.status == "ok" else "unset",
        http_status=_whole(step.attributes.get("http.response.status_code")),
        exit_code=_whole(step.attributes.get("process.exit.code")),
        principal=principal,
        start_ns=step.start_ns,
        end_ns=step.end_ns,
        position=position,
        turn=step.turn,
        leg=leg if isinstance(leg, str) else None,
    )


def as_input(value: Any) -> Any:
    """Arguments as an object; None if they are something else, NOT_CAPTURED if they were not recorded."""
    if value is NOT_CAPTURED:
        return value
    return as_json(value) if isinstance(value, Mapping) else None


def as_json(value: Any) -> Any:
    """Attribute values beside JSON's own: bytes become base64 text, tuples lists."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {str(key): as_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(inner) for inner in value]
    return value


def _who(step: Step, scope: Scope, principals: frozenset[str], reading: Principal) -> str | None:
    """The label of who acted: the first attribute found on the call, its scope or the resource decides."""
    for attributes in (step.attributes, scope.attributes, scope.resource.attributes):
        raw = _first_text(attributes, reading.attribute)
        if raw is not None:
            return _label(raw, principals, reading)
    return None


def _label(raw: str, principals: frozenset[str], reading: Principal) -> str | None:
    if not reading.labels:
        return raw if raw in principals else None
    return next((label for label, values in reading.labels.items() if raw in values and label in principals), None)


def _first_text(attributes: Attributes, names: Sequence[str]) -> str | None:
    for name in names:
        value = attributes.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
            return str(value)
    return None


def _whole(value: Any) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,10}", value):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
