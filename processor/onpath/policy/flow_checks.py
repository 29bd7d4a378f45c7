"""Value validators as a policy writes them -> checks (flow.md section 8).

Data flow: key and what stands under it -> base name and negation, options, argument -> ValueCheck or JudgeCheck; what
is wrong goes to `problems`, by the validator or, in the option form, by the option.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final, Literal, TypeAlias, cast

from onpath.policy.patterns import search
from onpath.policy.problems import Problems, pointer
from onpath.values import checks
from onpath.values.checks import Check, JudgeCheck, JudgeKind, Relation, ValueCheck
from onpath.values.dates import instant
from onpath.values.outcome import Truth
from onpath.values.text import TRANSFORMS, transformed

Domain: TypeAlias = Literal["any", "number", "status"]  # what a property holds decides what may be asked of it
Test: TypeAlias = Callable[[Any], Truth | None]

OPTIONS: Final = ("value", "transform", "negate")
STATUSES: Final = ("ok", "error", "unset")
JUDGES: Final[Mapping[str, tuple[str, ...]]] = {
    "prompt": ("model", "system_prompt"),
    "semantic": ("model", "system_prompt"),
    "language": ("model", "system_prompt"),
    "rubric": ("model", "system_prompt", "pass_threshold", "context"),
}
RUBRIC: Final = ("criteria", "pass_threshold", "model", "context")
_TYPES: Final = {
    "string": "string", "str": "string", "integer": "integer", "int": "integer", "float": "float", "number": "number",
    "boolean": "boolean", "bool": "boolean", "array": "array", "list": "array", "object": "object", "dict": "object",
    "null": "null", "none": "null",
}  # fmt: skip
_ONLY: Final[Mapping[Domain, tuple[str, ...]]] = {
    "number": ("eq", "gt", "gte", "lt", "lte", "type", "null", "not_null"),
    "status": ("eq", "null", "not_null"),
}


class ArgumentError(ValueError):
    """What is wrong with an argument."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A validator taken apart; `at` is where its argument stands."""

    argument: Any
    at: str
    transforms: tuple[str, ...] = ()
    negate: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


def load_check(key: str, raw: Any, problems: Problems, at: str, *, domain: Domain = "any") -> Check | None:
    """`at` is the pointer of the key. None if something is wrong, which `problems` then hold."""
    base, negated = _base(key)
    allowed = _ONLY.get(domain, KNOWN)
    if base not in allowed:
        problems.error(at, _unknown(key, base, domain))
        return None
    count = len(problems.errors)
    asked = _take_apart(base, raw, problems, at, domain)
    if base == "rubric" and isinstance(asked.argument, dict):
        for name in asked.argument:
            if name not in RUBRIC:
                problems.error(asked.at + pointer(_key(name)), f"a rubric has {', '.join(RUBRIC)}")
    if asked.negate and negated:
        problems.error(at + "/negate", f"`{key}` is negated already")
    if len(problems.errors) > count:
        return None
    try:
        return _build(key, base, negated or asked.negate, asked, domain)
    except ArgumentError as error:
        problems.error(asked.at, f"`{key}` wants {error}")
        return None


def _base(key: str) -> tuple[str, bool]:
    name = key.removesuffix("!")
    if name == "ne":
        return "eq", True
    if name == "not_null":
        return name, False
    base = name.removeprefix("not_")
    return (name, False) if base == "not_null" else (base, base != name)


def _unknown(key: str, base: str, domain: Domain) -> str:
    if base in KNOWN:
        return f"`{key}` can't be asked of this property"
    near = get_close_matches(base, KNOWN, n=1)
    return f"no validator is named `{key}`" + (f"; did you mean `{near[0]}!`?" if near else "")


def _take_apart(base: str, raw: Any, problems: Problems, at: str, domain: Domain) -> _Asked:
    if not isinstance(raw, dict) or not any(option in raw for option in OPTIONS):
        return _Asked(raw, at)
    known = (*OPTIONS, *JUDGES.get(base, ()))
    for key in raw:
        if key not in known:
            said = (
                f"an option is one of {', '.join(known)}; write a literal with these keys as the `value` of a mapping"
            )
            problems.error(at + pointer(_key(key)), said)
    if "value" not in raw:
        problems.error(at, "options need a `value` beside them")
    transforms = _transforms(base, raw["transform"], problems, at, domain) if "transform" in raw else ()
    negate = raw.get("negate", False)
    if not isinstance(negate, bool):
        problems.error(at + "/negate", "expected true or false")
    options = {key: raw[key] for key in JUDGES.get(base, ()) if key in raw}
    for key, value in options.items():
        fault = _option_fault(key, value)
        if fault:
            problems.error(at + pointer(key), fault)
    return _Asked(raw.get("value"), at + "/value", transforms, negate is True, options)


def _transforms(base: str, raw: Any, problems: Problems, at: str, domain: Domain) -> tuple[str, ...]:
    names = raw if isinstance(raw, list) else [raw]
    if base in ("type", "null", "not_null") or domain == "number":
        problems.error(at + "/transform", "no transform applies here")
    elif not names or not all(isinstance(name, str) and name in TRANSFORMS for name in names):
        problems.error(at + "/transform", f"expected one or a list of {', '.join(TRANSFORMS)}")
    else:
        return tuple(names)
    return ()


def _option_fault(key: str, value: Any) -> str | None:
    if key == "pass_threshold":
        fits = _is_number(value) and 0 <= value <= 1
        return None if fits else "expected a number from 0 to 1"
    return None if isinstance(value, str) and value else "expected a text that is not empty"


def _build(key: str, base: str, negated: bool, asked: _Asked, domain: Domain) -> Check:
    argument = asked.argument
    _check_domain(base, argument, domain)
    if base in ("null", "not_null"):
        wanted = (_flag(argument) == (base == "null")) != negated
        return ValueCheck(key=key, argument=argument, test=checks.IsNull(wanted), holds_for_missing=wanted)
    if base in JUDGES:
        return _judge(key, cast("JudgeKind", base), negated, asked)
    return ValueCheck(
        key=key,
        argument=argument,
        test=_TESTS[base](argument, asked.transforms),
        negated=negated,
        transforms=asked.transforms,
        holds_for_missing=base == "eq" and argument is None and not negated,
    )


def _check_domain(base: str, argument: Any, domain: Domain) -> None:
    if domain == "number" and base in ("eq", "gt", "gte", "lt", "lte") and not _is_number(argument):
        raise ArgumentError("a number here")
    if domain == "status" and base == "eq" and argument not in STATUSES:
        raise ArgumentError(f"one of {', '.join(STATUSES)}")


def _judge(key: str, kind: JudgeKind, negated: bool, asked: _Asked) -> JudgeCheck:
    criterion, options = asked.argument, dict(asked.options)
    if kind == "rubric":
        criterion, own = _rubric(asked.argument)
        options = {**own, **options}
    elif not isinstance(criterion, str) or not criterion:
        raise ArgumentError("a text that is not empty")
    return JudgeCheck(
        key=key,
        argument=asked.argument,
        kind=kind,
        criterion=criterion,
        negated=negated,
        transforms=asked.transforms,
        options=options,
    )


def _rubric(argument: Any) -> tuple[tuple[tuple[str, float], ...], dict[str, Any]]:
    """Criteria with their weights, and options that stand beside them."""
    own: dict[str, Any] = {}
    if isinstance(argument, dict):
        own = {key: value for key, value in argument.items() if key != "criteria"}
        for key, value in own.items():
            fault = _option_fault(key, value)
            if fault:
                raise ArgumentError(f"a right `{key}`: {fault}")
        argument = argument.get("criteria")
    listed: list[Any] = argument if isinstance(argument, list) else [argument]
    if isinstance(argument, str):
        listed = _bullets(argument) or [argument]
    criteria = [_criterion(item) for item in listed]
    if not criteria or None in criteria:
        raise ArgumentError("criteria: a text, or a list of texts and of mappings with `criterion`, `weight`, `name`")
    return tuple(criterion for criterion in criteria if criterion is not None), own


def _bullets(text: str) -> list[str]:
    """The items of a list in Markdown, if the text has some."""
    found = (re.match(r"\s*[-*+]\s+(\S.*)", line) for line in text.splitlines())
    return [item[1].strip() for item in found if item]


def _criterion(raw: Any) -> tuple[str, float] | None:
    known = raw if isinstance(raw, dict) else {"criterion": raw}
    text, weight, name = known.get("criterion"), known.get("weight", 1), known.get("name", "")
    if known.keys() - {"criterion", "weight", "name"} or not isinstance(text, str) or not text.strip():
        return None
    return (text, weight) if _is_number(weight) and weight > 0 and isinstance(name, str) else None


def _eq(argument: Any, transforms: tuple[str, ...]) -> Test:
    _check_json(argument)
    return checks.Equal(transformed(argument, transforms))


def _contains(argument: Any, transforms: tuple[str, ...]) -> Test:
    return checks.Contains((_containable(argument, transforms),), every=True, transforms=transforms)


def _contains_several(argument: Any, transforms: tuple[str, ...], *, every: bool) -> Test:
    if not isinstance(argument, list) or not argument:
        raise ArgumentError("a list that is not empty")
    wanted = tuple(_containable(item, transforms) for item in argument)
    return checks.Contains(wanted, every=every, transforms=transforms)


def _containable(argument: Any, transforms: tuple[str, ...]) -> Any:
    _check_json(argument)
    wanted = transformed(argument, transforms)
    if wanted is None or wanted == "":
        raise ArgumentError("something to be contained: null and an empty text are in everything")
    return wanted


def _affix(argument: Any, transforms: tuple[str, ...], *, at_end: bool) -> Test:
    wanted = transformed(argument, transforms)
    if not isinstance(wanted, str) or not wanted:
        raise ArgumentError("a text that is not empty")
    return checks.Affix(wanted, at_end)


def _pattern(argument: Any, _: tuple[str, ...]) -> Test:
    if not isinstance(argument, str):
        raise ArgumentError("a regular expression")
    try:
        return checks.Pattern(search(argument))
    except ValueError as error:
        raise ArgumentError(f"a regular expression that RE2 takes: {error}") from None


def _type(argument: Any, _: tuple[str, ...]) -> Test:
    name = "null" if argument is None else _TYPES.get(argument.lower()) if isinstance(argument, str) else None
    if name is None:
        raise ArgumentError(f"one of {', '.join(_TYPES)}")
    return checks.TypeIs(name)


def _length(argument: Any, _: tuple[str, ...], *, relation: Relation) -> Test:
    if not isinstance(argument, int) or isinstance(argument, bool) or argument < 0:
        raise ArgumentError("a whole number that is not negative")
    return checks.Length(relation, argument)


def _compare(argument: Any, _: tuple[str, ...], *, relation: Relation) -> Test:
    if isinstance(argument, str) and (moment := instant(argument)) is not None:
        return checks.Compare(relation, moment, dated=True)
    if not _is_number(argument):
        raise ArgumentError("a number, or an ISO date or time such as 2026-01-31 or 2026-01-31T12:00:00Z")
    return checks.Compare(relation, argument)


def _flag(argument: Any) -> bool:
    if argument is not None and not isinstance(argument, bool):
        raise ArgumentError("true or false")
    return argument is not False


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _check_json(argument: Any) -> None:
    pending = [argument]
    while pending:
        at = pending.pop()
        if isinstance(at, dict):
            if not all(isinstance(key, str) for key in at):
                raise ArgumentError("a JSON value, whose keys are texts")
            pending += at.values()
        elif isinstance(at, list):
            pending += at
        elif not (at is None or isinstance(at, str | bool) or _is_number(at)):
            raise ArgumentError("a JSON value")


def _key(key: Any) -> str:
    return key if isinstance(key, str) else str(key)


_TESTS: Final[Mapping[str, Callable[[Any, tuple[str, ...]], Test]]] = {
    "eq": _eq,
    "contains": _contains,
    "contains_all": lambda argument, transforms: _contains_several(argument, transforms, every=True),
    "contains_any": lambda argument, transforms: _contains_several(argument, transforms, every=False),
    "starts_with": lambda argument, transforms: _affix(argument, transforms, at_end=False),
    "ends_with": lambda argument, transforms: _affix(argument, transforms, at_end=True),
    "pattern": _pattern,
    "type": _type,
    "length": lambda argument, _: _length(argument, _, relation="=="),
    "min_length": lambda argument, _: _length(argument, _, relation=">="),
    "max_length": lambda argument, _: _length(argument, _, relation="<="),
    "gt": lambda argument, _: _compare(argument, _, relation=">"),
    "gte": lambda argument, _: _compare(argument, _, relation=">="),
    "lt": lambda argument, _: _compare(argument, _, relation="<"),
    "lte": lambda argument, _: _compare(argument, _, relation="<="),
    "json": lambda argument, _: checks.IsJson(_flag(argument)),
    "email": lambda argument, _: checks.IsEmail(_flag(argument)),
}
KNOWN: Final = (*_TESTS, "null", "not_null", *JUDGES)
