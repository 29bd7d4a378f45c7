"""Report -> metrics (results.md section 2.3): the one mapping, for every process that counts results.

Data flow: Report -> `measured` (plain values, which also pass between processes) -> `points` -> `Instruments.record`,
in the context of the judged span, so that exemplars carry its ids. Names of workflows, evaluations and steps come from
the policy, never from a trace: a step that no policy names is counted as `other`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from opentelemetry.context import Context
from opentelemetry.metrics import Meter
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from onpath.policy.model import Policy
from onpath.report import Report, Result, Verdict
from onpath.results import score

Instrument: TypeAlias = Literal[
    "onpath.verdicts", "onpath.evaluations", "onpath.evaluation.score", "onpath.findings", "onpath.revised"
]

SCORE: Final[Instrument] = "onpath.evaluation.score"
SCORE_BOUNDARIES: Final = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
DESCRIPTIONS: Final[Mapping[Instrument, str]] = {
    "onpath.verdicts": "Verdicts of workflows on scopes",
    "onpath.evaluations": "Checks made, by label",
    SCORE: "Scores of checks, from 0 to 1",
    "onpath.findings": "Things found wrong, by rule",
    "onpath.revised": "Verdicts that late spans changed",
}
ATTRIBUTES: Final[Mapping[Instrument, tuple[str, ...]]] = {
    "onpath.verdicts": ("workflow", "verdict"),
    "onpath.evaluations": ("workflow", "evaluation", "label"),
    SCORE: ("workflow", "evaluation"),
    "onpath.findings": ("workflow", "rule", "step"),
    "onpath.revised": ("workflow", "from", "to"),
}
OTHER: Final = "other"

Measure: TypeAlias = tuple[Instrument, float, tuple[str, ...]]  # with the values of the instrument's ATTRIBUTES


class Point(NamedTuple):
    """One measurement, with the ids (hex) of the span that it is about."""

    instrument: Instrument
    value: float
    attributes: Mapping[str, str]
    trace_id: str
    span_id: str


class Measured(NamedTuple):
    """All measurements of one result. Those of many results differ in nothing but the ids of the judged span."""

    measures: tuple[Measure, ...]
    trace_id: str
    span_id: str

    @property
    def points(self) -> Iterator[Point]:
        for instrument, value, values in self.measures:
            attributes = dict(zip(ATTRIBUTES[instrument], values, strict=True))
            yield Point(instrument, value, attributes, self.trace_id, self.span_id)


def step_names(policy: Policy) -> frozenset[str]:
    """Every text in a policy that a finding may name as a step."""
    found: set[str] = set()
    waiting: list[Any] = [workflow.checks for workflow in policy.workflows]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            found.add(value)
        elif isinstance(value, Mapping):
            waiting += (*value.keys(), *value.values())
        elif isinstance(value, list | tuple | set | frozenset):
            waiting += value
        elif is_dataclass(value):
            waiting += (getattr(value, f.name) for f in fields(value))
            waiting.append(getattr(value, "written", None))
    return frozenset(found)


def points(
    report: Report, steps: frozenset[str], before: Mapping[tuple[str, str], Verdict] | None = None
) -> list[Point]:
    """What to count for a report; see `measured`."""
    return [point for one in measured(report, steps, before) for point in one.points]


def measured(
    report: Report, steps: frozenset[str], before: Mapping[tuple[str, str], Verdict] | None = None
) -> list[Measured]:
    """What to count for each result of a report, where that is anything.

    `steps` are the policy's `step_names`. `before` has the verdicts, by workflow and span id, of the report that
    this one replaces. A trace counts once: a revision adds verdicts that have changed, each with where it came from.
    """
    found = [
        Measured(tuple(_measures(result, steps, before or {})), result.trace_id, result.span_id)
        for result in report.results
    ]
    return [one for one in found if one.measures]


def _measures(result: Result, steps: frozenset[str], before: Mapping[tuple[str, str], Verdict]) -> Iterator[Measure]:
    workflow = result.workflow
    was = before.get((workflow, result.span_id))
    if was != result.verdict:
        yield "onpath.verdicts", 1, (workflow, str(result.verdict))
    if was is not None:
        if was != result.verdict:
            yield "onpath.revised", 1, (workflow, str(was), str(result.verdict))
        return
    for evaluation in result.evaluations:
        yield "onpath.evaluations", 1, (workflow, evaluation.name, str(evaluation.label))
        value = score(evaluation.score)
        if value is not None:
            yield SCORE, value, (workflow, evaluation.name)
        for finding in evaluation.findings:
            known = finding.step if finding.step in steps else OTHER
            yield "onpath.findings", 1, (workflow, finding.rule, known or OTHER)


class Instruments:
    """The instruments of one meter."""

    def __init__(self, meter: Meter) -> None:
        self._counters = {
            name: meter.create_counter(name, description=told) for name, told in DESCRIPTIONS.items() if name != SCORE
        }
        self._score = meter.create_histogram(
            SCORE,
            description=DESCRIPTIONS[SCORE],
            explicit_bucket_boundaries_advisory=SCORE_BOUNDARIES,
        )

    def record(self, measured: Iterable[Point]) -> None:
        context, about = Context(), ("", "")
        for point in measured:
            attributes: dict[str, Any] = dict(point.attributes)
            if about != (point.trace_id, point.span_id):  # points of one result come together
                context, about = _context(point), (point.trace_id, point.span_id)
            if point.instrument == SCORE:
                self._score.record(point.value, attributes, context)
            else:
                self._counters[point.instrument].add(point.value, attributes, context)


def _context(point: Point) -> Context:
    """Sampled, since exemplars are taken of sampled spans alone."""
    flags = TraceFlags(TraceFlags.SAMPLED)
    judged = SpanContext(int(point.trace_id, 16), int(point.span_id, 16), is_remote=True, trace_flags=flags)
    return set_span_in_context(NonRecordingSpan(judged))
