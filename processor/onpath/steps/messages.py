"""Calls that model messages ask for (adherence.md section 5).

Data flow: messages -> `_Walk`, in document order, with a stack of its own -> calls, results by call id, approvals ->
steps. Output messages hold the calls. Input messages repeat history: they are read for results alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from onpath.conventions.results import open_result
from onpath.json_values import decoded
from onpath.steps.model import NOT_CAPTURED, Step, StepStatus, Value

_CALL_TYPES: Final = frozenset({"tool_use", "server_tool_use", "tool_call", "server_tool_call"})
_CONTAINERS: Final = frozenset({"function_call", "content", "parts", "message", "messages", "output", "choices"})
_HOLD_MESSAGES: Final = frozenset({"message", "messages", "choices"})  # never prose: a text there is messages as JSON
_NO_CALLS: Final = frozenset({"user", "system", "developer", "tool"})  # roles
_ARGUMENTS: Final = ("arguments", "args", "params", "input")
_ANSWERS: Final = ("response", "result", "output", "content")
_CALL_IDS: Final = ("id", "call_id", "tool_call_id", "toolCallId")
# Where each kind of result names the call that it answers.
_RESULT_IDS: Final[Mapping[str, str]] = {
    "tool_result": "tool_use_id",
    "tool_call_response": "id",
    "server_tool_call_response": "id",
    "function_call_output": "call_id",
    "tool-result": "toolCallId",
}
_FLAT: Final = re.compile(r"llm\.output_messages\.(\d{1,9})\.message\.tool_calls\.(\d{1,9})\.tool_call\.(.+)")
_FLAT_ROLE: Final = re.compile(r"llm\.output_messages\.(\d{1,9})\.message\.role")
_FLAT_RESULT: Final = re.compile(r"llm\.(?:in|out)put_messages\.\d+\.message\.tool_call_id")

_Place: TypeAlias = Literal["messages", "blocks", "calls"]  # what the entries of a list found there are


def calls_in(output_messages: Sequence[Any], input_messages: Sequence[Any] = ()) -> tuple[Step, ...]:
    """The calls asked for, in the order asked: tool steps without times, `source: messages`.

    The status is `error` or `ok` where a result says so, `awaiting_approval` while an approval was asked for and no
    result is there, else `unset`. The name is None for a call whose name was left out. A message is an object, a list
    of them, or either as a JSON text.
    """
    asked = _Walk(calls_count=True)
    asked.read(output_messages)
    given = _Walk(calls_count=False)
    given.read(input_messages)
    for call_id, answer in given.results.items():
        asked.answer(call_id, answer)
    return tuple(_step(call, asked.results, asked.approvals) for call in asked.calls)


def readable(messages: Sequence[Any] | None) -> bool:
    """Whether output messages were captured in a form that shows calls if there were any.

    Text that isn't JSON shows none; where one message of several was cut off, calls may be missing.
    """
    found = False
    for message in _entries(messages or ()):
        if isinstance(message, Mapping):
            found = found or any(not str(key).startswith("llm.input_messages.") for key in message)
        elif isinstance(message, str) and message.lstrip()[:1] in ("{", "["):
            return False
    return found


def _entries(messages: Sequence[Any]) -> Iterator[Any]:
    """What lists of messages hold, texts decoded."""
    pending: list[Any] = [messages]
    while pending:
        at = decoded(pending.pop())
        if isinstance(at, Sequence) and not isinstance(at, str | bytes):
            pending += reversed(at)
        else:
            yield at


@dataclass(slots=True)
class _Call:
    name: str | None
    arguments: Value
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Answer:
    """What became of a call; `value` is as recorded."""

    failed: bool
    value: Any = NOT_CAPTURED


@dataclass(slots=True)
class _Walk:
    """What one walk over messages found. `results` maps a call id to what became of the call."""

    calls_count: bool
    calls: list[_Call] = field(default_factory=list)
    results: dict[str, _Answer] = field(default_factory=dict)
    approvals: set[str] = field(default_factory=set)
    _seen: set[str] = field(default_factory=set)

    def read(self, messages: Any) -> None:
        pending: list[tuple[Any, _Place, bool]] = [(messages, "messages", self.calls_count)]
        while pending:
            at, place, calls = pending.pop()
            if place == "messages":
                at = decoded(at)
            if isinstance(at, Mapping):
                pending += reversed(list(self._object(at, place, calls)))
            elif isinstance(at, Sequence) and not isinstance(at, str | bytes):
                pending += ((entry, place, calls) for entry in reversed(at))

    def _object(self, at: Mapping[str, Any], place: _Place, calls: bool) -> Iterator[tuple[Any, _Place, bool]]:
        """Takes in one object and gives what is to be looked into below it."""
        kind, role = at.get("type"), at.get("role")
        calls = calls and not (isinstance(role, str) and role.strip().lower() in _NO_CALLS)
        if self._result(at, kind, role) or kind == "mcp_approval_request":
            return
        if kind == "tool-approval-request":
            self.approvals.update(_ids(at, ("toolCallId",)))
            return
        self._flattened(at, calls)
        call = _call(at, place, kind)
        if call is not None:
            if calls:
                self._add(call)
            return
        for key, value in at.items():
            if key == "tool_calls":
                yield decoded(value), "calls", calls
            elif key in _CONTAINERS:
                yield value, "messages" if key in _HOLD_MESSAGES else "blocks", calls

    def _add(self, call: _Call) -> None:
        if not self._seen.isdisjoint(call.ids):
            return
        self._seen.update(call.ids)
        self.calls.append(call)

    def _result(self, at: Mapping[str, Any], kind: Any, role: Any) -> bool:
        """Notes what answers a call; True for a block that is nothing but an answer."""
        block = _RESULT_IDS.get(kind) if isinstance(kind, str) else None
        key = block or ("tool_call_id" if isinstance(role, str) and role.strip().lower() == "tool" else None)
        if key is not None:
            failed = at.get("is_error") is True or at.get("status") == "error"
            value = next((at[k] for k in _ANSWERS if k in at), NOT_CAPTURED)
            for call_id in _ids(at, (key,)):
                self.answer(call_id, _Answer(failed, value))
        return block is not None

    def answer(self, call_id: str, answer: _Answer) -> None:
        """A failure is never taken back; of several values the first stands, as history repeats it."""
        known = self.results.get(call_id)
        if known is not None:
            value = answer.value if known.value is NOT_CAPTURED else known.value
            answer = _Answer(known.failed or answer.failed, value)
        self.results[call_id] = answer

    def _flattened(self, at: Mapping[str, Any], calls: bool) -> None:
        """The keys `llm.output_messages.N.message.tool_calls.M.tool_call...` of one object, by N, then M."""
        found: dict[tuple[int, int], dict[str, Any]] = {}
        silent: set[int] = set()
        for key, value in at.items():
            if not isinstance(key, str) or not key.startswith("llm."):
                continue
            if (match := _FLAT.fullmatch(key)) is not None:
                found.setdefault((int(match[1]), int(match[2])), {})[match[3]] = value
            elif (match := _FLAT_ROLE.fullmatch(key)) is not None:
                if isinstance(value, str) and value.strip().lower() in _NO_CALLS:
                    silent.add(int(match[1]))
            elif _FLAT_RESULT.fullmatch(key) is not None:
                for call_id in _ids({"id": value}, ("id",)):
                    content = at.get(key.removesuffix("tool_call_id") + "content", NOT_CAPTURED)
                    self.answer(call_id, _Answer(False, content))
        for (message, _), parts in sorted(found.items(), key=lambda item: item[0]):
            if calls and message not in silent:
                arguments = parts.get("function.arguments", NOT_CAPTURED)
                self._add(_Call(_text(parts.get("function.name")), decoded(arguments), tuple(_ids(parts, ("id",)))))


def _call(at: Mapping[str, Any], place: _Place, kind: Any) -> _Call | None:
    """The call that an object is, if it is one."""
    ids = tuple(_ids(at, _CALL_IDS))
    if place == "calls" and at:
        function = at.get("function")
        if isinstance(function, Mapping):
            name = _text(function.get("name"))
            return _Call(name if name is not None else _text(at.get("name")), _arguments(function, at), ids)
        return _Call(_text(at.get("name")), _arguments(at), ids)
    if isinstance(kind, str) and kind in _CALL_TYPES:
        return _Call(_text(at.get("name")), _arguments(at), ids)
    if isinstance(at.get("name"), str) and any(key in at for key in ("params", "arguments", "args")):
        return _Call(at["name"], _arguments(at), ids)
    return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _arguments(*holders: Mapping[str, Any]) -> Value:
    for holder in holders:
        for key in _ARGUMENTS:
            if key in holder:
                return decoded(holder[key])
    return NOT_CAPTURED


def _ids(at: Mapping[str, Any], keys: tuple[str, ...]) -> Iterator[str]:
    for key in keys:
        value = at.get(key)
        if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
            yield str(value)


def _step(call: _Call, results: Mapping[str, _Answer], approvals: set[str]) -> Step:
    answers = [results[i] for i in call.ids if i in results]
    status: StepStatus = "unset"
    if answers:
        status = "error" if any(a.failed for a in answers) else "ok"
    elif not approvals.isdisjoint(call.ids):
        status = "awaiting_approval"
    call_id = call.ids[-1] if call.ids else None  # where both are given, `call_id` is what results name, not `id`
    value = next((a.value for a in answers if a.value is not NOT_CAPTURED), NOT_CAPTURED)
    output = value if value is NOT_CAPTURED else open_result(value).content
    return Step(
        kind="tool",
        name=call.name,
        input=call.arguments,
        output=output,
        status=status,
        call_id=call_id,
        source="messages",
    )
