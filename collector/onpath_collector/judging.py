"""One released trace in, everything that leaves for it out: the work that a worker process does.

Job (bytes of spans) -> otlp.decode -> Trace -> evaluate -> Report -> Outcome (JSON lines, console lines, OTLP bytes).
Nothing here knows of processes, queues or clocks; `workers` runs it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import orjson

from onpath import results
from onpath.evaluate import evaluate, unjudged
from onpath.model import Span, Trace
from onpath.policy.model import Policy
from onpath.report import Answer, Question, Report, Result, Verdict
from onpath.results_metrics import Measured, measured
from onpath.results_presets import Preset
from onpath_collector.doubts import unknown_checks
from onpath_collector.otlp import decode, is_declared_root
from onpath_collector.otlp.marking import Marks
from onpath_collector.otlp.results import encode_events, encode_marks, encode_spans
from onpath_collector.timing import Timer

PROJECT: Final = "openinference.project.name"  # of a resource: where Phoenix files its traces
_ascii_json: Final = json.JSONEncoder(separators=(",", ":")).encode  # names may hold what turns text around
_SMALL_NUMBER: Final = re.compile(rb"[\[:,][0-9.]+e-")
_DRAWN: Final = 300  # steps of a time line; of more, only the first
_MARK: Final = 8  # digits that tell the results of one trace apart


@dataclass(frozen=True, slots=True)
class Setup:
    """What every job of a worker shares. `resource` describes this collector, `steps` are the policy's `step_names`."""

    policy: Policy
    resource: Mapping[str, str]
    span_mode: results.SpanMode = "clamped"
    steps: frozenset[str] = frozenset()
    presets: tuple[Preset, ...] = ()
    marks: bool = False  # whether outcomes have `marks`
    root_attributes: Mapping[str, str] = field(default_factory=dict)  # of declared roots, see otlp.Wanted


@dataclass(frozen=True, slots=True)
class Job:
    """A released trace. `unknown`: it is not looked into, and every check is unknown for that reason.

    `root` is the span id of a declared root, whose subtree alone is judged; `without` are those judged by themselves.
    `before` is the signature of the report that this one would replace.
    """

    chunks: Sequence[bytes]
    release_reason: str
    judged_at_ns: int
    evidence: Sequence[bytes] = ()
    session: str | None = None
    revision: int = 1
    late: int = 0
    duplicates: int = 0
    root: bytes | None = None
    without: Sequence[bytes] = ()
    unknown: str | None = None
    before: str | None = None
    answers: Mapping[str, Answer] = field(default_factory=dict)  # a model's, by question id


@dataclass(frozen=True, slots=True)
class VerdictLine:
    """What the console says of one Result."""

    workflow: str
    verdict: str
    score: float | None
    service: str | None
    trace_id: str
    finding: str | None


class Place(NamedTuple):
    """Where a Result's scope stands: `root` if nothing of the trace is above it; when its span ended."""

    root: bool
    end_ns: int | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What leaves for one trace. `lines`, `verdicts` and `places` have one entry a Result; `spans` and `logs` are
    serialised OTLP export requests, empty for none.

    `signature` differs when a revision is worth sending, and holds each result's verdict. `others` are the other traces
    of a session.
    """

    trace_id: str
    revision: int
    signature: str
    others: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    verdicts: tuple[VerdictLine, ...] = ()
    places: tuple[Place, ...] = ()
    evaluations: int = 0
    spans: bytes = b""
    logs: bytes = b""
    unmatched: Mapping[str, int] = field(default_factory=dict)
    broken: tuple[str, ...] = ()  # evaluations that failed themselves: workflow/evaluation: error type
    questions: tuple[Question, ...] = ()  # open ones, for a model
    measured: tuple[Measured, ...] = ()  # for metrics
    unknown: Mapping[tuple[str, str], int] = field(default_factory=dict)  # checks, by workflow and why
    ended_ns: int | None = None  # when the last of the trace's roots had ended
    own_spans: tuple[bytes, ...] = ()  # ids of the evaluation spans, by which they are known when they come back
    root: str | None = None  # span id of the declared root that alone was judged
    timelines: tuple[str, ...] = ()  # one JSON text a result, see `timeline`
    marks: Marks = field(default_factory=dict)  # attributes for the scopes' own spans
    seconds: Mapping[tuple[str, str], float] = field(default_factory=dict, compare=False)  # by workflow and check


def judge(job: Job, setup: Setup, timer: Timer | None = None) -> Outcome:
    """Judges one trace. `timer` is made of the setup's policy."""
    spans, logs = decode(job.chunks, job.evidence)
    if job.root is not None or job.without:
        spans = _part(spans, job.root, job.without)
    elif job.session is not None and setup.root_attributes:
        spans = _rooted(spans, setup.root_attributes)
    trace = Trace(spans, logs, session=job.session, release_reason=job.release_reason)
    policy = setup.policy if timer is None else timer.policy
    report = unjudged(trace, policy, job.unknown) if job.unknown else evaluate(trace, policy, job.answers)
    seconds = {} if timer is None else timer.take()
    return _outcome(_with_history(report, job), trace, job, setup, seconds)


def _part(spans: Sequence[Span], root: bytes | None, without: Sequence[bytes]) -> list[Span]:
    """The spans at and below `root`, which then has no parent; all if None; none of the subtrees in `without`."""
    trace = Trace(spans)
    chosen: list[Span] = []
    skipped = {i.hex() for i in without}
    top = None if root is None else root.hex()
    below = list(trace.roots) if top is None else [s for s in trace.spans if s.span_id == top]
    while below:
        span = below.pop()
        if span.span_id in skipped and span.span_id != top:
            continue
        below.extend(trace.children(span))
        chosen.append(span)
    return [_as_root(s) if s.span_id == top else s for s in chosen]


def _rooted(spans: Sequence[Span], root_attributes: Mapping[str, str]) -> list[Span]:
    """In a session a declared root is just a root: nothing is missing above it."""
    known = {span.key for span in spans}
    return [
        _as_root(s) if s.parent_key not in known and is_declared_root(s.attributes, root_attributes) else s
        for s in spans
    ]


def _as_root(span: Span) -> Span:
    return replace(span, parent_span_id=None)


def _with_history(report: Report, job: Job) -> Report:
    if not job.late and not job.duplicates:
        return report if report.revision == job.revision else replace(report, revision=job.revision)
    counted = tuple(
        replace(r, coverage=replace(r.coverage, late=job.late, duplicates=r.coverage.duplicates + job.duplicates))
        for r in report.results
    )
    return replace(report, results=counted, revision=job.revision)


def _outcome(report: Report, trace: Trace, job: Job, setup: Setup, seconds: Mapping[tuple[str, str], float]) -> Outcome:
    leaving = [results.Leaving(report, result) for result in report.results]
    before = _verdicts_before(leaving, job.before)
    broken = [(r, e) for r in report.results for e in r.evaluations if e.broken is not None]
    return Outcome(
        trace_id=report.trace_id,
        revision=report.revision,
        signature=_signature(report, leaving),
        lines=tuple([json_line(one.json(job.judged_at_ns)) for one in leaving]),
        verdicts=tuple([_verdict(r) for r in report.results]),
        places=_places(report, trace, job),
        evaluations=sum([len(r.evaluations) for r in report.results]),
        spans=encode_spans(leaving, _resource(trace, setup), setup.span_mode, job.judged_at_ns, setup.presets),
        logs=encode_events(leaving, setup.resource, job.judged_at_ns),
        unmatched=dict(report.unmatched),
        broken=tuple([f"{r.workflow}/{e.name}: {e.broken}" for r, e in broken]),
        questions=report.questions,
        measured=tuple(measured(report, setup.steps, before)),
        unknown=unknown_checks(report, before),
        ended_ns=max([span.end_ns for span in trace.roots if span.end_ns], default=None),
        own_spans=tuple([one.span_id for one in leaving]) if setup.span_mode != "off" else (),
        root=None if job.root is None else job.root.hex(),
        timelines=tuple([_json_text(timeline(r)) for r in report.results]),
        marks=encode_marks(leaving) if setup.marks else {},
        seconds=seconds,
    )


def json_line(found: dict[str, Any]) -> str:
    """In ASCII, as `json` writes it, in a tenth of the time where there is nothing to escape.

    Numbers below 1e-4 are spelled in two ways by the two.
    """
    try:
        data = orjson.dumps(found)
    except TypeError:  # a lone surrogate
        return _ascii_json(found)
    as_json_does = data.isascii() and not (b"e-" in data and _SMALL_NUMBER.search(data))
    return data.decode() if as_json_does else _ascii_json(found)


def _json_text(found: dict[str, Any]) -> str:
    """As `results.json_text` writes it, of whole numbers and texts."""
    try:
        return orjson.dumps(found).decode()
    except TypeError:  # a lone surrogate
        return results.json_text(found)


def timeline(result: Result) -> dict[str, Any]:
    """When the scope's steps were, without what they held: times in nanoseconds since the Unix epoch, or None.

    A step is [kind, name or model, start, end, status, [first span id]]; `more` counts those that are left out.
    """
    drawn = result.steps[:_DRAWN]
    return {
        "start": result.start_ns,
        "end": result.end_ns,
        "steps": [
            [s.kind, (s.kind == "llm" and s.model) or s.name, s.start_ns, s.end_ns, s.status, s.span_ids[:1]]
            for s in drawn
        ],
        "more": len(result.steps) - len(drawn),
    }


def _places(report: Report, trace: Trace, job: Job) -> tuple[Place, ...]:
    tops = set() if job.root is not None else {span.key for span in trace.roots}
    return tuple([Place((r.trace_id, r.span_id) in tops, r.end_ns) for r in report.results])


def _resource(trace: Trace, setup: Setup) -> Mapping[str, str]:
    """The collector's own, with the agent's project, so that its evaluation span is filed with it."""
    project = trace.roots[0].resource.attributes.get(PROJECT) if trace.roots else None
    return {**setup.resource, PROJECT: project} if isinstance(project, str) else setup.resource


def _signature(report: Report, leaving: Sequence[results.Leaving]) -> str:
    """The digest and, short, each result's key with its verdict: the buffer keeps one for every settled trace."""
    return " ".join([results.signature(report), *(one.key[:_MARK] + one.result.verdict for one in leaving)])


def verdicts_in(signature: str) -> set[str]:
    """Those of a report's results."""
    return {mark[_MARK:] for mark in signature.split()[1:]}


def _verdicts_before(leaving: Sequence[results.Leaving], signature: str | None) -> dict[tuple[str, str], Verdict]:
    if signature is None:
        return {}
    marks = {mark[:_MARK]: Verdict(mark[_MARK:]) for mark in signature.split()[1:]}
    found = [(one.result, marks.get(one.key[:_MARK])) for one in leaving]
    return {(result.workflow, result.span_id): verdict for result, verdict in found if verdict is not None}


def _verdict(result: Result) -> VerdictLine:
    chosen = results.headline(result)
    scored = next((e.score for e in result.evaluations if e.score is not None), None)
    findings = [f.message for e in result.evaluations for f in e.findings]
    told = findings[0] if findings else None
    if told is None and result.verdict is not Verdict.PASS and chosen is not None:
        told = chosen.reason or chosen.explanation.partition("\n")[0]
    return VerdictLine(
        workflow=result.workflow,
        verdict=str(result.verdict),
        score=results.score(scored),
        service=result.service,
        trace_id=result.trace_id,
        finding=told,
    )
