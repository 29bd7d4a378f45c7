"""A document as read: plain JSON values, and where each of them was written."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from onpath.policy.problems import Problem, pointer

MAX_DEPTH: Final = 100
SURROGATE: Final = re.compile("[\ud800-\udfff]")  # a half of a pair is no text, and can't be written as UTF-8


@dataclass(frozen=True, slots=True)
class Place:
    """Both from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Document:
    """What a text holds. `usable` is false where it could not be read at all; `problems` then say why."""

    name: str
    data: Any = None
    places: dict[str, Place] = field(default_factory=dict)  # that of the key in a mapping, of the item in a list
    problems: tuple[Problem, ...] = ()
    usable: bool = True

    def place(self, at: str) -> Place | None:
        """Of the pointer, or of the nearest thing around it."""
        while at and at not in self.places:
            at = at.rpartition("/")[0]
        return self.places.get(at)

    def below(self, key: str) -> Document:
        """What stands under a key of the document, as a document of its own with the same places."""
        at = pointer(key)
        places = {p.removeprefix(at): place for p, place in self.places.items() if p == at or p.startswith(at + "/")}
        return Document(self.name, self.data[key], places)


def refused(name: str, message: str, place: Place | None = None, at: str = "") -> Document:
    line, column = (place.line, place.column) if place else (None, None)
    return Document(name, problems=(Problem(at, message, file=name, line=line, column=column),), usable=False)


class Unreadable(Exception):
    """Ends the reading of a document at a place."""

    def __init__(self, message: str, place: Place | None = None, at: str = "") -> None:
        super().__init__(message)
        self.message, self.place, self.at = message, place, at


def document_of(data: Any, name: str) -> Document:
    """Values that a program made; what JSON has no value for is a problem, as it would be in a file."""
    problems: list[Problem] = []
    waiting: list[tuple[str, Any, int]] = [("", data, 1)]
    while waiting:
        at, value, depth = waiting.pop()
        if depth > MAX_DEPTH:
            return refused(name, f"nested more than {MAX_DEPTH} deep", at=at)
        if isinstance(value, dict):
            strange = [key for key in value if not isinstance(key, str)]
            problems += (Problem(at + pointer(str(key)), "a key must be text", file=name) for key in strange)
            waiting += ((at + pointer(key), inner, depth + 1) for key, inner in value.items() if isinstance(key, str))
        elif isinstance(value, list):
            waiting += ((at + pointer(index), inner, depth + 1) for index, inner in enumerate(value))
        elif not (value is None or isinstance(value, str | bool | int | float)):
            problems.append(Problem(at, f"{type(value).__name__} is no JSON value", file=name))
    return Document(name, data, problems=tuple(reversed(problems)), usable=not problems)
