"""Same policy, same trace, same report: in process, by the collector, by `onpath check`; ids and fingerprint too."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from onpath import OnPathSpanProcessor, results
from onpath.cli import main
from onpath.evaluate import evaluate
from onpath.model import Trace
from onpath.policy.load import load_data
from onpath.policy.model import Policy
from onpath.recordings import read_files, traces_of
from onpath.testing import MemorySink
from onpath.testing.replay import replay, sdk_log, sdk_span
from onpath_collector.judging import Job, Setup, judge
from tests.conftest import FIXTURES, SHARED

POLICY = {
    "version": 1,
    "workflows": [
        {
            "name": "refund",
            "match": {},
            "capture_content": True,
            "adherence": {
                "expected_steps": ["lookup_user", "check_balance", "process_payment"],
                "required_steps": ["lookup_user"],
                "prohibited_steps": ["delete_records", "get_weather"],
                "extract_from": "tool_calls",
            },
        },
        {
            "name": "flow",
            "match": {},
            "nested": "flatten",
            "seq!": ["...", {"lookup_user:": {"input": {"not_null!": True}}}, "...", "process_payment", "..."],
        },
        {"name": "beside", "match": {}, "parallel!": ["get_weather", "get_datetime"]},
        {"name": "values", "match": {}, "output": {"not_null!": True}, "elapsed": {"lte!": 1000}},
    ],
}


def recordings() -> list[Path]:
    folders = [FIXTURES / "traces", SHARED / "traces"]
    found = [path for folder in folders for path in sorted(folder.rglob("*.jsonl"))]
    return [path for path in found if not path.name.endswith(".logs.jsonl")]


@pytest.fixture(scope="module")
def policy() -> Policy:
    return load_data(POLICY)


def files(path: Path) -> list[Path]:
    logs = path.with_suffix(".logs.jsonl")
    return [path, *([logs] if logs.exists() else [])]


def traces(path: Path) -> Iterator[Trace]:
    yield from traces_of(read_files(files(path)))


def in_process(trace: Trace, policy: Policy) -> Any:
    sink = MemorySink()
    processor = OnPathSpanProcessor(policy, on_report=sink, events=False, metrics=False)
    replay(trace.spans, processor, trace.logs, processor.log_evidence.on_emit)
    processor.shutdown()
    assert not processor.counts.faults
    return sink.reports[-1]


def told(report: Any) -> list[dict[str, Any]]:
    made = [{**results.result_json(report, r, 0), "judged_at": None} for r in report.results]
    return json.loads(json.dumps(made))  # type: ignore[no-any-return]


def by_the_collector(trace: Trace, policy: Policy, reason: str) -> list[dict[str, Any]]:
    spans = encode_spans([sdk_span(span) for span in trace.spans]).SerializeToString()
    evidence = [encode_logs([sdk_log(record)]).SerializeToString() for record in trace.logs]
    outcome = judge(Job([spans], reason, judged_at_ns=0, evidence=evidence), Setup(policy, {}))
    return [{**json.loads(line), "judged_at": None} for line in outcome.lines]


def by_the_command(path: Path, policy: Path) -> dict[str, list[dict[str, Any]]]:
    """What `onpath check` says of each trace."""
    options = ["check", "--policy", str(policy), "--format", "json"]
    done = CliRunner().invoke(main, [*options, *map(str, files(path))])
    assert done.exit_code in (0, 1, 3), done.output
    found: dict[str, list[dict[str, Any]]] = {}
    for line in done.stdout.splitlines():
        result = json.loads(line)
        found.setdefault(result["trace_id"], []).append({**result, "judged_at": None})
    return found


def differences(paths: Sequence[Path], policy: Policy, file: Path) -> Iterator[str]:
    for path in paths:
        checked = by_the_command(path, file)
        for trace in traces(path):
            live = in_process(trace, policy)
            said = told(live)
            offline = evaluate(Trace(trace.spans, trace.logs, release_reason=live.release_reason), policy)
            collected = by_the_collector(trace, policy, live.release_reason)
            recorded = checked.get(trace.trace_id, [])
            if trace.orphans:  # a file does not say that nothing was open any more
                recorded = [{**result, "release_reason": live.release_reason} for result in recorded]
            for where, found in (("offline", told(offline)), ("collector", collected), ("check", recorded)):
                if found != said:
                    yield f"{path.parent.name}/{path.name} {trace.trace_id}: {where} says otherwise"


def test_reports_are_the_same_wherever_a_trace_is_judged(policy: Policy, tmp_path: Path) -> None:
    found = recordings()
    if len(found) < 20:
        pytest.skip("no recordings")
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(POLICY))
    assert list(differences(found, policy, file)) == []
