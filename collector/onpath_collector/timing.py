"""How long each check of a policy takes. The core reads no clock: its caller hands in checks that are timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from onpath.policy.model import Check, Policy, Workflow
from onpath.report import Evaluation
from onpath.steps.model import Scope
from onpath.validators.base import Context, Validator
from onpath.validators.remembered import remembered


class Timer:
    """`policy` judges as the one it was made of; `take` says what that took since it was last asked."""

    def __init__(self, policy: Policy, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seconds: dict[tuple[str, str], float] = {}
        self.policy = replace(policy, workflows=tuple(self._timed(workflow) for workflow in policy.workflows))

    def take(self) -> dict[tuple[str, str], float]:
        """Seconds by workflow and check, all scopes together."""
        seconds, self._seconds = self._seconds, {}
        return seconds

    def evaluate(
        self, place: tuple[str, str], validator: Validator, scope: Scope, context: Context
    ) -> tuple[Evaluation, ...]:
        start = self._clock()
        try:
            return validator.evaluate(scope, context)
        finally:
            self._seconds[place] = self._seconds.get(place, 0.0) + self._clock() - start

    def _timed(self, workflow: Workflow) -> Workflow:
        return replace(workflow, checks=tuple(self._timed_check(workflow.name, check) for check in workflow.checks))

    def _timed_check(self, workflow: str, check: Check) -> Check:
        place = (workflow, check.name or check.key.removesuffix("!"))
        return replace(check, validator=_Timed(remembered(check.validator), place, self))


@dataclass(frozen=True, slots=True)
class _Timed:
    validator: Validator
    place: tuple[str, str]
    timer: Timer

    def evaluate(self, scope: Scope, context: Context) -> tuple[Evaluation, ...]:
        return self.timer.evaluate(self.place, self.validator, scope, context)
