"""Vercel's AI SDK: operations, both spellings of calls, loops that are agents only where no agent is around them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.conventions.build import only, run_scope, scopes, shown, span, steps

OP = "ai.operationId"


def generate(at: tuple[float, float], under: Any, calls: list[Any] | None = None, **more: Any) -> Any:
    attributes = {OP: "ai.generateText.doGenerate", "ai.model.id": "m", "ai.response.text": "", **more}
    if calls is not None:
        attributes["ai.response.toolCalls"] = json.dumps(calls)
    return span("ai.generateText.doGenerate", attributes, at=at, under=under)


@pytest.mark.parametrize("outer", ["ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject"])
def test_operations(outer: str) -> None:
    root = span(outer, {OP: outer, "ai.telemetry.functionId": "refund", "ai.usage.promptTokens": 99}, at=(0, 90))
    call = generate((1, 5), root, **{"ai.usage.promptTokens": 9, "gen_ai.usage.input_tokens": 9})
    tool = span(
        "ai.toolCall",
        {OP: "ai.toolCall", "ai.toolCall.name": "look", "ai.toolCall.id": "c1", "ai.toolCall.args": '{"q": 1}',
         "ai.toolCall.result": '"found"'},
        at=(6, 9),
        under=root,
    )  # fmt: skip
    embedded = span("ai.embed.doEmbed", {OP: "ai.embed.doEmbed"}, at=(7, 8), under=root)
    scope = run_scope(root, call, tool, embedded)
    assert (scope.agent, shown(scope.steps), scope.usage) == ("refund", ["llm", "tool look"], {"m:input_tokens": 9})
    assert (scope.steps[1].call_id, scope.steps[1].input, scope.steps[1].output) == ("c1", {"q": 1}, "found")


def test_operation_with_the_function_behind_it() -> None:
    assert shown(steps(span("x", {OP: "ai.generateText.doGenerate refund"}))) == ["llm"]


@pytest.mark.parametrize(
    "call",
    [
        {"toolCallType": "function", "toolCallId": "c1", "toolName": "look", "args": '{"q": 1}'},
        {"toolCallId": "c1", "toolName": "look", "input": '{"q": 1}'},
        {"type": "tool-call", "toolCallId": "c1", "toolName": "look", "input": {"q": 1}},
    ],
)
def test_requested_calls_in_every_version(call: dict[str, Any]) -> None:
    root = span("ai.generateText", {OP: "ai.generateText"}, at=(0, 9))
    found = steps(root, generate((1, 5), root, [call]))
    assert shown(found) == ["llm", "tool look"]
    assert (found[1].input, found[1].call_id, found[1].source) == ({"q": 1}, "c1", "messages")


def test_tools_below_the_call_are_steps_beside_it() -> None:
    root = span("ai.streamText", {OP: "ai.streamText"}, at=(0, 50))
    call = span("ai.streamText.doStream", {OP: "ai.streamText.doStream"}, at=(1, 30), under=root)
    tool = span("ai.toolCall", {OP: "ai.toolCall", "ai.toolCall.name": "look"}, at=(9, 20), under=call)
    assert shown(steps(root, call, tool)) == ["llm", "tool look"]


def test_a_loop_inside_an_agent_is_that_agents() -> None:
    agent = span("a", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}, at=(0, 90))
    loop = span("ai.generateText", {OP: "ai.generateText", "ai.telemetry.functionId": "f"}, at=(1, 20), under=agent)
    assert [(s.agent, shown(s.steps)) for s in scopes(agent, loop, generate((2, 9), loop))] == [("a", ["llm"])]


def test_a_loop_with_a_name_and_tools_of_its_own_is_an_agent() -> None:
    agent = span("a", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}, at=(0, 90))
    loop = span("ai.generateText", {OP: "ai.generateText", "ai.telemetry.functionId": "f"}, at=(1, 20), under=agent)
    tool = span("ai.toolCall", {OP: "ai.toolCall", "ai.toolCall.name": "look"}, at=(9, 12), under=loop)
    assert [(s.agent, shown(s.steps)) for s in scopes(agent, loop, tool)] == [("a", ["agent f"]), ("f", ["tool look"])]


def test_errors_smeared_over_what_comes_later_are_none() -> None:
    """openinference-vercel stamps a failed tool's status on every span that ends later."""
    smear = (2, "boom")
    root = span("ai.generateText", {OP: "ai.generateText"}, at=(0, 90), status=smear)
    tool = {OP: "ai.toolCall", "ai.toolCall.name": "look"}
    failed = span("t", tool, at=(1, 5), under=root, status=smear, events=[("exception", {"exception.type": "Error"})])
    fine = span("t", tool | {"ai.toolCall.result": '"ok"'}, at=(10, 15), under=root, status=smear)
    unfinished = span("t", tool, at=(20, 25), under=root, status=smear)
    assert [s.failed for s in steps(root, failed, fine, unfinished)] == [True, False, True]
    answered = span("ai.generateText", root.attributes | {"output.value": "done"}, at=(0, 90), status=smear)
    assert run_scope(answered, replace(failed, parent_span_id=answered.span_id)).status == "unset"


def test_session_and_prompt() -> None:
    root = span(
        "ai.generateText",
        {
            OP: "ai.generateText",
            "ai.telemetry.metadata.sessionId": "s1",
            "ai.prompt": '{"system": "x", "prompt": "hello"}',
        },
    )
    scope = run_scope(root)
    assert (scope.session, scope.prompt) == ("s1", "hello")


def test_what_the_provider_ran_is_a_tool_step_even_where_others_have_spans() -> None:
    root = span("ai.generateText", {OP: "ai.generateText"}, at=(0, 90))
    searched = {
        "type": "tool-call",
        "toolCallId": "p1",
        "toolName": "web_search",
        "input": {"q": 1},
        "providerExecuted": True,
    }
    asked = {"toolCallId": "c1", "toolName": "look", "input": "{}"}
    tool = {OP: "ai.toolCall", "ai.toolCall.name": "look", "ai.toolCall.id": "c1"}
    found = steps(root, generate((1, 5), root, [searched, asked]), span("t", tool, at=(6, 9), under=root))
    assert shown(found) == ["llm", "tool web_search", "tool look"]
    assert only(span("x", tool)).source == "spans"
