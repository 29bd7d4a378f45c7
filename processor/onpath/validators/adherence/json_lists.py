"""Lists of steps in JSON: the output as a whole, a code block, an array in the middle of an answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from onpath.json_values import DECODER, MAX_DEPTH, parse
from onpath.validators.adherence.items import Reader

_KEYS: Final = ("step", "name", "action", "tool")
_LIST: Final = (list, tuple)
_ARRAYS: Final = 200  # places in a text from which an array is looked for
# A string, a bracket, or what can't stand outside strings: there an array that began in prose ends.
_TOKEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*("?)|[\[\]{}]|[^\s\d"\[\]{},:+\-.eEtrufalsn]', re.DOTALL)


def steps_of_value(value: Any, reader: Reader) -> list[str]:
    """Of an output that is JSON: the first list in it with a configured name; failing that itself or its `steps`."""
    found = first_configured(value, reader)
    if found is not None:
        return found[1]
    chosen = value.get("steps") if isinstance(value, dict) else value
    return _names(chosen, reader) if isinstance(chosen, _LIST) else []


def steps_of_block(content: str, reader: Reader) -> list[str]:
    if content.lstrip()[:1] not in ("[", "{"):
        return []
    try:
        value = parse(content)
    except ValueError:
        return []
    found = first_configured(value, reader)
    return found[1] if found is not None else []


def first_configured(value: Any, reader: Reader) -> tuple[int, list[str]] | None:
    """Depth first, the first list with a configured name: how many lists come before it, and its names."""
    for number, found in enumerate(_lists(value)):
        names = _names(found, reader)
        if not reader.configured.isdisjoint(names):
            return number, names
    return None


def texts(value: Any) -> Iterator[str]:
    """The string values of a JSON value, in document order."""
    pending = [value]
    while pending:
        at = pending.pop()
        if isinstance(at, str):
            yield at
        elif isinstance(at, dict):
            pending += reversed(list(at.values()))
        elif isinstance(at, _LIST):
            pending += reversed(at)


def _lists(value: Any) -> Iterator[Sequence[Any]]:
    pending = [value]
    while pending:
        at = pending.pop()
        if isinstance(at, dict):
            pending += reversed(list(at.values()))
        elif isinstance(at, _LIST):
            yield at
            pending += [v for v in reversed(at) if not isinstance(v, str)]


def _names(elements: Sequence[Any], reader: Reader) -> list[str]:
    names = []
    for element in elements:
        item = element if isinstance(element, str) else _item(element)
        name = reader.name(item) if item is not None else None
        if name is not None:
            names.append(name)
    return names


def _item(element: Any) -> str | None:
    if isinstance(element, dict):
        for key in _KEYS:
            value = element.get(key)
            if isinstance(value, str) and value.strip():
                return value
    return None


# ------------------------------------------------------------------ arrays in a text


@dataclass(slots=True)
class _Array:
    end: int | None  # behind its closing bracket; None: it has none
    height: int  # how deep brackets nest in it, itself included
    settled_by: int  # the bracket whose pass met it


@dataclass(slots=True)
class _Arrays:
    """Where the arrays that begin at the first `[` of a text end.

    Every place of a text is inside a string or outside of it as seen from an earlier bracket, so one pass from a
    bracket settles all brackets that it meets outside of strings; only those it met inside need a pass of their own.
    """

    text: str
    starts: list[int]
    settled: dict[int, _Array] = field(default_factory=dict)

    def at(self, start: int) -> _Array:
        if start not in self.settled:
            self._pass(start)
        return self.settled[start]

    def met_inside(self, start: int) -> list[int]:
        """Those that the pass over this array met in it."""
        array = self.at(start)
        end = array.end or 0
        known = ((s, self.settled.get(s)) for s in self.starts if start < s < end)
        return [s for s, other in known if other is not None and other.settled_by == array.settled_by]

    def _pass(self, start: int) -> None:
        last = self.starts[-1]
        stack: list[list[int]] = []  # of open brackets: place, height of what is inside so far
        wanted = 0  # how many of them, from the outermost, are no deeper than the innermost one asked for
        for token in _TOKEN.finditer(self.text, start):
            char = token[0][0]
            if char in "[{":
                stack.append([token.start(), 0])
                if char == "[" and token.start() <= last:
                    wanted = len(stack)
                elif len(stack) - wanted > MAX_DEPTH:
                    break
            elif char in "]}":
                place, height = stack.pop()
                if (self.text[place] == "[") != (char == "]"):
                    stack.append([place, height])
                    break
                if char == "]":
                    self.settled.setdefault(place, _Array(token.end(), height + 1, start))
                if not stack:
                    break
                stack[-1][1] = max(stack[-1][1], height + 1)
                wanted = min(wanted, len(stack))
            elif char != '"' or not token[1]:
                break
        for place, height in stack:
            self.settled.setdefault(place, _Array(None, height, start))


def steps_in_text(text: str, reader: Reader) -> list[str]:
    """From each of the first 200 `[`: a JSON array with a configured name."""
    starts = _starts(text)
    if not starts:
        return []
    arrays = _Arrays(text, starts)
    passed: set[int] = set()
    for start in starts:
        if start in passed:
            continue
        array = arrays.at(start)
        if array.end is None or array.height > MAX_DEPTH:
            continue
        inside = arrays.met_inside(start)
        try:
            value = DECODER.decode(text[start : array.end])
        except json.JSONDecodeError as error:
            # whatever is still open at the fault, and was met on the way, has the same fault
            at = start + error.pos
            passed.update(s for s in inside if s < at < (arrays.at(s).end or at))
            continue
        except ValueError:
            continue
        found = first_configured(value, reader)
        if found is None:
            passed.update(inside)
        elif found[0] <= len(inside):
            return found[1]
    return []


def _starts(text: str) -> list[int]:
    starts: list[int] = []
    at = text.find("[")
    while at != -1 and len(starts) < _ARRAYS:
        starts.append(at)
        at = text.find("[", at + 1)
    return starts
