"""Flow patterns and value trees in words, for `onpath validate`.

Data flow: Check -> its validator's frozen pattern -> sentences; the first says what is asked, further ones what follows
from it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from onpath.flow.names import StepName
from onpath.flow.pattern import AnyOf, Block, Chain, Entry, Gap, Item, Named
from onpath.flow.timing import NS_PER_MS
from onpath.policy.model import Check
from onpath.validators.parallel import Parallel
from onpath.validators.sequence import Sequential
from onpath.validators.value_checks import ScopeValues, StepValues
from onpath.values.checks import JudgeCheck, ValueCheck
from onpath.values.dates import instant
from onpath.values.text import transformed
from onpath.values.tree import Leaf, Tree

# What holds, and what holds when it is negated; `{}` is the argument.
_VERBS: Final[Mapping[str, tuple[str, str]]] = {
    "eq": ("is {}", "is not {}"),
    "contains": ("contains {}", "does not contain {}"),
    "contains_all": ("contains all of {}", "does not contain all of {}"),
    "contains_any": ("contains one of {}", "contains none of {}"),
    "starts_with": ("starts with {}", "does not start with {}"),
    "ends_with": ("ends with {}", "does not end with {}"),
    "pattern": ("matches {}", "does not match {}"),
    "type": ("is of type {}", "is not of type {}"),
    "length": ("has length {}", "does not have length {}"),
    "min_length": ("has length {} or more", "has a length under {}"),
    "max_length": ("has length {} at most", "has a length over {}"),
    "gt": ("is more than {}", "is {} or less"),
    "gte": ("is {} or more", "is less than {}"),
    "lt": ("is less than {}", "is {} or more"),
    "lte": ("is {} or less", "is more than {}"),
    "null": ("is null", "is not null"),
    "json": ("is JSON", "is not JSON"),
    "email": ("is an e-mail address", "is text and no e-mail address"),
    "prompt": ("satisfies {}", "does not satisfy {}"),
    "semantic": ("says in some words {}", "does not say in any words {}"),
    "language": ("is written in {}", "is not written in {}"),
    "rubric": ("meets the rubric {}", "does not meet the rubric {}"),
}
_OF_DATES: Final = {
    "gt": ("is later than {}", "is {} or earlier"),
    "gte": ("is {} or later", "is earlier than {}"),
    "lt": ("is earlier than {}", "is {} or later"),
    "lte": ("is {} or earlier", "is later than {}"),
}
_UNITS: Final = {"elapsed": " ms"}
_TRANSFORMED: Final = ("eq", "contains", "starts_with", "ends_with")  # whose argument is transformed as the value is
_SEVERAL: Final = ("contains_all", "contains_any")
_FLAGS: Final = ("null", "not_null", "json", "email")


def describe(check: Check, agent: str | None = None) -> list[str]:
    """What a check asks, a sentence at a time; `agent` is the workflow's, if each of its scopes is judged."""
    validator = check.validator
    if isinstance(validator, Sequential):
        return [_sequence(validator.items), *_judged(_trees(validator.items))]
    if isinstance(validator, Parallel):
        return [_together_anywhere(validator.block), *_judged(_trees([validator.block]))]
    if isinstance(validator, StepValues):
        said = f"there is a step {_name(validator.name)}, and for every one {_values(validator.tree)}."
        return [said, *_judged([validator.tree])]
    if isinstance(validator, ScopeValues):
        whose = "the run's" if agent is None else f"each {agent} run's"
        return [f"{whose} {_values(validator.tree)}.", *_judged([validator.tree])]
    raise TypeError(f"{check.key} is no check of steps or values")


def _sequence(items: Sequence[Item]) -> str:
    parts = [_item(item) for item in items]
    said = f"first {parts[0]}" if len(parts) > 1 else f"the whole run is {parts[0]}"
    said += "".join(f", then {part}" for part in parts[1:])
    return said + ("; nothing else." if len(parts) > 1 else ".")


def _item(item: Item) -> str:
    if isinstance(item, Named):
        return _named(item)
    if isinstance(item, Gap):
        return _count(item.minimum, item.maximum)
    if isinstance(item, AnyOf):
        return _any_of(item)
    return _together(item)


def _name(name: StepName) -> str:
    if name.kind == "llm":
        return f"a model call of {name.text}"
    agent, _, own = name.text.rpartition("/")
    if own == "llm" and name.kind is None:
        return f"a model call of agent {agent}" if agent else "a model call"
    return name.text if name.kind is None else f"{name.kind} {name.text}"


def _named(item: Named) -> str:
    return _name(item.name) if item.tree is None else f"{_name(item.name)} ({_values(item.tree)})"


def _count(least: int, most: int | None) -> str:
    if most is None:
        return "any number of steps" if least == 0 else f"{_steps(least)} or more"
    if least == most:
        return "no step" if most == 0 else _steps(least)
    return f"up to {_steps(most)}" if least == 0 else f"{least} to {_steps(most)}"


def _steps(count: int) -> str:
    return "one step" if count == 1 else f"{count} steps"


def _any_of(item: AnyOf) -> str:
    parts = [_count(item.minimum, item.maximum)]
    if item.contains:
        parts.append(f"each of them {_list(item.contains, 'or')}")
    if item.not_contains:
        parts.append(f"none of them {_list(item.not_contains, 'or')}")
    if item.contains_all:
        parts.append(f"with {_list(item.contains_all, 'and')} among them")
    return parts[0] + (f" ({', '.join(parts[1:])})" if len(parts) > 1 else "")


def _list(names: Sequence[StepName], last: str) -> str:
    return _joined([_name(name) for name in names], last)


def _together(block: Block) -> str:
    if len(block.entries) == 1:
        return _entry(block.entries[0])
    return f"{_joined([_entry(entry) for entry in block.entries], 'and')} at the same time{_tolerance(block)}"


def _together_anywhere(block: Block) -> str:
    if len(block.entries) == 1:
        return f"somewhere in the run {_entry(block.entries[0])}."
    return f"somewhere in the run {_together(block)}, each a step of its own; other steps do not matter."


def _tolerance(block: Block) -> str:
    return f", or at most {block.tolerance_ns // NS_PER_MS} ms apart" if block.tolerance_ns else ""


def _entry(entry: Entry) -> str:
    if isinstance(entry, Chain):
        return f"({' followed by '.join(_named(item) for item in entry.items)})"
    return _named(entry)


def _values(tree: Tree) -> str:
    """Each value once, with all that is asked of it."""
    asked: dict[str, list[str]] = {}
    for leaf in tree.leaves:
        asked.setdefault(".".join(leaf.path), []).append(_verb(leaf))
    return _joined([f"{path} {_joined(verbs, 'and')}" for path, verbs in asked.items()], "and")


def that_fits(tree: Tree) -> str:
    """What is asked of a value, behind its name: `that is "x"`, `whose a.b is 5`."""
    asked: dict[str, list[str]] = {}
    for leaf in tree.leaves:
        asked.setdefault(".".join(leaf.path), []).append(_verb(leaf))
    return _joined(
        [f"{f'whose {path}' if path else 'that'} {_joined(verbs, 'and')}" for path, verbs in asked.items()], "and"
    )


def _verb(leaf: Leaf) -> str:
    check = leaf.check
    base, negated = _base(check.key)
    negated ^= (
        isinstance(check, ValueCheck | JudgeCheck) and check.negated and not check.key.startswith(("not_", "ne!"))
    )
    argument = check.argument
    if base in _FLAGS:
        negated ^= argument is False
    if base == "not_null":
        base, negated = "null", not negated
    dated = isinstance(argument, str) and base in _OF_DATES and instant(argument) is not None
    verb = (_OF_DATES if dated else _VERBS)[base][negated]
    transforms = check.transforms if isinstance(check, ValueCheck | JudgeCheck) else ()
    compared = _compared(base, argument, transforms)
    shown = verb.format(_argument(compared) + _UNITS.get(leaf.path[0] if leaf.path else "", ""))
    return shown + (f" (after {', '.join(transforms)})" if transforms else "")


def _compared(base: str, argument: Any, transforms: Sequence[str]) -> Any:
    """The argument as it is compared: texts go through the transforms, too (flow.md section 8)."""
    if base in _SEVERAL and isinstance(argument, list | tuple):
        return [transformed(item, transforms) for item in argument]
    return transformed(argument, transforms) if base in _TRANSFORMED else argument


def _base(key: str) -> tuple[str, bool]:
    name = key.removesuffix("!")
    if name in ("ne", "not_eq"):
        return "eq", True
    if name == "not_null":
        return name, False
    return name.removeprefix("not_"), name.startswith("not_")


def _argument(argument: Any) -> str:
    return json.dumps(argument, ensure_ascii=False, default=str)


def _trees(items: Sequence[Item]) -> list[Tree]:
    named: list[Named] = []
    for item in items:
        if isinstance(item, Named):
            named.append(item)
        elif isinstance(item, Block):
            for entry in item.entries:
                named += entry.items if isinstance(entry, Chain) else (entry,)
    return [item.tree for item in named if item.tree is not None]


def _judged(trees: Sequence[Tree]) -> list[str]:
    if not any(tree.asks_a_judge for tree in trees):
        return []
    return ["A judge decides in part: it is sent the value it judges; without one configured the verdict is unknown."]


def _joined(words: Sequence[str], last: str) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"
