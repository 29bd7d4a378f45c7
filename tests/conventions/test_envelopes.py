"""Envelopes come off by their own marks; a tool's own value that looks alike stays whole."""

import json
from typing import Any

import pytest

from onpath.conventions.results import open_result
from onpath.conventions.values import arguments

_META: dict[str, Any] = {"additional_kwargs": {}, "response_metadata": {}}


@pytest.mark.parametrize(
    "own",
    [
        {"name": "refund", "arguments": {"a": 1}},
        {"input": {"a": 1}, "options": {"deep": True}},
        {"input": {"a": 1}, "options": None},
        {"inputs": {"x": 1}, "metadata": {"o": 1}},
        {"inputs": {"x": 1}, "kwargs": {}},
        {"input_str": "a", "inputs": {"x": 1}, "more": 1},
        {"type": "tool_call", "args": {"x": 1}},
        {"type": "tool_call", "name": "n", "args": {"x": 1}, "other": 1},
        {"toolUse": {"input": {}}},
        {"method": "tools/call", "params": {"arguments": {}}, "host": "h"},
    ],
)
def test_arguments_that_only_look_like_an_envelope_stay(own: dict[str, Any]) -> None:
    assert arguments(json.dumps(own)) == own


@pytest.mark.parametrize(
    "own",
    [
        {"output": "x", "metadata": {"exit": 0}},
        {"output": {"a": 1}, "tags": []},
        {"type": "article", "data": {"content": "body", "author": "x"}, "page": 2},
        {"type": "article", "data": {"content": "body"}},
        {"content": [{"text": "hello"}], "data": {"n": 1}},
        {"content": [{"text": "hello"}]},
        {"content": [{"type": "text", "text": "hello"}], "isError": False, "page": 1},
        {"type": "tool", "content": "hammer", "price": 5},
        {"type": "tool", "content": "hammer"},
        {"content": "x", "tool_call_id": "c", "price": 5},
        [{"id": "7", "text": "first"}, {"id": "8", "text": "second"}],
        [{"type": "text", "text": "x", "page": 2}],
        [{"type": "text", "content": "x", "page": 2}],
    ],
)
def test_results_that_only_look_like_an_envelope_stay(own: Any) -> None:
    assert open_result(json.dumps(own)).content == own


@pytest.mark.parametrize(
    "envelope",
    [
        {"output": "42", "kwargs": {"tool_call_id": "c"}},
        {"output": {"lc": 1, "kwargs": {"content": "42", "tool_call_id": "c"}}},
        {"type": "tool", "data": {"content": "42", "type": "tool", **_META}},
        {"type": "tool", "content": "42", **_META},
        {"role": "tool", "content": "42"},
        {"content": [{"type": "text", "text": "42"}]},
        {"content": [{"text": "42"}], "isError": False},
        {"content": [{"text": "42"}], "structured_content": None, "data": 42, "is_error": False},
        {"toolResult": {"toolUseId": "c", "content": [{"text": "42"}], "status": "success"}},
        [{"type": "text", "text": "42", "id": "b"}],
        [{"text": "42"}],
    ],
)
def test_known_envelopes_of_results_come_off(envelope: Any) -> None:
    assert open_result(json.dumps(envelope)).content == "42"
