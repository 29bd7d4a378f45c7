"""Settled nodes -> what belongs to each scope, as steps in order.

Data flow: nodes -> `members_of`, what belongs to each agent -> `own_entries`, one a step with the model call that asked
for it -> `in_order` -> `numbered` steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from onpath.conventions.table import LOSES_FAILED
from onpath.steps import attempts
from onpath.steps.agents import agent_name
from onpath.steps.asked import asked_for, lost, needs_repair, repaired, without_spans
from onpath.steps.build import build
from onpath.steps.model import Step
from onpath.steps.tree import Node, order, walk


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
        members.calls.sort(key=order)
        members.agents.sort(key=order)
    return found


@dataclass(slots=True, eq=False)
class Entry:
    """A step on its way into a scope, with its node and the entry of the model call that asked for it."""

    step: Step
    asker: Entry | None = None
    node: Node | None = None


def own_entries(members: Members, smeared: frozenset[str]) -> list[Entry]:
    """The steps of one scope without the agents below it, in order; calls without times behind who asked for them."""
    name = agent_name(members.agent) if members.agent is not None else None
    models = [Entry(build(n, name, smeared), node=n) for n in members.calls if n.kind == "llm"]
    facts = [n.facts for n in members.calls if n.kind == "llm"]
    tools = [build(n, name, smeared) for n in members.calls if n.kind == "tool"]
    if tools:
        asked = asked_for(facts, results=False) if any(map(needs_repair, tools)) else []
        entries = [
            Entry(step, models[number] if number is not None else _asker(step, models))
            for step, number in repaired(tools, asked, [m.step.start_ns or 0 for m in models])
        ]
        unseen = without_spans(facts)
        if any(n.span.scope_name in LOSES_FAILED for n in members.calls if n.kind == "tool"):
            unseen += lost(facts, [e.step for e in entries])
    else:
        entries, unseen = [], asked_for(facts, results=True)
    if not models and not tools and members.agent is not None:
        entries += [Entry(_named(s, name)) for _, s in asked_for([members.agent.facts], results=True)]
    called = [Entry(_named(step, name), models[number]) for number, step in unseen]
    _give_times(called, members.turns, models)
    return in_order([*models, *entries, *called])


def _give_times(called: Sequence[Entry], turns: Sequence[Node], models: Sequence[Entry]) -> None:
    """The only call of a turn has the times of the span that ran the turn; of several each one's are not known."""
    by_asker: dict[int, list[Entry]] = {}
    for entry in called:
        by_asker.setdefault(id(entry.asker), []).append(entry)
    for turn in turns:
        probe = Step(kind="tool", name=None, start_ns=turn.start_ns)
        asker = _asker(probe, models)
        asked = by_asker.pop(id(asker), []) if asker is not None else []
        if len(asked) == 1:
            ids = tuple(s.span_id for s in turn.spans)
            asked[0].step = replace(
                asked[0].step, start_ns=turn.start_ns, end_ns=turn.end_ns, span_ids=ids, source="spans"
            )


def _named(step: Step, agent: str | None) -> Step:
    return replace(step, agent=agent)


def _asker(step: Step, models: Sequence[Entry]) -> Entry | None:
    """The latest model call that had started before a tool call did."""
    low, high = 0, len(models)
    while low < high:
        middle = (low + high) // 2
        start = models[middle].step.start_ns
        if start is not None and step.start_ns is not None and start <= step.start_ns:
            low = middle + 1
        else:
            high = middle
    return models[low - 1] if low else None


def in_order(entries: Iterable[Entry]) -> list[Entry]:
    """By start, end and span id; entries without times stay behind the one that asked for them, else where they are."""
    timed: list[Entry] = []
    behind: dict[int, list[Entry]] = {}
    for entry in entries:
        if entry.step.start_ns is not None:
            timed.append(entry)
        else:
            behind.setdefault(id(entry.asker), []).append(entry)
    timed.sort(key=lambda e: _key(e.step))
    ordered: list[Entry] = []
    for entry in timed:
        ordered.append(entry)
        ordered += behind.pop(id(entry), ())
    for left in behind.values():
        ordered += left
    return ordered


def _key(step: Step) -> tuple[int, float, str]:
    end = float("inf") if step.end_ns is None else step.end_ns
    return (step.start_ns or 0, end, step.span_ids[0] if step.span_ids else "")


def numbered(entries: Sequence[Entry]) -> tuple[Step, ...]:
    """The steps, each with the number of the model call that asked for it, and in its attempt group."""
    numbers: dict[int, int] = {}
    for entry in entries:
        if entry.step.kind == "llm":
            numbers[id(entry)] = len(numbers)
    steps = [
        e.step if e.asker is None or id(e.asker) not in numbers else replace(e.step, turn=numbers[id(e.asker)])
        for e in entries
    ]
    return attempts.group(steps)
