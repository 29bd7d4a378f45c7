"""One workflow entry -> Workflow, with what it means for the fingerprint.

The keys of policy.md go through the models of `schema`, what the workflow asks through `asked`, the trees of `match`
through the flow loader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from onpath.globs import Glob
from onpath.policy.adherence import AdherenceModel
from onpath.policy.aliases import check_aliases
from onpath.policy.asked import OWN, SCOPE_TREES, VALIDATORS, Asked, refuse_equal_names
from onpath.policy.files import Source, with_contracts
from onpath.policy.fingerprint import meaning
from onpath.policy.flow import load_tree
from onpath.policy.forms import Entry
from onpath.policy.model import Check, Match, Principal, Workflow
from onpath.policy.plan_short import PlanModel
from onpath.policy.problems import Problems, pointer
from onpath.policy.schema import MatchModel, PrincipalModel, WorkflowModel, kind_of, suggestion, validate
from onpath.validators.adherence import Adherence

Predicate: TypeAlias = Callable[[Any], bool]

_OF_ADHERENCE: Final = frozenset(AdherenceModel.model_fields)
_OF_PLANS: Final = frozenset(PlanModel.model_fields)
_ASKED: Final = (*VALIDATORS, *SCOPE_TREES, "checks")


@dataclass(frozen=True, slots=True)
class Loaded:
    workflow: Workflow
    meaning: Mapping[str, Any]


def load_workflow(source: Source, entry: Entry, problems: Problems, strict_inputs: bool) -> Loaded | None:
    """None if anything is wrong with it; `problems` are relative to the entry."""
    raw = entry.raw
    own = {key: value for key, value in raw.items() if key in WorkflowModel.model_fields}
    model = validate(WorkflowModel, {"name": entry.fallback, **entry.defaults, **own}, problems)
    trees = _match_trees(raw.get("match"), problems)
    prompt = _prompt(raw, problems)
    principal = _principal(model.principal if model is not None else PrincipalModel())
    found = Asked(source, entry.at, problems, principal, strict_inputs).load(raw)
    check_aliases(raw.get("aliases"), [check for check, _ in found], problems)
    _suggest(raw, problems)
    refuse_equal_names(found, problems)
    if model is None or problems.errors:
        return None
    checks = tuple(check for check, _ in found)
    _warn_of_ignored(model, checks, problems)
    workflow = Workflow(
        name=model.name,
        description=model.description if isinstance(model.description, str) else "",
        match=_match(model.match, trees, given="match" in raw, prompt=prompt),
        agent=model.agent or None,
        nested=model.nested,
        spans=tuple(model.spans),
        ignore=frozenset(model.ignore),
        aliases={name: tuple(others) for name, others in model.aliases.items()},
        principal=principal,
        severity=model.severity,
        sample=model.sample,
        capture_content=model.capture_content,
        checks=checks,
    )
    written = with_contracts(source, raw, entry.at)
    asked = {key: value for key, value in written.items() if key not in OWN or key == "checks"}
    return Loaded(workflow, meaning(model.name, model, raw.get("match"), prompt, asked))


def _principal(model: PrincipalModel) -> Principal:
    labels = {label: tuple(values) for label, values in model.labels.items()}
    return Principal(attribute=tuple(model.attribute), labels=labels)


def _match(model: MatchModel, trees: Mapping[str, Predicate], *, given: bool, prompt: str | None) -> Match:
    return Match(
        service=Glob(model.service) if model.service else None,
        root=Glob(model.root) if model.root else None,
        agent=model.agent or None,
        attributes={
            key: Glob(wanted) if isinstance(wanted, str) else trees[pointer("attributes", key)]
            for key, wanted in model.attributes.items()
        },
        input=trees.get("/input"),
        given=given,
        prompt=prompt,
    )


def _match_trees(raw: object, problems: Problems) -> dict[str, Predicate]:
    """The value trees of a `match`, by their pointers in it."""
    if not isinstance(raw, dict):
        return {}
    attributes = raw.get("attributes")
    written = {
        pointer("attributes", key): wanted
        for key, wanted in (attributes.items() if isinstance(attributes, dict) else ())
        if not isinstance(wanted, str)
    }
    if "input" in raw:
        written["/input"] = raw["input"]
    trees: dict[str, Predicate] = {}
    for at, wanted in written.items():
        below = Problems()
        tree = load_tree(wanted, below)
        problems.absorb(below, "/match" + at)
        if tree is not None:
            trees[at] = tree
    return trees


def _prompt(raw: Mapping[str, Any], problems: Problems) -> str | None:
    """The prompt of the one run that an eval entry is for, unless `match` says what it is for."""
    params = raw.get("params")
    if "match" in raw or not isinstance(params, dict) or "prompt" not in params:
        return None
    prompt = params["prompt"]
    if not isinstance(prompt, str):
        said = f"expected text, got {kind_of(prompt)}; an entry whose prompt is no text says by `match` what it is for"
        problems.error("/params/prompt", said)
        return None
    return prompt


def _warn_of_ignored(model: WorkflowModel, checks: tuple[Check, ...], problems: Problems) -> None:
    """A required step that never counts can't be there, a prohibited one can't be found."""
    for check in checks:
        if not isinstance(check.validator, Adherence):
            continue
        adherence = check.validator
        named = {*adherence.expected_steps, *adherence.required_steps, *adherence.prohibited_steps}
        for name in sorted(named.intersection(model.ignore)):
            problems.warn("/ignore", f"`{name}` is ignored, so the adherence check that names it never sees it")


def _is_taken_for_a_step(key: object) -> bool:
    return isinstance(key, str) and key not in OWN and key not in _ASKED and not key.endswith("!")


def _belongs(key: str, raw: Mapping[str, Any]) -> str:
    """Where a key that is known elsewhere belongs."""
    if key in _OF_ADHERENCE:
        return f"; `{key}` belongs under `adherence`"
    if key in _OF_PLANS and isinstance(raw.get("steps"), list) and "plan!" not in raw:
        return f"; `{key}` of a plan belongs under `plan!`"
    return ""


def _suggest(raw: Mapping[str, Any], problems: Problems) -> None:
    """A key that policy.md doesn't know is a step's name; one that is like a key that it knows may be that misspelt."""
    hints = {
        pointer(key): hint
        for key in raw
        if key not in OWN and key not in _ASKED and (hint := suggestion(key, (*OWN, *_ASKED), 0.75))
    }
    unknown = {pointer(key): key for key in raw if _is_taken_for_a_step(key)}
    for index, problem in enumerate(problems.errors):
        at = "/".join(problem.pointer.split("/")[:2])
        message = problem.message
        if at in unknown and problem.pointer == at:
            message = f"this key is not known, and was taken for the name of a step: {message}"
        if at in unknown and "did you mean" not in message:
            message += hints.get(at) or _belongs(unknown[at], raw)
        problems.errors[index] = replace(problem, message=message)
    told = {problem.pointer.split("/")[1] for problem in problems.errors if problem.pointer}
    for at, hint in hints.items():
        if at.removeprefix("/") not in told:
            problems.warn(at, f"this key is taken for the name of a step, as no setting has it{hint}")
