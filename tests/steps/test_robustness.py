"""Whatever spans hold: wrong types, huge and broken values, deep nesting, cycles, many spans."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onpath.cli.steps import scope_line
from onpath.conventions.table import READERS, USAGE, USAGE_JSON
from onpath.model import NOT_CAPTURED, Span, Trace
from onpath.steps import recognise
from onpath.steps.model import Nested, Scope
from tests.conventions.build import log, only, span, steps

ROLES = {
    "tool": {"openinference.span.kind": "TOOL"},
    "llm": {"gen_ai.operation.name": "chat"},
    "agent": {"traceloop.span.kind": "agent"},
    "none": {},
}
KEYS = sorted(
    {k for readers in READERS.values() for k, _ in readers if k}
    | set(USAGE)
    | {k for k, _ in USAGE_JSON}
    | {"gen_ai.operation.name", "mcp.method.name", "mlflow.spanType", "span.type", "llm.request.type", "error.type",
       "llm.output_messages.0.message.tool_calls.0.tool_call.function.name", "llm.output_messages.0", "success",
       "llm.input_messages.x.message.role", "gen_ai.completion.0.tool_calls.1.name", "logfire.span_type", "event.name"}
)  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.binary(max_size=4)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
SHAPES = st.sampled_from(
    ['{"role": "assistant", "parts": 3}', '[{"type": "tool_call"}]', '{"tool_calls": {"a": 1}}', '[[["x"]]]',
     '{"lc": 1, "kwargs": {"content": null}}', '{"toolUse": 3}', '{"functionCall": []}', '{"message": [1]}',
     '{"usage": []}', '"{\\"a\\": 1}"', "[REDACTED]", "{", "nul", '{"content": [{"text": 1}]}', '{"replies": [1]}',
     '{"kwargs": 1}', "{'a': (1,)}"]
)  # fmt: skip
RECORDED = VALUES | SHAPES | VALUES.map(lambda v: json.dumps(v, default=str))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(ROLES)), st.dictionaries(st.sampled_from(KEYS), RECORDED, max_size=8), RECORDED)
def test_any_attributes(role: str, attributes: dict[str, Any], body: Any) -> None:
    one = span("x", attributes | ROLES[role], events=[("gen_ai.choice", attributes), ("exception", attributes)])
    inner = span("y", ROLES["tool"] | attributes, under=one)
    for scope in recognise(Trace([one, inner], [log(one, "gen_ai.choice", body)])).scopes():
        json.dumps(scope_line(Trace([one]), scope), default=repr)
        list(scope.output_messages or ())
        list(scope.input_messages or ())
        assert scope.prompt is None or isinstance(scope.prompt, str)
        assert scope.session is None or isinstance(scope.session, str)
        for step in scope.steps:
            assert step.name is None or isinstance(step.name, str)
            assert step.model is None or isinstance(step.model, str)
            assert step.call_id is None or isinstance(step.call_id, str)
            assert all(n >= 0 for n in step.usage.values())


@pytest.mark.parametrize(
    "text",
    ["x" * 1_000_000, "{" * 1_000_000, "[" * 1_000_000, '{"a":' * 100_000, '"' + "\\" * 999_999, "{'a': " * 150_000],
)
def test_a_megabyte_of_anything_stays_text(text: str) -> None:
    step = only(span("t", {"openinference.span.kind": "TOOL", "input.value": text, "output.value": text}))
    assert (step.input, step.output) == (text, text)
    call = only(span("c", {"gen_ai.operation.name": "chat", "gen_ai.output.messages": text}))
    assert call.output == [text]


def test_a_megabyte_of_json_is_read() -> None:
    value = {"rows": [{"n": n, "text": "x" * 80} for n in range(10_000)]}
    tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "t",
        "gen_ai.tool.call.result": json.dumps(value),
    }
    assert only(span("t", tool)).output == value


@pytest.mark.parametrize("depth", [90, 101, 5_000])
def test_deep_json_is_read_to_a_hundred_levels(depth: int) -> None:
    text = '{"a":' * depth + "1" + "}" * depth
    found = only(
        span(
            "t", {"gen_ai.tool.name": "t", "gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.arguments": text}
        )
    )
    assert isinstance(found.input, dict) == (depth <= 100)


def test_structured_values_nested_deep() -> None:
    value: Any = "x"
    for _ in range(500):
        value = {"content": [value]}
    assert only(span("c", {"gen_ai.operation.name": "chat", "gen_ai.output.messages": [value]})).kind == "llm"
    keys = {"llm.output_messages." + ".".join("0" * 500): "x", "llm.output_messages.0." + "a." * 400: "y"}
    assert only(span("c", {"openinference.span.kind": "LLM", **keys})).output is not NOT_CAPTURED


def test_spans_that_are_their_own_ancestors() -> None:
    a = span("a", {"traceloop.span.kind": "agent"}, at=(0, 9))
    b = span("execute_tool b", {"gen_ai.operation.name": "execute_tool"}, at=(1, 5), under=a)
    loop = replace(a, parent_span_id=b.span_id)
    itself = span("execute_tool c", {"gen_ai.operation.name": "execute_tool"}, at=(2, 3), id=77, parent_id=f"{77:016x}")
    assert [s.name for s in steps(loop, b, itself)] == ["b", "c"]


def test_times_that_make_no_sense() -> None:
    root = span("a", {"traceloop.span.kind": "agent"}, at=(50, 10))
    tools = [
        span("execute_tool t", {"gen_ai.operation.name": "execute_tool"}, at=at, under=root)
        for at in ((5, 1), (0, 0), (9e12, 9e12))
    ]
    assert len(steps(root, *tools)) == 3


@pytest.mark.parametrize("shape", ["flat", "chain of agents", "chain of model calls", "all at once"])
def test_twenty_thousand_spans(shape: str) -> None:
    """That it ends at all, whatever the shape; how long it takes is measured by the benchmarks."""
    spans = [
        span("invoke_agent a", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}, at=(0, 9e6), id=1)
    ]
    for n in range(2, 20_001):
        attributes: dict[str, Any] = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": f"t{n % 7}"}
        under, at = spans[0], (float(n), n + 0.5)
        if shape == "chain of agents":
            attributes, under, at = (
                {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": str(n)},
                spans[-1],
                (n, 9e6 - n),
            )
        elif shape == "chain of model calls":
            attributes, under, at = {"gen_ai.operation.name": "chat"}, spans[-1], (n, 9e6 - n)
        elif shape == "all at once":
            at = (n, 9e6 - n)
        spans.append(span("x", attributes, at=at, under=under, id=n))
    found = recognise(Trace(spans)).scopes()
    steps_seen = sum(len(s.steps) for s in found)
    assert steps_seen == (1 if shape == "chain of model calls" else 19_999)


@pytest.mark.parametrize("shape", ["beside each other", "below each other", "served", "told by events"])
def test_twenty_thousand_records_of_one_call(shape: str) -> None:
    """That each is taken in for what it adds alone; every one has an attribute of its own."""
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.id": "c"}
    spans = [span("invoke_agent a", agent, at=(0, 9e6), id=1)]
    for n in range(2, 20_001):
        under = spans[-1] if shape == "below each other" or (shape == "served" and n == 3) else spans[0]
        attributes = {**tool, "gen_ai.tool.name": "pay", f"own.{n}": n}
        events: list[tuple[str, dict[str, Any]]] = []
        if shape == "told by events":
            del attributes["gen_ai.tool.name"]
            events = [("gen_ai.choice", {"message": "ok"})]
        elif shape == "served" and n > 2:
            attributes = {
                "mcp.method.name": "tools/call",
                "mcp.tool.name": "pay",
                "jsonrpc.request.id": 1,
                **attributes,
            }
        spans.append(span("execute_tool pay", attributes, at=(n, 9e6 - n), under=under, id=n, events=events))
    (scope,) = recognise(Trace(spans)).scopes()
    (step,) = scope.steps
    assert (step.name, step.call_id, len(step.span_ids)) == ("pay", "c", 19_999)


def test_only_the_scopes_that_are_judged_are_made() -> None:
    """All of them, agents laid open, would hold a hundred million steps."""
    spans: list[Span] = []
    for n in range(1, 15_001):
        attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": f"a{n}"}
        spans.append(span("x", attributes, at=(2 * n, 9e6 - n), under=spans[-1] if spans else None, id=2 * n))
        tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": f"t{n}"}
        spans.append(span("x", tool, at=(2 * n + 1, 2 * n + 1.5), under=spans[-1], id=2 * n + 1))
        spans[-1], spans[-2] = spans[-2], spans[-1]
    seen = recognise(Trace(spans))
    assert len(seen.agents) == 15_000
    (run,) = seen.scopes_of(None, "flatten")
    (inner,) = seen.scopes_of("a14999", "flatten")
    assert (run.run, len(run.steps), [step.name for step in inner.steps]) == (True, 15_000, ["t14999", "t15000"])
    assert seen.scopes_of("nobody", "flatten") == ()


@pytest.mark.parametrize("nested", ["agents_as_steps", "flatten"])
def test_a_scope_is_the_same_alone_and_among_all(nested: Nested) -> None:
    agents = [("a", None), ("b", 0), ("b", 1), ("c", 0), ("d", None)]
    spans: list[Span] = []
    for n, (name, under) in enumerate(agents):
        attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}
        parent = None if under is None else spans[2 * under]
        spans.append(span("x", attributes, at=(10 * n, 900 - n), under=parent, id=2 * n + 1))
        tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": f"t{n}"}
        spans.append(span("x", tool, at=(10 * n + 1, 10 * n + 2), under=spans[-1], id=2 * n + 2))
    trace = Trace(spans)

    def lines(scopes: Iterable[Scope]) -> list[dict[str, Any]]:
        return [scope_line(trace, scope) for scope in scopes]

    whole = recognise(trace).scopes(nested)
    alone = recognise(trace)
    asked: list[str | None] = [*sorted(alone.agents, reverse=True), None]
    for agent in asked:
        wanted = [s for s in whole if (s.run if agent is None else s.agent == agent)]
        assert lines(alone.scopes_of(agent, nested)) == lines(wanted)
