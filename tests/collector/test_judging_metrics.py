"""What a judged trace leaves for metrics: points, verdicts that a revision changes, and the time each check took."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from onpath.policy.model import Check, Policy, Workflow
from onpath.report import Evaluation, Finding, Verdict
from onpath.results_metrics import OTHER
from onpath.steps.model import Scope
from onpath.validators.base import Context
from onpath_collector.judging import Job, Outcome, Setup, judge
from onpath_collector.timing import Timer


@dataclass(frozen=True)
class Says:
    """A check that always says the same."""

    label: Verdict
    step: str | None = None

    def evaluate(self, scope: Scope, context: Context) -> tuple[Evaluation, ...]:
        findings = (Finding(rule="extra_step", message="m", step=self.step),) if self.step else ()
        return (Evaluation(name="seq", label=self.label, score=Fraction(1, 2), findings=findings),)


def policy(**labels: Verdict) -> Policy:
    workflows = tuple(
        Workflow(name=name, checks=(Check(key="seq!", validator=Says(label, "seen")),))
        for name, label in labels.items()
    )
    return Policy(workflows=workflows, fingerprint="f")


def judged(labels: dict[str, Verdict], before: str | None = None, steps: frozenset[str] = frozenset()) -> Outcome:
    data = TracesData()
    span = data.resource_spans.add().scope_spans.add().spans.add(trace_id=(1).to_bytes(16), span_id=(2).to_bytes(8))
    span.attributes.add(key="gen_ai.operation.name").value.string_value = "invoke_agent"
    job = Job([data.SerializeToString()], "root_ended", judged_at_ns=1, before=before)
    return judge(job, Setup(policy(**labels), {}, steps=steps))


def counted(outcome: Outcome) -> list[tuple[str, ...]]:
    return [
        (p.instrument.removeprefix("onpath."), *p.attributes.values()) for one in outcome.measured for p in one.points
    ]


def test_a_first_report_counts_all_there_is_to_count() -> None:
    outcome = judged({"refund": Verdict.FAIL})
    assert counted(outcome) == [
        ("verdicts", "refund", "fail"),
        ("evaluations", "refund", "seq", "fail"),
        ("evaluation.score", "refund", "seq"),
        ("findings", "refund", "extra_step", OTHER),
    ]
    assert {(one.trace_id, one.span_id) for one in outcome.measured} == {(f"{1:032x}", f"{2:016x}")}
    named = judged({"refund": Verdict.FAIL}, steps=frozenset({"seen"}))
    assert counted(named)[-1] == ("findings", "refund", "extra_step", "seen")


def test_a_revision_counts_what_it_changes() -> None:
    first = judged({"a": Verdict.UNKNOWN, "b": Verdict.PASS})
    second = judged({"a": Verdict.FAIL, "b": Verdict.PASS, "c": Verdict.PASS}, first.signature)
    assert counted(second) == [
        ("verdicts", "a", "fail"),
        ("revised", "a", "unknown", "fail"),
        ("verdicts", "c", "pass"),
        ("evaluations", "c", "seq", "pass"),
        ("evaluation.score", "c", "seq"),
        ("findings", "c", "extra_step", OTHER),
    ]
    assert second.signature != first.signature
    assert judged({"a": Verdict.UNKNOWN, "b": Verdict.PASS}, first.signature) == replace(first, measured=(), unknown={})


def test_each_check_is_timed() -> None:
    def ticks() -> Iterator[float]:
        now = 0.0
        while True:
            yield now
            now += 1.5

    timed = policy(a=Verdict.PASS, b=Verdict.FAIL)
    timer = Timer(timed, ticks().__next__)
    data = TracesData()
    data.resource_spans.add().scope_spans.add().spans.add(trace_id=(1).to_bytes(16), span_id=(2).to_bytes(8))
    job = Job([data.SerializeToString()], "root_ended", judged_at_ns=1)
    outcome = judge(job, Setup(timed, {}), timer)
    assert outcome == judge(job, Setup(timed, {}))
    assert outcome.seconds == {("a", "seq"): 1.5, ("b", "seq"): 1.5}
    assert timer.take() == {}
