"""Attempt groups: which calls are further attempts of one call (adherence.md section 4)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from onpath.json_values import canonical
from onpath.redaction import is_redacted
from onpath.steps.model import NOT_CAPTURED, Attempt, Step


def attempts_of(steps: Sequence[Step], names: Sequence[str | None]) -> list[Attempt | None]:
    """Which attempt each step is, by the names to compare by.

    A call joins the group of the latest earlier call with the same name and equal arguments when that call had failed
    and had ended by the time this one starts; otherwise it opens a group. Without times the order of the steps decides.
    Groups count from 0 in order of their first attempt. Steps of other kinds, and calls that never ran, have none; a
    call without a name is nobody's retry.
    """
    calls = [step.kind == "tool" and step.ran for step in steps]
    # arguments are compared only where a call of that name failed: elsewhere every call is another one
    failing = {n for n, step, call in zip(names, steps, calls, strict=True) if call and step.failed and n is not None}
    latest: dict[Hashable, tuple[Step, int]] = {}
    sizes: list[int] = []
    found: list[Attempt | None] = []
    for step, called, call in zip(steps, names, calls, strict=True):
        if not call:
            found.append(None)
            continue
        key = (called, arguments_key(step)) if called in failing else None
        before, number = latest.get(key, (None, -1))
        if before is not None and before.failed and _ended_by(before, step):
            sizes[number] += 1
        else:
            number = len(sizes)
            sizes.append(1)
        found.append(Attempt(number, sizes[number]))
        if key is not None:
            latest[key] = (step, number)
    return found


def arguments_key(step: Step) -> Hashable:
    """A key that calls with equal arguments share; arguments not captured or redacted equal each other only."""
    if step.input is NOT_CAPTURED or is_redacted(step.input):
        return None
    return canonical(step.input, decode_texts=True)


def _ended_by(earlier: Step, later: Step) -> bool:
    if earlier.start_ns is None or later.start_ns is None:
        return True  # no times: the order asked is all there is
    return earlier.end_ns is not None and earlier.end_ns <= later.start_ns
