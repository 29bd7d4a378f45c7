"""What both spellings of a plan share when they are read: models to faults with their paths, bindings, expressions.

Data flow: parsed document -> pydantic model (structure) -> bindings and expressions by hand -> onpath.validators.plan.
The first fault ends the reading: each later check of a plan rests on the ones before it (plan.md section 2).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError
from pydantic_core import ErrorDetails

from onpath.policy.patterns import full_match
from onpath.policy.schema import kind_of
from onpath.validators.plan.expressions import REQUIRED_FIELD, UNKNOWN_FIELD, ExpressionError, read_native, read_short
from onpath.validators.plan.model import (
    SCHEMA,
    Accepts,
    ActingAs,
    Anything,
    Binding,
    Captured,
    DistinctFrom,
    Exactly,
    Location,
    PlanFault,
    TypeViolating,
)
from onpath.validators.plan.pointers import SLUG, Pointer, PointerError, parse, tail_of
from onpath.validators.plan.relate import Expression, ReferenceSet
from onpath.validators.plan.values import Tail

Slug = Annotated[str, Field(pattern=f"^(?:{SLUG.pattern})$")]
Name = Annotated[str, Field(min_length=1)]
SeverityWord = Literal["low", "material", "critical"]
CardinalityWord = Literal["exactly-one", "at-most-one", "any"]

EMPTY_CHANNEL: Final = "an input-binding channel names at least one parameter; an unbound channel is null"
# Mappings whose keys are names of the user's own, which paths put in brackets.
_FREE: Final = frozenset(
    {"tools", "input", "optional_input", "output", "collections", "reference_sets", "referenceSets", "types"}
)
# Words that a union of models leaves in an error's location, after this field.
_UNIONS: Final = frozenset({"expectedCardinality", "descriptorChannel"})

Model = TypeVar("Model", bound=BaseModel)


def schema_fault(path: str, detail: str, at: Location | None = None) -> PlanFault:
    return PlanFault(SCHEMA, path, detail, at)


def validated(model: type[Model], raw: object, root: str, at: Location = ()) -> Model:
    """`raw` as a model. Raises the first fault as PlanFault; `root` is the path of the whole, `at` where it stands."""
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        inside = _without_unions(fault["loc"])
        raise schema_fault(path_of(root, inside), _detail(fault), (*at, *inside)) from None


def path_of(root: str, at: Location) -> str:
    """`root.field[0].map["key"]`."""
    path, before = root, ""
    for part in at:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            path += in_brackets(part) if before in _FREE else f".{part}"
        before = part if isinstance(part, str) and before not in _FREE else ""
    return path


def in_brackets(key: str) -> str:
    return f"[{json.dumps(key, ensure_ascii=False)}]"


def _without_unions(loc: Location) -> Location:
    kept: list[str | int] = []
    for i, part in enumerate(loc):
        if i == 0 or loc[i - 1] not in _UNIONS:
            kept.append(part)
    return tuple(kept)


_EXPECTED: Final = {
    "string_type": "expected text",
    "bool_type": "expected true or false",
    "float_type": "expected a number",
    "int_type": "expected a whole number",
    "list_type": "expected a list",
    "dict_type": "expected an object",
    "model_type": "expected an object",
    "union_tag_invalid": "the word is not known",
    "union_tag_not_found": REQUIRED_FIELD,
    "extra_forbidden": UNKNOWN_FIELD,
    "missing": REQUIRED_FIELD,
    "string_pattern_mismatch": "expected lower-case letters and digits, in words joined by single hyphens",
    "string_too_short": "expected text that is not empty",
}


def _detail(fault: ErrorDetails) -> str:
    kind = fault["type"]
    if kind == "literal_error":
        return f"expected {fault['ctx']['expected']}"
    detail = _EXPECTED.get(kind, fault["msg"])
    return f"{detail}, got {kind_of(fault['input'])}" if kind.endswith("_type") else detail


def binding_of(channel: str, key: str, raw: object, path: str, at: Location, *, short: bool) -> Binding:
    """One binding of an argument: an object with exactly one tag. Raises PlanFault at the argument."""
    if not isinstance(raw, Mapping) or len(raw) != 1 or next(iter(raw)) not in _TAGS:
        raise schema_fault(path, f"expected an object with exactly one of {', '.join(_TAGS)}", at)
    tag, value = next(iter(raw.items()))
    return Binding(channel, key, _accepts(tag, value, path, at, short=short))


_TAGS: Final = ("literal", "matcher", "captured", "distinct_from", "principal")


def _accepts(tag: str, value: object, path: str, at: Location, *, short: bool) -> Accepts:
    if tag == "literal":
        return Exactly(value)
    if tag == "matcher":
        if value not in ("any", "type-violating"):
            raise schema_fault(path, 'expected "any" or "type-violating" for matcher', at)
        return Anything() if value == "any" else TypeViolating()
    if not isinstance(value, str):
        raise schema_fault(path, f"expected text for {tag}, got {kind_of(value)}", at)
    if tag == "principal":
        return ActingAs(value)
    pointer = pointer_of(value, path, at, short=short)
    return Captured(pointer) if tag == "captured" else DistinctFrom(pointer)


def pointer_of(text: str, path: str, at: Location, *, short: bool) -> Pointer:
    """An evidence pointer of a step. Raises PlanFault."""
    try:
        return parse(text, short=short, elements=False)
    except PointerError as error:
        raise schema_fault(path, str(error), at) from None


def tail_at(text: str, path: str, at: Location) -> Tail:
    """A JSON Pointer into an output. Raises PlanFault."""
    try:
        return tail_of(text)
    except PointerError as error:
        raise schema_fault(path, str(error), at) from None


def expression_of(raw: object, path: str, at: Location, *, short: bool) -> Expression:
    """A check, relation or predicate. Raises PlanFault."""
    try:
        return (read_short if short else read_native)(raw, full_match)
    except ExpressionError as error:
        trail = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.trail)
        raise schema_fault(path + trail, error.detail, (*at, *error.trail)) from None


class ReferenceSetModel(BaseModel, extra="forbid", strict=True, frozen=True):
    """Values that a check may name: objects that carry every key."""

    keys: list[Name] = Field(min_length=1)
    members: list[dict[str, Any]] = Field(min_length=1)

    def build(self, path: str, at: Location) -> ReferenceSet:
        for i, member in enumerate(self.members):
            for key in self.keys:
                if key not in member:
                    raise schema_fault(f"{path}.members[{i}].{key}", REQUIRED_FIELD, (*at, "members", i))
        return ReferenceSet(tuple(self.keys), tuple(self.members))


def reference_sets_of(raw: Mapping[str, ReferenceSetModel] | None, root: str, field: str) -> dict[str, ReferenceSet]:
    return {name: model.build(path_of(root, (field, name)), (field, name)) for name, model in (raw or {}).items()}


def unique_ids(ids: list[str], path: str, field: str) -> None:
    """Raises a fault at the first check whose id was used before."""
    for i, name in enumerate(ids):
        if name in ids[:i]:
            raise schema_fault(f"{path}[{i}].id", f'check id "{name}" is used twice', (field, i, "id"))
