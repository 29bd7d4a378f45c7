"""OpenInference: kinds, flattened messages, lossy arguments, placeholders that bear a kind."""

from __future__ import annotations

import json
from typing import Any

import pytest

from onpath.model import NOT_CAPTURED
from tests.conventions.build import only, run_scope, shown, span, steps

KIND = "openinference.span.kind"
OUT = "llm.output_messages."


def llm(attributes: dict[str, Any], **how: Any) -> Any:
    return span("ChatModel", {KIND: "LLM", **attributes}, **how)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("LLM", ["llm"]), ("TOOL", ["tool x"]), ("RETRIEVER", ["tool x"]), ("tool", ["tool x"]), ("CHAIN", []),
     ("EMBEDDING", []), ("RERANKER", []), ("GUARDRAIL", []), ("EVALUATOR", []), ("PROMPT", []), ("UNKNOWN", [])],
)  # fmt: skip
def test_kinds(kind: str, expected: list[str]) -> None:
    root = span("root", at=(0, 9))
    assert shown(steps(root, span("x", {KIND: kind}, under=root))) == expected


@pytest.mark.parametrize("value", [7, None, ["TOOL"], "", b"TOOL"])
def test_kind_of_a_wrong_type_is_no_kind(value: Any) -> None:
    assert steps(span("x", {KIND: value})) == ()


def test_kind_goes_before_a_label_of_another_family_and_chain_does_not() -> None:
    assert only(span("x", {KIND: "TOOL", "gen_ai.operation.name": "chat"})).kind == "tool"
    assert only(span("x", {KIND: "CHAIN", "gen_ai.operation.name": "chat"})).kind == "llm"


def test_tool() -> None:
    step = only(
        span(
            "span name",
            {
                KIND: "TOOL",
                "tool.name": "search",
                "tool.parameters": '{"type": "object"}',
                "tool_call.id": "c1",
                "input.value": '{"q": "x", "n": 2}',
                "output.value": '{"hits": []}',
                "output.mime_type": "application/json",
            },
            status=(1, ""),
        )
    )
    assert (step.name, step.input, step.output, step.call_id, step.status) == (
        "search", {"q": "x", "n": 2}, {"hits": []}, "c1", "ok",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "attributes", "expected"),
    [
        ("search", {}, "search"),
        ("FunctionTool.acall", {"tool.name": "search"}, "search"),
        ("search.run", {}, "search"),
        ("finish.__call__", {}, "finish"),
        ("SimpleTool", {}, None),
        ("Tool.__call__", {}, None),
    ],
)
def test_tool_names(name: str, attributes: dict[str, str], expected: str | None) -> None:
    assert only(span(name, {KIND: "TOOL", **attributes})).name == expected


def test_json_scalars_by_mime_type() -> None:
    tool = {KIND: "TOOL", "tool.name": "t", "output.value": '"text"'}
    assert only(span("t", tool | {"output.mime_type": "application/json"})).output == "text"
    assert only(span("t", tool)).output == '"text"'


@pytest.mark.parametrize(
    "envelope",
    [
        {"kwargs": {"q": "x"}},
        {"args": [], "kwargs": {"q": "x"}},
        {"args": [], "sanitize_inputs_outputs": True, "kwargs": {"q": "x"}},
        {"args": [{"q": "x"}], "kwargs": {}},
        {"name": "t", "args": {"q": "x"}, "id": "c1", "type": "tool_call"},
        {"input": {"q": "x"}, "options": None},
        {"input": '{"q": "x"}'},
    ],
)
def test_envelopes_of_arguments(envelope: dict[str, Any]) -> None:
    assert only(span("t", {KIND: "TOOL", "input.value": json.dumps(envelope)})).input == {"q": "x"}


def test_arguments_that_only_look_like_an_envelope() -> None:
    given = {"args": ["ls", "-l"]}
    assert only(span("t", {KIND: "TOOL", "input.value": json.dumps(given)})).input == given


@pytest.mark.parametrize(
    "message",
    [
        {"type": "tool", "data": {"content": '{"a": 1}', "tool_call_id": "c1", "name": "real", "status": "success"}},
        {
            "lc": 1,
            "id": ["langchain", "ToolMessage"],
            "kwargs": {"content": '{"a": 1}', "tool_call_id": "c1", "name": "real"},
        },
        {
            "output": {
                "lc": 1,
                "id": ["ToolMessage"],
                "kwargs": {"content": '{"a": 1}', "tool_call_id": "c1", "name": "real"},
            }
        },
        {"role": "tool", "content": '{"a": 1}', "tool_call_id": "c1", "name": "real"},
    ],
)
def test_envelopes_of_results_tell_name_and_call_id(message: dict[str, Any]) -> None:
    step = only(span("DynamicStructuredTool", {KIND: "TOOL", "output.value": json.dumps(message)}))
    assert (step.name, step.call_id, step.output, step.status) == ("real", "c1", {"a": 1}, "unset")


def test_message_that_says_the_call_failed() -> None:
    message = {"type": "tool", "data": {"content": "no such user", "tool_call_id": "c1", "status": "error"}}
    step = only(span("t", {KIND: "TOOL", "output.value": json.dumps(message)}, status=(1, "")))
    assert step.failed
    assert step.error is not None
    assert step.error.message == "no such user"


def test_flattened_calls_number_as_they_like() -> None:
    keys = {
        "role": "assistant",
        "tool_calls.3.tool_call.function.name": "b",
        "tool_calls.3.tool_call.function.arguments": "{}",
        "tool_calls.10.tool_call.function.name": "c",
        "tool_calls.1.tool_call.function.name": "a",
        "tool_calls.1.tool_call.function.arguments": '{"q": 1}',
        "tool_calls.1.tool_call.id": "c1",
    }
    found = steps(llm({f"{OUT}0.message.{k}": v for k, v in keys.items()}))
    assert shown(found) == ["llm", "tool a", "tool b", "tool c"]
    assert (found[1].input, found[1].call_id) == ({"q": 1}, "c1")


def test_calls_in_messages_of_their_own_and_among_contents() -> None:
    responses = {f"{OUT}{i}.message.tool_calls.0.tool_call.function.name": n for i, n in enumerate("ab")}
    assert shown(steps(llm(responses))) == ["llm", "tool a", "tool b"]
    contents = {
        f"{OUT}0.message.contents.0.message_content.type": "text",
        f"{OUT}0.message.contents.0.message_content.text": "hm",
        f"{OUT}0.message.contents.1.tool_call.id": "c1",
        f"{OUT}0.message.contents.1.tool_call.function.name": "a",
        f"{OUT}0.message.tool_calls.0.tool_call.id": "c1",
        f"{OUT}0.message.tool_calls.0.tool_call.function.name": "a",
    }
    assert shown(steps(llm(contents))) == ["llm", "tool a"]
    legacy = {f"{OUT}0.message.function_call_name": "a", f"{OUT}0.message.function_call_arguments_json": '{"q": 1}'}
    assert steps(llm(legacy))[1].input == {"q": 1}


def test_one_argument_that_lost_its_key_is_mended_from_the_request() -> None:
    root = span("agent", {KIND: "AGENT"}, at=(0, 50))
    asked = {
        f"{OUT}0.message.tool_calls.0.tool_call.function.name": "look",
        f"{OUT}0.message.tool_calls.0.tool_call.function.arguments": '{"user": "u1"}',
        f"{OUT}0.message.tool_calls.1.tool_call.function.name": "look",
        f"{OUT}0.message.tool_calls.1.tool_call.function.arguments": '{"user": "u2"}',
    }
    call = llm(asked, at=(1, 5), under=root)
    second = span("look", {KIND: "TOOL", "input.value": "u2"}, at=(6, 9), under=root)
    first = span("look", {KIND: "TOOL", "input.value": "u1"}, at=(7, 9), under=root)
    other = span("look", {KIND: "TOOL", "input.value": "u3"}, at=(8, 9), under=root)
    found = steps(root, call, second, first, other)
    assert [s.input for s in found[1:]] == [{"user": "u2"}, {"user": "u1"}, "u3"]


def test_usage_and_model() -> None:
    counts = {
        "llm.token_count.prompt": 10,
        "llm.token_count.completion": 2,
        "llm.token_count.total": 12,
        "llm.token_count.prompt_details.cache_read": 4,
        "llm.token_count.completion_details.reasoning": 1,
        "llm.model_name": "m",
    }
    step = only(llm(counts))
    assert step.model == "m"
    assert step.usage == {
        "m:input_tokens": 10,
        "m:output_tokens": 2,
        "m:total_tokens": 12,
        "m:cache_read_input_tokens": 4,
        "m:reasoning_tokens": 1,
    }


def test_the_request_being_put_together_is_no_call() -> None:
    root = span("root", at=(0, 9))
    prepared = span("OpenAI._prepare_chat_with_tools", {KIND: "LLM"}, under=root)
    assert shown(steps(root, prepared, llm({}, under=root))) == ["llm"]


def test_events_recorded_as_spans_of_their_emitters_kind_are_none() -> None:
    agent = span("writer", {KIND: "AGENT", "agent.name": "writer"}, at=(0, 50))
    emitted = {"metadata.path": "agent.start", "metadata.id": "1"}
    call = span("ChatModel", {KIND: "LLM"}, at=(5, 9), under=agent)
    noise = [
        span("success", {KIND: "AGENT", **emitted}, at=(2, 2), under=agent),
        span("new_token", {KIND: "LLM", **emitted}, at=(6, 6), under=call),
        span("new_token", {KIND: "LLM", **emitted}, at=(7, 7), under=call),
    ]
    assert shown(steps(agent, call, *noise)) == ["llm"]


def test_a_librarys_own_work_marked_as_tools() -> None:
    scope = "openinference.instrumentation.instructor"
    patch = span("instructor.patch", {KIND: "TOOL"}, at=(0, 9), scope=scope)
    inner = span("handle_response_model", {KIND: "TOOL"}, at=(1, 2), under=patch, scope=scope)
    assert shown(steps(patch, inner, llm({}, at=(3, 8), under=patch))) == ["llm"]


def test_session_and_prompt() -> None:
    given = json.dumps(
        {"messages": [{"role": "user", "content": "first"}, {"type": "human", "data": {"content": "last"}}]}
    )
    agent = span("a", {KIND: "AGENT", "metadata": '{"thread_id": "t1"}', "input.value": given})
    scope = run_scope(agent)
    assert (scope.session, scope.prompt, scope.input) == ("t1", "last", "last")
    assert run_scope(span("a", {KIND: "AGENT"})).input is NOT_CAPTURED
