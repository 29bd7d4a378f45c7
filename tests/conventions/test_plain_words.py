"""Keys that are plain words say something only on spans of the family that writes them: any program may use them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from onpath.cli.steps import scope_line
from onpath.conventions.base import Own
from onpath.conventions.table import READERS
from onpath.model import NOT_CAPTURED, Trace
from onpath.steps import recognise
from tests.conventions.build import only, run_scope, shown, span

SPANS = {
    "genai agent": ("invoke_agent", {"gen_ai.operation.name": "invoke_agent"}),
    "genai tool": ("execute_tool look", {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}),
    "genai model call": ("chat", {"gen_ai.operation.name": "chat"}),
    "openinference tool": ("look", {"openinference.span.kind": "TOOL"}),
    "openinference agent": ("a", {"openinference.span.kind": "AGENT"}),
    "langfuse tool": ("look", {"langfuse.observation.type": "tool"}),
    "langsmith tool": ("look", {"langsmith.span.kind": "tool"}),
    "mlflow tool": ("look", {"mlflow.spanType": "TOOL"}),
    "mastra tool": ("tool: 'look'", {"mastra.span.type": "tool_call"}),
    "vercel tool": ("ai.toolCall", {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "look"}),
    "genkit tool": ("look", {"genkit:metadata:subtype": "tool", "genkit:name": "look"}),
    "traceloop tool": ("look.tool", {"traceloop.span.kind": "tool"}),
}
WORDS = sorted(
    {key for readers in READERS.values() for key, reader in readers if isinstance(reader, Own)} - {"tool_name"}
)
STATED = ["decision", "name", "tool", "args", "result", "input", "output", "tool_input", "agent", "slug", "group_id",
          "thread.id", "model"]  # fmt: skip


def lines(name: str, attributes: dict[str, Any]) -> list[str]:
    root = span("POST /", at=(0, 9), id=1)
    trace = Trace([root, span(name, attributes, at=(1, 5), under=root, id=2)])
    return [json.dumps(scope_line(trace, scope)) for scope in recognise(trace).scopes()]


def test_the_words_are_all_read_so() -> None:
    assert set(STATED) <= set(WORDS)


@pytest.mark.parametrize("value", ["rejected", "alice", '{"a": 1}', 17])
@pytest.mark.parametrize("of", SPANS)
def test_a_programs_own_attributes_say_nothing(of: str, value: Any) -> None:
    name, attributes = SPANS[of]
    plain = lines(name, attributes)
    for word in [*WORDS, "input_tokens", "file_path"]:
        assert lines(name, attributes | {word: value}) == plain, word


@pytest.mark.parametrize("others", [{"span.type": "web"}, {"tool_use_id": "t1"}, {"logfire.msg": "look"}])
def test_a_key_that_others_write_too_makes_no_span_the_familys(others: dict[str, str]) -> None:
    call = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look", **others}
    step = only(span("execute_tool look", call | {"decision": "rejected", "tool_input": '{"a": 1}', "name": "x"}))
    assert (step.name, step.status, step.input) == ("look", "unset", only(span("t", call)).input)


def test_only_that_a_call_did_not_succeed_counts_on_any_span() -> None:
    call = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}
    assert only(span("execute_tool look", call | {"success": False})).status == "error"


def test_codex_names_its_thread_and_its_model() -> None:
    turn = {"codex.turn.token_usage.total_tokens": 12, "turn.id": "7"}
    assert run_scope(span("session_task.turn", turn | {"thread.id": "t1"})).session == "t1"
    assert run_scope(span("session_task.turn", turn | {"thread.id": 17})).session is None


def test_names_that_a_template_does_not_show() -> None:
    call = {"gen_ai.operation.name": "execute_tool", "logfire.msg_template": "execute_tool look for {name}"}
    found = run_scope(span("execute_tool look", call | {"name": "alice"}))
    assert shown(found.steps) == ["tool look"]


def test_a_programs_own_events_are_no_messages() -> None:
    step = only(span("chat m", {"gen_ai.operation.name": "chat", "events": '[{"id": 1, "event.name": "click"}]'}))
    assert (step.input, step.output) == (NOT_CAPTURED, NOT_CAPTURED)
