"""Names in a pattern, and which steps they fit (flow.md section 3)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, get_args

from onpath.redaction import is_redacted
from onpath.steps.model import Kind, Step
from onpath.values.outcome import Truth
from onpath.values.text import trim

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_DOTS_AND_DIGITS: Final = re.compile(r"[0-9.\s]*\.[0-9.\s]*")


class Signature(NamedTuple):
    """All of a step that names look at. A name that was not captured is None."""

    kind: Kind
    name: str | None
    agent: str | None
    model: str | None


def signatures(steps: Iterable[Step]) -> tuple[list[Signature], list[int]]:
    """The different ones, and for each step the number of its own."""
    numbers: dict[tuple[Any, ...], int] = {}
    own = [numbers.setdefault((step.kind, step.name, step.agent, step.model), len(numbers)) for step in steps]
    return [_signature(*look) for look in numbers], own


def _signature(kind: Kind, name: str | None, agent: str | None, model: str | None) -> Signature:
    return Signature(kind, None if is_redacted(name) else name, agent, model if kind == "llm" else None)


@dataclass(frozen=True, slots=True)
class StepName:
    """`text` is the model with kind `llm`, else a step's name, or agent, `/` and name. Kind None fits every kind."""

    written: str
    kind: Kind | None
    text: str

    def fits(self, step: Signature) -> Truth:
        """Unknown for a step whose own name was not captured, where only the name could tell."""
        if self.kind is not None and step.kind != self.kind:
            return Truth.FALSE
        if self.kind == "llm":
            return Truth.TRUE if step.model == self.text else Truth.FALSE
        if step.name is None:
            return Truth.UNKNOWN
        if step.name == self.text or (step.agent and f"{step.agent}/{step.name}" == self.text):
            return Truth.TRUE
        return Truth.FALSE


def parse_name(written: str) -> StepName:
    """Raises ValueError with what is wrong."""
    if not written:
        raise ValueError("a name is empty")
    if trim(written) != written:
        raise ValueError(f"{written!r} has blanks at its ends")
    prefix, colon, rest = written.partition(":")
    kind = prefix if colon and prefix in KINDS else None
    text = written if kind is None else rest
    if not text:
        raise ValueError(f"{written!r} names no step: nothing stands after the colon")
    if "*" in text and kind != "span":
        raise ValueError(f"{written!r}: names are no patterns, a `*` may only stand in a `span:` name")
    if kind is None and text.endswith("!"):
        raise ValueError(f"{written!r} is no name of a step; is a colon missing behind it?")
    if kind is None and _DOTS_AND_DIGITS.fullmatch(text):
        raise ValueError(f"{written!r} is neither a name nor a wildcard such as `..`, `...`, `1..3`, `2..` or `..4`")
    return StepName(written, kind, text)


def could_fit_one(a: StepName, b: StepName) -> bool:
    """Whether some step could fit both names."""
    if a.kind is not None and b.kind is not None and a.kind != b.kind:
        return False
    if "llm" in (a.kind, b.kind):
        if a.kind == b.kind:
            return a.text == b.text
        other = b if a.kind == "llm" else a
        return other.text == "llm" or other.text.endswith("/llm")
    return a.text == b.text or a.text.endswith("/" + b.text) or b.text.endswith("/" + a.text)


def ruled_out(name: StepName, by: Iterable[StepName]) -> bool:
    """Whether every step that the name fits also fits one of the others."""
    others = list(by)
    kinds = KINDS if name.kind is None else (name.kind,)
    return all(any(_covers(other, name, kind) for other in others) for kind in kinds)


def _covers(other: StepName, name: StepName, kind: Kind) -> bool:
    """Whether each step of a kind that fits the name fits the other name too."""
    if kind == "llm" and name.kind != "llm" and name.text != "llm" and not name.text.endswith("/llm"):
        return True  # no model call has that name
    if other.kind not in (None, kind):
        return False
    if other.kind == name.kind == "llm" or other.text == name.text:
        return other.text == name.text and (other.kind == "llm") <= (name.kind == "llm")
    return name.kind == "llm" and other.kind is None and other.text == "llm"
