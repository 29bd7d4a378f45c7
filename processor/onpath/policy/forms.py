"""The forms that a policy document may have, each turned into workflow entries (policy.md).

A policy, one workflow, a list of workflows (flow-validator eval files), a steps file (`expected_steps` at the top), an
evaluation contract (`interactionPlan` at the top).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from onpath.policy.asked import OWN, SCOPE_TREES, VALIDATORS
from onpath.policy.files import Source
from onpath.policy.problems import Problems, pointer
from onpath.policy.schema import DefaultsModel, PolicyModel, kind_of, suggestion, validate

_POLICY_KEYS: Final = tuple(PolicyModel.model_fields)
_CONTRACT_KEYS: Final = ("interactionPlan", "permittedInterfaces")
_OF_STEPS: Final = ("agent", "nested", "aliases")  # a steps file says these of its check, as `adherence` does


@dataclass(frozen=True, slots=True)
class Entry:
    """One workflow as written. `moved` leads from pointers below it to where the document really has that."""

    raw: Mapping[str, Any]
    at: str
    fallback: str  # name of a workflow without one
    defaults: Mapping[str, Any] = field(default_factory=dict)
    moved: Mapping[str, str] = field(default_factory=dict)

    def place(self, below: str) -> str:
        for virtual, real in self.moved.items():
            if below == virtual or below.startswith(virtual + "/"):
                return self.at + real + below.removeprefix(virtual)
        return self.at + below


def entries_of(source: Source, problems: Problems) -> Iterator[Entry]:
    """The entries of a document; what is wrong with its form goes to `problems`."""
    data = source.document.data
    if isinstance(data, list):
        yield from _listed(data, source.stem, "", {}, problems)
    elif not isinstance(data, dict):
        got = "an empty file" if data is None else kind_of(data)
        problems.error("", f"expected a policy, a workflow or a list of workflows, got {got}")
    elif any(key in data for key in _CONTRACT_KEYS):
        yield Entry({"plan!": {"contract": data}}, "", source.stem, moved={"/plan!/contract": "", "/plan!": ""})
    elif any(key in data for key in _POLICY_KEYS):
        yield from _policy(data, source.stem, problems)
    elif "expected_steps" in data:
        yield _steps_file(data, source.stem)
    elif misspelt := _misspelt(data):
        for key, hint in misspelt:
            problems.error(pointer(key), "this key is not known" + hint)
    else:
        yield Entry(data, "", source.stem)


def _policy(data: Mapping[str, Any], stem: str, problems: Problems) -> Iterator[Entry]:
    model = validate(PolicyModel, data, problems)
    raw = data.get("defaults", {})
    usable = model is not None or (isinstance(raw, dict) and validate(DefaultsModel, raw, Problems()) is not None)
    workflows = data.get("workflows")
    if isinstance(workflows, list):
        yield from _listed(workflows, stem, "/workflows", raw if usable else {}, problems)


def _listed(items: list[Any], stem: str, at: str, defaults: Mapping[str, Any], problems: Problems) -> Iterator[Entry]:
    if not items and not at:
        problems.error("", "expected a list of workflows that is not empty")
    for index, item in enumerate(items):
        here = at + pointer(index)
        if isinstance(item, dict):
            yield Entry(item, here, f"{stem}-{index + 1}", defaults)
        else:
            problems.error(here, f"expected a workflow, that is a mapping, got {kind_of(item)}")


def _steps_file(data: Mapping[str, Any], stem: str) -> Entry:
    """Keys of a workflow stay with the workflow, everything else is the check's: what it doesn't know is an error."""
    workflows = (*OWN, *VALIDATORS, *SCOPE_TREES)
    beside = [key for key in data if key in workflows and key not in (*_OF_STEPS, "adherence")]
    check = {key: value for key, value in data.items() if key not in beside}
    return Entry({"adherence": check, **{key: data[key] for key in beside}}, "", stem, moved={"/adherence": ""})


def _misspelt(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Keys of a policy that are misspelt, with what was meant: without any key of its own it looks like a workflow."""
    known = (*OWN, *VALIDATORS, *SCOPE_TREES)
    found = ((key, suggestion(key, _POLICY_KEYS)) for key, value in data.items() if isinstance(value, list))
    return [(key, hint) for key, hint in found if hint and key not in known]
