"""What every validator is: a frozen value with one method over a scope."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from onpath.report import Answer, Evaluation, Severity
from onpath.steps.model import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a check may know beside the scope."""

    complete: bool = True
    missing_parent: bool = False  # steps may be missing anywhere, not only after the last (flow.md section 11)
    capture_content: bool = False
    severity: Severity = "material"
    answers: Mapping[str, Answer] = field(default_factory=dict)  # question id to a judge's answer


class Validator(Protocol):
    """One check of a workflow. It makes no calls, reads no clock and keeps no state.

    The steps of the scope are those the check is about: the workflow's `ignore` and `aliases` have been applied.
    Evaluations bear the names of results.md section 1 as if the check stood directly in the workflow.
    """

    def evaluate(self, scope: Scope, context: Context) -> tuple[Evaluation, ...]: ...
