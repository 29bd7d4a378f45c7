"""Report -> what leaves onpath: JSON, OpenTelemetry events and spans. The one mapping; every exit uses it.

Data flow: Report, Result -> `Leaving` (ids and shared attributes, made once) -> JSON objects, and values of events and
spans -> records of the OpenTelemetry SDK in `results_records`, bytes of OTLP in the collector.

Ids are computed, never drawn (results.md section 1): the same trace judged again gives the same event and the same span
id, and a revision shares its `key` with the report that it replaces.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache
from importlib.metadata import version as distribution_version
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from opentelemetry._logs import SeverityNumber

from onpath.report import Evaluation, Report, Result, Verdict
from onpath.results_presets import Preset, preset_attributes

SpanMode: TypeAlias = Literal["clamped", "realtime", "linked", "off"]

EVENT_NAME: Final = "gen_ai.evaluation.result"
SCOPE_NAME: Final = "onpath"
EVALUATION_ID: Final = "onpath.evaluation.id"

_SEVERITIES: Final = {
    Verdict.PASS: SeverityNumber.INFO,
    Verdict.FAIL: SeverityNumber.WARN,
    Verdict.UNKNOWN: SeverityNumber.INFO,
}


@cache
def version() -> str:
    """The version of the installed distribution."""
    return distribution_version("onpath")


def score(value: Fraction | None) -> float | None:
    """An exact score as the nearest double: the only place where it becomes one."""
    return None if value is None else value.numerator / value.denominator


def result_json(report: Report, result: Result, judged_at_ns: int) -> dict[str, Any]:
    """One object a Result, as results.md section 1 shows it. `judged_at_ns` is nanoseconds since the Unix epoch."""
    return Leaving(report, result).json(judged_at_ns)


def signature(report: Report) -> str:
    """Digest of what makes a new revision worth sending: verdicts, scores, labels and findings."""
    return _digest(
        json_text(
            [
                [r.workflow, r.span_id, r.verdict]
                + [
                    [e.name, e.label, str(e.score), [[f.rule, f.severity, f.step, *f.span_ids] for f in e.findings]]
                    for e in r.evaluations
                ]
                for r in report.results
            ]
        )
    )


def headline(result: Result) -> Evaluation | None:
    """The evaluation that a reader wants first: the first that decided the verdict, else the first at all."""
    for evaluation in result.evaluations:
        if evaluation.label == result.verdict:
            return evaluation
    return result.evaluations[0] if result.evaluations else None


def summary(result: Result) -> str:
    """One line: each evaluation with its label and score."""
    return _summary(result, [score(e.score) for e in result.evaluations])


def _summary(result: Result, scores: Sequence[float | None]) -> str:
    return "; ".join(
        [
            f"{e.name} {e.label}" if value is None else f"{e.name} {e.label} {value:.3g}"
            for e, value in zip(result.evaluations, scores, strict=True)
        ]
    )


# What leaves as JSON is written so: no spaces, and text as it is.
json_text: Final[Callable[[Any], str]] = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), check_circular=False
).encode


class EventValues(NamedTuple):
    """Of one log record. `common` are the attributes that all records of the Result share."""

    trace_id: str
    span_id: str
    end_ns: int | None
    severity: SeverityNumber
    judged: Mapping[str, Any]
    common: Mapping[str, Any]
    id: str

    @property
    def attributes(self) -> dict[str, Any]:
        return {**self.judged, **self.common, EVALUATION_ID: self.id}


class SpanValues(NamedTuple):
    """Of one evaluation span. `parent_span_id` None: a trace of its own. `links` are (trace id, span id)."""

    name: str
    trace_id: str
    span_id: str
    parent_span_id: str | None
    end_ns: int | None
    judged: Mapping[str, Any]
    common: Mapping[str, Any]
    own: Mapping[str, Any]
    links: list[tuple[str, str]]

    @property
    def attributes(self) -> dict[str, Any]:
        return {**self.judged, **self.common, **self.own}


class Leaving:
    """One Result on its way out. What several exits need is made once: ids, and the attributes all records share."""

    __slots__ = ("_common", "_identity", "_ids", "_own", "_report", "_result", "_scores")

    def __init__(self, report: Report, result: Result) -> None:
        self._report = report
        self._result = result
        self._identity = _identity(result)
        self._ids = [self._id(evaluation.name) for evaluation in result.evaluations]
        self._own = self._id("")
        self._scores = [score(evaluation.score) for evaluation in result.evaluations]
        self._common = _common(report, result)

    def _id(self, evaluation: str) -> str:
        return _digest(f"{self._identity},{json_text(evaluation)},{self._report.revision}]")

    @property
    def result(self) -> Result:
        return self._result

    @property
    def key(self) -> str:
        """What stays the same over revisions, of the workflow: 32 hex digits."""
        return _digest(f'{self._identity},""]')

    @property
    def span_id(self) -> bytes:
        """Of the evaluation span."""
        return bytes.fromhex(self._own[:16])

    def json(self, judged_at_ns: int) -> dict[str, Any]:
        """See `result_json`."""
        report, result = self._report, self._result
        coverage = result.coverage
        judged_at = datetime.fromtimestamp(judged_at_ns / 1e9, UTC).isoformat(timespec="milliseconds")
        return {
            "trace_id": result.trace_id,
            "span_id": result.span_id,
            "session": result.session,
            "service": result.service,
            "agent": result.agent,
            "workflow": result.workflow,
            "verdict": str(result.verdict),
            "complete": report.complete,
            "release_reason": report.release_reason,
            "revision": report.revision,
            "supersedes": report.revision - 1 if report.revision > 1 else None,
            "policy_fingerprint": report.policy_fingerprint,
            "version": version(),
            "judged_at": judged_at.replace("+00:00", "Z"),
            "evaluations": [
                _evaluation_json(e, _digest(f"{self._identity},{json_text(e.name)}]"), revision, value)
                for e, revision, value in zip(result.evaluations, self._ids, self._scores, strict=True)
            ],
            "coverage": {
                "root": coverage.root,
                "orphans": coverage.orphans,
                "content": coverage.content,
                "spans": coverage.spans,
                "steps": coverage.steps,
                "late": coverage.late,
                "duplicates": coverage.duplicates,
            },
        }

    def events(self) -> Iterator[EventValues]:
        """One an evaluation."""
        result = self._result
        for evaluation, revision, value in zip(result.evaluations, self._ids, self._scores, strict=True):
            broken = evaluation.broken is not None
            yield EventValues(
                trace_id=result.trace_id,
                span_id=result.span_id,
                end_ns=result.end_ns,
                severity=SeverityNumber.ERROR if broken else _SEVERITIES[evaluation.label],
                judged=_judged(evaluation.name, evaluation, evaluation.label, value),
                common=self._common,
                id=revision,
            )

    def span(self, mode: SpanMode, presets: Collection[Preset] = ()) -> SpanValues:
        """`linked`: in a trace of its own, with one link to the judged span."""
        result = self._result
        computed = self._own
        chosen = headline(result)
        linked = mode == "linked"
        judged = _judged(result.workflow, chosen, result.verdict, score(chosen.score) if chosen else None)
        told = _summary(result, self._scores)
        own = {EVALUATION_ID: computed, "onpath.summary": told, "openinference.span.kind": "EVALUATOR"}
        if presets:
            scored = zip(result.evaluations, self._scores, strict=True)
            scores = {e.name: value for e, value in scored if value is not None}
            own |= preset_attributes(presets, result.workflow, judged, scores)
        return SpanValues(
            name=f"onpath.evaluate {result.workflow}",
            trace_id=computed if linked else result.trace_id,
            span_id=computed[:16],
            parent_span_id=None if linked else result.span_id,
            end_ns=None if mode == "realtime" else result.end_ns or None,  # 0: the span's end was not recorded
            judged=judged,
            common=self._common,
            own=own,
            links=[(result.trace_id, result.span_id)] if linked else _deciding(result),
        )


def _identity(result: Result) -> str:
    """The JSON array that ids are digests of, up to the name of an evaluation."""
    return json_text([result.session or result.trace_id, result.workflow, result.span_id])[:-1]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _evaluation_json(evaluation: Evaluation, lasting: str, revision: str, value: float | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "key": lasting,
        "id": revision,
        "name": evaluation.name,
        "score": value,
        "label": str(evaluation.label),
        "explanation": evaluation.explanation,
        "findings": [
            {
                "rule": f.rule,
                "severity": f.severity,
                "message": f.message,
                "step": f.step,
                "span_ids": list(f.span_ids),
            }
            for f in evaluation.findings
        ],
        "alignment": [
            {"move": row.move, "expected": row.expected, "seen": row.seen, "span_ids": list(row.span_ids)}
            for row in evaluation.alignment
        ],
    }
    if evaluation.reason is not None:
        found["reason"] = evaluation.reason
    if evaluation.order_undetermined:
        found["order_undetermined"] = True
    if evaluation.broken is not None:
        found["error_type"] = evaluation.broken
    return found


def _common(report: Report, result: Result) -> dict[str, Any]:
    found = {
        "onpath.workflow": result.workflow,
        "onpath.verdict": str(result.verdict),
        "onpath.severity": result.severity,
        "onpath.revision": report.revision,
        "onpath.complete": report.complete,
        "onpath.release_reason": report.release_reason,
        "onpath.policy.fingerprint": report.policy_fingerprint,
        "onpath.version": version(),
        "gen_ai.agent.name": result.agent,
        "gen_ai.conversation.id": result.session or result.conversation,
    }
    return {k: v for k, v in found.items() if v is not None}


def _judged(name: str, evaluation: Evaluation | None, label: Verdict, value: float | None) -> dict[str, Any]:
    found: dict[str, Any] = {"gen_ai.evaluation.name": name}
    if evaluation is not None:
        found["gen_ai.evaluation.score.label"] = str(label)
        if value is not None:
            found["gen_ai.evaluation.score.value"] = value
        if evaluation.explanation:
            found["gen_ai.evaluation.explanation"] = evaluation.explanation
        if evaluation.broken is not None:
            found["error.type"] = evaluation.broken
    return found


def _deciding(result: Result) -> list[tuple[str, str]]:
    """Each span that decided the verdict, in order of the findings."""
    ids = dict.fromkeys(i for e in result.evaluations for f in e.findings for i in f.span_ids)
    return [(result.traces.get(i, result.trace_id), i) for i in ids]
