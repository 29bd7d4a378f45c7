"""Which traces and scopes a workflow is about (policy.md, `match`), and the steps as the workflow sees them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from onpath.model import NOT_CAPTURED, Span, Trace
from onpath.policy.model import Match, Workflow
from onpath.steps.model import Scope, Step

Unmatched: TypeAlias = Literal[
    "sample", "no_agent_activity", "service", "root", "agent", "attributes", "input", "input_not_captured", "prompt",
    "prompt_not_captured",
]  # fmt: skip


def sampled(trace_id: str, share: float) -> bool:
    """Whether the last 14 hex digits of the id / 2^56 lie below the share; exact, so that 1.0 takes every trace."""
    return share >= 1 or int(trace_id[-14:], 16) < share * 2**56


def trace_fault(match: Match, trace: Trace, agents: frozenset[str], active: bool) -> Unmatched | None:
    """Why a trace is none of a workflow's, None if it is one.

    `agents` are the names of those that took part, `active` whether the trace has an agent, model-call or tool span.
    """
    if not match.given and not active:
        return "no_agent_activity"
    if match.service and not any(map(match.service, trace.services)):
        return "service"
    if match.root and not any(match.root(span.name) for span in trace.spans if _is_local_root(span)):
        return "root"
    if match.agent is not None and match.agent not in agents:
        return "agent"
    if not all(_somewhere(trace, key, wanted) for key, wanted in match.attributes.items()):
        return "attributes"
    return None


def scope_fault(match: Match, scope: Scope) -> Unmatched | None:
    """Why a scope of a trace that matches is not judged, None if it is."""
    if match.input is not None:
        if scope.input is NOT_CAPTURED:
            return "input_not_captured"
        if not match.input(scope.input):
            return "input"
    if match.prompt is not None:
        if scope.prompt is None:
            return "prompt_not_captured"
        if scope.prompt != match.prompt:
            return "prompt"
    return None


def as_seen(scope: Scope, workflow: Workflow) -> Scope:
    """The scope without the steps that the workflow ignores, the others under the names that its aliases give them.

    A step is ignored under its own name and under that of an alias.
    """
    if not workflow.ignore and not workflow.aliases:
        return scope
    names = {other: name for name, others in workflow.aliases.items() for other in others}
    kept: list[Step] = []
    ignored: list[Step] = []
    for step in scope.steps:
        name = step.name if step.name is None else names.get(step.name, step.name)
        gone = step.name in workflow.ignore or name in workflow.ignore
        (ignored if gone else kept).append(step if name == step.name else replace(step, name=name))
    return replace(scope, steps=tuple(kept), ignored=tuple(ignored))


def _is_local_root(span: Span) -> bool:
    return not span.parent_span_id or span.has_remote_parent


def _somewhere(trace: Trace, key: str, wanted: Callable[[Any], bool]) -> bool:
    """Whether an attribute of the resource or of any span holds."""
    for attributes in (
        *(resource.attributes for resource in trace.resources),
        *(span.attributes for span in trace.spans),
    ):
        if key in attributes and wanted(attributes[key]):
            return True
    return False
