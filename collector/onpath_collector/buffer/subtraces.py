"""Declared roots: spans that end a sub-trace of their own while the trace around them goes on.

`Declared` follows one trace: which spans are below which declared root, and which sub-traces have something to judge. A
sub-trace below another one is part of it as soon as the outer root is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from onpath_collector.buffer.values import BufferSettings, Reason

if TYPE_CHECKING:
    from onpath_collector.buffer.settled import Judgement


class SubTrace:
    """One declared root and what is below it."""

    __slots__ = ("above", "at", "forced", "last", "late", "prior", "root")

    def __init__(self, root: bytes, now: float) -> None:
        self.root = root
        self.above: SubTrace | None = None  # one that it is part of, as far up as is known
        self.at = now
        self.last = now  # when its last span came
        self.late = 0  # spans since its first release
        self.prior: Judgement | None = None  # its last release
        self.forced: Reason | None = None  # released as soon as possible, for this reason


class Declared:
    """The tree of one trace as far as it is known, and its declared roots."""

    __slots__ = ("_children", "_chunks", "_outside", "_owner", "_parents", "_roots", "pending")

    def __init__(self) -> None:
        self.pending: dict[bytes, SubTrace] = {}  # outermost ones with spans that are not judged
        self._parents: dict[bytes, bytes] = {}
        self._children: dict[bytes, list[bytes]] = {}
        self._chunks: dict[bytes, int] = {}  # span -> number of the chunk it came in
        self._roots: dict[bytes, SubTrace] = {}
        self._outside: set[bytes] = set()  # parents of declared roots: nothing waits for them
        self._owner: dict[bytes, SubTrace] = {}  # span -> the nearest declared root at or above it

    @property
    def loose(self) -> bool:
        """Whether there are spans below no declared root."""
        return len(self._owner) < len(self._parents)

    @property
    def roots(self) -> tuple[bytes, ...]:
        """Ids of the declared roots that are below no other."""
        return tuple(r for r, sub in self._roots.items() if self._outermost(sub) is sub)

    def add(
        self, now: float, spans: Iterable[tuple[bytes, bytes, bool, int, int]], roots: Sequence[bytes], chunk: int
    ) -> None:
        """Notes the spans of one chunk; `roots` are the ids of the declared roots among them."""
        new = [(span_id, parent_id) for span_id, parent_id, *_ in spans if span_id not in self._parents]
        for span_id, parent_id in new:
            self._parents[span_id] = parent_id
            self._chunks[span_id] = chunk
            if parent_id:
                self._children.setdefault(parent_id, []).append(span_id)
        for root in roots:
            if root not in self._roots and root in self._parents:
                self._roots[root] = SubTrace(root, now)
                self._outside.add(self._parents[root])
        for span_id, parent_id in new:
            owner = self._roots.get(span_id) or self._owner.get(parent_id)
            if owner is not None:
                self._spread(span_id, owner)
        for span_id, _ in new:
            if (held := self._owner.get(span_id)) is not None:
                outermost = self._outermost(held)
                outermost.last = now
                outermost.late += outermost.prior is not None
                self.pending[outermost.root] = outermost

    def _spread(self, span_id: bytes, owner: SubTrace) -> None:
        """Gives a span, and all known below it, to a sub-trace."""
        queue = [span_id]
        while queue:
            at = queue.pop()
            nested = self._roots.get(at)
            if nested is not None and nested is not owner:
                self.pending.pop(at, None)
            elif at not in self._owner:
                self._owner[at] = owner
                queue += self._children.get(at, ())

    def _outermost(self, sub: SubTrace) -> SubTrace:
        below: dict[bytes, SubTrace] = {}
        while (outer := sub.above or self._owner.get(self._parents[sub.root])) is not None:
            if outer.root in below or outer is sub:
                return sub  # parents that go round in a circle
            below[sub.root] = sub
            sub = outer
        for each in below.values():
            each.above = sub  # what is above stays there: the next one need not climb all the way again
        return sub

    def due(self, settings: BufferSettings, missing: Mapping[bytes, float]) -> tuple[float, SubTrace] | None:
        """The sub-trace that is due next, and when. `missing` are the trace's missing parents, oldest first."""
        if not self.pending:
            return None
        oldest = next((named for parent, named in missing.items() if parent not in self._outside), None)
        return min(((_due(s, settings, oldest), s) for s in self.pending.values()), key=lambda d: d[0])

    def subtree(self, sub: SubTrace) -> tuple[set[bytes], list[int]]:
        """All spans at and below a declared root, and the numbers of the chunks they came in."""
        found: set[bytes] = set()
        queue = [sub.root]
        while queue:
            at = queue.pop()
            if at not in found:
                found.add(at)
                queue += self._children.get(at, ())
        return found, sorted({self._chunks[span_id] for span_id in found})

    def joined(self) -> None:
        """The trace's chunks have become one."""
        self._chunks = dict.fromkeys(self._chunks, 0)


def _due(sub: SubTrace, settings: BufferSettings, oldest: float | None) -> float:
    if sub.forced is not None:
        return sub.at
    at = sub.last + settings.settle_delay
    return at if oldest is None else max(at, max(sub.at, oldest) + settings.orphan_delay)
