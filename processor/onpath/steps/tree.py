"""Spans with a role, as a forest: the shape from which agents, calls and scopes are read.

A `Node` stands for what may become a step or a scope: a model call, a tool call (or retriever), an agent. Spans of
other roles are transparent: a node's parent is the nearest span above it that is a node. Later stages merge nodes that
recorded the same thing, take wrappers out and move nodes to where they belong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from onpath.conventions.table import Claim
from onpath.model import LogRecord, Span, Trace
from onpath.steps.facts import Facts

NodeKind: TypeAlias = Literal["llm", "tool", "agent"]
Logs: TypeAlias = Mapping[tuple[str, str], Sequence[LogRecord]]

_KINDS: Final[Mapping[str, NodeKind]] = {
    "llm": "llm",
    "tool": "tool",
    "retriever": "tool",  # steps.md section 3
    "agent": "agent",
    "loop": "agent",
}


class Node:
    """One model call, tool call or agent; `spans` are all that recorded it, the outermost first.

    A node that is `gone` was merged `into` another or, without one, was a wrapper around what is below it.
    """

    __slots__ = ("_facts", "children", "claim", "gone", "into", "kind", "logs", "parent", "span", "spans")

    def __init__(self, span: Span, kind: NodeKind, claim: Claim, logs: Logs) -> None:
        self.span = span
        self.kind: NodeKind = kind
        self.claim = claim
        self.logs = logs
        self.spans: list[Span] = [span]
        self.parent: Node | None = None
        self.children: list[Node] = []
        self.gone = False
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
        self._facts = None
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
    for span, node in nodes.items():
        parent = _nearest(trace.parent(span), nodes, nearest, trace.parent)
        node.parent = parent
        if parent is not None:
            parent.children.append(node)
    return list(nodes.values())


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


def relink(nodes: Iterable[Node]) -> list[Node]:
    """The nodes that are left, in order of time, each below the nearest one that is left."""
    left = [n for n in nodes if not n.gone]
    left.sort(key=order)
    for node in left:
        node.parent = _resolve(node.parent)
        node.children = []
    for node in left:
        if node.parent is not None:
            node.parent.children.append(node)
    return left


def order(node: Node) -> tuple[int, float, str, str]:
    span = node.spans[0]
    return (*span.order, span.trace_id)


def _resolve(node: Node | None) -> Node | None:
    passed: list[Node] = []
    while node is not None and node.gone:
        passed.append(node)
        node = node.into or node.parent
    for gone in passed:  # the next one that asks has it nearer
        gone.into, gone.parent = node, node
    return node


def walk(nodes: Iterable[Node]) -> list[Node]:
    """All of them, parents before children."""
    pending = [n for n in nodes if n.parent is None]
    found: list[Node] = []
    while pending:
        node = pending.pop()
        found.append(node)
        pending += node.children
    return found
