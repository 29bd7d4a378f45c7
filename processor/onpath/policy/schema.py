"""The policy file as pydantic models: types, bounds and unknown keys, all at once, each fault with its pointer.

What a workflow asks of a run (adherence, seq!, plan!, value trees) is loaded by modules of its own; here those keys are
left alone. `json_schema` has the models for editors, which describe them too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from onpath.policy.problems import Problems, pointer
from onpath.report import Severity
from onpath.steps.model import Nested

NAME_LENGTH: Final = 100


def _one_line(text: str) -> str:
    if len(text.splitlines()) > 1 or text != (text.splitlines() or [""])[0]:
        raise ValueError("a name has no line breaks")
    return text


def _number(value: object) -> object:
    """Python holds true for 1."""
    if isinstance(value, bool):
        raise ValueError("expected 1, got true or false")
    return value


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


Text = Annotated[str, Field(min_length=1)]
WorkflowName = Annotated[str, Field(min_length=1, max_length=NAME_LENGTH), AfterValidator(_one_line)]
Share = Annotated[float, Field(ge=0, le=1)]


class Strict(BaseModel):
    """Types are taken as written ("1" is no number), unknown keys are faults."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class MatchModel(Strict):
    """Which traces a workflow is about; all that are given must hold."""

    service: Text = Field(default="", description="glob on the resource's service.name")
    root: Text = Field(default="", description="glob on the name of the local root")
    agent: Text = Field(default="", description="an agent of this name took part")
    attributes: dict[Text, Any] = Field(default={}, description="of the resource or any span: a glob, or a value tree")
    input: Any = Field(default=None, description="value tree on the scope's captured input")


class PrincipalModel(Strict):
    """Who acted, for plan!."""

    attribute: Annotated[list[Text], BeforeValidator(_as_list, json_schema_input_type=str | list[str])] = Field(
        default=["enduser.id", "user.id"], min_length=1, description="attributes to read, in order"
    )
    labels: dict[Text, list[Text]] = Field(default={}, description="label to the raw values that mean this person")


class DefaultsModel(Strict):
    """What holds for every workflow that doesn't say otherwise."""

    nested: Nested = Field(
        default="agents_as_steps", description="whether an agent below is one step, or its steps are"
    )
    capture_content: bool = Field(default=False, description="whether argument and result values may stand in results")
    severity: Severity = Field(default="material", description="of what this workflow finds")
    sample: Share = Field(default=1.0, description="share of traces that are judged")
    ignore: list[Text] = Field(default=[], description="steps that never count")


class WorkflowModel(DefaultsModel):
    """One workflow: which traces it is about, and what is asked of them."""

    name: WorkflowName = Field(default="", description="unique; without one, the file's")
    description: Any = Field(default="", description="for people")
    match: MatchModel = Field(
        default=MatchModel(), description="without it: every trace with an agent, model or tool span"
    )
    agent: Text = Field(default="", description="judge each scope of this agent; without it the run as a whole")
    spans: list[Text] = Field(default=[], description="other spans that count as steps: globs on their names")
    aliases: dict[Text, list[Text]] = Field(default={}, description="name to other spellings of it")
    principal: PrincipalModel = PrincipalModel()


class CheckModel(Strict):
    """One of `checks`: more validators, under a name of their own."""

    name: WorkflowName = Field(description="name of the evaluations")
    description: Any = Field(default="", description="for people")


class PolicyModel(Strict):
    """A policy file."""

    version: Annotated[Literal[1], BeforeValidator(_number, json_schema_input_type=Literal[1])] = 1
    defaults: DefaultsModel = DefaultsModel()
    workflows: list[Any] = Field(min_length=1)


Model = TypeVar("Model", bound=BaseModel)


def validate(model: type[Model], raw: object, problems: Problems) -> Model | None:
    """`raw` as a model, or None with its faults in `problems`."""
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            at, message = _told(fault, model)
            problems.error(at, message)
        return None


def suggestion(key: str, known: Sequence[str], likeness: float = 0.6) -> str:
    """`; did you mean ...?`, or nothing."""
    close = get_close_matches(key, known, n=1, cutoff=likeness)
    return f"; did you mean `{close[0]}`?" if close else ""


def kind_of(value: object) -> str:
    """What a value is, in the words of the file."""
    if value is None:
        return "null"
    names: Mapping[type, str] = {
        bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list", dict: "a mapping",
    }  # fmt: skip
    return names.get(type(value), type(value).__name__)


_EXPECTED: Final = {
    "string_type": "text",
    "bool_type": "true or false",
    "float_type": "a number",
    "int_type": "a whole number",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}

_SAID: Final[Mapping[str, Callable[[ErrorDetails], str]]] = {
    "literal_error": lambda e: f"expected {e['ctx']['expected']}, got {_shown(e['input'])}",
    "greater_than_equal": lambda e: f"expected a number of at least {e['ctx']['ge']:g}, got {_shown(e['input'])}",
    "less_than_equal": lambda e: f"expected a number of at most {e['ctx']['le']:g}, got {_shown(e['input'])}",
    "string_too_short": lambda _: "expected text that is not empty",
    "string_too_long": lambda e: f"expected at most {e['ctx']['max_length']} characters, got {len(e['input'])}",
    "too_short": lambda _: "expected a list that is not empty",
    "value_error": lambda e: str(e["ctx"]["error"]),
}


def _told(fault: ErrorDetails, model: type[BaseModel]) -> tuple[str, str]:
    """The pointer of a fault and what is said of it. A key that is missing is told of the mapping that lacks it."""
    place = fault["loc"]
    if place[-1:] == ("[key]",) and str(fault["input"]) == str(place[-2]):
        place = place[:-1]  # a key that is no name is told of at the key
    *around, last = place or ("",)
    at, kind = pointer(*place), fault["type"]
    if kind == "missing":
        return pointer(*around), f"`{last}` is required"
    if kind == "extra_forbidden":
        return at, "this key is not known" + suggestion(str(last), tuple(_model_at(model, around).model_fields))
    if kind in _EXPECTED:
        return at, f"expected {_EXPECTED[kind]}, got {kind_of(fault['input'])}"
    return at, _SAID[kind](fault) if kind in _SAID else fault["msg"]


def _model_at(model: type[BaseModel], keys: Sequence[str | int]) -> type[BaseModel]:
    for key in keys:
        below = model.model_fields[str(key)].annotation
        if isinstance(below, type) and issubclass(below, BaseModel):
            model = below
    return model


def _shown(value: object) -> str:
    """A value of the file as an error may show it."""
    if isinstance(value, str):
        return f'"{value}"' if len(value) <= 40 else f'"{value[:40]}..."'
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else kind_of(value)
