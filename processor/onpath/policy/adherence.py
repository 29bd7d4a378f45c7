"""The `adherence` object of a policy file -> Adherence (adherence.md sections 1 and 2).

The model says what the shape is, for loading and for editors; what the names mean to each other is checked on what has
the right shape, so that all problems are told at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema

from onpath.policy.problems import Problems, pointer
from onpath.policy.schema import Strict, kind_of, validate
from onpath.steps.model import Nested
from onpath.validators.adherence import Adherence
from onpath.validators.adherence.check import GATES, Gate
from onpath.validators.adherence.formats import Format
from onpath.validators.adherence.names import LONGEST, Normalisation, comparable, default_normalise

_LISTS: Final = ("expected_steps", "required_steps", "prohibited_steps")


def _named(text: str) -> str:
    name = text.strip()
    if not name:
        raise ValueError("a name is not blank")
    if len(name) > LONGEST:
        raise ValueError(f"a name has at most {LONGEST} characters, this one has {len(name)}")
    return text


def _exact(value: object) -> Fraction:
    """The decimal as written: 0.7 is 7/10."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError(f"expected a number from 0 to 1, got {kind_of(value)}")
    number = Decimal(repr(value) if isinstance(value, float) else value)
    if not number.is_finite() or not 0 <= number <= 1:
        raise ValueError(f"expected a number from 0 to 1, got {value}")
    return Fraction(number)


def _no_default(schema: dict[str, Any]) -> None:
    """For keys whose absence means something else than any value."""
    schema.pop("default", None)


StepName = Annotated[
    str,
    AfterValidator(_named),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": LONGEST, "pattern": r"\S"}),
]
Threshold = Annotated[
    Fraction, PlainValidator(_exact), WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1, "default": 0.5})
]


class AdherenceModel(Strict):
    """Whether the declared steps were done, in their order, with none that is prohibited."""

    expected_steps: list[StepName] = Field(min_length=1, description="the steps in their order")
    required_steps: list[StepName] = Field([], description="must appear, wherever")
    prohibited_steps: list[StepName] = Field([], description="must not appear")
    strict_order: bool = Field(False, description="nothing more, nothing else")
    extract_from: Literal["output", "tool_calls"] = Field("output", description="where the steps are read from")
    aliases: dict[StepName, list[StepName]] = Field({}, description="name to other spellings of it")
    normalise: list[Normalisation] = Field([], description="how names are compared", json_schema_extra=_no_default)
    format: Format = Field("json", description="read the output in this format only", json_schema_extra=_no_default)
    threshold: Threshold = Field(Fraction(1, 2), description="the score from which the label is pass")
    count_failed: bool = Field(False, description="a failed call counts as done")
    gates: list[Gate] = Field(list(GATES), description="which of the two extra evaluations are made")
    agent: StepName = Field("", description="judge each scope of this agent", json_schema_extra=_no_default)
    nested: Nested = Field("agents_as_steps", description="scope of this check", json_schema_extra=_no_default)


def load_adherence(raw: object, problems: Problems) -> Adherence | None:
    """The check, or None with its problems; pointers are relative to the `adherence` object."""
    # without its one required key it is as empty as with an empty list, and told of at the same place
    model = validate(AdherenceModel, {"expected_steps": [], **raw} if isinstance(raw, dict) else raw, problems)
    if isinstance(raw, dict):
        _Meaning(raw, problems).check()
        order = {pointer(key): place for place, key in enumerate(raw)}
        problems.errors.sort(key=lambda p: order.get("/".join(p.pointer.split("/")[:2]), -1))
    if model is None or problems.errors:
        return None
    given = model.model_fields_set
    return Adherence(
        expected_steps=tuple(model.expected_steps),
        required_steps=tuple(model.required_steps),
        prohibited_steps=tuple(model.prohibited_steps),
        strict_order=model.strict_order,
        extract_from=model.extract_from,
        aliases={name: tuple(others) for name, others in model.aliases.items()},
        normalise=tuple(model.normalise) if "normalise" in given else None,
        format=model.format if "format" in given else None,
        threshold=model.threshold,
        count_failed=model.count_failed,
        gates=tuple(model.gates),
        agent=model.agent if "agent" in given else None,
        nested=model.nested if "nested" in given else None,
    )


class _Meaning:
    """Names against each other, and settings without a use, in whatever of the object has the right shape."""

    def __init__(self, raw: Mapping[Any, Any], problems: Problems) -> None:
        self.raw = raw
        self.problems = problems
        self.from_output = raw.get("extract_from", "output") != "tool_calls"
        chosen = raw.get("normalise")
        known = get_args(Normalisation)
        self.normalise: tuple[Normalisation, ...] = (
            tuple(n for n in chosen if n in known) if isinstance(chosen, list) else default_normalise(self.from_output)
        )

    def check(self) -> None:
        lists = {key: self._keys(self.raw.get(key)) for key in _LISTS}
        self._conflicts(lists)
        for key in ("required_steps", "prohibited_steps"):
            self._copies(key, lists[key])
        self._aliases({name for names in lists.values() for _, name in names})
        self._unused(lists)

    def _key(self, name: str) -> str:
        return comparable(name, self.normalise, self.from_output)

    def _keys(self, names: object) -> list[tuple[int, str]]:
        """Places and comparable forms of the names in a list."""
        if not isinstance(names, Sequence) or isinstance(names, str):
            return []
        return [(i, self._key(n)) for i, n in enumerate(names) if isinstance(n, str) and n.strip()]

    def _conflicts(self, lists: Mapping[str, list[tuple[int, str]]]) -> None:
        for key in ("expected_steps", "required_steps"):
            wanted = {name for _, name in lists[key]}
            for index, name in lists["prohibited_steps"]:
                if name in wanted:
                    shown = self.raw["prohibited_steps"][index].strip()
                    word = key.removesuffix("_steps")
                    self.problems.error(pointer("prohibited_steps", index), f"`{shown}` is prohibited and {word}")

    def _copies(self, key: str, names: list[tuple[int, str]]) -> None:
        seen: set[str] = set()
        for index, name in names:
            if name in seen:
                self.problems.warn(pointer(key, index), f"`{self.raw[key][index].strip()}` stands here twice")
            seen.add(name)

    def _aliases(self, configured: set[str]) -> None:
        aliases = self.raw.get("aliases")
        if not isinstance(aliases, Mapping):
            return
        owner: dict[str, str] = {}
        for name, index, alias in self._alias_entries(aliases):
            at, key, target = pointer("aliases", name, index), self._key(alias), self._key(name)
            if key in configured:
                self.problems.error(at, f"`{alias.strip()}` is a configured name, so it can't be an alias")
            elif owner.setdefault(key, target) != target:
                self.problems.error(at, f"`{alias.strip()}` is an alias of another name already")
        for name in aliases:
            if isinstance(name, str) and name.strip() and self._key(name) not in configured:
                self.problems.warn(pointer("aliases", name), f"no list contains `{name.strip()}`")

    @staticmethod
    def _alias_entries(aliases: Mapping[Any, Any]) -> Iterator[tuple[str, int, str]]:
        for name, others in aliases.items():
            if isinstance(name, str) and name.strip() and isinstance(others, list):
                yield from (
                    (name, i, other) for i, other in enumerate(others) if isinstance(other, str) and other.strip()
                )

    def _unused(self, lists: Mapping[str, list[tuple[int, str]]]) -> None:
        if "format" in self.raw and not self.from_output:
            self.problems.warn("/format", "tool calls have no format; this is for `extract_from: output`")
        if "count_failed" in self.raw and self.from_output:
            self.problems.warn("/count_failed", "an output has no failed calls; this is for `extract_from: tool_calls`")
        gates = self.raw.get("gates")
        for index, gate in enumerate(gates) if isinstance(gates, list) else ():
            if gate in GATES and not lists[f"{gate}_steps"] and not self.raw.get(f"{gate}_steps"):
                self.problems.warn(pointer("gates", index), f"`{gate}_steps` is empty, so there is nothing to gate")
