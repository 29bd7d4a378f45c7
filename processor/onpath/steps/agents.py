"""Which agents there are, and what belongs to which (steps.md section 2).

Takes out spans that only wrap an agent, joins the records of one agent, moves the spans of an agent that ran inside a
tool call below that call, and finds agents that have no agent span because their family has none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from onpath.conventions.table import DELEGATES, NO_CLAIM, Claim
from onpath.model import Span, Trace
from onpath.steps.facts import bare_name
from onpath.steps.tree import Logs, Node, relink, walk

_WRAPS: Final = ("chain", "workflow")
_WORD: Final = re.compile(r"[^\W_]+")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# What stands before and after the agent's name in names of tools that start one, and after it in names of agents.
_BEFORE: Final = frozenset({"ask", "call", "run", "invoke", "consult", "delegate", "transfer", "handoff", "hand", "off",
                            "task", "to"})  # fmt: skip
_AFTER: Final = frozenset({"agent", "assistant", "tool"})
_NO_NAMES: Final = ("", "invoke_agent", "agent run", "agent_run", "agent", "Agent")  # of spans of any agent
_NEAREST: Final = 64  # tool calls before an agent that may have started it


def settle_agents(nodes: Sequence[Node], trace: Trace, claims: Mapping[Span, Claim], logs: Logs) -> list[Node]:
    left = _take_out_wrappers(_root_functions(nodes, trace, claims))
    left = _join_records(left)
    left = _fill_empty_agents(left, trace, claims)
    left = _move_into_tools(left)
    return _find_implicit(left, trace, claims, logs)


def own_name(node: Node) -> str | None:
    """The agent's name as an attribute says it."""
    return node.facts.text("agent_name")


def agent_name(node: Node) -> str | None:
    """The agent's name: as an attribute says it, else the span's name without what the convention adds."""
    name = own_name(node)
    if name is not None or node.claim.role == "loop":
        return name
    bare = bare_name(node.span.name)
    return None if bare in _NO_NAMES or bare == node.facts.text("model") else bare


def _root_functions(nodes: Sequence[Node], trace: Trace, claims: Mapping[Span, Claim]) -> Sequence[Node]:
    """A tool span that nobody called and that holds the model calls of the trace is the agent, not a step of one."""
    tops = [n for n in nodes if n.parent is None]
    if all(n.kind == "tool" for n in tops):
        for node in tops:
            if any(c.kind == "llm" for c in node.children) and _is_uncalled(node.span, trace, claims):
                node.kind = "agent"
    return nodes


def _is_uncalled(span: Span, trace: Trace, claims: Mapping[Span, Claim]) -> bool:
    """Whether all that is above a span was seen, and is nothing that conventions know of."""
    at = span
    while (above := trace.parent(at)) is not None:
        if claims[above].role != "other":
            return False
        at = above
    return at.parent_span_id is None or at.has_remote_parent


def _take_out_wrappers(nodes: Sequence[Node]) -> list[Node]:
    """An agent span without a name of its own, and without calls of its own, around other agents: the run's wrapper.

    A model loop below an agent is that agent's loop, unless it has another name and tools of its own.
    """
    if not _several(nodes):
        return list(nodes)
    for node in walk(nodes):
        if node.kind != "agent":
            continue
        kinds = {c.kind for c in node.children}
        if node.claim.role == "loop" and _inside_agent(node):
            if own_name(node) is None or "tool" not in kinds:
                node.gone = True
        elif kinds == {"agent"} and own_name(node) is None and len(node.spans) == 1 and _holds_named(node):
            node.gone = True
    return relink(nodes)


def _several(nodes: Sequence[Node]) -> bool:
    """Whether there are agents that could be records or wrappers of one another."""
    return [n.kind for n in nodes].count("agent") > 1


def _inside_agent(node: Node) -> bool:
    for above in node.above():
        if above.kind == "tool":
            return False
        if above.kind == "agent" and not above.gone:
            return True
    return False


def _holds_named(node: Node) -> bool:
    return all(own_name(c) is not None for c in node.children)


def _join_records(nodes: Sequence[Node]) -> list[Node]:
    """An agent directly below an agent of the same name, or without one, is a second record of it."""
    if not _several(nodes):
        return list(nodes)
    for node in walk(nodes):
        parent = node.parent
        while parent is not None and parent.gone:
            parent = parent.into
        if node.kind != "agent" or parent is None or parent.kind != "agent":
            continue
        if agent_name(node) in (None, agent_name(parent)) or (node.claim.role == "loop" and own_name(node) is None):
            parent.absorb(node)
    return relink(nodes)


def _fill_empty_agents(nodes: Sequence[Node], trace: Trace, claims: Mapping[Span, Claim]) -> list[Node]:
    """An agent span with nothing below it beside a wrapper of its name that holds what it did: that is its content."""
    empty = [n for n in nodes if n.kind == "agent" and not n.children and trace.parent(n.span) is not None]
    if not empty:
        return list(nodes)
    wrappers: dict[tuple[Span | None, str], list[Span]] = {}
    for span, claim in claims.items():
        if claim.role in _WRAPS:
            wrappers.setdefault((trace.parent(span), bare_name(span.name)), []).append(span)
    moved = False
    for node in empty:
        for wrapper in wrappers.get((trace.parent(node.span), agent_name(node) or ""), ()):
            if _within(wrapper, node.span):
                for other in nodes if node.parent is None else node.parent.children:
                    if other is not node and _below(other.span, wrapper, trace):
                        other.parent = node
                        moved = True
    return relink(nodes, moved=moved)


def _within(inner: Span, outer: Span) -> bool:
    if inner.start_ns < outer.start_ns:
        return False
    return outer.end_ns is None or (inner.end_ns is not None and inner.end_ns <= outer.end_ns)


def _below(span: Span, top: Span, trace: Trace) -> bool:
    at: Span | None = span
    while at is not None and at is not top:
        at = trace.parent(at)
    return at is not None


# ------------------------------------------------------------------ agents inside tool calls


def _move_into_tools(nodes: Sequence[Node]) -> list[Node]:
    """Spans of another agent that lie inside the time of the tool call that started it belong into that call.

    That a call holds their time proves nothing: agents and tools run side by side, and what is put into a call is no
    step of the run any more. So something must say that this call started the agent.
    """
    groups: dict[int, list[Node]] = {}
    for node in nodes:
        groups.setdefault(id(node.parent), []).append(node)
    moved = False
    for group in groups.values():
        if not _has_others(group):
            continue
        tools: list[Node] = []  # by start, so the last ones are the innermost
        inside: list[Node] = []  # those of agents beside
        for node in group:
            tool = _caller(node, tools[-_NEAREST:], inside[-_NEAREST:])
            if tool is not None:
                node.parent = tool
                moved = True
            elif node.kind == "tool":
                tools.append(node)
            elif node.kind == "agent":
                inside += [c for c in node.children if c.kind == "tool"]
    return relink(nodes, moved=moved)


def _has_others(group: Sequence[Node]) -> bool:
    """Whether a group may hold calls of another agent at all."""
    if len(group) < 2:
        return False
    return any(n.kind == "agent" for n in group) or len({_agent_of(n) for n in group} - {None}) > 1


def _caller(node: Node, tools: Sequence[Node], inside: Sequence[Node]) -> Node | None:
    """The latest tool call around an agent's time that started it, beside the agent or in an agent beside it."""
    mine = _agent_of(node)
    if node.kind == "agent":
        starters = [t for t in inside if t.holds(node) and _starts(t, node, mine)]
        beside = [t for t in tools if t.holds(node)]
        starters += [t for t in beside if _starts(t, node, mine)] or [t for t in beside if _delegates(t)]
    else:
        starters = [t for t in tools if t.holds(node) and _differ(mine, _agent_of(t)) and _names(t, mine)]
    return starters[-1] if starters else None


def _starts(tool: Node, agent: Node, name: str | None) -> bool:
    return _evidence(tool, agent, name) is not None


def _evidence(tool: Node, agent: Node, name: str | None) -> str | None:
    """What says that a tool call started an agent: the tool's name is the agent's, or a link or an id joins the two."""
    if _names(tool, name):
        return "the tool is named after the agent"
    keys = {span.key for span in tool.spans}
    if any((link.trace_id, link.span_id) in keys for span in agent.spans for link in span.links):
        return "a link names the call"
    call_id = agent.facts.text("call_id")
    return "both bear the call's id" if call_id is not None and call_id == tool.facts.text("call_id") else None


def what_joins(tool: Node, agent: Node) -> str:
    """Why an agent directly below a tool call stands there, in words."""
    if any(span.parent_key in {s.key for s in tool.spans} for span in agent.spans):
        return "below it"
    return _evidence(tool, agent, _agent_of(agent)) or ("hands a task on" if _delegates(tool) else "below it")


def _delegates(tool: Node) -> bool:
    """Whether it is a framework's tool to hand a task to any agent; which one stands in its arguments."""
    return tool.facts.tool_name() in DELEGATES


def _agent_of(node: Node) -> str | None:
    if node.kind == "agent":
        return agent_name(node)
    name = node.facts.attributes.get("gen_ai.agent.name")
    return name if isinstance(name, str) and name else None


def _differ(a: str | None, b: str | None) -> bool:
    return a is not None and b is not None and a != b


def _names(tool: Node, agent: str | None) -> bool:
    """Whether a tool is called by the agent's whole name, or as tools are that start an agent of this name."""
    called = tool.facts.tool_name()
    if agent is None or called is None:
        return False
    return _words(called) == _words(agent) or (_proper(called, _BEFORE) == _proper(agent, frozenset()) != ())


@lru_cache(maxsize=4096)
def _words(name: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(_HUMP.sub("_", name).lower()))


@lru_cache(maxsize=4096)
def _proper(name: str, before: frozenset[str]) -> tuple[str, ...]:
    """The words of a name without those around the name proper."""
    words = _words(name)
    while words and words[0] in before:
        words = words[1:]
    while words and words[-1] in _AFTER:
        words = words[:-1]
    return words


def _find_implicit(nodes: Sequence[Node], trace: Trace, claims: Mapping[Span, Claim], logs: Logs) -> list[Node]:
    """An agent inside a tool call that has no agent span: a wrapper there that holds model calls.

    Without a wrapper it is the tool call itself, if models and tools were called in it.
    """
    made: dict[Span, Node] = {}
    for node in nodes:
        tool = node.parent
        if node.kind == "agent" or tool is None or tool.kind != "tool":
            continue
        wrapper = _topmost_wrapper(node.span, tool, trace, claims)
        top = wrapper or tool.spans[-1]
        if top not in made:
            made[top] = Node(top, "agent", claims.get(top, NO_CLAIM), logs)
            made[top].parent = tool
            if wrapper is None:
                made[top].spans = list(tool.spans)
        made[top].children.append(node)
    if not made:
        return list(nodes)
    kept = [agent for agent in made.values() if _is_agent(agent)]
    for agent in kept:
        for child in agent.children:
            child.parent = agent
    return relink([*nodes, *kept], moved=bool(kept))


def _is_agent(node: Node) -> bool:
    kinds = {c.kind for c in node.children}
    inside = node.parent is not None and node.span not in node.parent.spans
    return "llm" in kinds and (inside or "tool" in kinds)


def _topmost_wrapper(span: Span, tool: Node, trace: Trace, claims: Mapping[Span, Claim]) -> Span | None:
    found: Span | None = None
    at = trace.parent(span)
    while at is not None and at not in tool.spans:
        if claims[at].role in _WRAPS:
            found = at
        at = trace.parent(at)
    return found if at is not None else None
