"""What of an open run can be relied on: which spans may be judged already, and which findings nothing to come can mend.

Instrumentations set some attributes, or all, only when a span ends. So a model call counts from its end on, as messages
it was given may tell of steps before it; and an open span without a role may yet turn out to be anything that its
instrumentation records: around steps already seen, which then are not the scope's own, or before them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from onpath.conventions.base import Role
from onpath.conventions.shapes import claim_of
from onpath.live.book import Entry
from onpath.model import Span
from onpath.report import Finding

_STEPS: Final[frozenset[Role]] = frozenset({"llm", "tool", "agent", "loop", "retriever", "calls"})
_WHATEVER_THE_ORDER: Final = frozenset({"prohibited_called"})  # rules of findings


def is_step(span: Span) -> bool:
    return claim_of(span).role in _STEPS


class EarlyView:
    """A run as it can be judged while it is open.

    `undecided`: not at all, since what stands around a step is not known. `ordered`: no step can come to stand before
    one that was seen. `blurred`: it may be so later, without a step having been added.
    """

    def __init__(self, entries: Mapping[int, Entry], open_ids: Collection[int], read: Callable[[Entry], Span]) -> None:
        everything = {i: read(entry) for i, entry in entries.items()}
        roles = {i: claim_of(everything[i]).role for i in open_ids}
        calls = {i for i, role in roles.items() if role == "llm"}
        blank = {i for i, role in roles.items() if role == "other" and entries[i].parent_id is not None}
        steps = {i: span for i, span in everything.items() if i not in calls and is_step(span)}
        recorders = {span.scope_name for span in steps.values()}
        blank = {i for i in blank if everything[i].scope_name in recorders}
        last = max((span.start_ns for span in steps.values()), default=0)
        before = {i for i in calls | blank if everything[i].start_ns <= last}
        self.spans = [span for i, span in everything.items() if i not in calls]
        self.undecided = bool(blank) and any(
            everything[above].scope_name == span.scope_name
            for i, span in steps.items()
            for above in _above(entries[i], entries)
            if above in blank
        )
        self.ordered = not before
        self.blurred = bool(before & blank)

    def settles(self, finding: Finding) -> bool:
        return self.ordered or finding.rule in _WHATEVER_THE_ORDER


def _above(entry: Entry, entries: Mapping[int, Entry]) -> Iterator[int]:
    seen = {entry.span_id}
    at = entry.parent_id
    while at is not None and at not in seen and at in entries:
        seen.add(at)
        yield at
        at = entries[at].parent_id
