"""A second opinion on selection: exhaustive search over assignments of calls to steps, on plain documents.

Written from plan.md section 4 without the compiled plan: every way of giving each step a call of its tool, or none, is
tried, and the ones where each step's choice is what the rules say, given the others, are kept. There must be one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import product
from typing import Any

NOTHING = object()  # no value at that place
UNRECORDED = object()


@dataclass(frozen=True)
class Choice:
    result: str
    candidates: tuple[str, ...]
    span: str | None
    reason: str | None


def search(plan: dict[str, Any], observations: list[dict[str, Any]]) -> list[dict[str, Choice]]:
    """All assignments that keep the rules."""
    calls = sorted(observations, key=_order)
    steps = plan["steps"]
    ways = [[None, *(i for i, call in enumerate(calls) if call["name"] == step["tool"])] for step in steps]
    found = []
    for way in product(*ways):
        taken = dict(zip((step["step"] for step in steps), way, strict=True))
        choices = {step["step"]: _choice(plan, step, calls, taken) for step in steps}
        spans = {name: None if i is None else calls[i]["span_id"] for name, i in taken.items()}
        if all(choices[name].span == span for name, span in spans.items()):
            found.append(choices)
    return found


def _order(call: dict[str, Any]) -> tuple[Any, ...]:
    if call["start_ns"] is None:
        return (call["position"], call["span_id"])
    return (call["start_ns"], _end(call), call["span_id"])


def _end(call: dict[str, Any]) -> int:
    return max(call["start_ns"], call["end_ns"])


def _choice(
    plan: dict[str, Any], step: dict[str, Any], calls: list[dict[str, Any]], taken: dict[str, int | None]
) -> Choice:
    bindings = step.get("input") or {}
    sources = [_step_of(b[tag]) for b in bindings.values() for tag in ("captured", "distinct_from") if tag in b]
    captured = [_step_of(b["captured"]) for b in bindings.values() if "captured" in b]
    after = step.get("after")
    if after in taken and taken[after] is None:
        return Choice("none", (), None, "anchor-unresolved")
    if any(taken[source] is None for source in sources):
        return Choice("none", (), None, "source-unresolved")
    verdicts: dict[int, list[Any]] = {}
    for i, call in enumerate(calls):
        if call["name"] == step["tool"]:
            floor = True
            if after in taken:
                floor = i > taken[after] and (
                    plan.get("order") != "after_end" or _began_after(call, calls[taken[after]])
                )
            capture = _all(i > taken[s] and _began_after(call, calls[taken[s]]) for s in captured)
            held = _all(_accepts(plan, step, key, b, call, calls, taken) for key, b in bindings.items())
            verdicts[i] = [floor, capture, held]
    for stage, reason in enumerate(("no-call", "temporal-floor", "capture-floor", "bindings")):
        if not any(all(v is not False for v in verdict[:stage]) for verdict in verdicts.values()):
            return Choice("none", (), None, reason)
    may = [i for i, verdict in verdicts.items() if False not in verdict]
    fit = [i for i in may if all(v is True for v in verdicts[i])]
    spans = {i: calls[i]["span_id"] for i in may}
    first = step.get("cardinality", "exactly-one") == "any"
    if fit != may and not (fit[:1] == may[:1] if first else len(fit) >= 2):
        timed = all(verdicts[i][2] is True for i in may if i not in fit)
        return Choice("none", tuple(spans[i] for i in may), None, "no-times" if timed else "not-captured")
    names = tuple(spans[i] for i in fit)
    if len(fit) > 1:
        return Choice("several", names, names[0] if first else None, None)
    return Choice("one", names, names[0], None)


def _all(verdicts: Any) -> bool | None:
    listed = list(verdicts)
    return False if False in listed else None if None in listed else True


def _step_of(pointer: str) -> str:
    return pointer.split("/")[1]


def _began_after(call: dict[str, Any], other: dict[str, Any]) -> bool | None:
    if call["start_ns"] is not None and other["start_ns"] is not None:
        return call["start_ns"] >= _end(other)
    turns = call.get("turn"), other.get("turn")
    return None if None in turns or turns[0] == turns[1] else turns[0] > turns[1]


def _accepts(
    plan: dict[str, Any],
    step: dict[str, Any],
    key: str,
    binding: dict[str, Any],
    call: dict[str, Any],
    calls: list[dict[str, Any]],
    taken: dict[str, int | None],
) -> bool | None:
    sent = UNRECORDED if "input" not in call else (call["input"] or {}).get(key, NOTHING)
    (tag, wanted), *_ = binding.items()
    if sent is NOTHING or (tag == "principal" and call.get("principal") != wanted):
        return False
    if tag in ("captured", "distinct_from"):
        source = calls[taken[_step_of(wanted)]]
        value = _at(source, wanted)
        if value is NOTHING:
            return False
        if value is UNRECORDED or sent is UNRECORDED:
            return None
        return (_text(value) == _text(sent)) is (tag == "captured")
    if tag == "matcher" and wanted == "type-violating":
        declared = ((plan.get("tools") or {}).get(step["tool"]) or {}).get("input", {}).get(key, "unknown")
        if declared == "unknown":
            return False
        return None if sent is UNRECORDED else _text(sent).split(":")[0] != declared
    if sent is UNRECORDED:
        return None
    return tag in ("matcher", "principal") or _text(sent) == _text(wanted)


def _at(call: dict[str, Any], pointer: str) -> Any:
    _, _, side, *tail = pointer.split("/")
    if side not in call:
        return UNRECORDED
    value = call[side]
    for token in tail:
        if not isinstance(value, dict) or token not in value:
            return NOTHING
        value = value[token]
    return value


def _text(value: Any) -> str:
    """Type and value of a JSON value that holds no list and at most one object level."""
    kinds = {bool: "boolean", int: "number", float: "number", str: "string", type(None): "null", dict: "object"}
    shown = float(value) if type(value) is int else value
    if isinstance(value, dict):
        shown = {key: _text(inner) for key, inner in value.items()}
    return f"{kinds[type(value)]}:{json.dumps(shown, sort_keys=True)}"
