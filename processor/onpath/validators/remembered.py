"""Outcomes of checks that look at nothing but names and their order, known again where a run repeats an earlier one.

Agents take the same few paths again and again. A validator that can say what its outcome depends on gives a scope's
`Outline`; of two scopes with one outline, in one context, the outcomes differ in span ids alone. So what was made of
the first is made of the next by putting its span ids in place.

scope -> Outline -> known? the evaluations kept, with this scope's span ids : evaluated, and kept
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

from onpath.report import AlignmentRow, Evaluation, Finding, aligned
from onpath.steps.model import Scope, Step
from onpath.validators.base import Context, Validator

_KEPT: Final = 256  # outcomes of one validator ...
_STEPS: Final = 64  # ... of runs of so many steps at most ...
_LETTERS: Final = 4096  # ... whose names, and all else that an outcome says, are no longer together


class Outline(NamedTuple):
    """All of a scope that an outcome depends on, but for the span ids of `steps`."""

    key: Hashable
    steps: Sequence[Step]


@runtime_checkable
class Outlined(Protocol):
    """A validator that can give an outline."""

    def evaluate(self, scope: Scope, context: Context) -> tuple[Evaluation, ...]: ...

    def outline(self, scope: Scope) -> Outline | None:
        """None where the outcome may depend on more: on times, values, answers."""


_Place: TypeAlias = int | None  # the step of an outline whose span ids these are; None: there are none


@dataclass(frozen=True, slots=True)
class _Kept:
    """An evaluation, and whose span ids stand in its findings and rows."""

    made: Evaluation
    findings: tuple[_Place, ...]
    rows: tuple[_Place, ...]

    def of(self, steps: Sequence[Step]) -> Evaluation:
        made = self.made
        if not (self.findings or self.rows):
            return made
        rows = [
            row if at is None else aligned(row.move, row.expected, row.seen, steps[at].span_ids)
            for row, at in zip(made.alignment, self.rows, strict=True)
        ]
        again: Evaluation = _new(Evaluation)
        for get, put in _SLOTS.values():
            put(again, get(made))
        _SLOTS["findings"][1](again, tuple(_findings(made.findings, self.findings, steps)))
        _SLOTS["alignment"][1](again, tuple(rows))
        return again


# A frozen dataclass's own constructor takes several times as long as setting its slots.
_new: Final = object.__new__
_SLOTS: Final = {name: (d.__get__, d.__set__) for name in Evaluation.__slots__ for d in (getattr(Evaluation, name),)}


def _findings(made: Sequence[Finding], places: Sequence[_Place], steps: Sequence[Step]) -> Iterator[Finding]:
    for finding, at in zip(made, places, strict=True):
        yield finding if at is None else replace(finding, span_ids=steps[at].span_ids)


class Remembered:
    """Evaluates as the validator does; `data` of two evaluations may be one object. It belongs to one thread."""

    def __init__(self, validator: Outlined) -> None:
        self._validator = validator
        self._known: OrderedDict[Hashable, tuple[_Kept, ...]] = OrderedDict()

    def evaluate(self, scope: Scope, context: Context) -> tuple[Evaluation, ...]:
        outline = self._validator.outline(scope)
        if outline is None:
            return self._validator.evaluate(scope, context)
        key = (outline.key, context.complete, context.missing_parent, context.capture_content, context.severity)
        kept = self._known.get(key)
        if kept is not None:
            self._known.move_to_end(key)
            return tuple([each.of(outline.steps) for each in kept])
        made = self._validator.evaluate(scope, context)
        found = _kept(made, outline)
        if found is not None:
            self._known[key] = found
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return made


def remembered(validator: Validator) -> Validator:
    """The validator with a memory, where it can have one."""
    return Remembered(validator) if isinstance(validator, Outlined) else validator


def _kept(made: tuple[Evaluation, ...], outline: Outline) -> tuple[_Kept, ...] | None:
    """None for what must not or need not be kept: span ids that stand in texts or in several steps; large runs."""
    if len(outline.steps) > _STEPS:
        return None
    places: dict[tuple[str, ...], _Place] = {step.span_ids: at for at, step in enumerate(outline.steps)}
    if len(places) < len(outline.steps):
        return None
    places[()] = None
    found = tuple([_placed(evaluation, places) for evaluation in made])
    if None in found:
        return None
    said = repr([*map(_said, made), outline.key])
    if len(said) > _LETTERS or any(span_id in said for step in outline.steps for span_id in step.span_ids):
        return None
    return tuple([each for each in found if each is not None])


def _placed(evaluation: Evaluation, places: Mapping[tuple[str, ...], _Place]) -> _Kept | None:
    holding: tuple[Finding | AlignmentRow, ...] = (*evaluation.findings, *evaluation.alignment)
    if evaluation.broken is not None or evaluation.questions or any(each.span_ids not in places for each in holding):
        return None
    findings = tuple([places[each.span_ids] for each in evaluation.findings])
    return _Kept(evaluation, findings, tuple([places[each.span_ids] for each in evaluation.alignment]))


def _said(evaluation: Evaluation) -> Evaluation:
    """All that it says, but for the span ids of findings and rows."""
    return replace(
        evaluation,
        findings=tuple([replace(each, span_ids=()) for each in evaluation.findings]),
        alignment=tuple([replace(each, span_ids=()) for each in evaluation.alignment]),
    )
