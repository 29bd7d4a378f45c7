"""What becomes of a run: judged when it is let go, and while it is open as soon as its workflow can no longer pass.

Data flow: Run -> Trace (each span converted once) -> evaluate -> Report, numbered -> outlets. While a run is open it is
judged as an incomplete trace of which only later steps can be missing, so that a failure found is one that nothing to
come can mend; its findings are told early, each once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from onpath.evaluate import evaluate
from onpath.live.book import Entry, Reason, Run
from onpath.live.counts import Counts
from onpath.live.early import EarlyView, is_step
from onpath.live.records import span_of
from onpath.model import Span, Trace
from onpath.policy.model import Policy
from onpath.report import Finding, Report, Verdict
from onpath.results import signature

OnViolation: TypeAlias = Callable[[Finding, Any], object]
Place: TypeAlias = tuple[str, str]  # workflow, span id of the scope

_SHARE: Final = 4  # looking at an open run is followed by this many times as long without, where that can be
_LATEST: Final = 0.1  # seconds from a step to the word of it
_HASTE: Final = 0.05  # seconds from a step to the look at it, the moment to gather apart


class Outlet(Protocol):
    """Where reports go. `before` are the verdicts of the report that this one replaces."""

    def report(self, report: Report, run: Run, before: Mapping[Place, Verdict]) -> None: ...


@dataclass(slots=True)
class History:
    """What is kept of a run between its revisions, and between looks at an open one."""

    revision: int = 0
    signature: str | None = None
    verdicts: Mapping[Place, Verdict] = field(default_factory=dict)
    told: dict[tuple[str, ...], set[str]] = field(default_factory=dict)
    stepped: bool = False  # a step was added since the last look
    not_before: float = 0.0


class Judge:
    """Judges by one policy. `guard` runs callbacks: what they raise is logged and counted."""

    def __init__(
        self,
        policy: Policy,
        outlet: Outlet,
        counts: Counts,
        *,
        starts: bool,
        guard: Callable[..., None],
        on_violation: OnViolation | None = None,
        clock: Callable[[], float] = time.monotonic,
        used: Callable[[], float] = time.thread_time,
    ) -> None:
        """`used`: seconds that this thread has had a processor for, so that a busy machine makes no word later."""
        self._policy = policy
        self._outlet = outlet
        self._counts = counts
        self._starts = starts
        self._clock = clock
        self._used = used
        self._guard = guard
        self._on_violation = on_violation

    @property
    def looks_early(self) -> bool:
        return self._on_violation is not None

    # ---------------------------------------------------------------- a run that is let go

    def release(self, run: Run, reason: Reason) -> None:
        history = _history(run)
        report = evaluate(self._trace(run, reason, map(_value, run.entries.values())), self._policy)
        found = signature(report)
        if run.released == 1:
            self._counts.judged[str(report.verdict or "unmatched")] += 1
        if history.signature == found:
            return
        history.signature = found
        if not report.results and not history.revision:
            return
        history.revision += 1
        self._counts.revised += history.revision > 1
        results = tuple(replace(r, coverage=replace(r.coverage, late=run.late)) for r in report.results)
        report = replace(report, revision=history.revision, results=results)
        before, history.verdicts = history.verdicts, {(r.workflow, r.span_id): r.verdict for r in report.results}
        self._tell(report, run, early=None)
        self._outlet.report(report, run, before)

    def _trace(self, run: Run, reason: str, spans: Iterable[Span]) -> Trace:
        starts_seen = False if run.gone else True if self._starts else None
        return Trace(spans, run.logs, release_reason=reason, starts_seen=starts_seen)

    # ---------------------------------------------------------------- a run that is open

    def look(self, run: Run) -> float | None:
        """Tells what can no longer be mended. When to look again, if that is later than the next span."""
        history = _history(run)
        fresh, run.fresh = run.fresh, []
        history.stepped = history.stepped or any(is_step(_value(entry)) for entry in fresh)
        if not history.stepped or run.gone:
            return None
        if self._clock() < history.not_before:
            return history.not_before
        begun = self._used()
        view = EarlyView(run.entries, run.open, _value)
        if view.undecided:
            return None
        history.stepped = view.blurred
        report = evaluate(self._trace(run, "idle", view.spans), self._policy)
        self._tell(report, run, early=view)
        history.not_before = self._clock() + _pause(self._used() - begun)
        return None

    def _tell(self, report: Report, run: Run, *, early: EarlyView | None) -> None:
        if self._on_violation is None:
            return
        told = _history(run).told
        for broken in _broken(report, early):
            if broken.is_news(told):
                self._guard("on_violation", self._on_violation, broken.finding, _sdk_span(broken, run))


class _Broken(NamedTuple):
    """One thing wrong with one scope."""

    finding: Finding
    evaluation: str
    workflow: str
    scope: str  # span id

    def is_news(self, told: dict[tuple[str, ...], set[str]]) -> bool:
        """Notes it. A finding that has grown by further spans of the same fault is still the one that was told."""
        finding = self.finding
        key: tuple[str, ...] = (self.workflow, self.evaluation, finding.rule, finding.step or "")
        if not finding.span_ids:
            key = (*key, self.scope)
        known = told.get(key)
        told.setdefault(key, set()).update(finding.span_ids)
        return known is None or bool(finding.span_ids and not known & set(finding.span_ids))


def _pause(took: float) -> float:
    """Seconds to the next look at a run. One that takes long leaves little time to be in time, or none."""
    if took < _HASTE / 2:
        return min(_SHARE * took, _HASTE - took)
    return took if took < _LATEST / 3 else _SHARE * took


def _history(run: Run) -> History:
    if run.history is None:
        run.history = History()
    history: History = run.history
    return history


def _value(entry: Entry) -> Span:
    if entry.value is not None:
        return entry.value
    value = span_of(entry.sdk)
    if entry.ended:
        entry.value = value
    return value


def _broken(report: Report, early: EarlyView | None) -> Iterator[_Broken]:
    """What failed checks found; of an open run what shows something done, as what is missing may still come."""
    for result in report.results:
        for evaluation in result.evaluations:
            if evaluation.label is not Verdict.FAIL:
                continue
            found = evaluation.findings
            if early is not None:
                found = tuple(f for f in found if f.span_ids and early.settles(f)) or found[: early.ordered]
            for finding in found:
                yield _Broken(finding, evaluation.name, result.workflow, result.span_id)


def _sdk_span(broken: _Broken, run: Run) -> Any:
    """The SDK's span that a finding is about: the last of those it names, else that of the scope."""
    for name in (*reversed(broken.finding.span_ids), broken.scope):
        entry = run.entries.get(int(name, 16))
        if entry is not None:
            return entry.sdk
    return None
