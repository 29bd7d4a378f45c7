"""The smallest change that would make the run the expected one, and expected beside seen (adherence.md section 12).

Both are read off the reported LCS. Steps are numbered from 1 where they leave, from 0 inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from onpath.report import AlignmentRow, Move, aligned
from onpath.validators.adherence.extraction import Extraction
from onpath.validators.adherence.lcs import Lcs

Operation: TypeAlias = Literal["insert", "move", "delete"]

OTHER: Final = "(other)"  # a name that is a piece of the answer, where content is not to leave
ANYWHERE: Final = None
LONGEST_ALIGNMENT: Final = 2_000  # rows of steps that are not expected: nobody reads on, and an answer may list many


class Change(NamedTuple):
    """One change; a tuple, for an answer may call for hundreds of thousands.

    `step` and `after` count the extracted list from 1; `after` 0 is the start, None anywhere.
    """

    op: Operation
    name: str
    step: int | None = None
    after: int | None = None

    @property
    def data(self) -> dict[str, Any]:
        """As the specification writes it."""
        if self.op == "delete":
            return {"op": self.op, "step": self.step, "name": self.name}
        if self.op == "insert":
            return {"op": self.op, "name": self.name, "after": self.after}
        return {"op": self.op, "step": self.step, "name": self.name, "after": self.after}

    def said(self, name: str) -> str:
        """In words; `name` is the name as it may be shown."""
        if self.op == "delete":
            return f"delete step {self.step} {_in_brackets(name)}"
        what = f"insert {name}" if self.op == "insert" else f"move step {self.step} {_in_brackets(name)}"
        if self.after is ANYWHERE:
            return f"{what} anywhere"
        return f"{what} after step {self.after}" if self.after else f"{what} at the start"


def _in_brackets(name: str) -> str:
    return name if name == OTHER else f"({name})"


def repair(
    expected: Sequence[str], found: Extraction, lcs: Lcs, missing: Sequence[str], unwanted: frozenset[str], strict: bool
) -> tuple[Change, ...]:
    """`missing`: required names not found; `unwanted`: prohibited names."""
    changes = list(_of_order(expected, found.names, lcs))
    planned = frozenset(expected)
    changes += (Change("insert", name) for name in missing if name not in planned)
    moved = {change.step for change in changes}
    matched = {j for _, j in lcs.pairs}
    if strict or not unwanted.isdisjoint(found.names):
        changes += (
            Change("delete", name, j + 1)
            for j, name in enumerate(found.names)
            if name is not None and (strict or name in unwanted) and j not in matched and j + 1 not in moved
        )
    return tuple(changes)


def _of_order(expected: Sequence[str], names: Sequence[str | None], lcs: Lcs) -> Iterator[Change]:
    """For each expected step that is not matched: the unmatched step of its name is moved, else one is inserted."""
    matched = dict(lcs.pairs)
    taken = set(matched.values())
    wanted = {name for i, name in enumerate(expected) if i not in matched}
    spare: dict[str, list[int]] = {name: [] for name in wanted}
    for j, name in enumerate(names):
        if name in wanted and j not in taken:
            spare[name].append(j)
    used = dict.fromkeys(wanted, 0)
    after = 0
    for i, name in enumerate(expected):
        if i in matched:
            after = matched[i] + 1
        elif used[name] < len(spare[name]):
            yield Change("move", name, spare[name][used[name]] + 1, after)
            used[name] += 1
        else:
            yield Change("insert", name, after=after)


def alignment(
    expected: Sequence[str], found: Extraction, lcs: Lcs, changes: Sequence[Change], show: Callable[[str], str]
) -> tuple[AlignmentRow, ...]:
    """Expected beside seen, in order of the expected list; steps that are not expected stand where they were seen.

    `show` gives a name as it may be shown.
    """
    return tuple(_Rows(found, changes, show).rows(expected, lcs))


class _Rows:
    def __init__(self, found: Extraction, changes: Sequence[Change], show: Callable[[str], str]) -> None:
        self.found = found
        self.show = show
        self.moves = iter([c.step - 1 for c in changes if c.op == "move" and c.step is not None])
        self.moved = {c.step - 1 for c in changes if c.op == "move" and c.step is not None}
        self.changes = iter([c for c in changes if c.op == "move" or (c.op == "insert" and c.after is not ANYWHERE)])
        self.room = LONGEST_ALIGNMENT
        self._known: dict[str, AlignmentRow] = {}

    def rows(self, expected: Sequence[str], lcs: Lcs) -> Iterator[AlignmentRow]:
        matched = dict(lcs.pairs)
        at = 0
        for i, name in enumerate(expected):
            if i in matched:
                yield from self._extra(at, matched[i])
                at = matched[i] + 1
                yield self._row("same", name, matched[i])
            elif next(self.changes).op == "move":
                yield self._row("moved", name, next(self.moves))
            else:
                yield AlignmentRow(move="missing", expected=name)
        yield from self._extra(at, len(self.found.names))

    def _row(self, move: Move, expected: str, position: int) -> AlignmentRow:
        return aligned(move, expected, expected, self.found.span_ids(position))

    def _extra(self, start: int, end: int) -> Iterator[AlignmentRow]:
        for position in range(start, end):
            if position in self.moved:
                continue
            if not self.room:
                return
            self.room -= 1
            name = self.found.names[position]
            seen = None if name is None else self.show(name)
            if self.found.entries:
                yield aligned("extra", None, seen, self.found.span_ids(position))
            else:
                key = seen or ""
                if key not in self._known:
                    self._known[key] = AlignmentRow(move="extra", seen=seen)
                yield self._known[key]
