"""The five formats in which an output may list its steps (adherence.md section 6).

Data flow: output -> JSON value or text (`Text`: what stands outside code blocks, and the blocks) -> the formats in
their order, the first that yields a step wins -> names as they are shown.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from onpath.json_values import decoded
from onpath.validators.adherence import json_lists
from onpath.validators.adherence.blocks import divide
from onpath.validators.adherence.items import (
    LABEL,
    MARKER,
    NUMBER_IN_BRACKETS,
    STEP_N,
    Reader,
    front_end,
    is_labelled,
    skip_blanks,
)
from onpath.validators.adherence.names import LONGEST, Names

Format: TypeAlias = Literal["json", "headers", "labelled", "caps", "lines"]

_HEADER: Final = re.compile(r"^ {0,3}(#{1,6})[^\S\n]+([^\n]*)$", re.MULTILINE)
# Lines that may begin with a label, to be looked at more closely: few lines do.
_MAYBE: Final = r"^[^\w\n]{0,200}_{0,3}[^\w\n]{0,20}"
_MAYBE_LABELLED: Final = re.compile(rf"{_MAYBE}{STEP_N}", re.MULTILINE | re.IGNORECASE)
_MAYBE_NUMBERED: Final = re.compile(rf"{_MAYBE}\d{{1,9}}\)", re.MULTILINE)
_PASSED_OVER: Final = re.compile(r"[^\S\n]*(?:>[^\S\n]*)*(?:(?:#{1,6}|[-*+•])[^\S\n]+)?")
_LABEL_INSIDE: Final = re.compile(rf"(?<=\s){MARKER}?{STEP_N}{MARKER}?[^\S\n]{{0,9}}[:：]", re.IGNORECASE)
_WORD: Final = re.compile(r"[\w-]{2,}")
_LIST_ITEM: Final = re.compile(
    rf"^([ \t]*)(?:([-*+•])|({MARKER})?(\d{{1,3}}\.)({MARKER})?)[^\S\n]+([^\n]*)$", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Extracted:
    names: tuple[str, ...] = ()
    format: Format | None = None


def extract(output: Any, names: Names, only: Format | None = None) -> Extracted:
    """The steps that an output lists. `output` is a text or a JSON value; with `only`, other formats are not tried."""
    reader = Reader(names)
    if isinstance(output, str):
        output = _plain(output)
        whole = decoded(output)
        text, value = (output, None) if isinstance(whole, str) else (None, whole)
    else:
        text, value = None, output
    for name, found in _attempts(text, value, reader):
        if only is None or name == only:
            steps = found()
            if steps:
                return Extracted(tuple(steps), name)
    return Extracted()


def _plain(text: str) -> str:
    if not text.isascii():
        text = unicodedata.normalize("NFC", text.removeprefix("\ufeff"))
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _attempts(text: str | None, value: Any, reader: Reader) -> Iterable[tuple[Format, Callable[[], list[str]]]]:
    """Formats in order, each with what it finds; the text is divided into blocks when the first format has failed."""
    if text is None:
        yield "json", lambda: json_lists.steps_of_value(value, reader)
        text = "\n".join(_plain(t) for t in json_lists.texts(value))
        parts = divide(text)
    else:
        whole, parts = text, divide(text)
        yield "json", lambda: _json(whole, parts.blocks, reader)
    yield "headers", lambda: headers(parts.outside, reader)
    inside = "\n".join(parts.blocks)
    for part in (parts.outside, inside):
        yield from _of_text(part, reader)


def _of_text(part: str, reader: Reader) -> Iterable[tuple[Format, Callable[[], list[str]]]]:
    yield "labelled", lambda: labelled(part, reader)
    yield "caps", lambda: caps(part, reader)
    yield "lines", lambda: lines(part, reader)


def _read(items: Iterable[str], reader: Reader) -> list[str]:
    return [name for item in items if (name := reader.name(item)) is not None]


def _json(text: str, blocks: Iterable[str], reader: Reader) -> list[str]:
    for block in blocks:
        steps = json_lists.steps_of_block(block, reader)
        if steps:
            return steps
    return json_lists.steps_in_text(text, reader)


def headers(text: str, reader: Reader) -> list[str]:
    """Headers with a step label or a number; else those of every level on which a configured name stands."""
    found = [(len(m[1]), item) for m in _HEADER.finditer(text) if (item := _header_text(m[2]))]
    labelled_ones = [item for _, item in found if is_labelled(item)]
    if labelled_ones:
        return _read(labelled_ones, reader)
    read = [(level, reader.name(item)) for level, item in found]
    levels = {level for level, name in read if name in reader.configured}
    return [name for level, name in read if level in levels and name is not None]


def _header_text(text: str) -> str:
    text = text.strip()
    open_end = text.rstrip("#")
    return open_end.rstrip() if not open_end or open_end[-1].isspace() else text


def labelled(text: str, reader: Reader) -> list[str]:
    """`Step N: NAME`; if there are none, lines `1) NAME` or `(1) NAME`."""
    steps = _read(_step_items(text), reader)
    return steps or _read(_numbered_items(text), reader)


def _step_items(text: str) -> list[str]:
    """The text of each label, the label included, up to the next label or the end of the line."""
    labels = _fronts(text, _MAYBE_LABELLED, LABEL)
    ends = {end: start for start, end in labels.items()}
    for match in _LABEL_INSIDE.finditer(text):
        if match.end() not in ends:
            labels.setdefault(match.start(), match.end())
    ordered = sorted(labels)
    items = []
    for start, following in zip(ordered, [*ordered[1:], len(text)], strict=False):
        line_end = text.find("\n", labels[start], following)
        items.append(text[start : following if line_end == -1 else line_end])
    return items


def _numbered_items(text: str) -> list[str]:
    labels = _fronts(text, _MAYBE_NUMBERED, NUMBER_IN_BRACKETS)
    return [_line(text, start) for start in labels]


def _fronts(text: str, maybe: re.Pattern[str], label: re.Pattern[str]) -> dict[int, int]:
    """Where labels at the front of lines begin and end; quotation marks, a header mark or a bullet may go before."""
    found = {}
    for match in maybe.finditer(text):
        passed = _PASSED_OVER.match(text, match.start())
        start = skip_blanks(text, match.start() if passed is None else passed.end())
        end = front_end(text, start, label)
        if end is not None:
            found[start] = end
    return found


def _line(text: str, start: int) -> str:
    end = text.find("\n", start)
    return text[start:] if end == -1 else text[start:end]


def caps(text: str, reader: Reader) -> list[str]:
    """Words in capitals that contain `_` or are a configured name."""
    known: dict[str, str | None] = {}
    steps = []
    for word in _WORD.findall(text):
        if word in known:
            name = known[word]
        else:
            name = known[word] = _caps_name(word.strip("_-"), reader)
        if name is not None:
            steps.append(name)
    return steps


def _caps_name(word: str, reader: Reader) -> str | None:
    if not 2 <= len(word) <= LONGEST or not word[0].isalpha():
        return None
    if not all(c.isupper() for c in word if c.isalpha()):
        return None
    name = reader.names.configured(word)
    return reader.names.shown(word) if name is None and "_" in word else name


def lines(text: str, reader: Reader) -> list[str]:
    """The least indented list items, numbered ones if there are any; without items, lines if one is a name."""
    found = [m for m in _LIST_ITEM.finditer(text) if not _is_rule(m)]
    if found:
        indents = [_width(m[1]) if m[1] else 0 for m in found]
        least = min(indents)
        top = [m for m, indent in zip(found, indents, strict=True) if indent == least]
        numbered = [m for m in top if m[4]]
        return _read((_list_item(m) for m in numbered or top), reader)
    read = [reader.name(line) for line in text.split("\n") if line and not line.isspace()]
    steps = [name for name in read if name is not None]
    return steps if not reader.configured.isdisjoint(steps) else []


def _is_rule(item: re.Match[str]) -> bool:
    """Whether a line that reads like a list item is a rule across the page: three or more bullets and nothing else."""
    bullet = item[2]
    if not bullet or item[6][:1] != bullet:
        return False
    bare = item[6].replace(" ", "").replace("\t", "")
    return len(bare) >= 2 and bare == bullet * len(bare)


def _width(indent: str) -> int:
    width = 0
    for char in indent:
        width = width + 4 - width % 4 if char == "\t" else width + 1
    return width


def _list_item(item: re.Match[str]) -> str:
    opened, closed, text = item[3], item[5], item[6]
    return opened + text if opened and not closed else text
