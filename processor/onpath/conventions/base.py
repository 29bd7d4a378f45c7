"""What a family module is made of: how one attribute convention spells roles and facts.

A family says three things: which of its attributes give a span a role, which spans are mere placeholders, and under
which keys each fact of a step stands. `table.py` orders the families and turns all of it into look-ups by attribute
key, so that a span is read in one pass over the attributes it has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Final, Literal, TypeAlias

from onpath.conventions.flattened import unflatten
from onpath.conventions.messages import messages as readable_messages
from onpath.conventions.results import open_result
from onpath.conventions.values import arguments as call_arguments
from onpath.conventions.values import decode, decode_json, given
from onpath.conventions.values import invocation as invocation_arguments
from onpath.model import NOT_CAPTURED, Attributes, Span

Role: TypeAlias = Literal[
    "llm", "tool", "agent", "loop", "retriever", "embedding", "guardrail", "evaluator",  # specific
    "calls",  # runs tool calls that it does not record one by one
    "workflow", "chain", "other",  # generic: any specific role of another family goes before them
    "dropped",  # a placeholder: stands for nothing that happened
]  # fmt: skip
# `loop`: a model loop that a library runs for its caller (Vercel's generateText), an agent where none is around it.

GENERIC: Final[frozenset[str]] = frozenset({"workflow", "chain", "other"})

Fact: TypeAlias = Literal[
    "tool_name", "call_id", "arguments", "result", "model", "response_id", "finish_reasons", "agent_name", "session",
    "input", "output", "input_messages", "output_messages", "outcome",
]  # fmt: skip
# `outcome` is read as (status, type of the error, its message), status being one of a step's.

RoleReader: TypeAlias = Callable[[Any, Span], Role | None]
Reader: TypeAlias = Callable[[Any, Attributes], Any]  # value of the key, all attributes -> the fact, or NOT_CAPTURED
UsageReader: TypeAlias = Callable[[Any, Attributes], Mapping[str, Any]]
CallReader: TypeAlias = Callable[[Attributes, Any], Mapping[str, Any] | None]
EventReader: TypeAlias = Callable[[Attributes, Any], list[tuple[Literal["input", "output"], Any]]]


@dataclass(frozen=True, slots=True)
class Family:
    """One attribute convention.

    `roles`: attribute key to a table of its values (in lower case, compared so) or a function.
    `named`: for the instrumentation scopes in `scopes`, and span names whose first word is in `words`, a role by span
    name, asked only when no attribute gave one.
    `placeholders`: attribute key to a test that is true for a span that stands for nothing that happened.
    `facts`: fact to keys and how to read each, best key first; the empty key is for `Flattened` alone. A key that is a
    plain word is read by an `Own`.
    `usage`: flat keys to metric names; `usage_json`: keys that hold a whole usage object.
    `events`: names of span events and log records that carry messages: attributes and body of one -> messages given to
    the model or put out by it.
    `calls`: names of events and log records that each stand for a tool call without a span: attributes and body of one
    -> the attributes of a tool span, and `duration_ns`.
    `loses_failed`: instrumentation scopes that never export the span of a tool call that failed.
    `fails_bare`: instrumentation scopes and beginnings of span names of tool calls that bear attributes unless they
    failed.
    `delegates`: tools by which a framework has any of its agents do a task, the agent being one of the arguments.
    `name_affixes`: what stands before and after the name proper in names of spans.
    """

    name: str
    roles: Mapping[str, Mapping[str, Role] | RoleReader] = field(default_factory=dict)
    named: Callable[[Span], Role | None] | None = None
    scopes: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    placeholders: Mapping[str, Callable[[Any, Span], bool]] = field(default_factory=dict)
    facts: Mapping[Fact, Mapping[str, Reader]] = field(default_factory=dict)
    usage: Mapping[str, str] = field(default_factory=dict)
    usage_json: Mapping[str, UsageReader] = field(default_factory=dict)
    events: Mapping[str, EventReader] = field(default_factory=dict)
    calls: Mapping[str, CallReader] = field(default_factory=dict)
    loses_failed: tuple[str, ...] = ()
    fails_bare: tuple[tuple[str, str], ...] = ()
    delegates: tuple[str, ...] = ()
    name_affixes: tuple[tuple[str, str], ...] = ()


# ------------------------------------------------------------------ readers most families need


def text(value: Any, _: Attributes) -> Any:
    """A name or an id: text that is not empty; a whole number as its digits."""
    if isinstance(value, str):
        return value if value else NOT_CAPTURED
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else NOT_CAPTURED


def json_text(value: Any, attributes: Attributes) -> Any:
    """As `text`, where the text is JSON by convention and so stands in quotation marks."""
    return text(decode_json(value), attributes)


def texts(value: Any, _: Attributes) -> Any:
    """A list of texts; one text; a list of texts as JSON."""
    value = decode(value)
    if isinstance(value, str):
        return (value,) if value else NOT_CAPTURED
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, list | tuple) else NOT_CAPTURED


def plain(value: Any, _: Attributes) -> Any:
    """A value as recorded, decoded where it is a text with a JSON object or array."""
    return decode(value)


def json_value(value: Any, _: Attributes) -> Any:
    """A value that is JSON by convention."""
    return decode_json(value)


def arguments(value: Any, _: Attributes) -> Any:
    value = given(value)
    return value if value is NOT_CAPTURED else call_arguments(value)


def invocation(value: Any, _: Attributes) -> Any:
    """Arguments recorded as the function's `{args, kwargs}`."""
    value = given(value)
    return value if value is NOT_CAPTURED else invocation_arguments(value)


def result(value: Any, _: Attributes) -> Any:
    """A ToolResult."""
    return open_result(value)


def json_result(value: Any, _: Attributes) -> Any:
    """A ToolResult out of a text that is JSON by convention."""
    return open_result(value, is_json=True)


def outcome(failed: tuple[str, ...], fine: tuple[str, ...], message_key: str | None = None) -> Reader:
    """A family's own word for how a call went; `message_key` holds what went wrong."""

    def read(value: Any, attributes: Attributes) -> Any:
        word = str(value).lower() if isinstance(value, str | bool) else None
        if word in failed:
            message = attributes.get(message_key) if message_key is not None else None
            return ("error", None, message if isinstance(message, str) and message else None)
        return ("ok", None, None) if word in fine else NOT_CAPTURED

    return read


def messages(value: Any, _: Attributes) -> Any:
    """A list of messages."""
    return readable_messages(value)


@dataclass(frozen=True, slots=True)
class Own:
    """Reads a key that is a plain word, and so may be anybody's, only on spans that show that they are the family's.

    `marks`: attributes that the family writes, one of which must be there; `test`, where given, must hold, too.
    """

    read: Reader
    marks: frozenset[str]
    test: Callable[[Attributes], bool] | None = None

    def __call__(self, value: Any, attributes: Attributes) -> Any:
        return self.read(value, attributes) if self.applies(attributes) else NOT_CAPTURED

    def applies(self, attributes: Attributes) -> bool:
        return not self.marks.isdisjoint(attributes) and (self.test is None or self.test(attributes))


@dataclass(frozen=True, slots=True)
class Flattened:
    """Reads messages under flattened keys, `PREFIX.0.role` and its like; not captured when no key has the prefix."""

    prefix: str
    convert: Callable[[Any], Any] = readable_messages

    def __call__(self, _: Any, attributes: Attributes) -> Any:
        found = unflatten(attributes, self.prefix)
        return NOT_CAPTURED if found is None else self.convert(found)

    def holds(self, attributes: Attributes) -> bool:
        start = self.prefix + "."
        return any(map(str.startswith, attributes, repeat(start)))
