"""Compile check 5: expressions that can be read but say nothing, or nothing that can be decided.

Witness relations and the predicates of probes are held to the same rules as checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from onpath.validators.plan.pointers import SCALAR_CHANNELS, Pointer
from onpath.validators.plan.relate import (
    CONNECTIVES,
    QUANTIFIERS,
    RELATIONS,
    Constant,
    Expression,
    Members,
    Place,
    ReferenceSet,
)

MALFORMED: Final = "malformed-operator-expression"
NON_COLLECTION: Final = "quantifier-over-non-collection"
NESTED: Final = "quantifier-nesting-exceeded"
UNRESOLVED: Final = "unresolved-reference-set"
CODES: Final = (MALFORMED, NON_COLLECTION, NESTED, UNRESOLVED)

DeclaredType: TypeAlias = Callable[[Pointer], str | None]
_NAMES: Final[Mapping[type, str]] = {
    Place: "a pointer",
    Constant: "a literal",
    Members: "a reference set",
    Expression: "an expression",
}


def faults(
    expression: Expression, sets: Mapping[str, ReferenceSet], declared_type: DeclaredType, *, inside: bool = False
) -> Iterator[tuple[str, str]]:
    """Code and detail of everything wrong, in order of writing; `inside` a quantifier's predicate."""
    yield from _malformed(expression, sets, inside)
    quantifies = expression.word in QUANTIFIERS
    if quantifies and inside:
        yield NESTED, f"{expression.word} stands inside a quantifier; quantifiers go one level deep"
    if quantifies and isinstance(expression.operands[0], Place):
        pointer = expression.operands[0].pointer
        if (kind := _non_collection(pointer, declared_type)) is not None:
            yield NON_COLLECTION, f'{expression.word} runs over "{pointer.text}", which is {kind}'
    for operand in expression.operands:
        if isinstance(operand, Members) and operand.name not in sets:
            yield UNRESOLVED, f'reference set "{operand.name}" is not declared'
        if isinstance(operand, Expression):
            yield from faults(operand, sets, declared_type, inside=inside or quantifies)


def first_fault(
    expression: Expression, sets: Mapping[str, ReferenceSet], declared_type: DeclaredType
) -> tuple[str, str] | None:
    """The fault of an expression that stands alone, by the order of CODES."""
    found = list(faults(expression, sets, declared_type))
    return min(found, key=lambda fault: CODES.index(fault[0]), default=None)


def _malformed(expression: Expression, sets: Mapping[str, ReferenceSet], inside: bool) -> Iterator[tuple[str, str]]:
    for detail in (
        *_wrong_operands(expression),
        *_wrong_options(expression),
        *_wrong_members(expression, sets),
        *_wrong_places(expression, inside),
    ):
        yield MALFORMED, detail


def _wrong_operands(expression: Expression) -> Iterator[str]:
    word, operands = expression.word, expression.operands
    if word in CONNECTIVES:
        if not all(isinstance(operand, Expression) for operand in operands):
            yield f"{word} is over expressions"
        if len(operands) != 1 if word == "not" else len(operands) < 2:
            yield f"{word} takes {'one expression' if word == 'not' else 'two expressions or more'}"
        return
    if word in QUANTIFIERS:
        if not isinstance(operands[0], Place):
            yield f"{word} runs over a pointer, not over {_NAMES[type(operands[0])]}"
        return
    kinds = RELATIONS[word].operands
    if len(operands) != len(kinds):
        yield f"{word} takes {len(kinds)} operands, not {len(operands)}"
        return
    for operand, allowed in zip(operands, kinds, strict=True):
        if not isinstance(operand, allowed):
            wanted = " or ".join(_NAMES[kind] for kind in allowed)
            yield f"{word} takes {wanted} there, not {_NAMES[type(operand)]}"
        elif isinstance(operand, Constant) and operand.value == []:
            yield f"{word} over an empty list decides nothing"
        elif word == "set-membership" and isinstance(operand, Constant) and not isinstance(operand.value, list):
            yield "set-membership takes a list or a reference set"


def _wrong_options(expression: Expression) -> Iterator[str]:
    if expression.word == "regex" and expression.matcher is None:
        yield f'the pattern "{expression.options["pattern"]}" is no RE2 expression'
    figures: dict[str, Any] = {n: v for n, v in expression.options.items() if n in ("expected", "tolerance")}
    for name, figure in figures.items():
        if figure < 0:
            yield f"{name} is negative"


def _wrong_members(expression: Expression, sets: Mapping[str, ReferenceSet]) -> Iterator[str]:
    for operand in expression.operands:
        if expression.word == "set-membership" and isinstance(operand, Members) and operand.name in sets:
            keys = sets[operand.name].keys
            if len(keys) != 1:
                yield f'membership in reference set "{operand.name}", which has {len(keys)} keys instead of one'


def _wrong_places(expression: Expression, inside: bool) -> Iterator[str]:
    for operand in expression.operands:
        if not isinstance(operand, Place):
            continue
        if operand.pointer.is_element and not inside:
            yield f'"{operand.pointer.text}" reads an element outside a quantifier'
        if expression.word == "ordering" and operand.pointer.channel == "call-inputs":
            yield "ordering is over what a call returned, not over its input"


def _non_collection(pointer: Pointer, declared_type: DeclaredType) -> str | None:
    if pointer.channel in SCALAR_CHANNELS:
        return "one value"
    kind = None if pointer.is_element else declared_type(pointer)
    return None if kind in (None, "array") else f"declared as {kind}"
