"""Calls that model messages ask for, and what later messages say of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onpath.model import NOT_CAPTURED
from onpath.steps.messages import calls_in, readable


def names(*messages: Any) -> list[str | None]:
    return [step.name for step in calls_in(messages)]


def assistant(**more: Any) -> dict[str, Any]:
    return {"role": "assistant", **more}


def tool_calls(*entries: Any) -> dict[str, Any]:
    return assistant(tool_calls=list(entries))


def test_steps_are_calls_without_times() -> None:
    (step,) = calls_in([tool_calls({"id": "c1", "function": {"name": "pay", "arguments": '{"sum": 3}'}})])
    assert (step.kind, step.name, step.source, step.status, step.call_id) == ("tool", "pay", "messages", "unset", "c1")
    assert step.input == {"sum": 3}
    assert step.start_ns is None
    assert step.span_ids == ()


@pytest.mark.parametrize(
    "message",
    [
        tool_calls({"function": {"name": "pay"}}),
        tool_calls({"name": "pay"}),
        tool_calls([[{"name": "pay"}]]),
        assistant(tool_calls='[{"name": "pay"}]'),
        assistant(content=[{"type": "text", "text": "hm"}, {"type": "tool_use", "name": "pay", "input": {}}]),
        assistant(parts=[{"type": "server_tool_call", "name": "pay"}]),
        assistant(content={"type": "server_tool_use", "name": "pay"}),
        assistant(function_call={"name": "pay", "arguments": "{}"}),
        {"choices": [{"message": tool_calls({"name": "pay"})}]},
        {"output": [{"type": "function_call", "name": "pay", "arguments": "{}", "call_id": "1"}]},
        {"messages": json.dumps([tool_calls({"name": "pay"})])},
        {"name": "pay", "params": {}},
        {"name": "pay", "args": []},
        json.dumps(tool_calls({"name": "pay"})),
        json.dumps([tool_calls({"name": "pay"})]),
        [[tool_calls({"name": "pay"})]],
        {"llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "pay"},
    ],
)
def test_what_is_a_call(message: Any) -> None:
    assert names(message) == ["pay"]


@pytest.mark.parametrize(
    "message",
    [
        assistant(content='{"name": "pay", "arguments": {}}'),
        assistant(content=[{"type": "text", "text": '{"name": "pay", "args": {}}'}]),
        assistant(content=[{"name": "pay"}]),
        {"name": "pay", "parameters": {}},
        {"name": 3, "args": {}},
        {"type": "mcp_approval_request", "name": "pay", "arguments": "{}"},
        assistant(tools=[{"name": "pay", "params": {}}]),
        *({"role": r, "tool_calls": [{"name": "pay"}]} for r in ("user", "system", "developer", "tool", "User")),
        {"role": "tool", "content": [{"type": "tool_use", "name": "pay"}]},
        {"llm.input_messages.0.message.tool_calls.0.tool_call.function.name": "pay"},
        {
            "llm.output_messages.0.message.role": "user",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "pay",
        },
        tool_calls("pay", {}),
        "pay",
        3,
        None,
    ],
)
def test_what_is_none(message: Any) -> None:
    assert names(message) == []


def test_nothing_is_looked_for_inside_arguments() -> None:
    inside = {"tool_calls": [{"name": "refund"}], "content": [{"type": "tool_use", "name": "refund"}]}
    assert names(tool_calls({"name": "pay", "args": inside}), {"name": "log", "args": inside}) == ["pay", "log"]


def test_a_call_whose_name_is_left_out_is_still_a_call() -> None:
    assert names(tool_calls({"id": "1", "function": {"arguments": "{}"}}), tool_calls({"name": ""})) == [None, ""]


def test_order_is_that_of_the_messages() -> None:
    first = assistant(content=[{"type": "tool_use", "name": "a"}], tool_calls=[{"name": "b"}, {"name": "c"}])
    assert names(first, [tool_calls({"name": "d"}), {"name": "e", "args": {}}]) == list("abcde")


def test_flattened_keys_count_as_numbers() -> None:
    key = "llm.output_messages.{}.message.tool_calls.{}.tool_call.{}".format
    flat = {
        key(10, 0, "function.name"): "d",
        key(2, 1, "function.name"): "c",
        key(2, 0, "function.name"): "b",
        key(2, 0, "function.arguments"): '{"x": 1}',
        key(2, 0, "id"): "b1",
        key(0, 0, "function.name"): "a",
        key("9" * 5000, 0, "function.name"): "no number",
    }
    steps = calls_in([flat, tool_calls({"id": "b1", "name": "b"})])
    assert [s.name for s in steps] == list("abcd")
    assert (steps[1].input, steps[1].call_id) == ({"x": 1}, "b1")


@pytest.mark.parametrize("key", ["arguments", "args", "params", "input"])
def test_arguments(key: str) -> None:
    steps = calls_in([tool_calls({"name": "pay", key: {"a": 1}}, {"name": "log"})])
    assert [s.input for s in steps] == [{"a": 1}, NOT_CAPTURED]


def test_the_same_id_counts_once_and_calls_without_are_all_different() -> None:
    twice = tool_calls({"id": "1", "name": "pay"})
    assert names(twice, twice, tool_calls({"name": "log"}, {"name": "log"})) == ["pay", "log", "log"]
    other_spelling = {"type": "function_call", "id": "fc_1", "call_id": "1", "name": "pay", "arguments": "{}"}
    assert names(twice, other_spelling) == ["pay"]


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "is_error": True}]}, "error"),
        ({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "3"}]}, "ok"),
        ({"role": "tool", "tool_call_id": "1", "content": "3"}, "ok"),
        ({"role": "tool", "tool_call_id": "1", "content": "3", "status": "error"}, "error"),
        ({"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "response": 3}]}, "ok"),
        ({"type": "function_call_output", "call_id": "1", "output": "3"}, "ok"),
        ({"llm.input_messages.3.message.tool_call_id": "1"}, "ok"),
        ({"role": "tool", "tool_call_id": "2", "content": "3"}, "unset"),
        ({"role": "assistant", "tool_call_id": "1"}, "unset"),
    ],
)
def test_results_are_found_by_call_id(answer: Any, status: str) -> None:
    asked = [tool_calls({"id": "1", "name": "pay"})]
    assert [s.status for s in calls_in(asked, [answer])] == [status]
    assert [s.status for s in calls_in([*asked, answer])] == [status]


def test_input_messages_hold_no_calls() -> None:
    history = [tool_calls({"id": "0", "name": "old"}), {"name": "older", "args": {}}]
    assert [s.name for s in calls_in([tool_calls({"id": "1", "name": "pay"})], history)] == ["pay"]


def test_a_call_waits_for_its_approval_until_a_result_is_there() -> None:
    asked = tool_calls({"id": "1", "name": "pay"}, {"id": "2", "name": "log"})
    request = assistant(content=[{"type": "tool-approval-request", "approvalId": "a", "toolCallId": "1"}])
    assert [s.status for s in calls_in([asked, request])] == ["awaiting_approval", "unset"]
    result = {"role": "tool", "tool_call_id": "1", "content": "done"}
    assert [s.status for s in calls_in([asked, request], [result])] == ["ok", "unset"]


@pytest.mark.parametrize(
    ("messages", "seen"),
    [
        (None, False),
        ([], False),
        ([""], False),
        (["[]"], False),
        (["just text"], False),
        (["[REDACTED]"], False),
        (['[{"role": "assi'], False),
        ([{"role": "assistant", "content": "hi"}, '[{"role": "assi'], False),
        ([{}], False),
        ([{"llm.input_messages.0.message.role": "user"}], False),
        ([{"role": "assistant", "content": "hi"}], True),
        (['[{"role": "assistant"}]'], True),
        ([[{"role": "assistant"}]], True),
        ([{"llm.output_messages.0.message.role": "assistant"}], True),
        ([{"role": "assistant"}, "text"], True),
    ],
)
def test_messages_that_show_whether_there_were_calls(messages: Any, seen: bool) -> None:
    assert readable(messages) is seen


KEYS = st.sampled_from(
    ["role", "content", "tool_calls", "type", "name", "id", "args", "function", "toolCallId", "tool_call_id",
     "messages", "llm.output_messages.0.message.tool_calls.0.tool_call.id"]
)  # fmt: skip
WORDS = st.sampled_from(
    ["assistant", "tool", "tool_use", "tool_result", "tool-approval-request", "x", "[{", "[{}]", ""]
)
ANYTHING = st.recursive(
    WORDS | st.none() | st.integers() | st.booleans(),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(KEYS, v, max_size=4),
    max_leaves=20,
)


@given(st.lists(ANYTHING, max_size=4), st.lists(ANYTHING, max_size=3))
@settings(max_examples=150)
def test_any_messages_are_read(output: list[Any], history: list[Any]) -> None:
    steps = calls_in(output, history)
    readable(output)
    assert [s.name for s in steps] == [s.name for s in calls_in(output)]
    ids = [s.call_id for s in steps if s.call_id is not None]
    assert len(ids) == len(set(ids))


def test_depth_of_messages_is_no_matter() -> None:
    nested: Any = tool_calls({"name": "pay"})
    for _ in range(20_000):
        nested = {"content": [nested]}
    assert names(nested) == ["pay"]


@pytest.mark.parametrize(
    "message",
    [
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": {"a": 1}}]},
        {"role": "user", "parts": [{"type": "tool_call_response", "id": "c1", "result": '{"a": 1}'}]},
        {"role": "tool", "tool_call_id": "c1", "content": '{"a": 1}'},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": '{"a": 1}'}]},
        {"type": "function_call_output", "call_id": "c1", "output": '{"a": 1}'},
        {
            "llm.input_messages.1.message.tool_call_id": "c1",
            "llm.input_messages.1.message.content": '{"a": 1}',
        },
    ],
)
def test_an_answer_gives_the_call_its_output(message: Any) -> None:
    (step,) = calls_in([tool_calls({"id": "c1", "name": "pay"})], [message])
    assert (step.status, step.output) == ("ok", {"a": 1})
