"""A policy in words: which traces each workflow is about, what it judges, and what it asks.

Sentences for plans and flow patterns are made beside their loaders; those for everything else are made here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from onpath.globs import Glob
from onpath.policy.model import Check, Match, Policy, Workflow
from onpath.policy.plan import describe as describe_plan
from onpath.policy.words import describe as describe_flow
from onpath.policy.words import that_fits
from onpath.validators.adherence import Adherence
from onpath.validators.plan.validator import PlanValidator
from onpath.values.tree import Holds


def summary(policy: Policy) -> Iterator[str]:
    """Lines for a terminal: the workflows in their order."""
    count = len(policy.workflows)
    yield f"{count} workflow{'' if count == 1 else 's'}, policy {policy.fingerprint}"
    for workflow in policy.workflows:
        yield ""
        yield from _workflow(workflow)


def _workflow(workflow: Workflow) -> Iterator[str]:
    yield f"{workflow.name}: {workflow.description}" if workflow.description else workflow.name
    yield f"  Applies to {applies_to(workflow.match)}{_share(workflow.sample)}."
    yield f"  Judges {_scope(workflow.agent)}; {_nested(workflow.nested)}."
    if workflow.spans:
        yield f"  Spans named {any_of(workflow.spans)} count as steps, too."
    if workflow.ignore:
        yield f"  Never counts {all_of(sorted(workflow.ignore))}."
    for name, others in workflow.aliases.items():
        yield f"  Takes {any_of(others)} for {name}."
    if workflow.capture_content:
        yield "  Argument and result values may stand in the results."
    for check in workflow.checks:
        yield from _check(check, workflow.agent)


def _check(check: Check, agent: str | None) -> Iterator[str]:
    name = check.evaluation_names[0]
    sentences = list(describe(check, agent))
    yield f"  - {name}: {sentences[0]}"
    for sentence in sentences[1:]:
        yield f"    {sentence}"


def describe(check: Check, agent: str | None = None) -> Sequence[str]:
    """What a check asks, a sentence at a time; `agent` is the workflow's."""
    if isinstance(check.validator, Adherence):
        return list(_adherence(check.validator))
    if isinstance(check.validator, PlanValidator):
        return describe_plan(check.validator.plan)
    return describe_flow(check, agent)


def applies_to(match: Match) -> str:
    """Which traces, as the object of a sentence."""
    if match.prompt is not None:
        return f'runs whose last user message is "{match.prompt}"'
    if not match.given:
        return "every trace with an agent, model-call or tool span"
    parts: list[str] = []
    if isinstance(match.service, Glob):
        parts.append(f"service {match.service.pattern}")
    if isinstance(match.root, Glob):
        parts.append(f"root span {match.root.pattern}")
    if match.agent is not None:
        parts.append(f"agent {match.agent} taking part")
    for key, wanted in match.attributes.items():
        parts.append(f"{key} = {wanted.pattern}" if isinstance(wanted, Glob) else _fitting(f"attribute {key}", wanted))
    if match.input is not None:
        parts.append(_fitting("an input", match.input))
    return f"traces with {all_of(parts)}" if parts else "every trace"


def _fitting(name: str, wanted: Callable[[Any], bool]) -> str:
    """A value, with what its tree asks of it."""
    return f"{name} {that_fits(wanted.tree)}" if isinstance(wanted, Holds) else f"{name} that fits"


def _share(sample: float) -> str:
    if sample == 1:
        return ""
    return ", half of them" if sample == 0.5 else f", {100 * sample:.4g}% of them" if sample else ", none of them"


def _scope(agent: str | None) -> str:
    return "the run as a whole" if agent is None else f"each scope of agent {agent}"


def _nested(nested: str) -> str:
    steps = "agents below count as one step each"
    return steps if nested == "agents_as_steps" else "the steps of agents below count in their place"


def _adherence(check: Adherence) -> Iterator[str]:
    source = "tool calls" if check.extract_from == "tool_calls" else "steps named in the output"
    names = ", ".join(check.expected_steps)
    if check.strict_order:
        yield f"the {source} are exactly {names}; pass from a score of {float(check.threshold):g}."
    else:
        yield (
            f"the {source} hold {names}, in this order, with anything between them; "
            f"pass from a score of {float(check.threshold):g}."
        )
    if check.agent is not None or check.nested is not None:
        nested = "" if check.nested is None else f"; {_nested(check.nested)}"
        where = "where the workflow looks" if check.agent is None else f"in each scope of agent {check.agent}"
        yield f"It looks {where}{nested}."
    for gate, listed, words in (
        ("required", check.required_steps, "Must be done, wherever"),
        ("prohibited", check.prohibited_steps, "Must never be done"),
    ):
        if listed:
            fails = "one missing fails" if gate == "required" else "one found fails"
            effect = f"{fails} the workflow" if gate in check.gates else "counts in the score only"
            yield f"{words}: {', '.join(dict.fromkeys(listed))} ({effect})."
    for name, others in check.aliases.items():
        yield f"It takes {any_of(others)} for {name}."
    if check.count_failed:
        yield "A failed call counts as done."


def all_of(words: Sequence[str]) -> str:
    return _joined(words, "and")


def any_of(words: Sequence[str]) -> str:
    return _joined(words, "or")


def _joined(words: Sequence[str], last: str) -> str:
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"
