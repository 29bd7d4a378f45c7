"""OpenLLMetry: kinds, decorated functions, callback envelopes, and the span that is never exported."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conventions.build import only, run_scope, shown, span, steps

KIND = "traceloop.span.kind"
INPUT, OUTPUT = "traceloop.entity.input", "traceloop.entity.output"


def test_kinds_and_names() -> None:
    flow = span("w.workflow", {KIND: "workflow", "traceloop.entity.name": "w"}, at=(0, 90))
    agent = span("a.agent", {KIND: "agent", "traceloop.entity.name": "a"}, at=(1, 80), under=flow)
    task = span("t.task", {KIND: "task", "traceloop.entity.name": "t"}, at=(2, 30), under=agent)
    tool = span("look.tool", {KIND: "tool", "traceloop.entity.name": "look"}, at=(3, 20), under=task)
    call = span("openai.chat", {"gen_ai.operation.name": "chat"}, at=(40, 50), under=agent)
    scope = run_scope(flow, agent, task, tool, call)
    assert (scope.agent, shown(scope.steps)) == ("a", ["tool look", "llm"])


def test_operation_goes_before_a_generic_kind() -> None:
    step = only(span("x", {KIND: "task", "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}))
    assert (step.kind, step.name) == ("tool", "look")


@pytest.mark.parametrize(
    "recorded",
    [
        {"args": [], "kwargs": {"q": "x"}},
        {"args": ['{"q": "x"}']},
        {"args": [{"q": "x"}]},
        {"input_str": "{'q': 'x'}", "tags": [], "metadata": {}, "inputs": {"q": "x"}, "kwargs": {"tool_call_id": "c"}},
        {"input_str": "{'q': 'x'}", "kwargs": {}},
        {"inputs": {"q": "x"}, "tags": []},
    ],
)
def test_arguments(recorded: Any) -> None:
    assert only(span("look.tool", {KIND: "tool", INPUT: json.dumps(recorded)})).input == {"q": "x"}


def test_results_are_json_scalars_too() -> None:
    assert only(span("t.tool", {KIND: "tool", OUTPUT: '"paid 5"'})).output == "paid 5"
    assert only(span("t.tool", {KIND: "tool", OUTPUT: "42"})).output == 42


def test_name_in_the_result_where_the_entity_is_a_class() -> None:
    message = {
        "output": {"lc": 1, "id": ["ToolMessage"], "kwargs": {"content": "ok", "name": "look", "tool_call_id": "c"}}
    }
    attributes = {KIND: "tool", "traceloop.entity.name": "DynamicStructuredTool"}
    named = only(span("execute_tool DynamicStructuredTool", attributes | {OUTPUT: json.dumps(message)}))
    assert (named.name, named.call_id, named.output) == ("look", "c", "ok")
    assert only(span("execute_tool DynamicStructuredTool", attributes)).name is None


def test_a_failed_call_whose_span_is_never_exported() -> None:
    agent = span("a.agent", {KIND: "agent", "traceloop.entity.name": "a"}, at=(0, 90))
    sdk = "@traceloop/node-server-sdk"

    def chat(at: tuple[float, float], call_id: str | None, given: list[Any]) -> Any:
        parts = [{"type": "tool_call", "id": call_id, "name": "look", "arguments": {}}] if call_id else []
        return span(
            "chat m",
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.input.messages": json.dumps([{"role": "tool", "parts": given}]),
                "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": parts}]),
            },
            at=at,
            under=agent,
        )

    answers = [{"type": "tool_call_response", "id": i, "response": "..."} for i in ("c1", "c2")]
    tool = span("look.tool", {KIND: "tool", "traceloop.entity.name": "look"}, at=(30, 40), under=agent, scope=sdk)
    calls = (chat((1, 9), "c1", []), chat((11, 20), "c2", answers[:1]), chat((50, 60), "c3", answers))
    found = steps(agent, *calls, tool)
    # c1 was answered and has no span, so it failed; c2 is the span; c3 was not answered, so nobody knows that it ran
    assert [(s.kind, s.failed, s.source, s.call_id) for s in found] == [
        ("llm", False, "spans", None),
        ("tool", True, "messages", "c1"),
        ("llm", False, "spans", None),
        ("tool", False, "spans", "c2"),
        ("llm", False, "spans", None),
    ]


def test_session_under_free_names() -> None:
    attributes = {KIND: "agent", "traceloop.association.properties.thread_id": "t1"}
    assert run_scope(span("a.agent", attributes)).session == "t1"
