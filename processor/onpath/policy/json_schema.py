"""The JSON schema of policy files, for editors: the models of `schema` and of plans, with models of all else added.

An editor is told what fits where. What needs more than a shape (regular expressions, names that exclude each other,
pointers of a plan) is checked by the loaders, which are the last word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model

from onpath.policy.adherence import AdherenceModel
from onpath.policy.plan_native import ContractModel, OptionsModel
from onpath.policy.plan_short import PlanModel
from onpath.policy.schema import (
    CheckModel,
    MatchModel,
    PolicyModel,
    Share,
    Strict,
    Text,
    WorkflowModel,
)

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"

Whole = Annotated[int, Field(ge=0)]
Names = Annotated[list[Text], Field(min_length=1)]
Transform: TypeAlias = Literal["lowercase", "uppercase", "trim", "collapse_whitespace"]


def _optional(description: str, **options: Any) -> Any:
    """A key that may be left out, and has no default that could be written."""
    return Field(default=None, description=description, **options)


# --- value trees


class OptionForm(Strict):
    """An argument with options."""

    value: Any
    transform: Transform | Annotated[list[Transform], Field(min_length=1)] = Field(
        default="trim", description="what is done to the text first"
    )
    negate: bool = Field(default=False, description="turns the meaning round")


class JudgedForm(OptionForm):
    """An argument of a check that a judge answers."""

    model: str = ""
    system_prompt: str = ""
    pass_threshold: Share = 0.5
    context: Any = None


class Rubric(Strict):
    criteria: Text | Names
    pass_threshold: Share = 0.5
    model: str = ""
    context: Any = None


Tree = TypeVar("Tree", bound=BaseModel)
_Number: TypeAlias = int | float
_Bound: TypeAlias = int | float | Annotated[str, Field(description="an ISO date or time")]
_Flag: TypeAlias = bool | None
_NotEmpty: TypeAlias = Annotated[list[Any], Field(min_length=1)]
_Word: TypeAlias = Literal["ok", "error", "unset"]

_VALUE: Final[dict[str, Any]] = {
    "eq": Any, "contains": Any, "contains_all": _NotEmpty, "contains_any": _NotEmpty, "starts_with": Text,
    "ends_with": Text, "pattern": str, "type": str | None, "length": Whole, "min_length": Whole, "max_length": Whole,
    "gt": _Bound, "gte": _Bound, "lt": _Bound, "lte": _Bound, "null": _Flag, "json": _Flag, "email": _Flag,
}  # fmt: skip
_JUDGED: Final[dict[str, Any]] = {"prompt": Text, "semantic": Text, "language": Text, "rubric": Text | Names | Rubric}
_NUMBER: Final[dict[str, Any]] = {
    **dict.fromkeys(("eq", "gt", "gte", "lt", "lte"), _Number),
    "type": str | None,
    "null": _Flag,
}
_STATUS: Final[dict[str, Any]] = {"eq": _Word, "null": _Flag}


def _takes(table: dict[str, Any], judged: dict[str, Any] | None = None) -> Callable[[type[Tree]], type[Tree]]:
    """Adds to a tree each validator of the tables and its opposite, with the argument alone or in option form."""
    forms = {**dict.fromkeys(table, OptionForm), **dict.fromkeys(judged or {}, JudgedForm)}
    fields: dict[str, Any] = {}
    for word, argument in {**table, **(judged or {})}.items():
        taken = argument if argument is Any else argument | forms[word]
        for name in (word, f"not_{word}", *(["ne"] if word == "eq" else [])):
            fields[f"{name}_"] = (taken, Field(default=None, alias=f"{name}!"))

    def add(tree: type[Tree]) -> type[Tree]:
        return create_model(tree.__name__, __base__=tree, __doc__=tree.__doc__, __module__=__name__, **fields)

    return add


def _known_words(schema: dict[str, Any]) -> None:
    """A key that ends in `!` is a validator; one that is not known must not pass for a part or a step."""
    words = [key for key in schema["properties"] if key.endswith("!")]
    schema["propertyNames"] = {"anyOf": [{"not": {"pattern": "!$"}}, {"enum": words}]}


@_takes(_NUMBER)
class NumberTree(Strict):
    """What must hold of a number."""


@_takes(_STATUS)
class StatusTree(Strict):
    """What must hold of a status."""


@_takes(_VALUE, _JUDGED)
class ValueTree(BaseModel):
    """What must hold of a value: validators, and under any other key what must hold of that part of it."""

    model_config = ConfigDict(extra="allow", json_schema_extra=_known_words)
    __pydantic_extra__: dict[str, ValueTrees]  # the name of the class itself would be the class without validators


ValueTrees: TypeAlias = ValueTree | list[ValueTree]


class UsageTree(BaseModel):
    """METRIC, or MODEL:METRIC, to bounds."""

    __pydantic_extra__: dict[str, NumberTree | list[NumberTree]]
    model_config = ConfigDict(extra="allow")


class ScopeTree(Strict):
    """What must hold of the scope's own record."""

    input: ValueTrees = _optional("what the agent was asked")
    output: ValueTrees = _optional("what it answered")
    elapsed: NumberTree | list[NumberTree] = _optional("milliseconds from start to end")
    usage: UsageTree = _optional("tokens and the like, summed over model calls")
    status: StatusTree | list[StatusTree] = _optional("ok, error or unset")
    error: ValueTrees = _optional("`type` and `message` of what went wrong")


class StepTree(ScopeTree):
    """What must hold of a step."""

    attempt: NumberTree | list[NumberTree] = _optional("which attempt of one call it is, from 1")


StepTrees: TypeAlias = StepTree | list[StepTree] | None


# --- flow


class AnyBlock(Strict):
    """Any steps, within bounds."""

    min: Whole = Field(default=1, description="fewest steps")
    max: Whole | None = _optional("most steps")
    contains: Names = Field(default=[], description="every step taken is one of these")
    not_contains: Names = Field(default=[], description="no step taken is one of these")
    contains_all: Names = Field(default=[], description="each of these occurs in the block")


def _one_key(schema: dict[str, Any]) -> None:
    _known_words(schema)
    schema["minProperties"] = schema["maxProperties"] = 1


class _Item(BaseModel):
    """A step by its name, with what must hold of it."""

    model_config = ConfigDict(extra="allow", json_schema_extra=_one_key)
    __pydantic_extra__: dict[str, StepTrees]


class BranchItem(_Item):
    """A step of a chain that runs beside others."""


class ParallelItem(_Item):
    """A step, or a chain of steps, that runs beside the others."""

    seq_: Annotated[list[Text | BranchItem], Field(min_length=1)] = _optional("a chain of steps", alias="seq!")


ParallelItems = Annotated[list[Text | ParallelItem], Field(min_length=1)]


class ParallelBlock(Strict):
    """Steps that must be under way at the same time."""

    tolerance: Whole = Field(default=0, description="milliseconds that may lie between them")
    spans: ParallelItems


class SeqItem(_Item):
    """A step by its name, or a block of steps."""

    any_: AnyBlock | None = _optional("any steps, within bounds", alias="any!")
    parallel_: ParallelItems | ParallelBlock = _optional("at the same time", alias="parallel!")


# --- the file


class MatchSchema(MatchModel):
    attributes: dict[Text, Text | ValueTrees] = Field(
        default={}, description="of the resource or any span: a glob, or a value tree"
    )
    input: ValueTrees = _optional("value tree on the scope's captured input")


class _Asked(BaseModel):
    """What is asked of a run. Any other key is the name of steps, with what must hold of each of them."""

    model_config = ConfigDict(extra="allow", json_schema_extra=_known_words)
    __pydantic_extra__: dict[str, StepTrees]

    adherence: AdherenceModel = _optional("steps that were to be done, and their order")
    seq_: Annotated[list[Text | SeqItem], Field(min_length=1)] = _optional(
        "the steps from first to last; `...` is any number of them", alias="seq!"
    )
    parallel_: ParallelItems | ParallelBlock = _optional(
        "steps that must be under way at the same time", alias="parallel!"
    )
    plan_: PlanModel | OptionsModel = _optional(
        "calls, what they hand to each other, and what must hold of them", alias="plan!"
    )


class CheckSchema(_Asked, ScopeTree, CheckModel):
    """More validators, under a name of their own."""

    model_config = ConfigDict(extra="allow", json_schema_extra=_known_words)


class WorkflowSchema(_Asked, ScopeTree, WorkflowModel):
    """One workflow: which traces it is about, and what is asked of them."""

    model_config = ConfigDict(extra="allow", json_schema_extra=_known_words)

    match: MatchSchema = Field(default=MatchSchema(), description="which traces it is about")
    checks: list[CheckSchema] = _optional("more validators, each with a name")
    runnable: Any = _optional("kept, without effect")
    params: Any = _optional("kept; `prompt` ties the entry to the runs of that prompt")
    tags: Any = _optional("kept, without effect")
    path: Any = _optional("kept, without effect")
    env: Any = _optional("kept, without effect")
    timeout: Any = _optional("kept, not enforced: write `elapsed: {lt!: ...}`")


class PolicySchema(PolicyModel):
    """A policy file."""

    workflows: list[WorkflowSchema] = Field(min_length=1)


class StepsFile(AdherenceModel, WorkflowModel):
    """A file that is one list of steps."""


def policy_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of every form of policy file."""
    forms: Any = PolicySchema | WorkflowSchema | Annotated[list[WorkflowSchema], Field(min_length=1)]
    schema = TypeAdapter(forms | StepsFile | ContractModel).json_schema(by_alias=True)
    return {"$schema": DRAFT, "title": "onpath policy", **_tidy(schema)}


def _tidy(schema: Any) -> Any:
    """Without the defaults of keys that have none, and without the titles that pydantic makes of field names."""
    if isinstance(schema, list):
        return [_tidy(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _tidy(inner) for key, inner in schema.items()}
    if isinstance(schema.get("properties"), dict):
        for inner in found["properties"].values():
            inner.pop("title", None)
            if inner.get("default", 0) is None:
                del inner["default"]
    return found
