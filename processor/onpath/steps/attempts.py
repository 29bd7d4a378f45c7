"""Attempt groups: which calls are further attempts of one call (adherence.md section 4)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

from onpath.json_values import canonical
from onpath.redaction import is_redacted
from onpath.steps.model import NOT_CAPTURED, Attempt, Step


def group(steps: Sequence[Step], name: Callable[[Step], str | None] = lambda s: s.name) -> tuple[Step, ...]:
    """The same steps in the same order, each tool call that ran with its `attempt`.

    A call joins the group of the latest earlier call with the same name and equal arguments when that call had failed
    and had ended by the time this one starts; otherwise it opens a group. Without times the order of the steps decides.
    Groups count from 0 in order of their first attempt. Steps of other kinds, and calls that never ran, have none; a
    call without a name is nobody's retry. `name` gives the name to compare by.
    """
    latest: dict[Hashable, Step] = {}
    sizes: list[int] = []
    grouped: list[Step] = []
    for step in steps:
        if step.kind != "tool" or not step.ran:
            grouped.append(step if step.attempt is None else replace(step, attempt=None))
            continue
        called = name(step)
        key = None if called is None else (called, arguments_key(step))
        before = None if key is None else latest.get(key)
        if before is not None and before.attempt is not None and before.failed and _ended_by(before, step):
            number = before.attempt.group
            sizes[number] += 1
        else:
            number = len(sizes)
            sizes.append(1)
        step = replace(step, attempt=Attempt(number, sizes[number]))
        grouped.append(step)
        if key is not None:
            latest[key] = step
    return tuple(grouped)


def arguments_key(step: Step) -> Hashable:
    """A key that calls with equal arguments share; arguments not captured or redacted equal each other only."""
    if step.input is NOT_CAPTURED or is_redacted(step.input):
        return None
    return canonical(step.input, decode_texts=True)


def _ended_by(earlier: Step, later: Step) -> bool:
    if earlier.start_ns is None or later.start_ns is None:
        return True  # no times: the order asked is all there is
    return earlier.end_ns is not None and earlier.end_ns <= later.start_ns
