"""JSON with lines that begin with `//` -> Document.

`json` reads the values; a walk over the tokens of what it has accepted finds their places, and keys given twice.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

from onpath.policy.document import MAX_DEPTH, SURROGATE, Document, Place, Unreadable, refused
from onpath.policy.problems import Problem, pointer

COMMENT_LINE: Final = re.compile(r"^[ \t]*//.*$", re.MULTILINE)
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


def read_json(text: str, name: str) -> Document:
    text = COMMENT_LINE.sub("", text)
    if not text.strip():
        return Document(name)
    try:
        data = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        return refused(name, f"not JSON: {error.msg}", Place(error.lineno, error.colno))
    except Unreadable as error:
        return refused(name, error.message)
    except RecursionError:
        return refused(name, f"nested more than {MAX_DEPTH} deep")
    except ValueError as error:  # an integer of thousands of digits
        return refused(name, f"not JSON: {error}")
    try:
        places, problems = _walk(text, name)
    except Unreadable as error:
        return refused(name, error.message, error.place, error.at)
    return Document(name, data, places, tuple(problems))


def _no_constant(word: str) -> None:
    raise Unreadable(f"not JSON: {word} is no JSON value")


@dataclass(slots=True)
class _Open:
    """A list or an object that the walk is inside of; `at` is the pointer of the member it stands at."""

    pointer: str
    keys: set[str] | None  # of an object
    index: int = 0
    at: str = ""
    expects_key: bool = True


def _walk(text: str, name: str) -> tuple[dict[str, Place], list[Problem]]:
    """Places of a text that `json` has accepted, and keys given twice, which it doesn't mind."""
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    places: dict[str, Place] = {}
    problems: list[Problem] = []
    stack: list[_Open] = []
    for token in _TOKEN.finditer(text):
        word = token.group()
        line = bisect_right(starts, token.start())
        place = Place(line, token.start() - starts[line - 1] + 1)
        top = stack[-1] if stack else None
        if word in "}]":
            stack.pop()
        elif word == ",":
            assert top is not None  # json has accepted the text
            top.index, top.expects_key = top.index + 1, True
        elif word == ":":
            continue
        elif top is not None and top.keys is not None and top.expects_key:
            key = json.loads(word)
            top.at, top.expects_key = top.pointer + pointer(key), False
            if key in top.keys:
                first = places[top.at].line
                said = f"this key is given twice in one mapping (first on line {first})"
                problems.append(Problem(top.at, said, file=name, line=line, column=place.column))
            elif SURROGATE.search(key):
                problems.append(Problem(top.at, "half of a surrogate pair is no text", file=name, line=line))
            top.keys.add(key)
            places.setdefault(top.at, place)
        else:
            at = "" if top is None else top.at if top.keys is not None else top.pointer + pointer(top.index)
            places.setdefault(at, place)
            if word in "{[":
                if len(stack) >= MAX_DEPTH:
                    raise Unreadable(f"nested more than {MAX_DEPTH} deep", place, at)
                stack.append(_Open(at, set() if word == "{" else None))
            elif word[0] == '"' and SURROGATE.search(json.loads(word)):
                said = "half of a surrogate pair is no text"
                problems.append(Problem(at, said, file=name, line=line, column=place.column))
    return places, problems
