"""Trace and policy -> Report: the one entry point of all judging, live, in process and offline.

Data flow: trace -> recognise (once) -> scopes, as each workflow wants them -> match -> the workflow's own view of the
steps -> its checks -> evaluations by scope -> Results -> Report. Pure and deterministic: the same spans give the same
report, in whatever order they came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

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
    judging = _Judging(trace, recognise(trace), answers or {})
    results = [result for workflow in policy.workflows for result in judging.results(workflow)]
    return Report(
        trace_id=trace.trace_id,
        session=trace.session,
        service=judging.service,
        complete=trace.complete,
        release_reason=trace.release_reason,
        policy_fingerprint=policy.fingerprint,
        results=tuple(results),
        unmatched=dict(sorted(judging.unmatched.items())),
    )


@dataclass(slots=True)
class _Judging:
    """One trace while it is judged."""

    trace: Trace
    seen: Recognition
    answers: Mapping[str, Answer]
    unmatched: Counter[str] = field(default_factory=Counter)

    @property
    def service(self) -> str | None:
        """That of the first root, else of the first span that names one."""
        spans = (*self.trace.roots, *self.trace.spans)
        return next((s.resource.service for s in spans if s.resource.service is not None), None)

    def results(self, workflow: Workflow) -> Iterator[Result]:
        """One for each scope that the workflow, or a check with a scope of its own, judges."""
        judged = self._judged_scopes(workflow)
        if not judged:
            return
        context = self._context(workflow)
        found: dict[_Place, tuple[Scope, list[Evaluation]]] = {_place(scope): (scope, []) for scope in judged}
        views: dict[int, Scope] = {}
        for check in workflow.checks:
            for scope in self._scopes_of(check, workflow, judged):
                _, made = found.setdefault(_place(scope), (scope, []))
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
        scopes = self.seen.scopes(workflow.nested, workflow.spans)
        agents = frozenset(scope.agent for scope in scopes if scope.agent is not None)
        fault = trace_fault(workflow.match, self.trace, agents, self.seen.has_agent_activity)
        if fault is not None:
            self.unmatched[fault] += 1
            return ()
        wanted = _wanted(scopes, workflow.agent)
        if not wanted:
            self.unmatched["agent"] += 1
        faults = [(scope, scope_fault(workflow.match, scope)) for scope in wanted]
        self.unmatched.update(reason for _, reason in faults if reason is not None)
        return tuple(scope for scope, reason in faults if reason is None)

    def _scopes_of(self, check: Check, workflow: Workflow, judged: tuple[Scope, ...]) -> tuple[Scope, ...]:
        """Where a check looks: at the workflow's scopes, unless it has an agent or a way of nesting of its own."""
        if check.agent is None and check.nested is None:
            return judged
        view = self.seen.scopes(check.nested or workflow.nested, workflow.spans)
        if check.agent is None:
            places = {_place(scope) for scope in judged}
            return tuple(scope for scope in view if _place(scope) in places)
        found = _wanted(view, check.agent)
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
            coverage=Coverage(
                root=self.trace.has_root,
                orphans=len(self.trace.orphans),
                content=scope.content,
                spans=len(self.trace.spans),
                steps=len(scope.steps),
                duplicates=self.trace.duplicates,
            ),
            conversation=scope.session,
            start_ns=scope.start_ns,
            steps=scope.steps,
        )


def _place(scope: Scope) -> _Place:
    """What tells a scope from the others of its trace, in whatever way agents are nested."""
    return (scope.trace_id, scope.span_id, scope.run)


def _wanted(scopes: tuple[Scope, ...], agent: str | None) -> tuple[Scope, ...]:
    return tuple(scope for scope in scopes if (scope.run if agent is None else scope.agent == agent))


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
