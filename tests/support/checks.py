"""Checks that misbehave, and a source of policies that have them."""

from __future__ import annotations

import time
from collections.abc import Hashable
from dataclasses import dataclass

from onpath.policy.model import Check, Match, Policy, Workflow
from onpath.report import Evaluation, Verdict
from onpath.steps.model import Scope
from onpath.validators.base import Context, Validator
from onpath_collector.policy_source import PolicySource


@dataclass(frozen=True)
class HangsOnEach:
    """Hangs on traces whose id is divisible by `number`; passes others."""

    number: int

    def evaluate(self, scope: Scope, context: Context) -> tuple[Evaluation, ...]:
        while int(scope.trace_id, 16) % self.number == 0:
            time.sleep(0.01)
        return (Evaluation(name="hangs", label=Verdict.PASS),)


@dataclass(frozen=True)
class RaisesOnEach:
    """Raises on traces whose id is divisible by `number`; passes others."""

    number: int

    def evaluate(self, scope: Scope, context: Context) -> tuple[Evaluation, ...]:
        if int(scope.trace_id, 16) % self.number == 0:
            raise ZeroDivisionError("a fault of the check")
        return (Evaluation(name="raises", label=Verdict.PASS),)


class Given(PolicySource):
    """A policy of one workflow with these checks."""

    def __init__(self, **checks: Validator) -> None:
        super().__init__("given")
        made = tuple(Check(key=key, validator=validator, makes=(key,)) for key, validator in checks.items())
        self._policy = Policy(workflows=(Workflow(name="given", match=Match(), checks=made),), fingerprint="f" * 32)

    def load(self) -> Policy:
        return self._policy

    def state(self) -> Hashable:
        return None
