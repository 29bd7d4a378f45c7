"""OpenTelemetry's GenAI conventions, new and old: roles, content in attributes, events and log records, usage."""

from __future__ import annotations

import json
from typing import Any

import pytest

from onpath.model import NOT_CAPTURED
from tests.conventions.build import log, only, run_scope, scopes, shown, span, steps

CALL = {"type": "tool_call", "id": "c1", "name": "search", "arguments": {"q": "x"}}
OUTPUT = [{"role": "assistant", "parts": [CALL], "finish_reason": "tool_call"}]


@pytest.mark.parametrize("operation", ["chat", "generate_content", "text_completion", "chat.completions", "CHAT"])
def test_operations_of_model_calls(operation: str) -> None:
    step = only(span("x", {"gen_ai.operation.name": operation, "gen_ai.request.model": "m"}))
    assert (step.kind, step.name, step.model) == ("llm", "llm", "m")


@pytest.mark.parametrize(
    "operation",
    ["create_agent", "embeddings", "agent_step", "model_chunk", "plan", "execute_event_loop_cycle", "unheard"],
)
def test_operations_that_are_no_steps(operation: str) -> None:
    root = span("root")
    assert steps(root, span("x", {"gen_ai.operation.name": operation, "gen_ai.request.model": "m"}, under=root)) == ()


def test_kind_and_name_of_the_span_decide_nothing() -> None:
    named_like_a_tool = span("execute_tool delete", {"gen_ai.operation.name": "chat"}, kind=3)
    assert only(named_like_a_tool).kind == "llm"
    assert only(span("chat m", {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t"}, kind=3)).name == "t"


@pytest.mark.parametrize("encode", [json.dumps, lambda v: v], ids=["json", "structured"])
def test_tool_call(encode: Any) -> None:
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "search",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.call.arguments": encode({"q": "x"}),
        "gen_ai.tool.call.result": encode({"hits": [1]}),
    }
    step = only(span("execute_tool search", attributes, at=(5, 9)))
    assert (step.name, step.call_id, step.input, step.output) == ("search", "c1", {"q": "x"}, {"hits": [1]})
    assert (step.start_ns, step.end_ns, step.status, step.source) == (5_000_000, 9_000_000, "unset", "spans")


def test_name_out_of_the_span_name_and_values_not_captured() -> None:
    step = only(span("execute_tool lookup", {"gen_ai.operation.name": "execute_tool"}))
    assert (step.name, step.input, step.output) == ("lookup", NOT_CAPTURED, NOT_CAPTURED)


def test_null_and_empty_are_captured() -> None:
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t", "gen_ai.tool.call.arguments": "{}"}
    assert only(span("t", attributes | {"gen_ai.tool.call.result": ""})).output == ""
    assert only(span("t", attributes | {"gen_ai.tool.call.result": None})).output is None


def test_scalars_in_text_stay_text() -> None:
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t"}
    assert only(span("t", attributes | {"gen_ai.tool.call.result": "42"})).output == "42"
    assert only(span("t", attributes | {"gen_ai.tool.call.result": 42})).output == 42


def test_agents_and_their_scopes() -> None:
    root = span("invoke_workflow w", {"gen_ai.operation.name": "invoke_workflow"}, at=(0, 90))
    a = span(
        "invoke_agent a", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}, at=(1, 40), under=root
    )
    b = span(
        "invoke_agent b", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "b"}, at=(41, 80), under=root
    )
    spans = [root, a, b]
    for name, parent, start in (("x", a, 2), ("y", b, 42)):
        spans.append(
            span(
                name,
                {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name},
                at=(start, start + 1),
                under=parent,
            )
        )
    found = scopes(*spans)
    assert [(s.agent, s.run, shown(s.steps)) for s in found] == [
        (None, True, ["tool x", "tool y"]),
        ("a", False, ["tool x"]),
        ("b", False, ["tool y"]),
    ]
    assert found[0].steps[0].agent == "a"


def test_content_in_the_details_event_split_over_two() -> None:
    call = span(
        "chat m",
        {"gen_ai.operation.name": "chat"},
        events=[
            (
                "gen_ai.client.inference.operation.details",
                {"gen_ai.input.messages": json.dumps([{"role": "user", "parts": []}])},
            ),
            ("gen_ai.client.inference.operation.details", {"gen_ai.output.messages": json.dumps(OUTPUT)}),
        ],
    )
    found = steps(call)
    assert shown(found) == ["llm", "tool search"]
    assert (found[1].source, found[1].input, found[1].turn, found[1].start_ns) == ("messages", {"q": "x"}, 0, None)


@pytest.mark.parametrize("name", ["gen_ai.choice", "gen_ai.content.completion"])
def test_content_in_one_event_a_message(name: str) -> None:
    old = {"gen_ai.completion": json.dumps([{"role": "assistant", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "x"}'}}]}])}  # fmt: skip
    new = {"index": 0, "message": json.dumps({"role": "assistant", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "x"}'}}]})}  # fmt: skip
    event = (name, new if name == "gen_ai.choice" else old)
    assert shown(steps(span("chat", {"gen_ai.operation.name": "chat"}, events=[event]))) == ["llm", "tool search"]


@pytest.mark.parametrize("as_text", [False, True])
def test_content_in_log_records(as_text: bool) -> None:
    body: Any = {"finish_reason": "tool_calls", "message": {"role": "assistant", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "x"}'}}]}}  # fmt: skip
    call = span("chat", {"gen_ai.operation.name": "chat"}, at=(0, 5))
    later = span("chat", {"gen_ai.operation.name": "chat"}, at=(6, 9))
    answer = {"content": "found", "id": "c1"}
    found = steps(
        call,
        later,
        logs=[
            log(call, "gen_ai.choice", json.dumps(body) if as_text else body),
            log(later, "gen_ai.tool.message", json.dumps(answer) if as_text else answer),
        ],
    )
    assert shown(found) == ["llm", "tool search", "llm"]
    assert (found[1].input, found[1].status) == ({"q": "x"}, "ok")


def test_tool_content_in_events() -> None:
    step = only(
        span(
            "execute_tool search",
            {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"},
            events=[
                ("gen_ai.tool.message", {"role": "tool", "content": '{"q": "x"}', "id": "c1"}),
                ("gen_ai.choice", {"message": '[{"text": "{\\"hits\\": 2}"}]', "id": "c1"}),
            ],
        )
    )
    assert (step.input, step.output) == ({"q": "x"}, {"hits": 2})


def test_usage_is_one_family_one_spelling_and_leaves_only() -> None:
    agent = span(
        "invoke_agent a",
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a", "gen_ai.usage.input_tokens": 100},
        at=(0, 9),
    )
    usage = {
        "gen_ai.usage.input_tokens": 60,
        "gen_ai.usage.prompt_tokens": 60,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 16,
        "gen_ai.usage.reasoning.output_tokens": 2,
        "llm.token_count.prompt": 61,
    }
    call = span(
        "chat", {"gen_ai.operation.name": "chat", "gen_ai.response.model": "m-1", **usage}, under=agent, at=(1, 2)
    )
    other = span(
        "chat",
        {"gen_ai.operation.name": "chat", "gen_ai.request.model": "n", "gen_ai.usage.input_tokens": 40},
        under=agent,
        at=(3, 4),
    )
    scope = run_scope(agent, call, other)
    assert scope.usage == {
        "m-1:input_tokens": 60,
        "m-1:output_tokens": 5,
        "m-1:cache_read_input_tokens": 16,
        "m-1:reasoning_tokens": 2,
        "n:input_tokens": 40,
    }
    assert scope.steps[0].usage["m-1:input_tokens"] == 60


def test_spellings_before_1_27() -> None:
    root = span("root", at=(0, 9))
    call = span(
        "openai.chat",
        {
            "gen_ai.system": "openai",
            "gen_ai.request.model": "m",
            "gen_ai.usage.prompt_tokens": 3,
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.finish_reason": "tool_calls",
            "gen_ai.completion.0.tool_calls.0.name": "search",
            "gen_ai.completion.0.tool_calls.0.arguments": '{"q": "x"}',
            "gen_ai.completion.0.tool_calls.1.name": "fetch",
            "gen_ai.completion.0.tool_calls.1.arguments": "{}",
        },
        under=root,
    )
    found = steps(root, call)
    assert shown(found) == ["llm", "tool search", "tool fetch"]
    assert (found[0].usage, found[0].finish_reasons, found[1].input) == (
        {"m:input_tokens": 3},
        ("tool_calls",),
        {"q": "x"},
    )
    assert shown(steps(span("x", {"llm.request.type": "chat"}))) == ["llm"]
    assert steps(span("x", {"llm.request.type": "embedding", "gen_ai.request.model": "m"})) == ()


@pytest.mark.parametrize("value", ["stop", ["stop"], '["stop"]', ("stop",)])
def test_finish_reasons_in_every_form(value: Any) -> None:
    assert only(
        span("x", {"gen_ai.operation.name": "chat", "gen_ai.response.finish_reasons": value})
    ).finish_reasons == ("stop",)


def test_retriever_is_a_tool_step_and_an_evaluator_is_none() -> None:
    root = span("root", at=(0, 9))
    retrieval = span("retrieval docs", {"gen_ai.operation.name": "retrieval"}, under=root)
    judged = span("eval", {"gen_ai.evaluation.name": "tone"}, under=root)
    assert shown(steps(root, retrieval, judged)) == ["tool retrieval docs"]


@pytest.mark.parametrize(("recorded", "shown"), [(500, "500"), ("timeout", "timeout"), (4.5, "4.5")])
def test_an_error_type_of_any_kind_is_a_failure(recorded: Any, shown: str) -> None:
    call = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "pay"}
    step = only(span("execute_tool pay", call | {"error.type": recorded}))
    assert (step.status, step.error and step.error.type) == ("error", shown)
    for nothing in ("", None, 0, False):
        assert only(span("execute_tool pay", call | {"error.type": nothing})).status == "unset"
