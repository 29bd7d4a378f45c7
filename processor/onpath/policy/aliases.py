"""The `aliases` of a workflow against each other and against the names that its checks look for.

A step with an alias has the other name before any check sees it. A check that looks for the alias itself would never
find it: one that prohibits it would pass every run, without a word.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from onpath.flow.names import StepName
from onpath.flow.pattern import AnyOf, Block, Chain, Item, Named
from onpath.policy.model import Check
from onpath.policy.problems import Problems, pointer
from onpath.validators.adherence import Adherence
from onpath.validators.base import Validator
from onpath.validators.parallel import Parallel
from onpath.validators.plan.validator import PlanValidator
from onpath.validators.sequence import Sequential
from onpath.validators.value_checks import StepValues


def check_aliases(raw: object, checks: Sequence[Check], problems: Problems) -> None:
    """`raw` is what the workflow says; what has another shape than a map of lists of names is told of elsewhere."""
    aliases: Mapping[object, object] = raw if isinstance(raw, dict) else {}
    owner: dict[str, str] = {}
    for name, others in aliases.items():
        for index, other in enumerate(others if isinstance(others, list) else ()):
            if not isinstance(name, str) or not isinstance(other, str):
                continue
            at = pointer("aliases", name, index)
            if other in aliases:
                problems.error(at, f"`{other}` has aliases of its own, so it can't be one")
            elif owner.setdefault(other, name) != name:
                problems.error(at, f"`{other}` is an alias of `{owner[other]}` already")
            else:
                _check_against(checks, name, other, at, problems)


def _check_against(checks: Sequence[Check], name: str, other: str, at: str, problems: Problems) -> None:
    """Tells of the first check that means another step by the alias than the one it stands for."""
    for check in checks:
        meant = _meant(check.validator, name, other)
        if meant is not None:
            said = (
                f"`{check.key}` asks for `{meant}`" if meant == other else f"for `{check.key}` it stands for `{meant}`"
            )
            problems.error(at, f"`{other}` can't be an alias of `{name}`: {said}")
            return
    for named in (n for check in checks for n in _step_names(check.validator) if n.kind != "llm"):
        if named.text.endswith("/" + other):
            said = f"so `{named.written}` is that step of no agent"
            problems.warn(at, f"`{other}` is `{name}` to every check, {said}")
            return


def _meant(validator: Validator, name: str, other: str) -> str | None:
    """What a check means by an alias, where that isn't what it means by the name it is an alias of."""
    if isinstance(validator, Adherence):
        if validator.extract_from == "output":
            return None  # the words of an output are read as they are
        meant = validator.meant_by(other)
        return meant if meant != validator.meant_by(name) else None
    if isinstance(validator, PlanValidator):
        plan = validator.plan
        tools = {operation.tool_name for step in plan.steps for operation in plan.operations_of(step)}
        return other if other in tools else None
    return other if any(n.text == other and n.kind != "llm" for n in _step_names(validator)) else None


def _step_names(validator: Validator) -> Iterator[StepName]:
    """All names of a flow check, wherever they stand in it."""
    if isinstance(validator, StepValues):
        yield validator.name
    elif isinstance(validator, Sequential):
        for item in validator.items:
            yield from _names_of(item)
    elif isinstance(validator, Parallel):
        yield from _names_of(validator.block)


def _names_of(item: Item) -> Iterator[StepName]:
    if isinstance(item, AnyOf):
        yield from (*item.contains, *item.not_contains, *item.contains_all)
    elif isinstance(item, Block):
        for entry in item.entries:
            yield from (named.name for named in (entry.items if isinstance(entry, Chain) else (entry,)))
    elif isinstance(item, Named):
        yield item.name
