"""`onpath steps`: the lines of `--json` to the letter, the readable view, `--why`, and what can't be read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from onpath.cli import main
from tests.conftest import FIXTURES

RUNS = FIXTURES / "traces"
PARALLEL = RUNS / "py/strands/parallel.jsonl"
MESSAGES_ONLY = RUNS / "py/openai-v2-handmade"


def run(*args: str | Path, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["steps", *map(str, args)], input=stdin, catch_exceptions=False)


def lines(*args: str | Path) -> list[dict[str, Any]]:
    result = run(*args, "--json")
    assert result.exit_code == 0
    return [json.loads(line) for line in result.stdout.splitlines()]


def otlp(*spans: dict[str, Any]) -> str:
    full = [{"traceId": "a" * 32, "startTimeUnixNano": "1", "endTimeUnixNano": "5", **s} for s in spans]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": full}]}]})


def attribute(key: str, **value: Any) -> dict[str, Any]:
    return {"key": key, "value": value}


def test_json_to_the_letter() -> None:
    (line,) = lines(RUNS / "py/openai-logfire/stream.jsonl")
    assert list(line) == ["trace_id", "scope", "run", "session", "steps", "usage", "coverage"]
    assert list(line["scope"]) == ["agent", "span_id"]
    assert list(line["coverage"]) == ["root", "orphans", "content"]
    assert line["run"] is True
    assert line["usage"] == {
        "input_tokens": 700, "output_tokens": 60, "cache_read_input_tokens": 320, "total_tokens": 760,
    }  # fmt: skip
    step = line["steps"][1]
    assert list(step) == [
        "kind", "name", "agent", "model", "status", "error", "usage", "input", "output", "start_ns", "end_ns",
        "span_ids", "call_id", "turn", "attempt", "source",
    ]  # fmt: skip
    assert (step["kind"], step["name"], step["turn"], step["attempt"]) == (
        "tool",
        "lookup_user",
        0,
        {"group": 0, "number": 1},
    )


def test_json_leaves_out_what_was_not_captured() -> None:
    line = lines(RUNS / "py/mcp-fastmcp/parallel.jsonl")[0]
    assert all("input" not in step and "output" not in step for step in line["steps"])
    assert line["coverage"] == {"root": True, "orphans": 0, "content": "none"}


def test_one_line_a_scope_and_one_of_them_the_run() -> None:
    found = lines(RUNS / "py/pydantic-ai-v5/multi-agent.jsonl")
    assert [(line["scope"]["agent"], line["run"]) for line in found] == [
        ("triage_agent", True),
        ("billing_agent", False),
    ]


def test_log_records_beside_the_spans_count() -> None:
    files = (MESSAGES_ONLY / "retry.jsonl", MESSAGES_ONLY / "retry.logs.jsonl")
    assert lines(files[0])[0]["coverage"]["content"] == "partial"
    assert lines(*files)[0]["coverage"]["content"] == "full"


def test_readable_view() -> None:
    result = run(PARALLEL)
    assert result.exit_code == 0
    assert "agent refund_agent, the run" in result.stdout
    assert "3 in parallel" in result.stdout
    inside = result.stdout[result.stdout.index("3 in parallel") :].splitlines()[1:4]
    assert all("│   " in line or "    " in line for line in inside)
    retried = run(RUNS / "js/traceloop-openai/retry.jsonl").stdout
    assert "failed" in retried
    assert "from messages, no times" in retried
    assert "attempt 2" in retried


def test_standard_input_and_gzip(tmp_path: Path) -> None:
    text = PARALLEL.read_text(encoding="utf-8")
    assert run("-", "--json", stdin=text).stdout == run(PARALLEL, "--json").stdout
    packed = tmp_path / "run.jsonl.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert lines(packed) == lines(PARALLEL)


def test_traces_joined_by_a_session() -> None:
    recording = RUNS / "js/vercel-ai5-stream/retry.jsonl"
    alone = [line for line in lines(recording) if line["run"]]
    joined = [line for line in lines(recording, "--group-by", "ai.telemetry.metadata.sessionId") if line["run"]]
    assert len(joined) == 1
    assert sum(len(line["steps"]) for line in alone) == len(joined[0]["steps"])
    assert joined[0]["session"] == alone[0]["session"]


def test_flatten() -> None:
    document = otlp(
        {"spanId": "1" * 16, "name": "a", "attributes": [attribute("traceloop.span.kind", stringValue="agent")]},
        {"spanId": "2" * 16, "parentSpanId": "1" * 16, "name": "b", "startTimeUnixNano": "2",
         "attributes": [attribute("traceloop.span.kind", stringValue="agent")]},
        {"spanId": "3" * 16, "parentSpanId": "2" * 16, "name": "t.tool", "startTimeUnixNano": "3",
         "attributes": [attribute("traceloop.span.kind", stringValue="tool")]},
    )  # fmt: skip
    plain = json.loads(run("-", "--json", stdin=document).stdout.splitlines()[0])
    laid_open = json.loads(run("-", "--json", "--flatten", stdin=document).stdout.splitlines()[0])
    assert [s["name"] for s in plain["steps"]] == ["b"]
    assert [s["name"] for s in laid_open["steps"]] == ["t"]


def test_why() -> None:
    step = lines(PARALLEL)[0]["steps"][1]
    result = run(PARALLEL, "--why", step["span_ids"][0].upper())
    assert result.exit_code == 0
    assert "genai: gen_ai.operation.name = 'execute_tool'" in result.stdout
    assert "  status   ok: gen_ai.tool.status = 'success'" in result.stdout
    assert "gen_ai.event.start_time" in result.stdout  # an attribute that no rule reads
    missing = run(PARALLEL, "--why", "0" * 16)
    assert (missing.exit_code, missing.stdout) == (2, "")
    assert "no span with the id" in missing.stderr


def test_names_from_outside_are_escaped() -> None:
    name = "execute_tool evil\x1b[31m\u202egnp.exe\n[bold]x[/bold]"
    document = otlp(
        {
            "spanId": "1" * 16,
            "name": name,
            "attributes": [attribute("gen_ai.operation.name", stringValue="execute_tool")],
        }
    )
    shown = run("-", stdin=document).stdout
    assert "  1 spans" not in shown
    assert "  1 step  content" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "evil\\x1b[31m\\u202egnp.exe\\n[bold]x[/bold]" in shown
    why = run("-", "--why", "1" * 16, stdin=document).stdout
    assert "\x1b" not in why
    assert "\u202e" not in why


def test_values_that_json_has_no_form_for() -> None:
    document = otlp(
        {"spanId": "1" * 16, "name": "t", "attributes": [
            attribute("gen_ai.operation.name", stringValue="execute_tool"),
            attribute("gen_ai.tool.call.arguments", bytesValue="AAE="),
            attribute("gen_ai.tool.call.result", doubleValue="Infinity"),
        ]}
    )  # fmt: skip
    result = run("-", "--json", stdin=document)
    (step,) = json.loads(result.stdout, parse_constant=pytest.fail)["steps"]
    assert (step["input"], step["output"]) == ("0001", "Infinity")


@pytest.mark.parametrize("args", [(), ("--json",), ("x.jsonl", "--nonsense"), ("x.jsonl", "--why")])
def test_wrong_usage(args: tuple[str, ...]) -> None:
    assert run(*args).exit_code == 64


@pytest.mark.parametrize(
    "content", [b"{", b"not json at all\n{}", b'{"spans": []}', b"[1]", b"\x1f\x8bbroken", b'{"resourceSpans": 3}']
)
def test_unreadable_input_is_one_clear_line(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content)
    result = run(path)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("onpath: ")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr


def test_missing_file_and_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "none.jsonl", tmp_path):
        result = run(path)
        assert result.exit_code == 2
        assert str(path) in result.stderr


def test_nothing_recorded(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text("", encoding="utf-8")
    assert (run(path).exit_code, run(path, "--json").stdout) == (0, "")


def test_a_file_without_spans_says_so(tmp_path: Path) -> None:
    path = tmp_path / "logs.json"
    path.write_text('{"resourceLogs": []}')
    for more in ((), ("--json",)):
        result = run(path, *more)
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"onpath: no spans in {path}\n")
