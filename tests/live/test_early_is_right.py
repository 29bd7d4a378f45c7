"""Over recorded runs: what is told early is never taken back, whenever an instrumentation sets its attributes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from onpath.live.book import Book, Run
from onpath.live.counts import Counts
from onpath.live.judge import Judge
from onpath.live.settings import Settings
from onpath.live.thread import Guard
from onpath.model import Span, Trace
from onpath.policy.load import load_data
from onpath.policy.model import Policy
from onpath.recordings import read_files, traces_of
from onpath.report import Finding, Report, Verdict
from onpath.testing import FakeClock
from onpath.testing.replay import sdk_span
from tests.live.test_same_report import recordings

TOOLS = ("lookup_user", "check_balance", "process_payment")


def adherence(**more: Any) -> Any:
    return {"adherence": {"expected_steps": list(TOOLS), "extract_from": "tool_calls", **more}}


WORKFLOWS: dict[str, Any] = {
    "prohibited": adherence(prohibited_steps=["delete_records", "send_receipt"]),
    "strict": adherence(strict_order=True, threshold=0.9),
    "open ended": {"seq!": ["...", "lookup_user", "...", "check_balance", "..."]},  # can pass as long as it runs
    "exact": {"seq!": ["llm", "lookup_user", "llm", "check_balance", "..."]},
    "flat": {"nested": "flatten", "seq!": ["llm", "lookup_user", {"any!": {"not_contains": ["check_balance"]}}]},
    "values": {"lookup_user": {"input": {"not_null!": True}, "output": {"type!": "number"}}},
}


# What an instrumentation can't know when a span starts.
_LATER = re.compile(r"output|outcome|completion|response|result|usage|token|finish|error|choice|messages|value")


class Watching:
    """A judge of one trace, asked after each start and end."""

    def __init__(self, policy: Policy) -> None:
        self.told: list[str] = []
        self.final: Report | None = None
        counts = Counts()
        self.judge = Judge(
            policy,
            self,
            counts,
            starts=True,
            guard=Guard(counts),
            on_violation=self._tell,
            clock=FakeClock(),
            used=FakeClock(),
        )
        self.book = Book(Settings(), counts, starts=True, watched=True)
        self._early = True

    def report(self, report: Report, run: Run, before: Any) -> None:
        self.final = report

    def _tell(self, finding: Finding, span: Any) -> None:
        assert span is not None
        if self._early:
            self.told.append(finding.message)

    def look(self) -> None:
        for run in self.book.touched_runs():
            self.judge.look(run)

    def end(self) -> None:
        self._early = False
        for run, reason in [*self.book.due(0), *self.book.drain()]:
            self.judge.release(run, reason)
            self.book.settle(run, 0)


def watched(policy: Policy, trace: Trace, *, blank: bool) -> Watching:
    """`blank`: attributes are set only when a span ends; else what can be known by then is there at its start."""
    watching = Watching(policy)
    moments: list[tuple[tuple[int, int, int], str, Span]] = []
    for number, span in enumerate(trace.spans):
        end = span.start_ns if span.end_ns is None else max(span.start_ns, span.end_ns)
        moments += [((span.start_ns, 0, number), "start", span), ((end, 1, -number), "end", span)]
    for _, what, span in sorted(moments, key=lambda m: m[0]):
        remote = span.parent_span_id is None or span.has_remote_parent
        parent = None if remote or span.parent_span_id is None else int(span.parent_span_id, 16)
        ids = (int(span.trace_id, 16), int(span.span_id, 16), parent)
        if what == "start":
            known = {} if blank else {k: v for k, v in span.attributes.items() if not _LATER.search(k)}
            begun = replace(span, attributes=known, events=(), end_ns=None, status_code=0, status_message="")
            watching.book.start(0, *ids, sdk_span(begun))
        else:
            watching.book.end(0, *ids, sdk_span(span), 10)
        watching.look()
    watching.end()
    return watching


def traces(part: int) -> Iterator[tuple[Path, Trace]]:
    """Those of one part of the recordings; each workflow sees another."""
    for path in recordings()[part :: 2 * len(WORKFLOWS)]:
        for trace in traces_of(read_files([path])):
            yield path, trace


@pytest.mark.parametrize("blank", [True, False], ids=["attributes at the end", "attributes at the start"])
def test_an_early_word_is_never_taken_back(blank: bool) -> None:
    if len(recordings()) < 20:
        pytest.skip("no recordings")
    early = dict.fromkeys(WORKFLOWS, 0)
    for part, (name, checks) in enumerate(WORKFLOWS.items()):
        policy = load_data({"version": 1, "workflows": [{"name": name, "match": {}, **checks}]})
        for path, trace in traces(2 * part + blank):
            watching = watched(policy, trace, blank=blank)
            verdict = None if watching.final is None else watching.final.verdict
            if watching.told and verdict is not Verdict.FAIL:
                pytest.fail(f"{path}: {name} is {verdict} after {watching.told}")
            early[name] += len(watching.told)
    assert early.pop("open ended") == 0
    assert all(early.values()), early
