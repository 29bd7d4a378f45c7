"""Which steps belong to which scope: agents, hand-offs, agents inside tools, spans asked for by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onpath.model import NOT_CAPTURED, Link, Resource, Trace
from onpath.steps import recognise
from tests.conventions.build import run_scope, scopes, shown, span, steps


def agent(name: str | None, at: tuple[float, float | None], under: Any = None, **more: Any) -> Any:
    attributes = {"gen_ai.operation.name": "invoke_agent", **more}
    if name is not None:
        attributes["gen_ai.agent.name"] = name
    return span(f"invoke_agent {name}" if name else "invoke_agent", attributes, at=at, under=under)


def tool(name: str, at: tuple[float, float | None], under: Any = None, **more: Any) -> Any:
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, **more}
    return span(f"execute_tool {name}", attributes, at=at, under=under)


def llm(at: tuple[float, float | None], under: Any = None, **more: Any) -> Any:
    return span("chat m", {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", **more}, at=at, under=under)


def seen(*spans: Any, **how: Any) -> list[tuple[str | None, bool, list[str]]]:
    return [(s.agent, s.run, shown(s.steps)) for s in scopes(*spans, **how)]


def test_a_trace_without_agents_has_one_scope_its_local_root() -> None:
    root = span("POST /refund", {"tenant": "eu"}, at=(0, 90), status=(1, ""))
    (scope,) = scopes(root, llm((1, 5), root), tool("look", (6, 9), root))
    assert (scope.span_id, scope.agent, scope.run, scope.recorded) == (root.span_id, None, True, True)
    assert (scope.start_ns, scope.end_ns, scope.status, scope.attributes) == (0, 90_000_000, "ok", {"tenant": "eu"})
    assert shown(scope.steps) == ["llm", "tool look"]


def test_exactly_one_scope_is_the_run() -> None:
    assert [s.run for s in scopes()] == [True]
    one = agent("a", (0, 9))
    assert seen(one) == [("a", True, [])]
    root = span("root", at=(0, 99))
    two = [agent("a", (1, 9), root), agent("b", (10, 20), root)]
    assert [run for _, run, _ in seen(root, *two)] == [True, False, False]


def test_an_agent_below_is_one_step_or_laid_open() -> None:
    outer = agent("main", (0, 90))
    inner = agent("reader", (10, 50), outer)
    spans = [outer, inner, tool("read", (11, 20), inner), llm((1, 5), outer), tool("send", (60, 70), outer)]
    assert seen(*spans) == [("main", True, ["llm", "agent reader", "tool send"]), ("reader", False, ["tool read"])]
    flat = scopes(*spans, nested="flatten")
    assert [(s.agent, shown(s.steps)) for s in flat] == [
        ("main", ["llm", "tool read", "tool send"]),
        ("reader", ["tool read"]),
    ]
    assert [s.agent for s in flat[0].steps] == ["main", "reader", "main"]


def test_agents_side_by_side_are_one_run_in_order_of_time() -> None:
    root = span("swarm", at=(0, 90))
    first, second = agent("a", (1, 40), root), agent("b", (41, 80), root)
    below = agent("c", (50, 60), second)
    spans = [
        second,
        root,
        below,
        first,
        tool("y", (45, 48), second),
        tool("x", (2, 9), first),
        tool("z", (51, 52), below),
    ]
    assert seen(*spans)[0] == (None, True, ["tool x", "tool y", "agent c"])
    assert seen(*spans, nested="flatten")[0] == (None, True, ["tool x", "tool y", "tool z"])


def test_steps_outside_of_any_agent_belong_to_the_run() -> None:
    root = span("request", at=(0, 90))
    spans = [root, llm((1, 2), root), agent("a", (5, 40), root)]
    spans.append(tool("look", (6, 9), spans[2]))
    assert seen(*spans) == [(None, True, ["llm", "tool look"]), ("a", False, ["tool look"])]


def test_what_runs_inside_a_tool_is_no_step_above() -> None:
    outer = agent("main", (0, 90))
    report = tool("report", (1, 80), outer)
    assert seen(outer, report, tool("fetch", (2, 9), report)) == [("main", True, ["tool report"])]
    assert seen(outer, report, llm((10, 20), report)) == [("main", True, ["tool report"])]


def test_models_and_tools_called_inside_a_tool_are_an_agent() -> None:
    outer = agent("main", (0, 90))
    task = tool("research", (1, 80), outer)
    spans = [outer, task, llm((2, 9), task), tool("fetch", (10, 20), task)]
    assert seen(*spans) == [("main", True, ["tool research"]), ("research", False, ["llm", "tool fetch"])]


def test_an_agent_as_a_tool_is_one_step_and_a_scope_of_its_own() -> None:
    outer = agent("main", (0, 90))
    ask = tool("ask_billing", (1, 80), outer)
    inner = agent("billing", (2, 70), ask)
    spans = [outer, ask, inner, tool("pay", (3, 9), inner)]
    expected = [("main", True, ["tool ask_billing"]), ("billing", False, ["tool pay"])]
    assert seen(*spans) == expected
    assert seen(*spans, nested="flatten") == expected


@pytest.mark.parametrize(
    "name",
    ["billing", "Billing", "ask_billing", "billing_agent", "call-billing", "transfer_to_billing", "AskBillingAgent",
     "delegate_task_to_member"],
)  # fmt: skip
def test_an_agent_beside_the_tool_that_started_it(name: str) -> None:
    outer = agent("main", (0, 90))
    spans = [outer, tool(name, (1, 80), outer), agent("billing", (2, 70), outer)]
    spans.append(tool("pay", (3, 9), spans[2]))
    assert seen(*spans) == [("main", True, [f"tool {name}"]), ("billing", False, ["tool pay"])]


def test_of_two_tools_around_an_agent_the_one_of_its_name_started_it() -> None:
    outer = agent("main", (0, 90))
    ask, wait = tool("ask_billing", (1, 80), outer), tool("wait", (2, 85), outer)
    inner = agent("billing_agent", (3, 70), outer)
    assert seen(outer, ask, wait, inner, tool("pay", (4, 9), inner))[0][2] == ["tool ask_billing", "tool wait"]
    recognised = recognise(Trace([outer, ask, wait, inner]))
    assert recognised.why(inner.span_id)[0].outcome == (
        f"an agent's scope, started by a tool call, span {ask.span_id} (the tool is named after the agent)"
    )


@pytest.mark.parametrize("name", ["search", "delegate", "billing_report", "pay_billing", "agent", "ask"])
def test_an_agent_beside_a_tool_that_did_not_start_it(name: str) -> None:
    outer = agent("main", (0, 90))
    spans = [outer, tool(name, (1, 80), outer), agent("billing", (2, 70), outer)]
    assert seen(*spans, tool("pay", (3, 9), spans[2]))[0] == ("main", True, [f"tool {name}", "agent billing"])


def test_agents_side_by_side_whose_names_share_words() -> None:
    root = span("flow", at=(0, 99))
    first, second = agent("research", (1, 90), root), agent("research_writer", (3, 70), root)
    spans = [root, first, second, tool("web_research", (2, 80), first), tool("delete_records", (4, 60), second)]
    assert seen(*spans)[0] == (None, True, ["tool web_research", "tool delete_records"])


def test_a_link_or_the_calls_id_says_which_call_started_an_agent() -> None:
    outer = agent("main", (0, 90))
    call = tool("work", (1, 80), outer, **{"gen_ai.tool.call.id": "c1"})
    joined = agent("billing", (2, 70), outer, **{"gen_ai.tool.call.id": "c1"})
    linked = replace(agent("billing", (2, 70), outer), links=(Link(call.trace_id, call.span_id, {}),))
    for inner in (joined, linked):
        assert seen(outer, call, inner, tool("pay", (3, 9), inner))[0] == ("main", True, ["tool work"])


def test_an_agent_that_only_runs_at_the_same_time_as_another_agents_tool() -> None:
    root = span("orchestrator", at=(0, 99))
    first, second = agent("a", (1, 90), root), agent("b", (10, 50), root)
    assert seen(root, first, second, tool("long_job", (2, 80), first), tool("x", (20, 30), second))[0] == (
        None, True, ["tool long_job", "tool x"],
    )  # fmt: skip
    assert seen(root, first, second, tool("ask_b", (2, 80), first))[0] == ("a", True, ["tool ask_b"])


def test_spans_of_another_agent_without_an_agent_span() -> None:
    outer = agent("main", (0, 90))
    mine = {"gen_ai.agent.name": "main"}
    theirs = llm((2, 70), outer, **{"gen_ai.agent.name": "billing"})
    last = llm((82, 85), outer, **mine)
    for name, expected in (("ask_billing", ["llm"]), ("look", ["llm", "llm"])):
        ask = tool(name, (1, 80), outer, **mine)
        assert seen(outer, ask, theirs, last) == [("main", True, [f"tool {name}", *expected])]


def test_one_agent_recorded_twice() -> None:
    outer = agent("a", (0, 90))
    again = agent("a", (1, 89), outer)
    unnamed = agent(None, (2, 88), again)
    assert seen(outer, again, unnamed, tool("look", (3, 9), unnamed)) == [("a", True, ["tool look"])]


def test_a_wrapper_without_a_name_of_its_own_is_no_agent() -> None:
    wrapper = span("Refund workflow", {"openinference.span.kind": "AGENT"}, at=(0, 90))
    inner = span("t", {"openinference.span.kind": "AGENT", "agent.name": "triage"}, at=(1, 80), under=wrapper)
    assert seen(wrapper, inner, tool("look", (2, 9), inner)) == [("triage", True, ["tool look"])]


def test_an_empty_agent_span_beside_the_wrapper_of_what_it_did() -> None:
    outer = agent("main", (0, 90))
    ask = tool("ask", (1, 80), outer)
    empty = agent("billing", (2, 70), ask)
    task = span("execute_task billing", {"gen_ai.operation.name": "execute_task"}, at=(3, 69), under=ask)
    assert seen(outer, ask, empty, task, llm((4, 9), task), tool("pay", (10, 20), task))[1] == (
        "billing", False, ["llm", "tool pay"],
    )  # fmt: skip


def test_a_function_that_nobody_called_is_the_agent() -> None:
    """Semantic Kernel runs a prompt as a function: its span is a tool's, and holds the whole run."""
    request = span("POST /", at=(0, 99))
    function = tool("chat-answer", (1, 90), request)
    call = llm((2, 9), function)
    assert seen(request, function, call, tool("light-on", (10, 20), function)) == [
        ("chat-answer", True, ["llm", "tool light-on"])
    ]
    orphan = span(
        "execute_tool t",
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t"},
        at=(0, 9),
        parent_id="f" * 16,
    )
    assert seen(orphan, llm((1, 2), orphan)) == [(None, True, ["tool t"])]


def test_model_calls_recorded_twice_and_loops_around_several() -> None:
    root = agent("a", (0, 90))
    outer = llm((1, 20), root, **{"gen_ai.usage.input_tokens": 5})
    inner = llm((2, 19), outer, **{"gen_ai.usage.input_tokens": 5, "gen_ai.response.id": "r"})
    scope = run_scope(root, outer, inner)
    assert [(s.start_ns, s.end_ns, len(s.span_ids)) for s in scope.steps] == [(1_000_000, 20_000_000, 2)]
    assert scope.usage == {"m:input_tokens": 5}
    second = llm((10, 18), outer)
    assert [s.start_ns for s in steps(root, outer, inner, second)] == [2_000_000, 10_000_000]


def test_records_of_one_response_that_are_not_nested() -> None:
    root = agent("a", (0, 90))
    answer = {"gen_ai.response.id": "r"}
    both = [llm((1, 20), root, **answer), llm((2, 19), root, **answer), llm((30, 40), root, **answer)]
    assert [len(s.span_ids) for s in steps(root, *both)] == [2, 1]


def test_calls_of_one_tool_beside_or_after_each_other_are_never_merged() -> None:
    root = agent("a", (0, 90))
    beside = [tool("look", (1, 20), root), tool("look", (2, 19), root), tool("look", (30, 40), root)]
    assert len(steps(root, *beside)) == 3


@pytest.mark.parametrize("outer", ["mcp__files__read", "files.read", "files/read", "agent-read", "server:read"])
def test_one_call_under_the_name_with_and_without_its_server(outer: str) -> None:
    root = agent("a", (0, 90))
    call = tool(outer, (1, 20), root)
    assert shown(steps(root, call, tool("read", (2, 19), call))) == [f"tool {outer}"]
    other = tool("unread", (2, 19), call)
    assert [len(s.span_ids) for s in steps(root, call, other)] == [1]


def test_records_with_one_call_id_are_one_call() -> None:
    root = agent("a", (0, 90))
    call_id = {"gen_ai.tool.call.id": "c1"}
    both = [tool("look", (1, 20), root, **call_id), tool("look", (2, 19), root, **call_id)]
    assert [len(s.span_ids) for s in steps(root, *both)] == [2]
    retried = [tool("look", (1, 5), root, **call_id), tool("look", (6, 9), root, **call_id)]
    assert [len(s.span_ids) for s in steps(root, *retried)] == [1, 1]


def test_spans_asked_for_by_name() -> None:
    root = agent("a", (0, 90))
    call = tool("look", (1, 20), root)
    query = span("db.query", at=(2, 9), under=call)
    other = span("GET /x", at=(3, 4), under=call)
    found = scopes(root, call, query, other, spans=("db.*",))
    assert [shown(s.steps) for s in found] == [["tool look", "span db.query"]]
    assert (found[0].steps[1].agent, found[0].steps[1].kind) == ("a", "span")


def test_attempts_and_turns() -> None:
    root = agent("a", (0, 90))
    args = {"gen_ai.tool.call.arguments": '{"q": 1}'}
    first = tool("look", (6, 9), root, **args, **{"error.type": "timeout"})
    found = steps(root, llm((1, 5), root), first, llm((10, 15), root), tool("look", (16, 20), root, **args))
    attempts = [(s.attempt.group, s.attempt.number) for s in found if s.attempt]
    assert attempts == [(0, 1), (0, 2)]
    assert [s.turn for s in found] == [None, 0, None, 1]


def test_unfinished_spans_and_orphans() -> None:
    lost = span(
        "execute_tool t",
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t"},
        at=(5, None),
        parent_id="e" * 16,
    )
    (scope,) = scopes(lost)
    assert (scope.recorded, scope.steps[0].end_ns, scope.end_ns) == (False, None, None)


def test_waiting_and_cancelled_calls_never_ran() -> None:
    root = agent("a", (0, 90))
    paused = tool("pay", (1, 5), root)
    spans = [root, paused]
    assert steps(*spans)[0].ran
    stopped = span("execute_tool pay", paused.attributes, at=(1, 5), under=root,
                   events=[("exception", {"exception.type": "langgraph.errors.GraphInterrupt"})])  # fmt: skip
    assert steps(root, stopped)[0].status == "awaiting_approval"


def test_activity_is_an_agent_a_model_call_or_a_tool() -> None:
    web = span("GET /", {"http.route": "/"})
    made = span("create_agent a", {"gen_ai.operation.name": "create_agent"})
    assert not recognise(Trace([web, made])).has_agent_activity
    for active in (agent("a", (0, 1)), llm((0, 1)), tool("t", (0, 1))):
        assert recognise(Trace([web, active])).has_agent_activity


def test_resource_output_and_status_of_a_scope() -> None:
    answer = '[{"role": "assistant", "parts": [{"type": "text", "content": "done"}]}]'
    root = agent("a", (0, 90))
    failed = span("invoke_agent a", root.attributes, at=(0, 9), status=(2, "boom"))
    scope = run_scope(root, llm((1, 2), root, **{"gen_ai.output.messages": answer}))
    assert (scope.output, scope.input, scope.status, scope.content) == ("done", NOT_CAPTURED, "unset", "partial")
    assert isinstance(scope.resource, Resource)
    assert (run_scope(failed).status, run_scope(failed).output) == ("error", NOT_CAPTURED)


def test_why() -> None:
    root = agent("a", (0, 90))
    call = tool("look", (1, 20), root, unheard="x")
    inner = tool("fetch", (2, 9), call)
    merged = span("execute_tool (merged)", {"gen_ai.tool.name": "(merged tools)"}, under=root)
    recognised = recognise(Trace([root, call, inner, merged]))
    (why,) = recognised.why(call.span_id)
    assert (why.role, why.rule, why.unused) == ("tool", "genai: gen_ai.operation.name = 'execute_tool'", ("unheard",))
    assert "inside a tool call" in recognised.why(inner.span_id)[0].outcome
    assert recognised.why(merged.span_id)[0].role == "dropped"
    assert recognised.why("0" * 16) == ()


def test_why_says_what_dropped_a_step_and_what_set_its_status() -> None:
    root = agent("a", (0, 90))
    twice = tool("look", (1, 20), root, **{"error.type": 500})
    again = tool("look", (2, 19), twice)
    refused = span("claude_code.tool", {"span.type": "tool", "tool_name": "Bash", "decision": "reject"}, at=(30, 40),
                   under=root)  # fmt: skip
    loop = llm((41, 60), root)
    turns = [llm((42, 45), loop), llm((46, 50), loop)]
    fine = span("execute_tool pay", tool("pay", (0, 1)).attributes, at=(61, 70), under=root, status=(1, ""))
    recognised = recognise(Trace([root, twice, again, refused, loop, *turns, fine]))

    def told(of: Any) -> tuple[str, str]:
        (why,) = recognised.why(of.span_id)
        return why.outcome, why.status

    same = "which recorded the same"
    assert told(twice) == (f"a step: tool; one with span {again.span_id}, {same}", "error: error.type = 500")
    assert told(again) == (f"a step: tool; merged into span {twice.span_id}, {same}", "error: error.type = 500")
    assert told(refused) == ("no step: the call did not run (cancelled)", "cancelled: decision = 'reject'")
    assert told(loop) == ("no step: holds several model calls, which count", "no step's")
    assert told(turns[0]) == ("a step: llm", "unset: nothing says how it went")
    assert told(fine) == ("a step: tool", "ok: span status OK")


def served(at: tuple[float, float], query: str | None = None, request: str | None = None, **more: Any) -> Any:
    """A call as its MCP server recorded it, below a span that was not seen."""
    attributes = {"mcp.method.name": "tools/call", "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}
    if query is not None:
        attributes["gen_ai.tool.call.arguments"] = f'{{"q": "{query}"}}'
    if request is not None:
        attributes["jsonrpc.request.id"] = request
    return span("tools/call look", attributes, at=at, kind=2, parent_id="f" * 15 + str(int(at[0]) % 10), **more)


@pytest.mark.parametrize(
    ("ends", "calls"),
    [
        ([served((1, 50), "a", "1"), served((10, 20), "b", "2")], 2),
        ([served((1, 50)), served((10, 20))], 2),
        ([tool("look", (0, 60)), served((1, 50))], 1),
        ([tool("look", (0, 60)), served((1, 50)), served((52, 55))], 2),
        ([tool("look", (0, 60), **{"gen_ai.tool.call.arguments": {"q": "c"}}), served((1, 50), "a")], 2),
        ([tool("look", (0, 60), **{"gen_ai.tool.call.arguments": {"q": "c"}}), served((1, 50), "c")], 1),
    ],
)
def test_a_serving_end_whose_parent_was_not_seen(ends: list[Any], calls: int) -> None:
    assert len(steps(*ends)) == calls


def asks(at: float, call_id: str, query: int, given: Any = None) -> Any:
    part = {"type": "tool_call", "id": call_id, "name": "look", "arguments": {"q": query}}
    more = {"gen_ai.output.messages": [{"role": "assistant", "parts": [part]}]}
    if given is not None:
        answer = {"type": "tool_call_response", "id": given[0], "response": given[1]}
        more["gen_ai.input.messages"] = [{"role": "tool", "parts": [answer]}]
    return llm((at, at + 2), **more)


def looks(at: float, call_id: str) -> Any:
    return tool("look", (at, at + 1), **{"gen_ai.tool.call.id": call_id})


def test_a_later_message_gives_a_span_the_output_that_it_lost() -> None:
    spans = [asks(1, "c1", 1), looks(4, "c1"), asks(6, "c2", 2, given=("c1", {"a": 1})), looks(9, "c2")]
    tools = [(s.input, s.output) for s in steps(*spans) if s.kind == "tool"]
    assert tools == [({"q": 1}, {"a": 1}), ({"q": 2}, NOT_CAPTURED)]


@pytest.mark.parametrize("spans", [True, False])
def test_an_id_used_again_by_a_later_turn_is_another_call(spans: bool) -> None:
    parts = [asks(1, "c", 1), asks(6, "c", 2, given=("c", "x"))]
    parts += [looks(4, "c"), looks(9, "c")] if spans else []
    tools = [(s.input, s.output) for s in steps(*parts) if s.kind == "tool"]
    assert tools == [({"q": 1}, NOT_CAPTURED), ({"q": 2}, NOT_CAPTURED)]
