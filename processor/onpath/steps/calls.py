"""Logical calls: spans that recorded one call become one node (steps.md section 3).

A tool call may be recorded by its caller, an MCP client and the MCP server; a model call by an instrumentation and by
the SDK inside it, or by a zero-length span that holds what a stream gave. Two real calls are never merged.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import inf
from typing import Final

from onpath.json_values import equal
from onpath.model import NOT_CAPTURED, Span, Trace
from onpath.steps.tree import Node, relink, standing, walk

_SERVER: Final = 2  # OTLP span kind
_CLIENT: Final = 3
_SEPARATORS: Final = ("__", ".", "/", ":", "-")
_NEAREST: Final = 16  # calls under way at the same time that one may belong to
_NEAR: Final = 4  # spans between a tool's serving end and what received it


def merge_tool_calls(nodes: Sequence[Node], trace: Trace) -> list[Node]:
    """Each logical tool call as one node: nested records first, then serving ends beside their clients."""
    if any(n.kind == "tool" and n.children for n in nodes):
        for node in reversed(walk(nodes)):
            if node.kind == "tool":
                _take_nested(node)
        nodes = relink(nodes)
    groups: dict[int, list[Node]] = {}
    for node in nodes:
        if node.kind == "tool":
            groups.setdefault(id(node.parent), []).append(node)
    for group in groups.values():
        if len(group) > 1:
            _take_beside(group, trace)
    _take_orphans(relink(nodes), trace)
    return relink(nodes)


def _take_orphans(nodes: Sequence[Node], trace: Trace) -> None:
    """A serving end whose parent was not seen, inside the time of a call of that tool: most likely that call's."""
    ends = {s for s in trace.orphans if s.kind == _SERVER or "mcp.method.name" in s.attributes}
    if not ends:
        return
    earlier: dict[str, list[Node]] = {}
    for node in nodes:
        if node.kind != "tool":
            continue
        calls = earlier.setdefault(last_part(node.facts.tool_name() or ""), [])
        if node.span in ends:
            fitting = (c for c in reversed(calls[-_NEAREST:]) if c.holds(node))
            call = next((c for c in fitting if _may_serve(c, node)), None)
            if call is not None:
                call.absorb(node)
                continue
        calls.append(node)


def _may_serve(call: Node, end: Node) -> bool:
    """Whether nothing says that a serving end is another call's; of one call there is one end at most."""
    if not same_tool(call.facts.tool_name(), end.facts.tool_name()) or any(map(_serves, call.spans)):
        return False
    for ids in (call.facts.text("call_id"), end.facts.text("call_id")), (_request_id(call), _request_id(end)):
        if None not in ids and ids[0] != ids[1]:
            return False
    given = call.facts.get("arguments"), end.facts.get("arguments")
    return any(g is NOT_CAPTURED for g in given) or equal(*given)


def _serves(span: Span) -> bool:
    return span.kind == _SERVER or ("mcp.method.name" in span.attributes and span.kind != _CLIENT)


def _take_nested(node: Node) -> None:
    """A record below with the same tool's name, when there is just one: two of them are two calls made inside.

    What lies below and names no tool at all is the part of the call that its convention records apart.
    """
    name = node.facts.tool_name()
    tools = [c for c in node.children if c.kind == "tool" and node.holds(c)]
    same = [c for c in tools if same_tool(name, c.facts.tool_name())]
    if len(same) == 1:
        node.absorb(same[0])
    for part in tools:
        if not part.gone and part.facts.tool_name() is None:
            node.absorb(part)


def _take_beside(group: Sequence[Node], trace: Trace) -> None:
    """Records of one call under sibling parents: by a shared id, or as the serving end of the same context."""
    clients: list[Node] = []  # in order of start, so the last one that fits is the innermost
    latest = -1.0  # end of any client
    parent = group[0].parent
    above = frozenset(parent.spans if parent is not None else ())
    for node in group:
        served = _is_served(node.span, above, trace)
        end = inf if node.end_ns is None else node.end_ns
        for client in reversed(clients[-_NEAREST:]) if end <= latest else ():
            if not client.gone and client.holds(node) and _one_call(client, node, served):
                client.absorb(node)
                break
        else:
            if not served:
                clients.append(node)
                latest = max(latest, end)


def _one_call(client: Node, node: Node, served: bool) -> bool:
    if not same_tool(client.facts.tool_name(), node.facts.tool_name()):
        return False
    ids = client.facts.text("call_id"), node.facts.text("call_id")
    if ids[0] is not None and ids[0] == ids[1]:
        return True
    requests = (_request_id(client), _request_id(node))
    return (requests[0] is not None and requests[0] == requests[1]) or (served and len(client.spans) == 1)


def _request_id(node: Node) -> str | None:
    value = node.facts.attributes.get("jsonrpc.request.id")
    return str(value) if isinstance(value, str | int) and value != "" else None


def _is_served(span: Span, above: Collection[Span], trace: Trace) -> bool:
    """Whether a span is, or lies closely below, the receiving side of a call; `above` are the spans of its parent."""
    at: Span | None = span
    for _ in range(_NEAR):
        if at is None or at in above:
            return False
        if at.kind == _SERVER or at.name.startswith(("mcp.server", "MCP server")):
            return trace.parent(at) is not None
        at = trace.parent(at)
    return False


def same_tool(a: str | None, b: str | None) -> bool:
    """Whether two recorded names are one tool's, an agent's or server's name before one of them apart."""
    if a is None or b is None:
        return False
    if a == b:
        return True
    longer, shorter = (a, b) if len(a) > len(b) else (b, a)
    return any(longer.endswith(separator + shorter) for separator in _SEPARATORS)


def last_part(name: str) -> str:
    """What all spellings of a tool's name end with."""
    for separator in _SEPARATORS:
        name = name.rpartition(separator)[2]
    return name


# ------------------------------------------------------------------ model calls


def merge_model_calls(nodes: Sequence[Node], trace: Trace) -> list[Node]:
    """Each model call as one node; a span around several of them is a loop and no call."""
    _take_stream_ends(nodes)
    nodes = relink(nodes, moved=_place_orphans(nodes, trace))
    inside: dict[int, list[Node]] = {}
    again: list[Node] = []
    holding = any(n.kind == "llm" and n.children for n in nodes)
    for node in reversed(walk(nodes)) if holding else ():
        if node.kind != "llm":
            continue
        inner = [n for child in node.children if child.kind == "llm" for n in inside.get(id(child), (child,))]
        if len(inner) == 1:
            again.append(inner[0])
        elif inner:
            node.gone = True
            inside[id(node)] = inner
            for turn in inner:
                turn.loop = turn.loop or node
    for node in reversed(again):  # from the outside in, so that each span is handed on once
        outer = standing(node.parent)
        if outer is not None:
            outer.absorb(node)
    nodes = relink(nodes)
    _take_same_response(nodes)
    return relink(nodes)


def _place_orphans(nodes: Sequence[Node], trace: Trace) -> bool:
    """Puts a model call whose parent was not seen into the one of its instrumentation that holds its time, if any."""
    orphans = set(trace.orphans)
    earlier: dict[str, list[Node]] = {}
    moved = False
    for node in nodes if orphans else ():
        if node.kind != "llm" or node.gone:
            continue
        calls = earlier.setdefault(node.span.scope_name, [])
        if node.span in orphans:
            node.parent = next((c for c in reversed(calls[-_NEAREST:]) if c.holds(node)), None)
            moved = moved or node.parent is not None
        if node.parent is None or node.span not in orphans:
            calls.append(node)
    return moved


def _take_stream_ends(nodes: Sequence[Node]) -> None:
    """A zero-length record with what a stream gave belongs to the call before it that lacks it."""
    latest: dict[int, Node] = {}
    for node in nodes:
        if node.kind != "llm":
            continue
        before = latest.get(id(node.parent))
        if before is not None and node.start_ns == node.end_ns and _is_end_of(before, node):
            before.absorb(node)
        else:
            latest[id(node.parent)] = node


def _is_end_of(call: Node, end: Node) -> bool:
    if call.start_ns == call.end_ns or call.facts.attributes.get("gen_ai.response.id") or call.facts.usage():
        return False
    asked = [n.facts.attributes.get("gen_ai.request.model") for n in (call, end)]
    return asked[0] == asked[1] and bool(end.facts.usage() or end.facts.text("response_id"))


def _take_same_response(nodes: Sequence[Node]) -> None:
    """Two records of one response, one inside the other's time but not below it."""
    known: dict[str, Node] = {}
    for node in nodes:
        if node.kind != "llm":
            continue
        response = node.facts.text("response_id")
        if response is None:
            continue
        other = known.get(response)
        if other is not None and other.holds(node):
            other.absorb(node)
        else:
            known[response] = node
