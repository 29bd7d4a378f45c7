"""Trace and policy -> Report: the one entry point of all judging, live, in process and offline.

Data flow: trace -> recognise (once) -> scopes, as each workflow wants them -> match -> the workflow's own view of the
steps -> its checks -> evaluations by scope -> Results -> Report. Pure and deterministic: the same spans give the same
report, in whatever order they came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from onpath.matching import as_seen, sampled, scope_fault, trace_fault
from onpath.model import Trace
from onpath.policy.model import Check, Policy, Workflow
from onpath.report import Answer, Coverage, Evaluation, Report, Result, Verdict
from onpath.steps.model import Scope
from onpath.steps.recognise import Recognition, recognise
from onpath.validators.base import Context

_Place: TypeAlias = tuple[str, str, bool]


def evaluate(trace: Trace, policy: Policy, answers: Mapping[str, Answer] | None = None) -> Report:
    """Judges one trace, or one session, by every workflow that matches it.

    `answers` are a judge's, by the id of a question in an earlier report of the same trace. Never raises for what a
    trace holds: a check that breaks gives an evaluation that is unknown and says so in `broken`.
    """
    seen = recognise(trace)
    judging = _Judging(trace, seen, answers or {})
    results = [result for workflow in policy.workflows for result in judging.results(workflow)]
    seen.unlink()
    return _report(trace, policy, results, judging.unmatched)


def unjudged(trace: Trace, policy: Policy, reason: str) -> Report:
    """What can be said of a trace without looking into it: every check that may be about it is unknown, for `reason`.

    For traces that can't be judged (their time was over, say). Whether an agent took part is not known, so it counts as
    if it did; all stands on the first root, or the first span without one.
    """
    results = []
    for workflow in policy.workflows if trace.spans else ():
        agents = frozenset((workflow.match.agent,)) if workflow.match.agent is not None else frozenset[str]()
        if sampled(trace.trace_id, workflow.sample) and not trace_fault(workflow.match, trace, agents, active=True):
            results.append(_unknown(workflow, trace, reason))
    return _report(trace, policy, results, {})


def _report(trace: Trace, policy: Policy, results: Sequence[Result], unmatched: Mapping[str, int]) -> Report:
    spans = (*trace.roots, *trace.spans)
    return Report(
        trace_id=trace.trace_id,
        session=trace.session,
        service=next((s.resource.service for s in spans if s.resource.service is not None), None),
        complete=trace.complete,
        release_reason=trace.release_reason,
        policy_fingerprint=policy.fingerprint,
        results=tuple(results),
        unmatched=dict(sorted(unmatched.items())),
    )


def _unknown(workflow: Workflow, trace: Trace, reason: str) -> Result:
    top = (*trace.roots, *trace.spans)[0]
    names = [name for check in workflow.checks for name in check.evaluation_names]
    told = f"Unknown: {reason}."
    return Result(
        trace_id=top.trace_id,
        span_id=top.span_id,
        session=trace.session,
        service=top.resource.service,
        agent=workflow.agent,
        workflow=workflow.name,
        verdict=Verdict.UNKNOWN,
        severity=workflow.severity,
        end_ns=top.end_ns,
        evaluations=tuple(
            Evaluation(name=name, label=Verdict.UNKNOWN, reason=reason, explanation=told) for name in names
        ),
        coverage=_coverage(trace, "none", 0),
        start_ns=top.start_ns,
    )


def _coverage(trace: Trace, content: Literal["full", "partial", "none"], steps: int) -> Coverage:
    return Coverage(
        root=trace.has_root,
        orphans=len(trace.orphans),
        content=content,
        spans=len(trace.spans),
        steps=steps,
        duplicates=trace.duplicates,
    )


@dataclass(slots=True)
class _Judging:
    """One trace while it is judged."""

    trace: Trace
    seen: Recognition
    answers: Mapping[str, Answer]
    unmatched: Counter[str] = field(default_factory=Counter)

    def results(self, workflow: Workflow) -> Iterator[Result]:
        """One for each scope that the workflow, or a check with a scope of its own, judges."""
        judged = self._judged_scopes(workflow)
        if not judged:
            return
        context = self._context(workflow)
        # By span: a check on an agent whose span also carries the run is told of in the run's Result.
        found: dict[tuple[str, str], tuple[Scope, list[Evaluation]]] = {_place(s)[:2]: (s, []) for s in judged}
        views: dict[int, Scope] = {}
        for check in workflow.checks:
            for scope in self._scopes_of(check, workflow, judged):
                _, made = found.setdefault(_place(scope)[:2], (scope, []))
                view = views.get(id(scope)) or views.setdefault(id(scope), as_seen(scope, workflow))
                made += _run(check, view, context)
        for scope, made in found.values():
            if made:
                view = views.get(id(scope)) or as_seen(scope, workflow)
                yield self._result(workflow, view, tuple(made))

    def _judged_scopes(self, workflow: Workflow) -> tuple[Scope, ...]:
        """The scopes of a trace that a workflow is about; why there are none is counted."""
        if not self.trace.spans or not sampled(self.trace.trace_id, workflow.sample):
            self.unmatched["sample" if self.trace.spans else "no_agent_activity"] += 1
            return ()
        fault = trace_fault(workflow.match, self.trace, self.seen.agents, self.seen.has_agent_activity)
        if fault is not None:
            self.unmatched[fault] += 1
            return ()
        wanted = self.seen.scopes_of(workflow.agent, workflow.nested, workflow.spans)
        if not wanted:
            self.unmatched["agent"] += 1
        faults = [(scope, scope_fault(workflow.match, scope)) for scope in wanted]
        self.unmatched.update(reason for _, reason in faults if reason is not None)
        return tuple(scope for scope, reason in faults if reason is None)

    def _scopes_of(self, check: Check, workflow: Workflow, judged: tuple[Scope, ...]) -> tuple[Scope, ...]:
        """Where a check looks: at the workflow's scopes, unless it has an agent or a way of nesting of its own."""
        if check.agent is None and check.nested is None:
            return judged
        agent = workflow.agent if check.agent is None else check.agent
        found = self.seen.scopes_of(agent, check.nested or workflow.nested, workflow.spans)
        if check.agent is None:
            places = {_place(scope) for scope in judged}
            return tuple(scope for scope in found if _place(scope) in places)
        if not found:
            self.unmatched["agent"] += 1
        return found

    def _context(self, workflow: Workflow) -> Context:
        return Context(
            complete=self.trace.complete,
            missing_parent=self.trace.missing_parent,
            capture_content=workflow.capture_content,
            severity=workflow.severity,
            answers=self.answers,
        )

    def _result(self, workflow: Workflow, scope: Scope, evaluations: tuple[Evaluation, ...]) -> Result:
        return Result(
            trace_id=scope.trace_id,
            span_id=scope.span_id,
            session=self.trace.session,
            service=scope.resource.service,
            agent=scope.agent,
            workflow=workflow.name,
            verdict=Verdict.of([e.label for e in evaluations]),
            severity=workflow.severity,
            end_ns=scope.end_ns,
            evaluations=evaluations,
            coverage=_coverage(self.trace, scope.content, len(scope.steps)),
            conversation=scope.session,
            start_ns=scope.start_ns,
            steps=scope.steps,
            traces=_elsewhere(self.trace, scope.trace_id),
        )


def _elsewhere(trace: Trace, trace_id: str) -> dict[str, str]:
    """Of a session: the spans of its other traces."""
    if trace.session is None:
        return {}
    return {span.span_id: span.trace_id for span in trace.spans if span.trace_id != trace_id}


def _place(scope: Scope) -> _Place:
    """What tells a scope from the others of its trace, in whatever way agents are nested."""
    return (scope.trace_id, scope.span_id, scope.run)


def _run(check: Check, scope: Scope, context: Context) -> tuple[Evaluation, ...]:
    try:
        made = check.validator.evaluate(scope, context)
    except Exception as error:  # noqa: BLE001 - one check that breaks must not take the others down
        return tuple(_broken(name, error) for name in check.evaluation_names)
    names = [check.evaluation_name(evaluation.name) for evaluation in made]
    return tuple([e if e.name == name else replace(e, name=name) for e, name in zip(made, names, strict=True)])


def _broken(name: str, error: Exception) -> Evaluation:
    """The text of the error is left out: it may quote what the trace holds."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    kind = type(error).__name__
    place = f" in {at.tb_frame.f_code.co_name}, line {at.tb_lineno}" if at is not None else ""
    return Evaluation(
        name=name,
        label=Verdict.UNKNOWN,
        explanation=f"The check itself failed: {kind}{place}.",
        reason="evaluation_failed",
        broken=kind,
    )
