"""What `onpath check` found, and how each format writes it. Results are those of `results.result_json`, as they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from onpath.cli.timeline_view import TimeLine
from onpath.report import one_line

ResultJson: TypeAlias = Mapping[str, Any]
EvaluationJson: TypeAlias = Mapping[str, Any]

# Why a workflow gave no result for a trace, in words.
_WHY: Final = {
    "sample": "not in the sample",
    "service": "of another service",
    "root": "with another root",
    "agent": "without the agent",
    "attributes": "with other attributes",
    "input": "with another input",
    "prompt": "with another prompt",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """All results of a run of the command, in order of the traces, and how many have which verdict.

    `files`: trace id to the file that holds it, where it came from one. `unmatched`: why workflows gave no result, with
    counts. `time_lines`: key of an evaluation to the steps that it wanted to run at the same time. With `strict` what
    is unknown counts as failed.
    """

    results: Sequence[ResultJson]
    verdicts: Counter[str]
    files: Mapping[str, str] = field(default_factory=dict)
    unmatched: Mapping[str, int] = field(default_factory=dict)
    traces: int = 0
    strict: bool = False
    time_lines: Mapping[str, TimeLine] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """1 if any fails, 3 if nothing passed or failed, else 0 (results.md section 4)."""
        verdicts = self.verdicts
        if verdicts["fail"] or (self.strict and verdicts["unknown"]):
            return 1
        return 0 if verdicts["pass"] else 3

    def failed(self, label: str) -> bool:
        return label == "fail" or (self.strict and label == "unknown")

    def file_of(self, result: ResultJson) -> str | None:
        return self.files.get(result["trace_id"])

    def evaluations(self) -> Iterator[tuple[ResultJson, EvaluationJson]]:
        return ((result, evaluation) for result in self.results for evaluation in result["evaluations"])

    @property
    def summary(self) -> str:
        """One line: what came out, and why some of it did not."""
        verdicts = self.verdicts
        counts = ", ".join(f"{verdicts[v]} {v}" for v in ("pass", "fail", "unknown") if verdicts[v]) or "no verdict"
        why = ", ".join(
            f"{n} {_WHY.get(reason, reason.replace('_', ' '))}" for reason, n in sorted(self.unmatched.items())
        )
        traces = f"{self.traces} trace{'' if self.traces == 1 else 's'}"
        return f"{traces}: {counts}" + (f" (no result: {why})" if why else "")


def score_text(score: float | None) -> str:
    return "" if score is None else f"{score:.3g}"


def details(evaluation: EvaluationJson) -> list[str]:
    """The lines of the explanation, of a fail without those that its findings say again."""
    explanation: str = evaluation["explanation"]
    lines = explanation.split("\n") if explanation else []
    if evaluation["label"] != "fail":
        return lines
    said = {one_line(finding["message"]) for finding in evaluation["findings"]}
    return [line for line in lines if line.removeprefix("- ") not in said]


def what_failed(evaluation: EvaluationJson) -> str:
    """One line for a failed evaluation without findings of its own."""
    first: str = (evaluation["explanation"] or evaluation.get("reason") or evaluation["label"]).partition("\n")[0]
    return first
