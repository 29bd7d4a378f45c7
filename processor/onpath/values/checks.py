"""Value validators: `X!`, `not_X!` and their options as frozen values (flow.md section 8).

A test says of one present value whether it holds, or None where it does not apply to such a value; `ValueCheck` adds
what all validators share: transforms, negation, what a missing value means. `JudgeCheck` asks instead.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias

from onpath.values.dates import instant
from onpath.values.equality import equal, is_number, type_name
from onpath.values.outcome import Truth
from onpath.values.text import is_email, is_json, transformed

JudgeKind: TypeAlias = Literal["prompt", "semantic", "rubric", "language"]
Ask: TypeAlias = Callable[[JudgeKind, Any, Any, Mapping[str, Any]], Truth]


class Check(Protocol):
    """A validator at the end of a path. `key` and `argument` are as written, for messages."""

    @property
    def key(self) -> str: ...
    @property
    def argument(self) -> Any: ...
    @property
    def holds_for_missing(self) -> bool: ...

    def outcome(self, value: Any, ask: Ask) -> Truth: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueCheck:
    """One validator. Where its test does not apply it fails, negated or not."""

    key: str
    argument: Any
    test: Callable[[Any], Truth | None]
    negated: bool = False
    transforms: tuple[str, ...] = ()
    holds_for_missing: bool = False

    def outcome(self, value: Any, ask: Ask) -> Truth:
        found = self.test(transformed(value, self.transforms) if self.transforms else value)
        if found is None:
            return Truth.FALSE
        return found.negated if self.negated else found


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeCheck:
    """A question to a judge about one value; unknown until it is answered. `criterion` is what it is asked."""

    key: str
    argument: Any
    kind: JudgeKind
    criterion: Any
    negated: bool = False
    transforms: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def holds_for_missing(self) -> bool:
        return False

    def outcome(self, value: Any, ask: Ask) -> Truth:
        found = ask(self.kind, transformed(value, self.transforms), self.criterion, self.options)
        return found.negated if self.negated else found


def _truth(holds: bool) -> Truth:
    return Truth.TRUE if holds else Truth.FALSE


@dataclass(frozen=True, slots=True)
class Equal:
    wanted: Any

    def __call__(self, value: Any) -> Truth:
        return equal(value, self.wanted)


@dataclass(frozen=True, slots=True)
class Contains:
    """`every`: all of `wanted` are contained, else at least one. `wanted` has been through the transforms."""

    wanted: tuple[Any, ...]
    every: bool
    transforms: tuple[str, ...] = ()  # of the texts in a list, and of keys

    def __call__(self, value: Any) -> Truth | None:
        if isinstance(value, list | tuple):
            value = [transformed(item, self.transforms) for item in value]
        elif isinstance(value, dict) and self.transforms:
            value = {transformed(key, self.transforms): None for key in value}
        found = [_contained(value, wanted) for wanted in self.wanted]
        if not self.every and Truth.TRUE in found:
            return Truth.TRUE
        known = [truth for truth in found if truth is not None]
        if len(known) < len(found):
            return None
        return min(known) if self.every else max(known)


def _contained(value: Any, wanted: Any) -> Truth | None:
    if isinstance(value, str | dict):
        return _truth(wanted in value) if isinstance(wanted, str) else None
    if isinstance(value, list):
        return max((equal(item, wanted) for item in value), default=Truth.FALSE)
    return None


@dataclass(frozen=True, slots=True)
class Affix:
    wanted: str
    at_end: bool

    def __call__(self, value: Any) -> Truth | None:
        if not isinstance(value, str):
            return None
        return _truth(value.endswith(self.wanted) if self.at_end else value.startswith(self.wanted))


@dataclass(frozen=True, slots=True)
class Pattern:
    """`found` says whether an expression is found anywhere in a text; the engine is the loader's."""

    found: Callable[[str], bool]

    def __call__(self, value: Any) -> Truth | None:
        return _truth(self.found(value)) if isinstance(value, str) else None


@dataclass(frozen=True, slots=True)
class TypeIs:
    """`wanted` is a name of `equality.type_name`, or `number`."""

    wanted: str

    def __call__(self, value: Any) -> Truth:
        seen = type_name(value)
        return _truth(seen == self.wanted or (self.wanted == "number" and seen in ("integer", "float")))


Relation: TypeAlias = Literal["==", ">", ">=", "<", "<="]
_RELATIONS: Final[Mapping[Relation, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


@dataclass(frozen=True, slots=True)
class Length:
    """Code points, items or keys against a number."""

    relation: Relation
    bound: int

    def __call__(self, value: Any) -> Truth | None:
        if not isinstance(value, str | list | tuple | dict):
            return None
        return _truth(_RELATIONS[self.relation](len(value), self.bound))


@dataclass(frozen=True, slots=True)
class Compare:
    """Numbers with a number; with `dated`, texts that are dates with an instant in nanoseconds."""

    relation: Relation
    bound: int | float
    dated: bool = False

    def __call__(self, value: Any) -> Truth | None:
        seen: Any = None
        if self.dated:
            seen = instant(value) if isinstance(value, str) else None
        elif is_number(value) and value == value:
            seen = value
        return None if seen is None else _truth(_RELATIONS[self.relation](seen, self.bound))


@dataclass(frozen=True, slots=True)
class IsNull:
    wanted: bool

    def __call__(self, value: Any) -> Truth:
        return _truth((value is None) is self.wanted)


@dataclass(frozen=True, slots=True)
class IsJson:
    wanted: bool

    def __call__(self, value: Any) -> Truth:
        return _truth((is_json(value) if isinstance(value, str) else True) is self.wanted)


@dataclass(frozen=True, slots=True)
class IsEmail:
    wanted: bool

    def __call__(self, value: Any) -> Truth | None:
        return _truth(is_email(value) is self.wanted) if isinstance(value, str) else None
