"""One workflow entry -> Workflow, with what it means for the fingerprint.

The keys of policy.md go through the models of `schema`, what the workflow asks through `asked`, the trees of `match`
through the flow loader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from onpath.globs import Glob
from onpath.policy.asked import OWN, SCOPE_TREES, VALIDATORS, Asked
from onpath.policy.files import Source
from onpath.policy.fingerprint import meaning
from onpath.policy.forms import Entry
from onpath.policy.loaders import load_tree
from onpath.policy.model import Check, Match, Principal, Workflow
from onpath.policy.problems import Problem, Problems, pointer
from onpath.policy.schema import MatchModel, WorkflowModel, kind_of, suggestion, validate
from onpath.validators.adherence import Adherence

_ASKED = (*VALIDATORS, *SCOPE_TREES, "checks")


@dataclass(frozen=True, slots=True)
class Loaded:
    workflow: Workflow
    meaning: Mapping[str, Any]
    place: Problem = field(default_factory=lambda: Problem("", ""))  # where it stands, for what is said of it later


def load_workflow(source: Source, entry: Entry, problems: Problems, strict_inputs: bool) -> Loaded | None:
    """None if anything is wrong with it; `problems` are relative to the entry."""
    raw = entry.raw
    own = {key: value for key, value in raw.items() if key in WorkflowModel.model_fields}
    model = validate(WorkflowModel, {"name": entry.fallback, **entry.defaults, **own}, problems)
    principal = Principal(attribute=("enduser.id", "user.id"))
    if model is not None:
        principal = Principal(
            attribute=tuple(model.principal.attribute),
            labels={label: tuple(values) for label, values in model.principal.labels.items()},
        )
    checks = Asked(source, entry.at, problems, principal, strict_inputs).load(raw)
    _suggest(raw, problems)
    if model is None:
        return None
    _check_aliases(model, problems)
    _warn_of_ignored(model, checks, problems)
    match = _match(model.match, given="match" in raw, prompt=_prompt(raw, problems), problems=problems)
    if problems.errors:
        return None
    asked = {key: value for key, value in raw.items() if key not in OWN or key == "checks"}
    workflow = Workflow(
        name=model.name,
        description=model.description if isinstance(model.description, str) else "",
        match=match,
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
    return Loaded(workflow, meaning(model.name, model, raw.get("match"), match.prompt, asked))


def _match(model: MatchModel, *, given: bool, prompt: str | None, problems: Problems) -> Match:
    attributes: dict[str, Callable[[Any], bool]] = {}
    for key, wanted in model.attributes.items():
        if isinstance(wanted, str):
            attributes[key] = Glob(wanted)
        elif (tree := _tree(wanted, pointer("match", "attributes", key), problems)) is not None:
            attributes[key] = tree
    wanted_input = None
    if "input" in model.model_fields_set:
        wanted_input = _tree(model.input, "/match/input", problems)
    return Match(
        service=Glob(model.service) if model.service else None,
        root=Glob(model.root) if model.root else None,
        agent=model.agent or None,
        attributes=attributes,
        input=wanted_input,
        given=given,
        prompt=None if given else prompt,
    )


def _tree(raw: Any, at: str, problems: Problems) -> Callable[[Any], bool] | None:
    below = Problems()
    tree: Callable[[Any], bool] | None = load_tree(raw, below)
    problems.absorb(below, at)
    return tree


def _prompt(raw: Mapping[str, Any], problems: Problems) -> str | None:
    """The prompt of the one run that an eval entry is for."""
    params = raw.get("params")
    if "match" in raw or not isinstance(params, dict) or "prompt" not in params:
        return None
    prompt = params["prompt"]
    if not isinstance(prompt, str):
        said = f"expected text, got {kind_of(prompt)}; an entry whose prompt is no text says by `match` what it is for"
        problems.error("/params/prompt", said)
        return None
    return prompt


def _check_aliases(model: WorkflowModel, problems: Problems) -> None:
    owner: dict[str, str] = {}
    for name, others in model.aliases.items():
        for index, other in enumerate(others):
            at = pointer("aliases", name, index)
            if other in model.aliases:
                problems.error(at, f"`{other}` has aliases of its own, so it can't be one")
            elif owner.setdefault(other, name) != name:
                problems.error(at, f"`{other}` is an alias of `{owner[other]}` already")


def _warn_of_ignored(model: WorkflowModel, checks: tuple[Check, ...], problems: Problems) -> None:
    """A required step that never counts can't be there, a prohibited one can't be found."""
    for check in checks:
        if not isinstance(check.validator, Adherence):
            continue
        adherence = check.validator
        named = {*adherence.expected_steps, *adherence.required_steps, *adherence.prohibited_steps}
        for name in sorted(named.intersection(model.ignore)):
            problems.warn("/ignore", f"`{name}` is ignored, so the adherence check that names it never sees it")


def _suggest(raw: Mapping[str, Any], problems: Problems) -> None:
    """A key that policy.md doesn't know is a step's name; where that went wrong it may be a key misspelt."""
    hints = {
        pointer(key): hint
        for key in raw
        if key not in OWN and key not in _ASKED and (hint := suggestion(key, (*OWN, *_ASKED), 0.75))
    }
    for index, problem in enumerate(problems.errors):
        for at, hint in hints.items():
            here = problem.pointer == at or problem.pointer.startswith(at + "/")
            if here and "did you mean" not in problem.message:
                problems.errors[index] = replace(problem, message=problem.message + hint)
