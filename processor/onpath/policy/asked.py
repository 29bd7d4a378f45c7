"""What a workflow asks of a run: each key is loaded by the module that knows it, and every evaluation gets its name.

Data flow: a workflow's mapping, or one of its `checks` -> adherence | plan! | everything else (flow) -> Check values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from onpath.policy.adherence import load_adherence
from onpath.policy.files import Source, take_in
from onpath.policy.flow import load_flow
from onpath.policy.model import Check, Principal
from onpath.policy.plan import load_plan
from onpath.policy.problems import Problems, pointer
from onpath.policy.schema import CheckModel, WorkflowModel, kind_of, validate

METADATA: Final = ("runnable", "params", "tags", "path", "env", "timeout")  # kept by flow.md, without effect
OWN: Final = (*WorkflowModel.model_fields, "checks", *METADATA)
VALIDATORS: Final = ("adherence", "seq!", "parallel!", "plan!")
_NOT_FLOW: Final = (*OWN, "adherence", "plan!")
_NOTHING: Final = "nothing is asked here; give it a validator, such as `adherence` or `seq!`"
SCOPE_TREES: Final = ("input", "output", "elapsed", "usage", "status", "error")


@dataclass(slots=True)
class Asked:
    """Loads the checks of one workflow. `problems` are relative to the workflow, `at` is its pointer in the file."""

    source: Source
    at: str
    problems: Problems
    principal: Principal
    strict_inputs: bool = True

    def load(self, entry: Mapping[str, Any]) -> list[tuple[Check, str]]:
        """All checks of a workflow, each with its pointer: those that stand in it directly, then its `checks`."""
        found = [(check, pointer(check.key)) for check in self._validators(entry, "")]
        if "checks" in entry:
            found += self._named(entry["checks"])
        if not _asking(entry) and not entry.get("checks"):
            self.problems.error("", _NOTHING)
        return found

    def _named(self, raw: object) -> Iterator[tuple[Check, str]]:
        if not isinstance(raw, list):
            self.problems.error("/checks", f"expected a list of checks, got {kind_of(raw)}")
            return
        for index, item in enumerate(raw):
            at = pointer("checks", index)
            if not isinstance(item, dict):
                self.problems.error(at, f"expected a mapping, got {kind_of(item)}")
                continue
            yield from ((check, at) for check in self._named_check(item, at))

    def _named_check(self, item: Mapping[str, Any], at: str) -> Iterator[Check]:
        """The validators of one of `checks`: NAME for the only one and for adherence, else NAME.KEY."""
        own = {key: value for key, value in item.items() if key in CheckModel.model_fields}
        faults = Problems()
        model = validate(CheckModel, own, faults)
        self.problems.absorb(faults, at)
        for key in item:
            if key in OWN and key not in CheckModel.model_fields:
                self.problems.error(at + pointer(key), f"`{key}` belongs to the workflow, not to one of its checks")
        checks = self._validators(item, at)
        if not _asking(item):
            self.problems.error(at, _NOTHING)
        if model is None:
            return
        for check in checks:
            alone = len(checks) == 1 or check.key == "adherence"
            yield replace(check, name=model.name if alone else f"{model.name}.{check.key.removesuffix('!')}")

    def _validators(self, entry: Mapping[str, Any], at: str) -> list[Check]:
        checks: list[Check] = []
        faults = Problems()
        if "adherence" in entry:
            below = Problems()
            adherence = load_adherence(entry["adherence"], below)
            faults.absorb(below, "/adherence")
            if adherence is not None:
                checks.append(
                    Check(
                        key="adherence",
                        validator=adherence,
                        makes=adherence.evaluation_names,
                        agent=adherence.agent,
                        nested=adherence.nested,
                    )
                )
        if "plan!" in entry:
            checks += self._plan(entry["plan!"], at, faults)
        if any(key not in _NOT_FLOW for key in entry):
            checks += load_flow(entry, faults, known=_NOT_FLOW)
        self.problems.absorb(faults, at)
        order = {key: index for index, key in enumerate(entry)}
        return sorted(checks, key=lambda check: order.get(check.key, len(order)))

    def _plan(self, raw: object, at: str, faults: Problems) -> Iterator[Check]:
        below = Problems()
        if isinstance(raw, dict):
            raw, below.errors[:] = take_in(self.source, raw, self.at + at + "/plan!")
        plan = load_plan(raw, below, strict_inputs=self.strict_inputs) if not below.errors else None
        faults.absorb(below, "/plan!")
        if plan is not None:
            yield Check(key="plan!", validator=replace(plan, principal=self.principal))


def refuse_equal_names(found: Sequence[tuple[Check, str]], problems: Problems) -> None:
    """Two evaluations of one name could not be told apart."""
    taken: dict[str, str] = {}
    for check, at in found:
        for name in check.evaluation_names:
            if taken.setdefault(name, at) != at:
                problems.error(at, f"a second evaluation named `{name}` (the first is of {taken[name]})")


def _asking(entry: Mapping[str, Any]) -> list[str]:
    return [key for key in entry if key not in OWN]
