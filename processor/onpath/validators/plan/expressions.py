"""Reads a check's expression in either spelling: document -> Expression.

Only what can't be an expression at all is refused here (an unknown word or field, a bad pointer, an ill-typed value).
What is one, but says nothing sensible, is for `legality`. Matchers are compiled by `compile_pattern`, which raises
ValueError; a pattern that it refuses leaves the expression without one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from onpath.validators.plan.pointers import PointerError, looks_like_pointer, parse
from onpath.validators.plan.relate import (
    CONNECTIVES,
    QUANTIFIERS,
    RELATIONS,
    Constant,
    Expression,
    Matcher,
    Members,
    Operand,
    Place,
    Relation,
)
from onpath.validators.plan.values import TYPES

Trail: TypeAlias = tuple[str | int, ...]
CompilePattern: TypeAlias = Callable[[str], Matcher]

MAX_DEPTH: Final = 40  # expressions in expressions
WORDS: Final = frozenset({*RELATIONS, *CONNECTIVES, *QUANTIFIERS})
UNKNOWN_FIELD: Final = "this field is not known"
REQUIRED_FIELD: Final = "this field is required"
_SHORT_NAMES: Final = {"in": "collection", "check": "predicate"}
_OPERAND_TAGS: Final = ("pointer", "literal", "referenceSet")


class ExpressionError(ValueError):
    """What is wrong; `trail` leads from the expression to the field, for an unknown or missing one."""

    def __init__(self, detail: str, trail: Trail = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.trail = trail


def read_native(raw: Any, compile_pattern: CompilePattern, trail: Trail = (), depth: int = 0) -> Expression:
    """`{op, operands, ...}`. Raises ExpressionError."""
    word, fields = _native_word(raw, depth)
    if word in QUANTIFIERS:
        _only(fields, ("collection", "predicate"), trail)
        collection = _native_operand(_need(fields, "collection", trail), compile_pattern, (*trail, "collection"), depth)
        if isinstance(collection, Expression):
            raise ExpressionError("a quantifier runs over evidence, not over an expression")
        inner = _need(fields, "predicate", trail)
        return Expression(word, (collection, read_native(inner, compile_pattern, (*trail, "predicate"), depth + 1)))
    relation = RELATIONS.get(word)
    _only(fields, ("operands", *(relation.options if relation else ())), trail)
    listed = _need(fields, "operands", trail)
    if not isinstance(listed, list):
        raise ExpressionError(f"operands of {word} are a list")
    operands = tuple(
        _native_operand(item, compile_pattern, (*trail, "operands", i), depth) for i, item in enumerate(listed)
    )
    return _finish(word, operands, fields, compile_pattern, trail)


def read_short(raw: Any, compile_pattern: CompilePattern, trail: Trail = (), depth: int = 0) -> Expression:
    """`{WORD: ...}` with one word. Raises ExpressionError."""
    word, value = _short_word(raw, depth)
    if word in CONNECTIVES:
        if isinstance(value, list) is (word == "not"):
            raise ExpressionError(f"{word} takes {'one expression' if word == 'not' else 'a list of expressions'}")
        parts = [value] if word == "not" else value
        return Expression(word, tuple(read_short(part, compile_pattern, trail, depth + 1) for part in parts))
    inside = (*trail, word)
    if word in QUANTIFIERS:
        fields = _mapping(word, value)
        _only(fields, tuple(_SHORT_NAMES), inside)
        collection = short_operand(_need(fields, "in", inside))
        inner = read_short(_need(fields, "check", inside), compile_pattern, (*inside, "check"), depth + 1)
        return Expression(word, (collection, inner))
    operands, options = _short_parts(word, RELATIONS[word], value, inside)
    return _finish(word, operands, options, compile_pattern, inside)


def _short_parts(
    word: str, relation: Relation, value: Any, trail: Trail
) -> tuple[tuple[Operand, ...], Mapping[str, Any]]:
    """The operands and options of a relation, by the way the short form writes it."""
    if relation.short == "one":
        return (short_operand(value),), {}
    if relation.short in ("fields", "shape"):
        fields = _mapping(word, value)
        shape = relation.short == "shape"
        _only(fields, ("of", *(("required", "optional") if shape else relation.options)), trail)
        return (short_operand(_need(fields, "of", trail)),), _shape_fields(fields) if shape else fields
    if not isinstance(value, list):
        raise ExpressionError(f"{word} takes a list")
    if relation.short == "list":
        return tuple(short_operand(item) for item in value), {}
    operands, pattern = value[:1] + value[2:], value[1:2]
    # Without a pattern there is no operand either: the number of operands is then what is wrong.
    return tuple(short_operand(item) for item in operands) if pattern else (), {"pattern": (pattern or [""])[0]}


def short_operand(raw: Any) -> Operand:
    """A pointer, `{literal: v}`, `{reference_set: n}`, or a bare value. Raises ExpressionError."""
    if isinstance(raw, Mapping) and len(raw) == 1:
        if "literal" in raw:
            return Constant(raw["literal"])
        if "reference_set" in raw:
            return Members(_text(raw["reference_set"], "the name of a reference set"))
        if "pointer" in raw:
            return _place(raw["pointer"], short=True)
    return _place(raw, short=True) if isinstance(raw, str) and looks_like_pointer(raw) else Constant(raw)


def _native_operand(raw: Any, compile_pattern: CompilePattern, trail: Trail, depth: int) -> Operand | Expression:
    if isinstance(raw, Mapping) and "op" in raw:
        return read_native(raw, compile_pattern, trail, depth + 1)
    if not isinstance(raw, Mapping) or len(raw) != 1 or next(iter(raw)) not in _OPERAND_TAGS:
        raise ExpressionError("an operand is an expression or has exactly one of pointer, literal and referenceSet")
    tag, value = next(iter(raw.items()))
    if tag == "literal":
        return Constant(value)
    if tag == "referenceSet":
        return Members(_text(value, "the name of a reference set"))
    return _place(value, short=False)


def _place(raw: Any, *, short: bool) -> Place:
    try:
        return Place(parse(_text(raw, "a pointer"), short=short))
    except PointerError as error:
        raise ExpressionError(str(error)) from None


def _native_word(raw: Any, depth: int) -> tuple[str, Mapping[str, Any]]:
    fields = _nested(raw, depth)
    if "op" not in fields:
        raise ExpressionError("an expression has an op")
    word = fields["op"]
    if not isinstance(word, str) or word not in WORDS:
        raise ExpressionError(f"expected one of the words {', '.join(sorted(WORDS))}")
    return word, {key: value for key, value in fields.items() if key != "op"}


def _short_word(raw: Any, depth: int) -> tuple[str, Any]:
    fields = _nested(raw, depth)
    words = [key for key in fields if key in WORDS]
    if len(words) != 1:
        raise ExpressionError(f"expected exactly one of the words {', '.join(sorted(WORDS))}")
    _only(fields, tuple(words), ())
    return words[0], fields[words[0]]


def _nested(raw: Any, depth: int) -> Mapping[str, Any]:
    if depth > MAX_DEPTH:
        raise ExpressionError(f"expressions nest at most {MAX_DEPTH} deep")
    if not isinstance(raw, Mapping):
        raise ExpressionError("an expression is an object")
    return raw


def _finish(
    word: str,
    operands: tuple[Operand | Expression, ...],
    fields: Mapping[str, Any],
    compile_pattern: CompilePattern,
    trail: Trail,
) -> Expression:
    """Adds the options, checked and with their defaults, and the matcher of a pattern."""
    relation = RELATIONS.get(word)
    if relation is None:
        return Expression(word, operands)
    options = {}
    for name, kind in relation.options.items():
        if name in fields:
            options[name] = _OPTIONS[kind](fields[name], f"{name} of {word}")
        elif name in relation.defaults:
            options[name] = relation.defaults[name]
        else:
            raise ExpressionError(REQUIRED_FIELD, (*trail, name))
    matcher = None
    if "pattern" in options:
        try:
            matcher = compile_pattern(options["pattern"])
        except ValueError:
            matcher = None  # for `legality` to refuse
    return Expression(word, operands, options, matcher)


def _shape_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    required, optional = (read_types(fields.get(name), f"{name} of shape") for name in ("required", "optional"))
    return {"requiredKeys": list(required), "permittedKeys": list(optional), "types": {**optional, **required}}


def read_types(raw: Any, what: str) -> dict[str, str | None]:
    """Name to type word of the short form; `unknown` is no type. YAML reads a bare `null` as null."""
    if raw is None:
        return {}
    if not isinstance(raw, Mapping):
        raise ExpressionError(f"{what} is a mapping of names to types")
    types: dict[str, str | None] = {}
    for name, word in raw.items():
        if not isinstance(name, str) or word not in (*TYPES, "unknown", None):
            raise ExpressionError(f"{what} gives a name one of {', '.join(TYPES)}, unknown")
        types[name] = "null" if word is None else None if word == "unknown" else word
    return types


def _only(fields: Mapping[str, Any], known: tuple[str, ...], trail: Trail) -> None:
    for key in fields:
        if key not in known:
            raise ExpressionError(UNKNOWN_FIELD, (*trail, str(key)))


def _need(fields: Mapping[str, Any], name: str, trail: Trail) -> Any:
    if name not in fields:
        raise ExpressionError(REQUIRED_FIELD, (*trail, name))
    return fields[name]


def _mapping(word: str, raw: Any) -> Mapping[str, Any]:
    if not isinstance(raw, Mapping):
        raise ExpressionError(f"{word} takes a mapping")
    return raw


def _text(raw: Any, what: str) -> str:
    if not isinstance(raw, str):
        raise ExpressionError(f"expected text for {what}")
    return raw


def _number(raw: Any, what: str) -> int | float:
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not math.isfinite(raw):
        raise ExpressionError(f"expected a number for {what}")
    return raw


def _flag(raw: Any, what: str) -> bool:
    if not isinstance(raw, bool):
        raise ExpressionError(f"expected true or false for {what}")
    return raw


def _direction(raw: Any, what: str) -> str:
    if raw not in ("ascending", "descending"):
        raise ExpressionError(f"expected ascending or descending for {what}")
    return str(raw)


def _keys(raw: Any, what: str) -> tuple[str, ...]:
    if not isinstance(raw, list) or not all(isinstance(key, str) for key in raw):
        raise ExpressionError(f"expected a list of names for {what}")
    return tuple(raw)


def _types(raw: Any, what: str) -> dict[str, str | None]:
    if not isinstance(raw, Mapping) or not all(
        isinstance(key, str) and word in (*TYPES, None) for key, word in raw.items()
    ):
        raise ExpressionError(f"expected names with one of {', '.join(TYPES)} or null for {what}")
    return dict(raw)


_OPTIONS: Final[Mapping[str, Callable[[Any, str], Any]]] = {
    "text": _text,
    "number": _number,
    "flag": _flag,
    "direction": _direction,
    "keys": _keys,
    "types": _types,
}
