"""Spans with a role, as a forest: the shape from which agents, calls and scopes are read.

A `Node` stands for what may become a step or a scope: a model call, a tool call (or retriever), an agent. Spans of
other roles are transparent: a node's parent is the nearest span above it that is a node. Later stages merge nodes that
recorded the same thing, take wrappers out and move nodes to where they belong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import lt
from typing import Any, Final, Literal, TypeAlias

from onpath.conventions.table import CALLS, Claim
from onpath.model import STATUS_UNSET, LogRecord, Span, Trace
from onpath.steps.facts import Facts, event_name

NodeKind: TypeAlias = Literal["llm", "tool", "agent", "calls"]
Logs: TypeAlias = Mapping[tuple[str, str], Sequence[LogRecord]]

_KINDS: Final[Mapping[str, NodeKind]] = {
    "llm": "llm",
    "tool": "tool",
    "retriever": "tool",  # steps.md section 3
    "agent": "agent",
    "loop": "agent",
    "calls": "calls",
}


class Node:
    """One model call, tool call or agent; `spans` are all that recorded it, the outermost first.

    A node that is `gone` was merged `into` another or, without one, was a wrapper around what is below it.
    """

    __slots__ = ("_facts", "children", "claim", "gone", "into", "kind", "logs", "loop", "parent", "span", "spans")

    def __init__(self, span: Span, kind: NodeKind, claim: Claim, logs: Logs) -> None:
        self.span = span
        self.kind: NodeKind = kind
        self.claim = claim
        self.logs = logs
        self.spans: list[Span] = [span]
        self.parent: Node | None = None
        self.children: list[Node] = []
        self.gone = False
        self.loop: Node | None = None  # of a model call: the record of the whole loop that it was a turn of
        self.into: Node | None = None
        self._facts: Facts | None = None

    @property
    def facts(self) -> Facts:
        if self._facts is None:
            self._facts = Facts(self.spans, self.logs)
        return self._facts

    @property
    def start_ns(self) -> int:
        return self.spans[0].start_ns

    @property
    def end_ns(self) -> int | None:
        return self.spans[0].end_ns

    def holds(self, other: Node) -> bool:
        """Whether the other's time lies inside this one's."""
        if self.start_ns > other.start_ns:
            return False
        return self.end_ns is None or (other.end_ns is not None and other.end_ns <= self.end_ns)

    def absorb(self, other: Node) -> None:
        """Takes another record of the same thing into this one; `relink` then hands its children over."""
        self.spans += other.spans
        if self._facts is not None:
            self._facts.absorb(other.facts)
        other.gone, other.into = True, self

    def above(self) -> Iterator[Node]:
        at = self.parent
        while at is not None:
            yield at
            at = at.parent


def grow(trace: Trace, claims: Mapping[Span, Claim], logs: Logs) -> list[Node]:
    """All nodes of a trace, linked, in order of time."""
    nodes = {s: Node(s, _KINDS[c.role], c, logs) for s in trace.spans if (c := claims[s]).role in _KINDS}
    nearest: dict[Span, Node | None] = {}
    told: list[Node] = []
    for span in trace.spans:
        if span.events or (logs and span.key in logs):
            told += _told(span, _nearest(span, nodes, nearest, trace.parent), logs)
    for span, node in nodes.items():
        above = trace.parent(span)
        parent = nodes.get(above) if above is not None else None
        if parent is None and above is not None:
            parent = _nearest(above, nodes, nearest, trace.parent)
        node.parent = parent
        if parent is not None:
            parent.children.append(node)
    return relink([*nodes.values(), *told], moved=bool(told))


def _told(span: Span, parent: Node | None, logs: Logs) -> list[Node]:
    """Tool calls that only events or log records of a span tell of, each as the span it might have been."""
    told: list[tuple[str, int, dict[str, Any]]] = []
    by_id: dict[str, dict[str, Any]] = {}
    records = [(event_name(e.name, e.attributes), e.attributes, None, e.time_ns) for e in span.events]
    records += [(r.event_name, r.attributes, r.body, r.time_ns) for r in logs.get(span.key, ())]
    for name, attributes, body, time_ns in records:
        reader = CALLS.get(name)
        call = reader(attributes, body) if reader is not None else None
        if call is None:
            continue
        call_id = call.get("gen_ai.tool.call.id")
        if call_id is not None and call_id in by_id:  # an event and a log record of one call
            by_id[call_id] |= {k: v for k, v in call.items() if k not in by_id[call_id]}
            continue
        told.append((name, time_ns, dict(call)))
        if call_id is not None:
            by_id[call_id] = told[-1][2]
    return [_stand_in(span, parent, *call) for call in told]


def _stand_in(span: Span, parent: Node | None, name: str, time_ns: int, attributes: dict[str, Any]) -> Node:
    start_ns = time_ns - attributes.pop("duration_ns", 0)
    call = replace(
        span,
        name=name,
        start_ns=start_ns,
        end_ns=time_ns,
        attributes=attributes,
        events=(),
        status_code=STATUS_UNSET,
        status_message="",
    )
    node = Node(call, "tool", Claim("tool", "event", name), {})
    node.parent = parent
    if parent is not None:
        parent.children.append(node)
    return node


def _nearest(
    span: Span | None,
    nodes: Mapping[Span, Node],
    known: dict[Span, Node | None],
    parent_of: Callable[[Span], Span | None],
) -> Node | None:
    path: list[Span] = []
    found: Node | None = None
    while span is not None:
        if span in nodes:
            found = nodes[span]
            break
        if span in known:
            found = known[span]
            break
        path.append(span)
        span = parent_of(span)
    for passed in path:
        known[passed] = found
    return found


def relink(nodes: Sequence[Node], *, moved: bool = False) -> list[Node]:
    """The nodes that are left, in order of time, each below the nearest one that is left.

    `moved` says that nodes were added or given other parents; without that only those taken out can make a change.
    """
    left = [n for n in nodes if not n.gone]
    if len(left) == len(nodes) and not moved:
        return left
    sort_by_time(left)
    for node in left:
        node.parent = standing(node.parent)
        node.children = []
    for node in left:
        if node.parent is not None:
            node.parent.children.append(node)
    return left


def sort_by_time(nodes: list[Node]) -> None:
    """By start, end and span id; nodes mostly stand so already."""
    starts = [n.spans[0].start_ns for n in nodes]
    if not all(map(lt, starts, starts[1:])):
        nodes.sort(key=order)


def order(node: Node) -> tuple[int, float, str, str]:
    span = node.spans[0]
    return (*span.order, span.trace_id)


def standing(node: Node | None) -> Node | None:
    """The node itself, or what it was merged into, or the nearest one above that is left."""
    passed: list[Node] = []
    while node is not None and node.gone:
        passed.append(node)
        node = node.into or node.parent
    for gone in passed:  # the next one that asks has it nearer
        gone.into, gone.parent = node, node
    return node


def walk(nodes: Sequence[Node]) -> list[Node]:
    """All of them, parents before children."""
    pending = [n for n in reversed(nodes) if n.parent is None]
    found: list[Node] = []
    while pending:
        node = pending.pop()
        found.append(node)
        pending += reversed(node.children)
    return found
