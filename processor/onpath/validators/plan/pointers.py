"""Evidence pointers: `/interactions/STEP/CHANNEL/TAIL`, the short `/STEP/output/TAIL`, and `@/TAIL` in a quantifier.

A pointer is parsed once, when a plan is read, into step, channel and tail; both spellings give the same value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from onpath.validators.plan.values import Tail

Kind: TypeAlias = Literal["api", "cli", "mcp", "web"]

SLUG: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")

INPUT_CHANNELS: Final[Mapping[Kind, tuple[str, ...]]] = {
    "api": ("path", "query", "header", "body"),
    "cli": ("argument", "option", "environment", "stdin"),
    "mcp": ("arguments",),
}
KIND_OF_INPUT: Final[Mapping[str, Kind]] = {
    channel: kind for kind, channels in INPUT_CHANNELS.items() for channel in channels
}

SCALAR_CHANNELS: Final = frozenset({"response-status", "http-status", "exit-code"})
# Channels that only operations of some kinds have; those not listed belong to every kind.
KINDS_OF_CHANNEL: Final = {
    "response-body": frozenset({"api", "mcp"}),
    "response-headers": frozenset({"api"}),
    "stdout": frozenset({"cli"}),
    "stderr": frozenset({"cli"}),
    "artifact": frozenset({"cli"}),
}
_TAILED: Final = frozenset({"response-body", "response-headers", "stdout", "stderr"})
_SHORT: Final = {
    "output": ("response-body", None),
    "input": ("call-inputs", "arguments"),
    "status": ("response-status", None),
    "http-status": ("http-status", None),
    "exit-code": ("exit-code", None),
}
_BAD_ESCAPE: Final = re.compile(r"~(?![01])")


class PointerError(ValueError):
    """Text that is no pointer; the message says what was expected."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """A place in the evidence. `step` is None for an element pointer, which reads the element a quantifier is at."""

    text: str  # as written
    step: str | None
    channel: str = ""  # response-body, call-inputs, artifact, response-status ...
    part: str | None = None  # input channel of call-inputs, id of an artifact
    tail: Tail = ()

    @property
    def is_element(self) -> bool:
        return self.step is None

    @property
    def full_channel(self) -> str:
        """The channel as an operation's descriptor names it: an artifact with its id."""
        return f"artifact/{self.part}" if self.channel == "artifact" else self.channel


def looks_like_pointer(text: str) -> bool:
    """Whether text in an operand position of the short form is meant as a pointer."""
    if text.startswith(("@/", "/interactions/")):
        return True
    parts = text.split("/", 3)
    return len(parts) > 2 and parts[0] == "" and SLUG.fullmatch(parts[1]) is not None and parts[2] in _SHORT


def parse(text: str, *, short: bool, elements: bool = True) -> Pointer:
    """A pointer as written; `short` admits the short spelling too, `elements` the element pointers.

    Raises PointerError.
    """
    if text.startswith("@/") and elements:
        return Pointer(text, None, tail=() if text == "@/" else tail_of(text[1:]))
    if text.startswith("/interactions/"):
        return _canonical(text)
    if short and looks_like_pointer(text):
        _, step, word, *rest = text.split("/", 3)
        channel, part = _SHORT[word]
        return _with_tail(Pointer(text, step, channel, part), rest)
    forms = "/STEP/output/... or /interactions/STEP/CHANNEL/..." if short else "/interactions/STEP/CHANNEL/..."
    raise PointerError(f"expected a pointer of the form {forms}")


def _canonical(text: str) -> Pointer:
    parts = text.split("/", 4)
    if len(parts) < 4 or not SLUG.fullmatch(parts[2]):
        raise PointerError("expected /interactions/, the id of a step and a channel")
    step, channel, rest = parts[2], parts[3], parts[4:]
    part = None
    if channel in ("call-inputs", "artifact"):
        if not rest or not rest[0]:
            raise PointerError(
                f"expected {'an input channel' if channel == 'call-inputs' else 'an id'} after {channel}/"
            )
        named, *rest = rest[0].split("/", 1)
        (part,) = tail_of("/" + named)
        if channel == "call-inputs" and part not in KIND_OF_INPUT:
            raise PointerError(f"expected an input channel ({', '.join(KIND_OF_INPUT)}) after call-inputs/")
    elif channel not in _TAILED and channel not in SCALAR_CHANNELS:
        known = ", ".join(sorted({*_TAILED, *SCALAR_CHANNELS, "artifact", "call-inputs"}))
        raise PointerError(f"expected a channel ({known})")
    return _with_tail(Pointer(text, step, channel, part), rest)


def _with_tail(head: Pointer, rest: list[str]) -> Pointer:
    if not rest:
        return head
    if head.channel in SCALAR_CHANNELS:
        raise PointerError(f"{head.channel} is one value; nothing may follow it")
    return Pointer(head.text, head.step, head.channel, head.part, tail_of("/" + rest[0]))


def tail_of(text: str) -> Tail:
    """The reference tokens of a JSON Pointer (RFC 6901). Raises PointerError."""
    if text == "":
        return ()
    if not text.startswith("/"):
        raise PointerError("expected a JSON Pointer: empty, or beginning with /")
    if _BAD_ESCAPE.search(text):
        raise PointerError("expected ~0 or ~1 after ~ in a pointer")
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in text[1:].split("/"))
