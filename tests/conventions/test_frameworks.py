"""Families that frameworks write themselves: Logfire and pydantic-ai, ADK, Strands, Haystack, MCP, coding agents."""

from __future__ import annotations

import json
from typing import Any

import pytest

from onpath.model import NOT_CAPTURED
from tests.conventions.build import log, only, run_scope, scopes, shown, span, steps

# ------------------------------------------------------------------ Logfire and pydantic-ai


def test_running_tool_without_an_operation() -> None:
    root = span(
        "agent run",
        {"agent_name": "support", "model_name": "m", "final_result": "done"},
        at=(0, 90),
        scope="pydantic-ai",
    )
    group = span("running 2 tools", {"tools": ["look"]}, at=(1, 50), under=root)
    tool = span(
        "running tool",
        {
            "gen_ai.tool.name": "look",
            "gen_ai.tool.call.id": "c1",
            "tool_arguments": '{"q": 1}',
            "tool_response": "found",
        },
        at=(2, 9),
        under=group,
    )
    scope = run_scope(root, group, tool)
    assert (scope.agent, shown(scope.steps), scope.output) == ("support", ["tool look"], "done")
    assert (scope.steps[0].input, scope.steps[0].output) == ({"q": 1}, "found")


def test_pending_spans_announce_and_are_none() -> None:
    root = span("root", at=(0, 9))
    pending = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look", "logfire.span_type": "pending_span"}
    assert steps(root, span("execute_tool look", pending, under=root)) == ()


def test_message_events_of_version_1() -> None:
    events = [
        {"event.name": "gen_ai.user.message", "content": "hello", "role": "user"},
        {"event.name": "gen_ai.choice", "index": 0, "message": {"role": "assistant", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"q": 1}'}}]}},
    ]  # fmt: skip
    scope = run_scope(span("chat m", {"gen_ai.operation.name": "chat", "events": json.dumps(events)}))
    assert shown(scope.steps) == ["llm", "tool look"]
    assert scope.prompt == "hello"


def test_zero_length_record_of_what_a_stream_gave() -> None:
    root = span("root", at=(0, 90))
    call = span(
        "Chat Completion", {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}, at=(1, 9), under=root
    )
    given = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.response.id": "r",
        "gen_ai.usage.input_tokens": 7,
    }
    end = span("streaming response took 8s", given, at=(12, 12), under=root)
    again = span("streaming response took 8s", given | {"gen_ai.response.id": "s"}, at=(14, 14), under=root)
    found = steps(root, call, end, again)
    assert [(s.start_ns, s.end_ns, len(s.span_ids)) for s in found] == [
        (1_000_000, 9_000_000, 2),
        (14_000_000, 14_000_000, 1),
    ]
    assert found[0].usage == {"m:input_tokens": 7}


def test_spans_named_by_templates() -> None:
    agent = span("Agent run: 'a'", {"logfire.msg_template": "Agent run: {name!r}", "name": "a"}, at=(0, 90))
    tool = span(
        "Function: look",
        {"logfire.msg_template": "Function: {name}", "name": "look", "input": '{"q": 1}', "output": "x"},
        at=(1, 5),
        under=agent,
    )
    own = span(
        "running tool {tool}",
        {
            "logfire.msg_template": "running tool {tool}",
            "tool": "pay",
            "args": '{"n": 2}',
            "result": "ok",
            "tool_call_id": "c2",
        },
        at=(6, 9),
        under=agent,
    )
    found = steps(agent, tool, own)
    assert [(s.name, s.input, s.output, s.call_id) for s in found] == [
        ("look", {"q": 1}, "x", None),
        ("pay", {"n": 2}, "ok", "c2"),
    ]


# ------------------------------------------------------------------ Google ADK

ADK = "gcp.vertex.agent"


def test_adk_names_where_attributes_say_nothing() -> None:
    root = span("invocation", at=(0, 90), scope=ADK)
    agent = span("agent_run [refund]", at=(1, 80), under=root, scope=ADK)
    part = {"function_call": {"id": "c1", "name": "look", "args": {"q": 1}}}
    counts = {"prompt_token_count": 9, "candidates_token_count": 2}
    response = {"content": {"role": "model", "parts": [part]}, "usage_metadata": counts}
    attributes = {
        "gen_ai.system": ADK,
        "gen_ai.request.model": "m",
        ADK + ".llm_response": json.dumps(response),
        ADK + ".session_id": "s1",
    }
    call = span("call_llm", attributes, at=(2, 40), under=agent, scope=ADK)
    failed = span("execute_tool look", at=(10, 20), under=call, scope=ADK, status=(2, "boom"))
    scope = run_scope(root, agent, call, failed)
    assert (scope.agent, scope.session, shown(scope.steps)) == ("refund", "s1", ["llm", "tool look"])
    assert scope.usage == {"m:input_tokens": 9, "m:output_tokens": 2}
    assert (scope.steps[1].failed, scope.steps[1].input, scope.steps[1].call_id) == (True, {"q": 1}, "c1")
    assert steps(span("execute_tool look", scope="someone else")) == ()


def test_adk_a_failed_call_bears_nothing_but_a_name() -> None:
    root = span("invoke_agent a", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}, at=(0, 90))
    told = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}
    spans = [span("execute_tool look", a, at=at, under=root, scope=ADK) for a, at in
             (({}, (1, 2)), (told, (3, 4)), ({}, (5, None)))]  # fmt: skip
    assert [(s.name, s.status) for s in steps(root, *spans)] == [
        ("look", "error"),
        ("look", "unset"),
        ("look", "unset"),
    ]


def test_adk_merged_responses_are_no_call() -> None:
    root = span("root", at=(0, 9))
    merged = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "(merged tools)"}
    assert steps(root, span("execute_tool (merged)", merged, under=root)) == ()
    assert steps(root, span("execute_tool (merged)", under=root, scope=ADK)) == ()


@pytest.mark.parametrize("placeholder", ["{}", "N/A", ""])
def test_adk_placeholders_are_not_captured(placeholder: str) -> None:
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "t",
        ADK + ".tool_call_args": placeholder,
    }
    assert only(span("execute_tool t", attributes)).input is NOT_CAPTURED


def test_adk_one_call_in_two_spans() -> None:
    root = span("invoke_agent a", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}, at=(0, 90))
    outer = span("call_llm", {"gen_ai.system": ADK}, at=(1, 30), under=root, scope=ADK)
    inner = span(
        "generate_content m",
        {"gen_ai.operation.name": "generate_content", "gen_ai.usage.input_tokens": 4},
        at=(2, 20),
        under=outer,
    )
    found = steps(root, outer, inner)
    assert [(s.kind, s.start_ns, s.end_ns, s.usage) for s in found] == [
        ("llm", 1_000_000, 30_000_000, {"input_tokens": 4})
    ]


# ------------------------------------------------------------------ Strands


@pytest.mark.parametrize("key", ["gen_ai.tool.status", "tool.status"])
@pytest.mark.parametrize(("word", "status"), [("error", "error"), ("success", "ok"), ("?", "ok")])
def test_strands_word_for_the_outcome(key: str, word: str, status: str) -> None:
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look", key: word}
    assert only(span("Tool: look", attributes, status=(1, ""))).status == status


def test_strands_cycles_repeat_the_talk_and_are_not_read() -> None:
    agent = span("invoke_agent a", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}, at=(0, 90))
    choice = (
        "gen_ai.choice",
        {"message": json.dumps([{"toolUse": {"name": "look", "toolUseId": "c1", "input": {"q": 1}}}])},
    )
    cycle = span(
        "execute_event_loop_cycle",
        {"gen_ai.operation.name": "execute_event_loop_cycle"},
        at=(1, 50),
        under=agent,
        events=[choice],
    )
    call = span("chat", {"gen_ai.operation.name": "chat"}, at=(2, 9), under=cycle, events=[choice])
    found = steps(agent, cycle, call)
    assert shown(found) == ["llm", "tool look"]
    assert (found[1].input, found[1].call_id) == ({"q": 1}, "c1")


# ------------------------------------------------------------------ Haystack

HAYSTACK = "haystack.component."


def reply(calls: list[dict[str, Any]]) -> str:
    content = [{"tool_call": {"tool_name": c["name"], "arguments": c["arguments"], "id": c["id"]}} for c in calls]
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
    meta = {"model": "m", "finish_reason": "tool_calls", "usage": usage}
    return json.dumps({"replies": [{"role": "assistant", "meta": meta, "content": content}]})


def test_haystack_native() -> None:
    agent = span("haystack.agent.run", {"haystack.agent.max_steps": 5}, at=(0, 90), scope="haystack")
    look = {"name": "look", "arguments": {"q": 1}, "id": "c1"}
    pays = [{"name": "pay", "arguments": {"n": n}, "id": f"p{n}"} for n in (1, 2)]
    failed = {"messages": [{"role": "tool", "content": [{"tool_call_result": {
        "result": "boom", "error": True, "origin": {"tool_name": "look", "arguments": {}, "id": "c1"}}}]}]}  # fmt: skip
    chat = {HAYSTACK + "type": "OpenAIChatGenerator", HAYSTACK + "name": "llm"}
    turn = {HAYSTACK + "type": "ToolInvoker", HAYSTACK + "name": "tool_invoker"}
    first = span(
        "haystack.component.run", chat | {HAYSTACK + "output": reply([look])}, at=(1, 5), under=agent, scope="haystack"
    )
    ran = span("haystack.component.run", turn, at=(6, 20), under=agent, scope="haystack")
    inner = span("haystack.agent.run", {}, at=(7, 19), under=ran, scope="haystack")
    second = span(
        "haystack.component.run",
        chat | {HAYSTACK + "output": reply(pays), HAYSTACK + "input": json.dumps(failed)},
        at=(21, 25),
        under=agent,
        scope="haystack",
    )
    both = span("haystack.component.run", turn, at=(26, 30), under=agent, scope="haystack")
    found = scopes(agent, first, ran, inner, second, both)
    run = next(s for s in found if s.run)
    assert shown(run.steps) == ["llm", "tool look", "llm", "tool pay", "tool pay"]
    assert run.usage == {"m:input_tokens": 18, "m:output_tokens": 4, "m:cache_read_input_tokens": 8}
    # the only call of a turn has the turn's times; of two together nobody knows
    assert [(s.start_ns, s.failed, s.source) for s in run.steps if s.kind == "tool"] == [
        (6_000_000, True, "messages"), (None, False, "messages"), (None, False, "messages"),
    ]  # fmt: skip
    assert len(found) == 2  # an agent inside a turn was started by a tool call, so it is no step of the agent above


# ------------------------------------------------------------------ MCP


def test_mcp_one_call_in_three_spans() -> None:
    agent = span("invoke_agent a", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}, at=(0, 90))
    listed = span("tools/list", {"mcp.method.name": "tools/list"}, at=(1, 2), under=agent)
    call = {"mcp.method.name": "tools/call", "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}
    client = span("tools/call look", call, at=(3, 20), under=agent, kind=3)
    sent = span(
        "MCP send tools/call look",
        {"mcp.method.name": "tools/call", "jsonrpc.request.id": "2"},
        at=(4, 19),
        under=client,
    )
    server = span(
        "tools/call look",
        call | {"jsonrpc.request.id": "2", "error.type": "tool_error"},
        at=(5, 18),
        under=sent,
        kind=2,
    )
    found = steps(agent, listed, client, sent, server)
    assert [(s.name, len(s.span_ids), s.start_ns, s.failed) for s in found] == [("look", 3, 3_000_000, True)]
    assert found[0].error is not None
    assert found[0].error.type == "tool_error"


@pytest.mark.parametrize("method", ["tools/list", "initialize", "prompts/get", "resources/read"])
def test_mcp_other_requests_are_no_calls(method: str) -> None:
    root = span("root", at=(0, 9))
    marked = {"mcp.method.name": method, "openinference.span.kind": "TOOL"}
    assert steps(root, span(method, marked, under=root)) == ()


def test_mcp_client_and_server_under_sibling_parents() -> None:
    root = span("app", at=(0, 90))
    client = span("look.tool", {"traceloop.span.kind": "tool", "traceloop.entity.name": "look"}, at=(1, 20), under=root)
    received = span("mcp.server", at=(2, 19), under=root)
    server = span(
        "look.tool", {"traceloop.span.kind": "tool", "traceloop.entity.name": "look"}, at=(3, 18), under=received
    )
    other = span("look.tool", {"traceloop.span.kind": "tool", "traceloop.entity.name": "look"}, at=(4, 10), under=root)
    assert [(s.start_ns, len(s.span_ids)) for s in steps(root, client, received, server, other)] == [
        (1_000_000, 2), (4_000_000, 1),
    ]  # fmt: skip


# ------------------------------------------------------------------ coding agents


@pytest.mark.parametrize("typed", [True, False], ids=["span.type", "name alone"])
def test_claude_code(typed: bool) -> None:
    def of(kind: str, attributes: dict[str, Any], **how: Any) -> Any:
        return span(f"claude_code.{kind}", attributes | ({"span.type": kind} if typed else {}), **how)

    turn = of("interaction", {"user_prompt": "fix it", "session.id": "s1"}, at=(0, 90))
    call = of(
        "llm_request",
        {"model": "opus", "input_tokens": "10", "output_tokens": 5, "cache_read_tokens": 90, "success": True},
        at=(1, 5),
        under=turn,
    )
    ran = of("tool", {"tool_name": "Read", "tool_use_id": "t1", "file_path": "/a"}, at=(6, 20), under=turn)
    part = of("tool.execution", {"success": "false", "error": "no such file"}, at=(7, 19), under=ran)
    asked = of("tool", {"tool_name": "Bash", "tool_use_id": "t2", "full_command": "rm -r /"}, at=(21, 30), under=turn)
    blocked = of("tool.blocked_on_user", {"decision": "reject"}, at=(22, 29), under=asked)
    hook = of("hook", {}, at=(40, 41), under=turn)
    scope = run_scope(turn, call, ran, part, asked, blocked, hook)
    assert (scope.prompt, scope.session, shown(scope.steps)) == ("fix it", "s1", ["llm", "tool Read", "tool Bash"])
    llm, read, bash = scope.steps
    assert llm.usage == {"opus:input_tokens": 100, "opus:output_tokens": 5, "opus:cache_read_input_tokens": 90}
    assert (read.failed, read.error and read.error.message, read.input, len(read.span_ids)) == (
        True, "no such file", {"file_path": "/a"}, 2,
    )  # fmt: skip
    assert (bash.status, bash.ran, bash.input) == ("cancelled", False, {"command": "rm -r /"})


def test_claude_code_subagent_inside_its_tool_call() -> None:
    turn = span("claude_code.interaction", {"span.type": "interaction"}, at=(0, 90))
    task = span(
        "claude_code.tool",
        {"span.type": "tool", "tool_name": "Task", "subagent_type": "explorer"},
        at=(1, 80),
        under=turn,
    )
    ran = span("claude_code.tool.execution", {"span.type": "tool.execution", "success": True}, at=(2, 79), under=task)
    call = span("claude_code.llm_request", {"span.type": "llm_request", "model": "m"}, at=(3, 9), under=ran)
    grep = span("claude_code.tool", {"span.type": "tool", "tool_name": "Grep"}, at=(10, 20), under=ran)
    assert [(s.agent, shown(s.steps)) for s in scopes(turn, task, ran, call, grep)] == [
        (None, ["tool Task"]), ("explorer", ["llm", "tool Grep"]),
    ]  # fmt: skip


def test_codex_calls_stand_in_events_and_log_records() -> None:
    root = span("session_loop", at=(0, 90))
    turn = span(
        "session_task.turn",
        {"codex.turn.token_usage.total_tokens": 12, "conversation.id": "t1"},
        at=(1, 80),
        under=root,
    )
    response = span("handle_responses", {"gen_ai.usage.input_tokens": 9}, at=(2, 5), under=turn)
    told = {
        "event.name": "codex.tool_result",
        "tool_name": "exec_command",
        "call_id": "c1",
        "duration_ms": "4",
        "success": "false",
    }
    work = span("run_turn", at=(20, 60), under=turn, events=[("event otel/src/x.rs", told)])
    full = told | {"arguments": '{"cmd": "ls"}', "output": "denied"}
    later = told | {"call_id": "c2", "success": "true"}
    scope = run_scope(
        root,
        turn,
        response,
        work,
        logs=[
            log(work, "", None, full | {"event.name": "codex.tool_result"}),
            log(work, "codex.tool_result", None, later),
        ],
    )
    assert (scope.session, shown(scope.steps)) == ("t1", ["llm", "tool exec_command", "tool exec_command"])
    assert [(s.call_id, s.status, s.start_ns, s.end_ns) for s in scope.steps[1:]] == [
        ("c1", "error", 16_000_000, 20_000_000), ("c2", "ok", 16_000_000, 20_000_000),
    ]  # fmt: skip
