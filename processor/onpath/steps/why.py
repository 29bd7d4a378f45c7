"""Why a span is what it is, for whoever looks into a recording: role and rule, what became of it, what set its status.

Reads what recognition made, and changes nothing: claims, settled nodes -> a `Why` a span.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from onpath.conventions.table import READERS, Claim, explain, shortened, unread
from onpath.model import NOT_CAPTURED, STATUS_ERROR, Span
from onpath.steps.agents import what_joins
from onpath.steps.facts import Facts
from onpath.steps.failures import exception_of, status_of
from onpath.steps.tree import Node


@dataclass(frozen=True, slots=True)
class Why:
    """Why a span is what it is: its role and the rule, what became of it, what says how it went, and its attributes
    that no rule reads."""

    span: Span
    role: str
    rule: str
    outcome: str
    status: str
    unused: tuple[str, ...]


def why(
    span: Span, claim: Claim, nodes: Sequence[Node], smeared: frozenset[str], is_step: Callable[[Node], bool]
) -> Why:
    """`nodes` are the settled ones of the trace, `smeared` the status messages that stand on later spans, too."""
    mine = [n for n in nodes if span in n.spans]
    mine.sort(key=lambda n: n.kind == "agent")  # a tool call may be the agent inside it as well
    node = mine[0] if mine else None
    return Why(
        span=span,
        role=claim.role,
        rule=explain(claim, span),
        outcome=_unkept(claim) if node is None else _kept(span, node, smeared, is_step),
        status="no step's" if node is None else _status(node, smeared),
        unused=unread(span),
    )


def _unkept(claim: Claim) -> str:
    """What became of a span that no step and no scope was made of."""
    if claim.role == "dropped":
        return "no step: a placeholder, left out"
    if claim.role in ("agent", "loop"):
        return "no step: only wraps the agents below it"
    return "no step: holds several model calls, which count" if claim.role == "llm" else "no step"


def _kept(span: Span, node: Node, smeared: frozenset[str], is_step: Callable[[Node], bool]) -> str:
    first = node.spans[0]
    others = ", ".join(s.span_id for s in node.spans if s is not span)
    merged = f"; merged into span {first.span_id}, which recorded the same" if span is not first else ""
    if not merged and others:
        merged = f"; one with span {others}, which recorded the same"
    call = next((a for a in node.above() if a.kind == "tool"), None)
    if node.kind == "agent":
        return _agent(node, call) + merged
    if node.kind == "calls":
        return "no step: runs calls that only messages tell of" + merged
    status, _ = status_of(node.facts, smeared, is_tool=node.kind == "tool")
    if status in ("cancelled", "awaiting_approval"):
        return f"no step: the call did not run ({status.replace('_', ' ')})" + merged
    inside = f"inside a tool call, span {call.spans[0].span_id}" if call is not None else ""
    if not is_step(node):
        return f"no step: {inside}{merged}"
    return f"a step{' of an agent ' + inside if inside else ''}: {node.kind}{merged}"


def _agent(node: Node, call: Node | None) -> str:
    if call is None:
        return "an agent's scope"
    how = what_joins(call, node) if node.parent is call else "below it"
    return f"an agent's scope, started by a tool call, span {call.spans[0].span_id} ({how})"


def _status(node: Node, smeared: frozenset[str]) -> str:
    """A node's status and the facts that say so."""
    facts = node.facts
    status, _ = status_of(facts, smeared, is_tool=node.kind == "tool")
    said = [*_own_word(facts, status)]
    if status in ("error", "awaiting_approval"):
        said += _failures(facts, smeared, is_tool=node.kind == "tool")
    elif status == "ok" and not said:
        said = ["span status OK"]
    passed = status not in ("error", "cancelled") and any(s.status_code == STATUS_ERROR for s in facts.spans)
    if passed:
        said.append("span status ERROR not counted: an earlier failure's message, on a span that has a result")
    return f"{status.replace('_', ' ')}: {'; '.join(said) or 'nothing says how it went'}"


def _own_word(facts: Facts, status: str) -> Iterator[str]:
    """The attribute by which a family says how a call went, if that is how it went."""
    attributes = facts.attributes
    for key, reader in READERS["outcome"]:
        found = reader(attributes[key], attributes) if key in attributes else NOT_CAPTURED
        if found is not NOT_CAPTURED:
            if found[0] == status:
                yield f"{key} = {shortened(attributes[key])}"
            return


def _failures(facts: Facts, smeared: frozenset[str], *, is_tool: bool) -> Iterator[str]:
    if declared := facts.attributes.get("error.type"):
        yield f"error.type = {shortened(declared)}"
    exception = None if facts.quiet else exception_of(facts.spans)
    if exception is not None:
        yield f"exception event, type {shortened(exception[0])}"
    for span in facts.spans:
        if span.status_code == STATUS_ERROR and span.status_message not in smeared:
            yield f"span status ERROR, message {shortened(span.status_message)}"
        elif span.status_code == STATUS_ERROR:
            yield "span status ERROR"
    if is_tool and facts.result.failed:
        yield "the result says that the call failed"
    if not facts.attributes and all(s.status_code != STATUS_ERROR for s in facts.spans) and exception is None:
        yield "no attribute at all, as its instrumentation leaves calls that failed"
