"""What the check says of a run, in fixed sentences (adherence.md section 12): names and ids, never content."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from onpath.validators.adherence.extraction import Extraction, Reason
from onpath.validators.adherence.lcs import Lcs
from onpath.validators.adherence.repair import Change

_SHOWN: Final = 20  # names of a list
_NAMELESS: Final = "(no name)"
_UNKNOWN: Final[dict[Reason, str]] = {
    "output_not_captured": "Unknown: the output was not captured.",
    "output_redacted": "Unknown: the output is redacted.",
    "no_steps": "Unknown: no steps and no messages were recorded.",
    "tool_calls_not_captured": "Unknown: whether tools were called was not captured.",
    "tool_names_not_captured": "Unknown: a tool was called whose name was not captured.",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """What there is to explain. `show` gives a name as it may be shown."""

    found: Extraction
    expected: Sequence[str]
    lcs: Lcs
    strict: bool
    required: Sequence[str]
    missing: Sequence[str]
    prohibited: Sequence[str]
    prohibited_found: dict[str, tuple[str, ...]]  # with span ids of all attempts
    changes: Sequence[Change]
    order_undetermined: bool
    complete: bool
    show: Callable[[str], str]


def explain(facts: Facts) -> str:
    names = facts.found.names
    sentences = [
        f"Extracted ({len(names)}, {facts.found.where}): {_list(names, facts.show)}.",
        _order(facts),
        required(facts),
        prohibited(facts),
        f"Extra steps: {len(names) - len(facts.lcs)}.",
        _not_counted(facts),
        _repair(facts),
        "Order undetermined: steps that overlap would change the score." if facts.order_undetermined else "",
        incomplete(facts.complete),
    ]
    return " ".join(s for s in sentences if s)


def unknown(reason: Reason) -> str:
    return _UNKNOWN[reason]


def incomplete(complete: bool) -> str:
    return "" if complete else "Incomplete trace."


def required(facts: Facts) -> str:
    if not facts.required:
        return ""
    count = f"Required: {len(facts.required) - len(facts.missing)}/{len(facts.required)}"
    if not facts.missing:
        return f"{count}."
    tried = {entry.name for entry in facts.found.failed}
    missing = (f"{name} (attempted, failed)" if name in tried else name for name in facts.missing)
    return f"{count}, missing {_list(list(missing))}."


def prohibited(facts: Facts) -> str:
    if not facts.prohibited:
        return ""
    if not facts.prohibited_found:
        return "Prohibited: none found."
    with_ids = facts.found.source == "spans"
    found = [
        f"{name} (span {', '.join(ids)})" if with_ids and ids else name for name, ids in facts.prohibited_found.items()
    ]
    return f"Prohibited: found {_list(found)}."


def _order(facts: Facts) -> str:
    matched = _list([facts.expected[i] for i, _ in facts.lcs.pairs])
    lcs = f"LCS {len(facts.lcs)}/{len(facts.expected)}, matched {matched}"
    if not facts.strict:
        return f"Order: {lcs}."
    same = len(facts.found.names) == len(facts.expected) == len(facts.lcs)
    return "Order: strict, as expected." if same else f"Order: strict, differs ({lcs})."


def _not_counted(facts: Facts) -> str:
    halves = []
    if facts.found.failed:
        halves.append(f"failed {_list([entry.name for entry in facts.found.failed], facts.show)}")
    if facts.found.waiting:
        halves.append(f"awaiting approval {_list(facts.found.waiting, facts.show)}")
    return f"Not counted: {'; '.join(halves)}." if halves else ""


def _repair(facts: Facts) -> str:
    said = "; ".join(change.said(facts.show(change.name)) for change in facts.changes[:_SHOWN])
    return f"Repair: {said or 'none'}{_more(len(facts.changes))}."


def _list(names: Sequence[str | None], show: Callable[[str], str] = str) -> str:
    shown: Iterable[str] = (_NAMELESS if name is None else show(name) for name in names[:_SHOWN])
    return (", ".join(shown) or "none") + _more(len(names))


def _more(count: int) -> str:
    return f" and {count - _SHOWN} more" if count > _SHOWN else ""
