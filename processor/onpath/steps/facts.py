"""The facts of one step, read from the spans that recorded it, their events and their log records.

A fact is looked up by attribute key in the order of the conventions' table; content that no attribute holds is taken
from events and log records. Everything is read on demand and once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from onpath.conventions.base import Fact, Flattened
from onpath.conventions.messages import walk
from onpath.conventions.results import ToolResult, open_result
from onpath.conventions.shapes import by_spelling, joined, shape_of
from onpath.conventions.table import AFFIXES, EVENTS
from onpath.conventions.values import arguments
from onpath.model import NOT_CAPTURED, Attributes, LogRecord, Span
from onpath.usage import canonical

# Names of classes that stand for any tool: a span named so does not say which tool it was.
_CLASS_NAMES: Final = frozenset(
    {"DynamicStructuredTool", "DynamicTool", "StructuredTool", "FunctionTool", "SimpleTool", "Tool", "BaseTool",
     "QueryEngineTool", "AgentTool", "McpTool", "MCPTool", "CrewStructuredTool", "running tool",
     "running output function", "execute_tool", "tools/call", "tool", "ai.toolCall", "function"}
)  # fmt: skip
_METHODS: Final = (".acall", ".call", ".__call__", ".run", ".arun", ".invoke", ".ainvoke", ".forward", ".execute")

_UNREAD: Final = object()
_GIVEN: Final = frozenset({"input_messages", "input", "arguments"})  # facts that events and log records tell of ...
_PUT_OUT: Final = frozenset({"output_messages", "output", "result"})  # ... on either side


class Facts:
    """What the spans of one step say together; the first of them, the outermost, goes before the others."""

    __slots__ = ("_cache", "_events", "_logs", "_own", "_shape", "attributes", "quiet", "spans")

    def __init__(self, spans: Sequence[Span], logs: Mapping[tuple[str, str], Sequence[LogRecord]]) -> None:
        self.spans = spans
        self._logs = logs
        self._cache: dict[str, Any] = {}
        self._events: tuple[list[Any], list[Any]] | None = None
        attributes: Attributes = spans[0].attributes
        events: Any = spans[0].events
        if len(spans) > 1:
            attributes = {k: v for span in reversed(spans) for k, v in span.attributes.items()}
            events = any(span.events for span in spans)
        self.attributes = attributes
        self._own = attributes if isinstance(attributes, dict) and len(spans) > 1 else None  # else they are the span's
        self._shape = shape_of(attributes)
        self.quiet = not logs and not events  # nothing but attributes was recorded

    def absorb(self, other: Facts) -> None:
        """Takes in what further spans of the step say, which `spans` hold already; `other` is not to be used any more.

        The work is in proportion to the lesser of the two, so that a call of any number of records is no burden.
        """
        if other._own is not None and len(other._own) > len(self.attributes):
            merged = other._own
            merged.update(self.attributes)
        else:
            merged = dict(self.attributes) if self._own is None else self._own
            for key, value in other.attributes.items():
                merged.setdefault(key, value)
        self.attributes = self._own = merged
        shape = joined(self._shape, other._shape)
        if shape is not self._shape or "" in other._shape.keys:
            self._cache.clear()
            self._shape = shape
        self.quiet = self.quiet and other.quiet
        if not self.quiet:
            self._events = None
            for fact in _GIVEN | _PUT_OUT:
                self._cache.pop(fact, None)

    def get(self, fact: Fact) -> Any:
        """The fact, or NOT_CAPTURED."""
        found = self._cache.get(fact, _UNREAD)
        if found is _UNREAD:
            if self.quiet and fact not in self._shape.sources:
                return NOT_CAPTURED
            found = self._cache[fact] = self._read(fact)
        return found

    def holds(self, fact: Fact) -> bool:
        """Whether something was recorded for the fact, without reading it."""
        for source in self._shape.sources.get(fact, ()):
            if not isinstance(source.reader, Flattened) or source.reader.holds(self.attributes):
                return True
        return not self.quiet and self._from_events(fact) is not NOT_CAPTURED

    def mentions(self, fact: Fact, *words: str) -> bool:
        """Whether what was recorded for a fact may hold one of these words, without reading it."""
        sources = self._shape.sources.get(fact, ())
        if self.quiet and not sources:
            return False
        held = [self.attributes.get(source.key) for source in sources]
        for _, attributes, body in self._records():
            held += [*attributes.values(), body]
        return any(_may_hold(value, words) for value in held if value is not None)

    def text(self, fact: Fact) -> str | None:
        found = self.get(fact)
        return found if isinstance(found, str) else None

    def _read(self, fact: Fact) -> Any:
        attributes = self.attributes
        for _, key, reader in self._shape.sources.get(fact, ()):
            found = reader(attributes.get(key), attributes)
            if found is not NOT_CAPTURED:
                return found
        return NOT_CAPTURED if self.quiet else self._from_events(fact)

    def _from_events(self, fact: Fact) -> Any:
        if fact in _GIVEN:
            side = 0
        elif fact in _PUT_OUT:
            side = 1
        else:
            return NOT_CAPTURED
        found = self._content()[side]
        if not found:
            return NOT_CAPTURED
        if fact == "arguments":
            return _event_arguments(found)
        return _event_result(found) if fact == "result" else found

    def _content(self) -> tuple[list[Any], list[Any]]:
        """Messages in events and log records: given to the model, put out by it."""
        if self._events is None:
            given: list[Any] = []
            put_out: list[Any] = []
            for name, attributes, body in self._records():
                reader = EVENTS.get(name)
                for direction, message in reader(attributes, body) if reader else ():
                    (given if direction == "input" else put_out).append(message)
            self._events = given, put_out
        return self._events

    def _records(self) -> list[tuple[str, Attributes, Any]]:
        found: list[tuple[str, Attributes, Any]] = []
        for span in self.spans:
            found += [(event_name(e.name, e.attributes), e.attributes, None) for e in span.events]
            found += [(r.event_name, r.attributes, r.body) for r in self._logs.get(span.key, ())]
        return found

    # -------------------------------------------------------------- names, results, usage

    @property
    def result(self) -> ToolResult:
        found = self.get("result")
        return found if isinstance(found, ToolResult) else ToolResult()

    def tool_name(self) -> str | None:
        """The tool's own name; None where only a class that stands for any tool was recorded."""
        if "own name" not in self._cache:
            self._cache["own name"] = self._tool_name()
        found: str | None = self._cache["own name"]
        return found

    def _tool_name(self) -> str | None:
        name = self.text("tool_name")
        if name is not None and not is_class_name(name):
            return name
        inner = self.result.name
        if inner is not None:
            return inner
        for span in self.spans:
            bare = bare_name(span.name)
            if bare and not is_class_name(bare):
                return bare
        return None

    def usage(self) -> dict[str, int | float]:
        """Metrics by canonical name, of the first family that counts input or output tokens, else that counts any."""
        if "usage" not in self._cache:
            self._cache["usage"] = self._usage()
        found: dict[str, int | float] = self._cache["usage"]
        return found

    def _usage(self) -> dict[str, int | float]:
        counted: dict[str, int | float] | None = None
        for places in self._shape.usage:
            metrics: dict[str, int | float] = {}
            for metric, key in places:
                number = None if metric in metrics else _number(self.attributes[key])
                if number is not None:
                    metrics[metric] = number
            if "input_tokens" in metrics or "output_tokens" in metrics:
                return metrics
            counted = counted or metrics
        for key, reader in self._shape.usage_json:
            read = reader(self.attributes[key], self.attributes)
            held = {m: number for m, value in read.items() if (number := _number(value)) is not None}
            if held:
                return _canonical(held)
        return counted or {}


def event_name(name: str, attributes: Attributes) -> str:
    """An event's name; some write it as an attribute and let the event bear the place in the code."""
    named = attributes.get("event.name")
    return named if isinstance(named, str) and named else name


def _may_hold(value: Any, words: tuple[str, ...]) -> bool:
    return any(word in value for word in words) if isinstance(value, str) else isinstance(value, (list, dict))


def _canonical(metrics: Mapping[str, int | float]) -> dict[str, int | float]:
    found: dict[str, int | float] = {}
    for metric in by_spelling(metrics):
        found.setdefault(canonical(metric), metrics[metric])
    return found


def _number(value: Any) -> int | float | None:
    if type(value) is int:
        return value if value >= 0 else None
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 19:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 <= value < float("inf") else None


def bare_name(name: str) -> str:
    """A span's name without what its convention puts around the tool's or agent's name."""
    for before, after in AFFIXES:
        if name.startswith(before) and name.endswith(after) and len(name) >= len(before) + len(after):
            return name[len(before) : len(name) - len(after)].strip()
    return name.strip()


def is_class_name(name: str) -> bool:
    if name.endswith(_METHODS):
        method = next(method for method in _METHODS if name.endswith(method))
        name = name[: -len(method)]
    return name in _CLASS_NAMES


def _event_arguments(found: Sequence[Any]) -> Any:
    for part in walk(found):
        if part.get("type") == "tool_call" and "arguments" in part:
            return arguments(part["arguments"])
    first = found[0]
    return arguments(first["content"]) if isinstance(first, Mapping) and "content" in first else NOT_CAPTURED


def _event_result(found: Sequence[Any]) -> Any:
    for part in walk(found):
        if part.get("type") == "tool_call_response":
            return open_result(part.get("response", part.get("result")))
    last = found[-1]
    return open_result(last["content"]) if isinstance(last, Mapping) and "content" in last else NOT_CAPTURED
