"""Relations: what a check says of the evidence, as expressions over three values.

RELATIONS is the table of the relation words: operands, further fields, how the short form spells them, and the test.
An expression is True, False or None; None is insufficient evidence: there was nothing to look at (plan.md section 5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final, Literal, TypeAlias

from onpath.validators.plan.pointers import Pointer
from onpath.validators.plan.values import MISSING, at, contains, equal, json_type

Outcome: TypeAlias = bool | None
Matcher: TypeAlias = Callable[[str], bool]
Values: TypeAlias = Sequence[Any]
Options: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Place:
    pointer: Pointer


@dataclass(frozen=True, slots=True)
class Constant:
    value: Any


@dataclass(frozen=True, slots=True)
class Members:
    """A declared reference set, by name."""

    name: str


Operand: TypeAlias = Place | Constant | Members


@dataclass(frozen=True, slots=True)
class Expression:
    """A word over operands; connectives and the predicate of a quantifier are over expressions."""

    word: str
    operands: tuple[Operand | Expression, ...]
    options: Options = field(default_factory=dict)
    matcher: Matcher | None = None  # of a regex, when its pattern is one


@dataclass(frozen=True, slots=True)
class ReferenceSet:
    keys: tuple[str, ...]
    members: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Relation:
    """One word of the table.

    `operands`: for each position the kinds of operand that it takes. `options`: further fields in native spelling with
    their kind; those in `defaults` may be absent. `short`: how the short form writes the whole.
    """

    operands: tuple[tuple[type, ...], ...]
    test: Callable[[Values, Options, Matcher | None], bool]
    options: Mapping[str, Literal["text", "number", "flag", "direction", "keys", "types"]] = field(default_factory=dict)
    defaults: Options = field(default_factory=dict)
    short: Literal["one", "list", "list+pattern", "fields", "shape"] = "list"


def _in_set(values: Values, _options: Options, _matcher: Matcher | None) -> bool:
    value, allowed = values
    if isinstance(allowed, ReferenceSet):
        allowed = [member[allowed.keys[0]] for member in allowed.members]
    return contains(allowed, value)


def _covers(values: Values, _options: Options, _matcher: Matcher | None) -> bool:
    expected, elements = values
    if not isinstance(elements, list):
        return False
    return all(
        any(
            isinstance(element, Mapping) and all(equal(element.get(key, MISSING), member[key]) for key in expected.keys)
            for element in elements
        )
        for member in expected.members
    )


def _contains(values: Values, _options: Options, _matcher: Matcher | None) -> bool:
    whole, part = values
    if isinstance(part, ReferenceSet):
        part = list(part.members)
    if isinstance(whole, str):
        return isinstance(part, str) and part in whole
    if not isinstance(whole, list):
        return False
    return all(contains(whole, item) for item in part) if isinstance(part, list) else contains(whole, part)


def _matches(values: Values, _options: Options, matcher: Matcher | None) -> bool:
    return matcher is not None and isinstance(values[0], str) and matcher(values[0])


def _ordered(values: Values, options: Options, _matcher: Matcher | None) -> bool:
    if not isinstance(values[0], list):
        return False
    keys: list[Any] = [e.get(options["key"]) if isinstance(e, Mapping) else None for e in values[0]]
    if {json_type(key) for key in keys} not in ({"number"}, {"string"}):
        return False
    if options["direction"] == "descending":
        keys.reverse()
    return all(left <= right for left, right in pairwise(keys))


def _counts(values: Values, options: Options, _matcher: Matcher | None) -> bool:
    if not isinstance(values[0], list):
        return False
    expected, tolerance = (Fraction(str(options[name])) for name in ("expected", "tolerance"))
    allowed = expected * tolerance / 100 if options["relative"] else tolerance
    return abs(len(values[0]) - expected) <= allowed


def _shaped(values: Values, options: Options, _matcher: Matcher | None) -> bool:
    value, types = values[0], options["types"]
    if not isinstance(value, Mapping) or any(key not in value for key in options["requiredKeys"]):
        return False
    known = {*options["requiredKeys"], *options["permittedKeys"]}
    return all(key in known and types.get(key) in (None, json_type(inner)) for key, inner in value.items())


def _equal(values: Values, _options: Options, _matcher: Matcher | None) -> bool:
    return equal(*values)


def _present(values: Values, _options: Options, _matcher: Matcher | None) -> bool:
    return values[0] is not MISSING


def _absent(values: Values, _options: Options, _matcher: Matcher | None) -> bool:
    return values[0] is MISSING


_P, _V, _S = (Place,), (Place, Constant), (Members,)

RELATIONS: Final[Mapping[str, Relation]] = {
    "equality": Relation((_V, _V), _equal),
    "deep-equality": Relation((_V, _V), _equal),
    "existence": Relation((_P,), _present, short="one"),
    "absence": Relation((_P,), _absent, short="one"),
    "containment": Relation((_P, (Place, Constant, Members)), _contains),
    "set-membership": Relation((_P, (Constant, Members)), _in_set),
    "covers-by-key": Relation((_S, _P), _covers),
    "regex": Relation((_P,), _matches, {"pattern": "text"}, short="list+pattern"),
    "ordering": Relation(
        (_P,), _ordered, {"key": "text", "direction": "direction"}, {"direction": "ascending"}, short="fields"
    ),
    "count-tolerance": Relation(
        (_P,),
        _counts,
        {"expected": "number", "tolerance": "number", "relative": "flag"},
        {"tolerance": 0, "relative": False},
        short="fields",
    ),
    "shape": Relation(
        (_P,),
        _shaped,
        {"requiredKeys": "keys", "permittedKeys": "keys", "types": "types"},
        {"requiredKeys": (), "permittedKeys": (), "types": {}},
        short="shape",
    ),
}


def _all_of(parts: Sequence[Outcome]) -> Outcome:
    return False if False in parts else None if None in parts else True


def _any_of(parts: Sequence[Outcome]) -> Outcome:
    return None if None in parts else True in parts


def _none_of(parts: Sequence[Outcome]) -> Outcome:
    return None if parts[0] is None else not parts[0]


CONNECTIVES: Final[Mapping[str, Callable[[Sequence[Outcome]], Outcome]]] = {
    "all": _all_of,
    "any": _any_of,
    "not": _none_of,
}
QUANTIFIERS: Final[Mapping[str, Callable[[Sequence[Outcome]], Outcome]]] = {"for-all": _all_of, "for-any": _any_of}


@dataclass(frozen=True, slots=True)
class Evidence:
    """What an expression is read against. `read` gives MISSING where nothing is."""

    read: Callable[[Pointer], Any]
    is_collection: Callable[[Pointer], bool]  # whether a list is declared at that place
    sets: Mapping[str, ReferenceSet] = field(default_factory=dict)


def evaluate(expression: Expression, evidence: Evidence, element: Any = MISSING) -> Outcome:
    """The outcome of a legal expression; `element` is what a quantifier is at."""
    if fold := CONNECTIVES.get(expression.word):
        return fold([evaluate(part, evidence, element) for part in _expressions(expression)])
    if fold := QUANTIFIERS.get(expression.word):
        collection, (predicate,) = _value(expression.operands[0], evidence, element), _expressions(expression)
        if not isinstance(collection, list) or not collection:
            return None
        return fold([evaluate(predicate, evidence, inner) for inner in collection])
    values = []
    for operand in expression.operands:
        value = _value(operand, evidence, element)
        if isinstance(value, list) and not value:
            return None
        if value is MISSING and isinstance(operand, Place) and evidence.is_collection(operand.pointer):
            return None
        values.append(value)
    return RELATIONS[expression.word].test(values, expression.options, expression.matcher)


def _expressions(expression: Expression) -> list[Expression]:
    return [operand for operand in expression.operands if isinstance(operand, Expression)]


def _value(operand: Operand | Expression, evidence: Evidence, element: Any) -> Any:
    if isinstance(operand, Place):
        pointer = operand.pointer
        return at(element, pointer.tail) if pointer.is_element else evidence.read(pointer)
    if isinstance(operand, Members):
        return evidence.sets[operand.name]
    return operand.value if isinstance(operand, Constant) else MISSING


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and all inside it, outermost first."""
    yield expression
    for part in _expressions(expression):
        yield from walk(part)


def pointers_of(expression: Expression) -> Iterator[Pointer]:
    """Every pointer into the evidence, in order of writing; element pointers are not among them."""
    for part in expression.operands:
        if isinstance(part, Expression):
            yield from pointers_of(part)
        elif isinstance(part, Place) and not part.pointer.is_element:
            yield part.pointer
