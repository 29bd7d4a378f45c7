"""What a check says: Evaluation, Finding, Result, Report (results.md section 1). Values only; `results` maps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias

from onpath.steps.model import Step

Severity: TypeAlias = Literal["low", "material", "critical"]
Move: TypeAlias = Literal["same", "missing", "extra", "moved"]


class Verdict(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"

    @staticmethod
    def of(labels: Sequence[Verdict]) -> Verdict:
        """Fail if one fails, else unknown if one is unknown, else pass."""
        for verdict in (Verdict.FAIL, Verdict.UNKNOWN):
            if verdict in labels:
                return verdict
        return Verdict.PASS


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing wrong, with the spans that show it."""

    rule: str
    message: str
    severity: Severity = "material"
    step: str | None = None
    span_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignmentRow:
    """One line of expected beside seen."""

    move: Move
    expected: str | None = None
    seen: str | None = None
    span_ids: tuple[str, ...] = ()


_new: Final = object.__new__
_set_move, _set_expected, _set_seen, _set_span_ids = (
    getattr(AlignmentRow, f.name).__set__ for f in fields(AlignmentRow)
)


def aligned(move: Move, expected: str | None, seen: str | None, span_ids: tuple[str, ...]) -> AlignmentRow:
    """A row, in half the time of the constructor: a run has one for each step."""
    row: AlignmentRow = _new(AlignmentRow)
    _set_move(row, move)
    _set_expected(row, expected)
    _set_seen(row, seen)
    _set_span_ids(row, span_ids)
    return row


_BREAKS: Final = {ord(c): c.encode("unicode_escape").decode() for c in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"}


def one_line(text: str) -> str:
    """A line of an explanation: a name in it that breaks lines, as a trace may have, must not begin one of its own."""
    return text if text.isprintable() else text.translate(_BREAKS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a check needs a judge for. `judge` answers it by id, and `evaluate` is called again with the answers."""

    id: str  # digest of all that the answer depends on
    kind: Literal["prompt", "semantic", "rubric", "language"]
    value: Any  # the only part of the trace that leaves for the judge
    criterion: Any
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A judge's word: held or not, or None with the reason why there is none."""

    holds: bool | None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Outcome of one check. `score` is exact and becomes a float only where it leaves.

    `reason` is the machine-readable cause of an unknown label; `data` holds what only this kind of check has
    (extracted steps, matched blocks), for callers in the same process.
    """

    name: str
    label: Verdict
    score: Fraction | None = None
    explanation: str = ""
    reason: str | None = None
    findings: tuple[Finding, ...] = ()
    alignment: tuple[AlignmentRow, ...] = ()
    order_undetermined: bool = False
    broken: str | None = None  # the evaluation itself failed: its `error.type`
    questions: tuple[Question, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What was seen of the trace."""

    root: bool
    orphans: int
    content: Literal["full", "partial", "none"]
    spans: int
    steps: int
    late: int = 0
    duplicates: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """All evaluations and the verdict of one workflow on one scope."""

    trace_id: str
    span_id: str  # of the scope's own span
    session: str | None  # that the trace was joined by; None for a trace judged by itself
    service: str | None
    agent: str | None
    workflow: str
    verdict: Verdict
    severity: Severity
    end_ns: int | None  # end of the scope's span: where the evaluation span is clamped to
    evaluations: tuple[Evaluation, ...]
    coverage: Coverage
    conversation: str | None = None  # the session that the scope's own spans name, joined by it or not
    start_ns: int | None = None
    traces: Mapping[str, str] = field(default_factory=dict)  # by span id, of a session's other traces
    steps: tuple[Step, ...] = field(default=(), compare=False, repr=False)  # what was judged, to draw; never leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All results of one trace or session, under one policy."""

    trace_id: str
    session: str | None
    service: str | None
    complete: bool
    release_reason: str
    policy_fingerprint: str
    results: tuple[Result, ...]
    unmatched: Mapping[str, int] = field(default_factory=dict)  # why workflows gave no result, with counts
    revision: int = 1

    @property
    def verdict(self) -> Verdict | None:
        """The worst of the results; None without any."""
        return Verdict.of([r.verdict for r in self.results]) if self.results else None

    def __str__(self) -> str:
        """One line a result, safe to print: workflow, verdict, where, and what was found wrong first."""
        return "\n".join(_line(result) for result in self.results) or f"trace {self.trace_id}: no workflow is about it"

    @property
    def questions(self) -> tuple[Question, ...]:
        found = {q.id: q for r in self.results for e in r.evaluations for q in e.questions}
        return tuple(found.values())


def _line(result: Result) -> str:
    found = [finding.message for evaluation in result.evaluations for finding in evaluation.findings]
    what = f": {found[0].partition(chr(10))[0]}" if found else ""
    where = f"agent {result.agent}, trace {result.trace_id}" if result.agent else f"trace {result.trace_id}"
    line = f"{result.workflow}: {result.verdict} ({where}){what}"
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in line)
