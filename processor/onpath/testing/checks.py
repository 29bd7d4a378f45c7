"""What the pytest plugin's fixture gives to a test: the spans recorded, and their check against a policy."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from onpath.cli.text import printable
from onpath.evaluate import evaluate
from onpath.model import Trace
from onpath.policy.model import Policy
from onpath.report import AlignmentRow, Evaluation, Report, Result, Verdict

if TYPE_CHECKING:
    from onpath.testing.recorder import Recorder

_MARKS: Final = {"same": " ", "missing": "-", "extra": "+", "moved": "~"}
_ADVICE: Final = {"same": "", "missing": "is missing", "extra": "is not expected here", "moved": "is out of place"}
_numbers: Final = itertools.count(1)


class Checked:
    """The outcome of one check: the reports of all traces recorded, judged together.

    It is true if it passed. As text it says why not, with what was expected beside what was seen.
    """

    def __init__(self, reports: Sequence[Report], traces: Sequence[Trace]) -> None:
        self.reports = tuple(reports)
        self._traces = tuple(traces)
        self._number = next(_numbers)

    @property
    def results(self) -> tuple[Result, ...]:
        return tuple(result for report in self.reports for result in report.results)

    @property
    def verdict(self) -> Verdict:
        """The worst; unknown when no workflow is about anything recorded."""
        verdicts = [result.verdict for result in self.results]
        return Verdict.of(verdicts) if verdicts else Verdict.UNKNOWN

    @property
    def passed(self) -> bool:
        return self.verdict is Verdict.PASS

    @property
    def failed(self) -> bool:
        return self.verdict is Verdict.FAIL

    @property
    def unknown(self) -> bool:
        return self.verdict is Verdict.UNKNOWN

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        return f"<onpath check {self._number}: {self.verdict}>"

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if not self.results:
            yield f"onpath: {self._nothing()}"
        for result in self.results:
            yield from _result_lines(result)

    def _nothing(self) -> str:
        spans = sum(len(trace.spans) for trace in self._traces)
        if not spans:
            return "no span was recorded; is the agent instrumented, and does it run in this process?"
        why: Counter[str] = Counter()
        for report in self.reports:
            why.update(report.unmatched)
        told = ", ".join(f"{reason} {number}x" for reason, number in sorted(why.items())) or "it has no workflow"
        return f"no workflow is about what was recorded, {spans} spans in {len(self._traces)} traces ({told})"


class OnPath:
    """The fixture `onpath`. `load` finds a policy by what a test names it with; None is the one of the settings."""

    def __init__(self, recorder: Recorder, load: Callable[[Any], Policy], made: list[Checked]) -> None:
        self._recorder = recorder
        self._load = load
        self._made = made

    def check(self, policy: Any = None, *, workflow: str | None = None) -> Checked:
        """Judges what was recorded up to now by a policy: a path, plain values, or a loaded one.

        With `workflow`, by that one alone. Raises PolicyError for a policy that does not load, and ValueError for a
        workflow that it does not have.
        """
        loaded = self._load(policy)
        names = [known.name for known in loaded.workflows]
        if workflow is not None and workflow not in names:
            raise ValueError(f"onpath: the policy has no workflow {workflow!r}; it has {', '.join(names)}")
        traces = self.traces
        reports = [_only(evaluate(trace, loaded), workflow) for trace in traces]
        checked = Checked(reports, traces)
        self._made.append(checked)
        return checked

    @property
    def traces(self) -> list[Trace]:
        return self._recorder.traces()

    @property
    def spans(self) -> list[Any]:
        """As the SDK made them, in the order in which they started."""
        return list(self._recorder.spans)

    def clear(self) -> None:
        """Forgets what was recorded."""
        self._recorder.clear()


def _only(report: Report, workflow: str | None) -> Report:
    if workflow is None:
        return report
    return replace(report, results=tuple(r for r in report.results if r.workflow == workflow))


def _result_lines(result: Result) -> Iterator[str]:
    of = f"agent {result.agent}" if result.agent else f"span {result.span_id}"
    yield printable(f"onpath: workflow {result.workflow} is {result.verdict} ({of}, {result.coverage.steps} steps)")
    for evaluation in result.evaluations:
        yield from _evaluation_lines(evaluation, whole=evaluation.label is not Verdict.PASS)


def _evaluation_lines(evaluation: Evaluation, *, whole: bool) -> Iterator[str]:
    score = "" if evaluation.score is None else f" {float(evaluation.score):.3g}"
    yield printable(f"  {evaluation.name}: {evaluation.label}{score}")
    if not whole:
        return
    for finding in evaluation.findings:
        yield f"    {printable(finding.message)}"
    if not evaluation.findings:
        yield from (f"    {printable(line)}" for line in evaluation.explanation.split("\n"))
    yield from _alignment_lines(evaluation.alignment)


def _alignment_lines(rows: Sequence[AlignmentRow]) -> Iterator[str]:
    if not rows:
        return
    shown = [(row.move, printable(row.expected or ""), printable(row.seen or "")) for row in rows]
    width = max(len("expected"), *(len(expected) for _, expected, _ in shown))
    beside = max(len("seen"), *(len(seen) for *_, seen in shown))
    yield f"      {'expected':{width}}  seen"
    for move, expected, seen in shown:
        yield f"    {_MARKS[move]} {expected:{width}}  {seen:{beside}}  {_ADVICE[move]}".rstrip()
