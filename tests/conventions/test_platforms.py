"""LangSmith, Langfuse, MLflow, Mastra and Genkit: what each writes around the same calls."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conventions.build import only, run_scope, scopes, shown, span, steps

OPENAI_CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"q": 1}'}}


# ------------------------------------------------------------------ LangSmith


def test_langsmith_kinds_and_values() -> None:
    root = span("agent", {"langsmith.span.kind": "chain", "gen_ai.operation.name": "chain"}, at=(0, 90))
    asked = {"content": "", "tool_calls": [{"name": "look", "args": {"q": 1}, "id": "c1"}]}
    message = {"lc": 1, "id": ["AIMessage"], "kwargs": asked}
    result = {"generations": [[{"text": "", "generation_info": {}, "message": message}]]}
    call = span(
        "ChatOpenAI",
        {"langsmith.span.kind": "llm", "gen_ai.completion": json.dumps(result), "gen_ai.request.model": "m"},
        at=(1, 5),
        under=root,
    )
    attributes = {
        "langsmith.span.kind": "tool",
        "gen_ai.prompt": '{"input": "{\\"q\\": 1}"}',
        "gen_ai.completion": '{"output": {"content": "ok", "tool_call_id": "c1"}}',
    }
    tool = span("look", attributes, at=(6, 9), under=root)
    found = steps(root, call, tool)
    assert shown(found) == ["llm", "tool look"]
    assert (found[1].input, found[1].output, found[1].call_id, found[1].turn) == ({"q": 1}, "ok", "c1", 0)
    assert shown(steps(root, call)) == ["llm", "tool look"]


@pytest.mark.parametrize("kind", ["prompt", "parser", "chain", "embedding"])
def test_langsmith_kinds_that_are_no_steps(kind: str) -> None:
    assert steps(span("x", {"langsmith.span.kind": kind})) == ()


def test_langsmith_session_is_in_the_metadata_and_never_the_project() -> None:
    project = {"langsmith.span.kind": "chain", "langsmith.trace.session_id": "p", "langsmith.trace.session_name": "p"}
    assert run_scope(span("x", project)).session is None
    assert run_scope(span("x", project | {"langsmith.metadata.thread_id": "t"})).session == "t"
    assert run_scope(span("x", project | {"langsmith.metadata": '{"conversation_id": "c"}'})).session == "c"


def test_langsmith_usage() -> None:
    usage = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7, "input_token_details": {"cache_read": 3}}
    step = only(span("x", {"langsmith.span.kind": "llm", "langsmith.usage_metadata": json.dumps(usage)}))
    assert step.usage == {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7, "cache_read_input_tokens": 3}


# ------------------------------------------------------------------ Langfuse

LANGFUSE = "langfuse.observation."


def test_langfuse_errors_stand_in_the_level() -> None:
    tool = {LANGFUSE + "type": "tool", LANGFUSE + "input": '{"q": 1}'}
    failed = only(span("look", tool | {LANGFUSE + "level": "ERROR", LANGFUSE + "status_message": "boom"}))
    assert (failed.failed, failed.error and failed.error.message, failed.input) == (True, "boom", {"q": 1})
    assert only(span("look", tool | {LANGFUSE + "level": "WARNING"})).status == "unset"


def test_langfuse_calls_and_usage_beside_the_parts() -> None:
    root = span("agent", {LANGFUSE + "type": "agent"}, at=(0, 90))
    call = span(
        "ChatOpenAI",
        {
            LANGFUSE + "type": "generation",
            LANGFUSE + "model.name": "m",
            LANGFUSE + "output": json.dumps({"role": "assistant", "content": "", "tool_calls": [OPENAI_CALL]}),
            LANGFUSE + "usage_details": json.dumps(
                {"input": 84, "output": 16, "total": 120, "input_cache_read": 16, "output_reasoning": 4}
            ),
        },
        under=root,
    )
    found = steps(root, call)
    assert shown(found) == ["llm", "tool look"]
    assert found[0].usage == {
        "m:input_tokens": 100,
        "m:output_tokens": 20,
        "m:total_tokens": 120,
        "m:cache_read_input_tokens": 16,
        "m:reasoning_tokens": 4,
    }


def test_langfuse_usage_with_the_parts_inside() -> None:
    details = '{"input": 100, "output": 20, "total": 120, "input_cache_read": 16}'
    step = only(span("x", {LANGFUSE + "type": "generation", LANGFUSE + "usage_details": details}))
    assert step.usage == {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120, "cache_read_input_tokens": 16}


@pytest.mark.parametrize("kind", ["span", "event", "chain", "guardrail", "evaluator", "embedding"])
def test_langfuse_types_that_are_no_steps(kind: str) -> None:
    assert steps(span("x", {LANGFUSE + "type": kind})) == ()


def test_langfuse_session_on_any_span() -> None:
    spans = [span("x", {LANGFUSE + "type": "span"}), span("y", {LANGFUSE + "metadata.thread_id": "t"})]
    assert run_scope(*spans).session == "t"


# ------------------------------------------------------------------ MLflow


@pytest.mark.parametrize("quote", [json.dumps, str], ids=["json", "plain"])
def test_mlflow(quote: Any) -> None:
    root = span("agent", {"mlflow.spanType": quote("CHAIN")}, at=(0, 90))
    call = span(
        "ChatOpenAI",
        {
            "mlflow.spanType": quote("CHAT_MODEL"),
            "mlflow.llm.model": quote("m"),
            "mlflow.chat.tokenUsage": '{"input_tokens": 9, "output_tokens": 2, "cache_read_input_tokens": 4}',
            "mlflow.spanOutputs": json.dumps(
                {"choices": [{"message": {"role": "assistant", "tool_calls": [OPENAI_CALL]}}]}
            ),
        },
        at=(1, 5),
        under=root,
    )
    tool = span(
        "look",
        {
            "mlflow.spanType": quote("TOOL"),
            "tool_call_id": quote("c1"),
            "mlflow.spanInputs": '{"q": 1}',
            "mlflow.spanOutputs": '"found"',
        },
        at=(6, 9),
        under=root,
    )
    found = steps(root, call, tool)
    assert shown(found) == ["llm", "tool look"]
    assert found[0].usage == {"m:input_tokens": 9, "m:output_tokens": 2, "m:cache_read_input_tokens": 4}
    assert (found[1].input, found[1].output, found[1].call_id) == ({"q": 1}, "found", "c1")
    assert steps(root, call)[1].input == {"q": 1}


@pytest.mark.parametrize("kind", ["PARSER", "EMBEDDING", "RERANKER", "MEMORY", "UNKNOWN", "CHAIN"])
def test_mlflow_types_that_are_no_steps(kind: str) -> None:
    assert steps(span("x", {"mlflow.spanType": json.dumps(kind)})) == ()


# ------------------------------------------------------------------ Mastra

MASTRA = "mastra.span.type"


def test_mastra_counts_turns_and_not_the_loop() -> None:
    agent = span(
        "invoke_agent a",
        {MASTRA: "agent_run", "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"},
        at=(0, 90),
    )
    loop = span(
        "chat m",
        {
            MASTRA: "model_generation",
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "m",
            "gen_ai.usage.input_tokens": 50,
        },
        at=(1, 80),
        under=agent,
    )
    spans = [agent, loop]
    for start in (2, 40):
        step = span(
            "model_step",
            {MASTRA: "model_step", "gen_ai.operation.name": "model_step"},
            at=(start, start + 30),
            under=loop,
        )
        inner = span("model_inference", {MASTRA: "model_inference"}, at=(start + 1, start + 20), under=step)
        chunk = span(
            "model_chunk",
            {MASTRA: "model_chunk", "mastra.metadata.toolName": "phantom"},
            at=(start + 2, start + 3),
            under=inner,
        )
        spans += [step, inner, chunk]
    tool = {MASTRA: "tool_call", "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}
    spans.append(span("execute_tool look", tool, at=(10, 20), under=spans[2]))
    scope = run_scope(*spans)
    assert shown(scope.steps) == ["llm", "tool look", "llm"]
    assert scope.steps[0].model == "m"
    assert scope.usage == {"m:input_tokens": 50}


def test_mastra_loop_of_one_turn_is_one_call() -> None:
    loop = span("chat m", {MASTRA: "model_generation", "gen_ai.usage.input_tokens": 5}, at=(0, 9))
    output = {"text": "", "toolCalls": [{"toolCallId": "c1", "toolName": "look", "args": {"q": 1}}]}
    turn = {MASTRA: "model_step", "mastra.model_step.output": json.dumps(output)}
    step = span("s", turn, at=(1, 8), under=loop)
    inner = span("i", {MASTRA: "model_inference"}, at=(2, 7), under=step)
    found = steps(loop, step, inner)
    assert shown(found) == ["llm", "tool look"]
    assert (found[0].usage, len(found[0].span_ids), found[1].input) == ({"input_tokens": 5}, 3, {"q": 1})


# ------------------------------------------------------------------ Genkit


def test_genkit() -> None:
    flow = span(
        "refund", {"genkit:type": "action", "genkit:metadata:subtype": "flow", "genkit:name": "refund"}, at=(0, 90)
    )
    outer = span("generate", {"genkit:type": "util", "genkit:name": "generate"}, at=(1, 80), under=flow)
    output = {
        "message": {"role": "model", "content": [{"toolRequest": {"ref": "r1", "name": "look", "input": {"q": 1}}}]},
        "finishReason": "stop",
        "usage": {"inputTokens": 9, "outputTokens": 2, "inputCharacters": 40},
    }
    model = span(
        "googleai/gemini",
        {
            "genkit:type": "action",
            "genkit:metadata:subtype": "model",
            "genkit:name": "googleai/gemini",
            "genkit:output": json.dumps(output),
        },
        at=(2, 5),
        under=outer,
    )
    tool = span(
        "look",
        {
            "genkit:metadata:subtype": "tool",
            "genkit:name": "look",
            "genkit:input": '{"q": 1}',
            "genkit:output": '"x"',
            "genkit:state": "success",
        },
        at=(6, 9),
        under=outer,
    )
    again = span("generate", {"genkit:type": "util", "genkit:name": "generate"}, at=(10, 70), under=outer)
    found = steps(flow, outer, model, tool, again)
    assert shown(found) == ["llm", "tool look"]
    assert found[0].usage == {"googleai/gemini:input_tokens": 9, "googleai/gemini:output_tokens": 2}
    assert (found[0].finish_reasons, found[1].input, found[1].output, found[1].status) == (
        ("stop",),
        {"q": 1},
        "x",
        "ok",
    )
    assert steps(flow, outer, model)[1].input == {"q": 1}


def test_genkit_state() -> None:
    assert only(
        span("look", {"genkit:metadata:subtype": "tool", "genkit:name": "look", "genkit:state": "error"})
    ).failed


@pytest.mark.parametrize("kind", ["prompt", "embedder", "evaluator", "flow", "indexer"])
def test_genkit_actions_that_are_no_steps(kind: str) -> None:
    assert steps(span("x", {"genkit:metadata:subtype": kind, "genkit:name": "x"})) == ()


# ------------------------------------------------------------------ an agent inside a tool, with no agent span


@pytest.mark.parametrize("key", ["langsmith.span.kind", "mlflow.spanType", "langfuse.observation.type"])
def test_a_chain_inside_a_tool_that_calls_models_is_an_agent(key: str) -> None:
    root = span("triage", {key: "chain"}, at=(0, 90))
    tool = span("ask_billing", {key: "tool"}, at=(1, 80), under=root)
    inner = span("billing", {key: "chain"}, at=(2, 70), under=tool)
    llm = "generation" if key.startswith("langfuse") else "llm"
    spans = [
        root,
        tool,
        inner,
        span("model", {key: llm}, at=(3, 9), under=inner),
        span("pay", {key: "tool"}, at=(10, 20), under=inner),
    ]
    found = scopes(*spans)
    assert [(s.agent, s.run, shown(s.steps)) for s in found] == [
        (None, True, ["tool ask_billing"]),
        ("billing", False, ["llm", "tool pay"]),
    ]
