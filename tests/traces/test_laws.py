"""What must hold of any trace, tried on the recordings in the repository."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onpath.cli.steps import scope_line
from onpath.conventions.base import Flattened
from onpath.conventions.table import EVENTS, READERS
from onpath.model import Event, LogRecord, Span, Trace
from onpath.recordings import Recording, read_files
from onpath.steps import recognise
from onpath.steps.model import Scope
from tests.conftest import FIXTURES
from tests.conventions.build import span
from tests.traces.corpus import Run, runs

RUNS = list(runs(FIXTURES / "traces"))
LAW = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
CONTENT = ("arguments", "result", "input", "output", "input_messages", "output_messages")
# These keys say by being there that there are others to look at; they hold no content themselves.
NO_CONTENT = {"openinference.span.kind", "tool_name", "genkit:name", ""}
CONTENT_KEYS = {key for fact in CONTENT for key, _ in READERS[fact]} - NO_CONTENT
CONTENT_PREFIXES = tuple(
    reader.prefix + "." for fact in CONTENT for _, reader in READERS[fact] if isinstance(reader, Flattened)
)


@pytest.fixture(params=RUNS, ids=lambda run: run.id)
def recording(request: pytest.FixtureRequest) -> Recording:
    run: Run = request.param
    return read_files(run.files)


def seen(spans: Iterable[Span], logs: Iterable[LogRecord] = ()) -> list[dict[str, Any]]:
    """All that is shown of a trace."""
    trace = Trace(spans, logs)
    return [json.loads(json.dumps(scope_line(trace, s), default=str)) for s in recognise(trace).scopes()]


def calls(scopes: Sequence[Scope]) -> Counter[tuple[str, str | None]]:
    """How many different steps there are of each kind and name."""
    found = {
        (s.kind, s.name, s.span_ids or (s.call_id, repr(s.input))) for scope in scopes for s in scope.steps if s.ran
    }
    return Counter((kind, name) for kind, name, _ in found)


@LAW
@given(data=st.data())
def test_order_batches_and_duplicates_change_nothing(recording: Recording, data: st.DataObject) -> None:
    spans = data.draw(st.permutations(recording.spans))
    again = data.draw(st.lists(st.sampled_from(recording.spans), max_size=5))
    logs = data.draw(st.permutations(recording.logs))
    assert seen([*spans, *again], logs) == seen(recording.spans, recording.logs)


@LAW
@given(data=st.data())
def test_removing_spans_never_invents_a_step(recording: Recording, data: st.DataObject) -> None:
    kept = data.draw(st.lists(st.sampled_from(recording.spans), unique_by=id, min_size=1))
    whole = calls(recognise(Trace(recording.spans, recording.logs)).scopes())
    part = calls(recognise(Trace(kept, recording.logs)).scopes())
    for (kind, name), count in part.items():
        assert kind == "agent" or count <= whole[kind, name], (kind, name)


@LAW
@given(data=st.data())
def test_renaming_ids_changes_nothing_but_ids(recording: Recording, data: st.DataObject) -> None:
    ids = sorted({s.span_id for s in recording.spans})
    renamed = dict(zip(ids, data.draw(st.permutations([f"{n + 1:016x}" for n in range(len(ids))])), strict=True))
    spans = [
        replace(
            s,
            trace_id="f" * 32,
            span_id=renamed[s.span_id],
            parent_span_id=renamed.get(s.parent_span_id or "", s.parent_span_id),
        )
        for s in recording.spans
    ]
    logs = [replace(r, trace_id="f" * 32, span_id=renamed[r.span_id]) for r in recording.logs if r.span_id in renamed]
    back = {new: old for old, new in renamed.items()}
    before, after = seen(recording.spans, recording.logs), seen(spans, logs)
    trace_id = recording.spans[0].trace_id
    assert [_restored(line, back, trace_id) for line in after] == before


def _restored(line: dict[str, Any], back: Mapping[str, str], trace_id: str) -> dict[str, Any]:
    line["trace_id"] = trace_id
    line["scope"]["span_id"] = back[line["scope"]["span_id"]]
    for step in line["steps"]:
        step["span_ids"] = [back[i] for i in step["span_ids"]]
    return line


def _scrubbed(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in attributes.items() if k not in CONTENT_KEYS and not k.startswith(CONTENT_PREFIXES)}


def _without_content(span: Span) -> Span:
    events: list[Event] = [e for e in span.events if e.name not in EVENTS]
    return replace(span, attributes=_scrubbed(span.attributes), events=events)


def _bones(spans: Iterable[Span], logs: Iterable[LogRecord]) -> list[list[tuple[Any, ...]]]:
    """What no content may have a part in."""
    return [
        [(s.kind, s.name, s.agent, s.failed, s.start_ns, s.span_ids) for s in scope.steps if s.source == "spans"]
        for scope in recognise(Trace(spans, logs)).scopes()
    ]


def test_scrubbing_content_changes_no_name_order_or_failure(recording: Recording) -> None:
    scrub: Callable[[Span], Span] = _without_content
    assert _bones(map(scrub, recording.spans), ()) == _bones(recording.spans, recording.logs)


@pytest.mark.parametrize("name", ["delegate", "ask_billing"])
@pytest.mark.parametrize("beside", [False, True])
def test_scrubbing_content_moves_no_agent_out_of_a_call_or_into_one(name: str, beside: bool) -> None:
    """The recordings in the repository hold no call whose arguments name an agent that runs meanwhile."""
    root = span("flow", at=(0, 99))
    agents = [
        span(f"invoke_agent {a}", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": a}, at=at, under=root)
        for a, at in (("triage", (1, 90)), ("billing", (3, 70)))
    ]
    given = {"gen_ai.tool.call.arguments": '{"to": "billing"}', "gen_ai.tool.call.result": '{"agent": "billing"}'}
    calls = [
        span(n, {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": n, **given}, at=at, under=under)
        for n, at, under in ((name, (2, 80), root if beside else agents[0]), ("pay", (4, 60), agents[1]))
    ]
    spans = [root, *agents, *calls]
    assert _bones(map(_without_content, spans), ()) == _bones(spans, ())
