"""The name in an item: a list item, a header, a labelled line, an element of a JSON list (adherence.md section 6).

Items are other people's text of any length: every loop here moves one index, every repeat in a pattern is bounded.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from onpath.validators.adherence.names import LONGEST, Names, writable

_WORDS: Final = (
    "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen"
    "|eighteen|nineteen|twenty"
)
_N: Final = rf"(?:\d{{1,9}}|(?:{_WORDS})(?!\w))"
_S: Final = r"[^\S\n]"
MARKER: Final = r"(?:\*{1,3}|_{1,3})"  # opens or closes emphasis
STEP_N: Final = (
    rf"step(?:{_S}{{1,9}}#?{_S}{{0,9}}|#{_S}{{0,9}}){_N}(?:{_S}{{0,9}}/{_S}{{0,9}}{_N}|{_S}{{1,9}}of{_S}{{1,9}}{_N})?"
)
_END: Final = rf"(?={MARKER}?(?:\s|$))"
LABEL: Final = re.compile(rf"{STEP_N}(?P<closed>{MARKER})?{_S}{{0,9}}(?:[:：]|[.)\-–—]{_END})", re.IGNORECASE)
NUMBER: Final = re.compile(rf"(?:\d{{1,3}}\.|\d{{1,9}}\)|\(\d{{1,9}}\)){_END}")
NUMBER_IN_BRACKETS: Final = re.compile(rf"(?:\d{{1,9}}\)|\(\d{{1,9}}\)){_END}")
_CHECK_BOX: Final = re.compile(r"\[[ xX]\](?=\s|$)")
_FRONTS: Final = {
    "[": (_CHECK_BOX,),
    "(": (NUMBER,),
    **dict.fromkeys("sS\u017f", (LABEL,)),  # the long s is an s in any case
    **dict.fromkeys("*_", (_CHECK_BOX, LABEL, NUMBER)),
}
_FRONT_MARKER: Final = re.compile(MARKER)
_CUT: Final = re.compile(r": |：| [-–—] | \(| -> | → |, |; |\. |\t")
_TRAILING: Final = frozenset(".．。｡,，、､;；:：!！?？*`")
_ASCII_TRAILING: Final = ".,;:!?*`" + "".join(c for c in map(chr, range(128)) if c.isspace())
_NESTED: Final = 3  # emphasis in emphasis in code quotes
_JOINERS: Final = frozenset("\ufe0f\u200d")


def is_blank(char: str) -> bool:
    """White space or a pictograph: what says nothing at either end of an item."""
    if char.isascii():
        return char.isspace()
    return char.isspace() or char in _JOINERS or unicodedata.category(char) == "So"


def trim(text: str, *, trailing: bool = False) -> str:
    """The text without white space and pictographs at its ends; with `trailing`, without punctuation at its end too."""
    if text.isascii():
        return text.strip().rstrip(_ASCII_TRAILING) if trailing else text.strip()
    start, end = 0, len(text)
    while end > start and (is_blank(text[end - 1]) or (trailing and text[end - 1] in _TRAILING)):
        end -= 1
    while start < end and is_blank(text[start]):
        start += 1
    return text[start:end]


class Reader:
    """Reads the names in the items of one output; equal items are read once."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.configured = frozenset(names.spellings.values())
        self._known: dict[str, str | None] = {}

    def name(self, item: str) -> str | None:
        """The name as it is shown; None for an item that is no step."""
        try:
            return self._known[item]
        except KeyError:
            name = self._known[item] = self._read(item)
            return name

    def _read(self, item: str) -> str | None:
        text = trim(item)
        as_it_stands = self.names.configured(text)
        if as_it_stands is not None:
            return as_it_stands
        rest = text
        for rest in _without_fronts(text):
            as_it_stands = self.names.configured(rest)
            if as_it_stands is not None:
                return as_it_stands
        run = quoted_run(rest)
        if run is None:
            cut = _CUT.search(rest)
            run = rest if cut is None else rest[: cut.start()]
        name = trim(run, trailing=True)
        if not 0 < len(name) <= LONGEST:
            return None
        return writable(name) if name == text else self.names.shown(name)


def is_labelled(text: str) -> bool:
    """Whether a step label or a number stands in front."""
    text = trim(text)
    return any(front_end(text, 0, front) is not None for front in _kinds(text[:1]) if front is not _CHECK_BOX)


def front_end(text: str, at: int, front: re.Pattern[str]) -> int | None:
    """Where a label ends that stands at a place, in emphasis or not; None if there is none."""
    found = _front(text, at, front)
    return None if found is None else found[1].end()


def _kinds(char: str) -> tuple[re.Pattern[str], ...]:
    """What may stand in front where an item begins with this character."""
    return (NUMBER,) if char.isdigit() else _FRONTS.get(char, ())


def _without_fronts(text: str) -> Iterator[str]:
    """The text without a label, a number and a check box in front, after each of them; one of each at most."""
    left = [_CHECK_BOX, LABEL, NUMBER]
    while left:
        for front in _kinds(text[:1]):
            rest = _taken(text, front) if front in left else None
            if rest is not None:
                left.remove(front)
                text = trim(rest)
                yield text
                break
        else:
            return


def _taken(text: str, front: re.Pattern[str]) -> str | None:
    """What follows a label; emphasis that it opens and does not close encloses what follows."""
    found = _front(text, 0, front)
    if found is None:
        return None
    marker, label = found
    rest = text[label.end() :]
    if not marker or label.groupdict().get("closed"):
        return rest
    return rest[len(marker) :] if rest.startswith(marker) else marker + rest.lstrip()


def _front(text: str, at: int, front: re.Pattern[str]) -> tuple[str, re.Match[str]] | None:
    """The emphasis opened before a label, and the label; pictographs may stand around the emphasis mark."""
    at = skip_blanks(text, at)
    opened = _FRONT_MARKER.match(text, at)
    marker = opened[0] if opened else ""
    label = front.match(text, skip_blanks(text, at + len(marker)))
    return None if label is None else (marker, label)


def skip_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] != "\n" and is_blank(text[at]):
        at += 1
    return at


def quoted_run(text: str) -> str | None:
    """What stands in the emphasis or code quotes with which a text begins; None if it begins with neither."""
    run = _run(text)
    if run is None:
        return None
    inner = run[0]
    for _ in range(_NESTED):
        nested = _run(inner)
        if nested is None or nested[1] != len(inner):
            break
        inner = nested[0]
    return inner


def _run(text: str) -> tuple[str, int] | None:
    """The first run and where it ends."""
    char = text[:1]
    if not char or char not in "*_`":
        return None
    size = 1
    while size < len(text) and text[size] == char:
        size += 1
    if char != "`" and size > 3:
        return None
    at = text.find(char * size, size)
    while at != -1:
        end = at + size
        while end < len(text) and text[end] == char:
            end += 1
        if _closes(text, char, size, at, end):
            inner = text[size:at].strip() if char == "`" else text[size:at]
            return (inner, at + size) if inner else None
        at = text.find(char * size, end)
    return None


def _closes(text: str, char: str, size: int, at: int, end: int) -> bool:
    if char == "`":
        return end - at == size
    if end - at < size or text[size].isspace() or text[at - 1].isspace():
        return False
    if size == 1 and end - at == 2:
        return False  # strong emphasis inside
    return char != "_" or end == len(text) or not text[end].isalnum()
