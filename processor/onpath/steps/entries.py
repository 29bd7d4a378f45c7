"""Settled nodes -> what belongs to each scope, as steps in order.

Data flow: nodes -> `members_of`, what belongs to each agent -> `EntryMaker`, one entry a step with the model call that
asked for it -> `in_order` -> `numbered` steps.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import lt

from onpath.conventions.table import LOSES_FAILED
from onpath.steps.agents import agent_name
from onpath.steps.asked import asked_for, lacks_output, lost, needs_repair, repaired, without_spans
from onpath.steps.attempts import attempts_of
from onpath.steps.build import build
from onpath.steps.calls import same_tool
from onpath.steps.facts import Facts
from onpath.steps.model import Attempt, Step
from onpath.steps.tree import Node, sort_by_time, walk


@dataclass(slots=True)
class Members:
    """What belongs to one scope: its agent (None: outside of any), its own calls and the agents directly below.

    `turns` are spans that each ran the calls of one turn without recording them one by one.
    """

    agent: Node | None
    calls: list[Node] = field(default_factory=list)
    turns: list[Node] = field(default_factory=list)
    agents: list[Node] = field(default_factory=list)


def members_of(nodes: Sequence[Node]) -> dict[Node | None, Members]:
    """Scopes by their agent, the outer ones first; what runs inside a tool call is in none, but for agents there."""
    found: dict[Node | None, Members] = {None: Members(None)}
    place: dict[Node, tuple[Node | None, bool]] = {}
    boxed: set[Node | None] = set()  # an agent in one of these was started by a tool call
    for node in walk(nodes):
        owner, hidden = place[node.parent] if node.parent is not None else (None, False)
        if node.kind == "agent":
            found[node] = Members(node)
            place[node] = (node, False)
            if not hidden and node.parent not in boxed:
                found[owner].agents.append(node)
            continue
        if node.kind == "calls":
            boxed.add(node)
            if not hidden:
                found[owner].turns.append(node)
        elif not hidden:
            found[owner].calls.append(node)
        place[node] = (owner, hidden or node.kind == "tool")
    for members in found.values():
        sort_by_time(members.calls)
        sort_by_time(members.agents)
    return found


@dataclass(slots=True, eq=False)
class Entry:
    """A step on its way into a scope, with its node and the entry of the model call that asked for it."""

    step: Step
    asker: Entry | None = None
    node: Node | None = None
    handed_on: bool = False  # whether the step stands in a scope already

    def placed(self, turn: int | None, attempt: Attempt | None) -> Step:
        """The step with its place in a scope; in a further scope it is a copy, where its place there is another."""
        step = self.step
        if step.turn != turn or step.attempt != attempt:
            if self.handed_on:
                return replace(step, turn=turn, attempt=attempt)
            object.__setattr__(step, "turn", turn)  # nobody has seen it yet
            object.__setattr__(step, "attempt", attempt)
        self.handed_on = True
        return step


class EntryMaker:
    """Makes the entries of each scope of one trace."""

    def __init__(self, nodes: Sequence[Node], smeared: frozenset[str]) -> None:
        self._smeared = smeared
        self._tools = [n for n in nodes if n.kind == "tool"]
        self._agents_only = all(n.kind == "agent" for n in nodes)
        self._ids: frozenset[str] | None = None

    def entry(self, node: Node, agent: str | None) -> Entry:
        return Entry(build(node, agent, self._smeared), node=node)

    def own(self, members: Members) -> list[Entry]:
        """The steps of one scope without the agents below it, in order; what has no times behind who asked for it."""
        name = agent_name(members.agent) if members.agent is not None else None
        calls = [n for n in members.calls if n.kind == "llm"]
        models = [self.entry(n, name) for n in calls]
        facts = [n.facts for n in calls]
        starts = [n.start_ns for n in calls]
        tools = [build(n, name, self._smeared, _turn(n.start_ns, starts)) for n in members.calls if n.kind == "tool"]
        if tools:
            entries, unseen = self._with_spans(members, models, facts, starts, tools)
        else:
            entries, unseen = self._history(members, name), self._unrecorded(members, facts)
        called = [Entry(replace(step, agent=name), models[number]) for number, step in unseen]
        _give_times(called, members.turns, models, starts)
        return in_order([*models, *entries, *called])

    def _with_spans(
        self,
        members: Members,
        models: Sequence[Entry],
        facts: Sequence[Facts],
        starts: Sequence[int],
        tools: Sequence[Step],
    ) -> tuple[list[Entry], list[tuple[int, Step]]]:
        """Tool calls that have spans, mended; and those that have none although others have."""
        repair = any(map(needs_repair, tools))
        asked = asked_for(facts, results=any(map(lacks_output, tools))) if repair else []
        entries = [
            Entry(step, _at(models, step.turn if number is None else number))
            for step, number in repaired(tools, asked, starts)
        ]
        unseen = without_spans(facts)
        if any(n.span.scope_name in LOSES_FAILED for n in members.calls if n.kind == "tool"):
            unseen += lost(facts, [e.step for e in entries])
        return entries, unseen

    def _unrecorded(self, members: Members, facts: Sequence[Facts]) -> list[tuple[int, Step]]:
        """Calls of a scope without tool spans: those that no span elsewhere in the trace is, and no agent below."""
        asked = asked_for(facts, results=True)
        if not asked:
            return []
        agents = [agent_name(a) for a in members.agents]
        return [
            (number, step)
            for number, step in asked
            if step.call_id not in self._recorded_ids() and not any(same_tool(step.name, a) for a in agents)
        ]

    def _recorded_ids(self) -> frozenset[str]:
        if self._ids is None:
            ids = (n.facts.text("call_id") or n.facts.result.call_id for n in self._tools)
            self._ids = frozenset(i for i in ids if i is not None)
        return self._ids

    def _history(self, members: Members, name: str | None) -> list[Entry]:
        """Where agents are all that was recorded: the calls in the messages on the agent's own span."""
        if members.agent is None or not self._agents_only:
            return []
        return [Entry(replace(s, agent=name)) for _, s in asked_for([members.agent.facts], results=True)]


def _give_times(called: Sequence[Entry], turns: Sequence[Node], models: Sequence[Entry], starts: Sequence[int]) -> None:
    """The only call of a turn has the times of the span that ran the turn; of several each one's are not known."""
    by_asker: dict[int, list[Entry]] = {}
    for entry in called:
        by_asker.setdefault(id(entry.asker), []).append(entry)
    for turn in turns:
        asker = _at(models, _turn(turn.start_ns, starts))
        asked = by_asker.pop(id(asker), []) if asker is not None else []
        if len(asked) == 1:
            ids = tuple(s.span_id for s in turn.spans)
            asked[0].step = replace(asked[0].step, start_ns=turn.start_ns, end_ns=turn.end_ns, span_ids=ids)


def _turn(start_ns: int, starts: Sequence[int]) -> int | None:
    """The number of the latest model call that had started before a tool call did."""
    place = bisect_right(starts, start_ns)
    return place - 1 if place else None


def _at(models: Sequence[Entry], number: int | None) -> Entry | None:
    return None if number is None else models[number]


def in_order(entries: Iterable[Entry]) -> list[Entry]:
    """By start, end and span id; entries without times stay behind the one that asked for them, else where they are."""
    timed: list[Entry] = []
    behind: dict[int, list[Entry]] = {}
    for entry in entries:
        if entry.step.start_ns is not None:
            timed.append(entry)
        else:
            behind.setdefault(id(entry.asker), []).append(entry)
    timed.sort(key=_start)
    starts = [e.step.start_ns or 0 for e in timed]
    if not all(map(lt, starts, starts[1:])):
        timed.sort(key=_key)
    if not behind:
        return timed
    ordered: list[Entry] = []
    for entry in timed:
        ordered.append(entry)
        ordered += behind.pop(id(entry), ())
    for left in behind.values():
        ordered += left
    return ordered


def _start(entry: Entry) -> int:
    return entry.step.start_ns or 0


def _key(entry: Entry) -> tuple[int, float, str]:
    step = entry.step
    end = float("inf") if step.end_ns is None else step.end_ns
    return (step.start_ns or 0, end, step.span_ids[0] if step.span_ids else "")


def numbered(entries: Sequence[Entry]) -> tuple[Step, ...]:
    """The steps, each with the number of the model call that asked for it, and in its attempt group."""
    numbers: dict[int, int] = {}
    for entry in entries:
        if entry.step.kind == "llm":
            numbers[id(entry)] = len(numbers)
    steps = [e.step for e in entries]
    attempts = attempts_of(steps, [s.name for s in steps])
    return tuple([e.placed(numbers.get(id(e.asker)), a) for e, a in zip(entries, attempts, strict=True)])
