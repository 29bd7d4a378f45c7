"""An entry of a policy -> the checks of flow.md: `seq!`, `parallel!`, and trees on names and on the scope's record.

Data flow: plain parsed data -> `flow_items`, `flow_trees`, `flow_checks` -> one Check for each validator key, in the
order of the file. Everything wrong goes to `problems` with its pointer; nothing is dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from onpath.policy.flow_items import load_block, load_name, load_sequence
from onpath.policy.flow_trees import load_property, load_record, load_value
from onpath.policy.model import Check
from onpath.policy.problems import Problems, pointer
from onpath.validators.base import Validator
from onpath.validators.parallel import Parallel
from onpath.validators.sequence import Sequential
from onpath.validators.value_checks import ScopeValues, StepValues
from onpath.values.tree import Holds

METADATA: Final = ("name", "runnable", "params", "description", "tags", "path", "env", "timeout")
ELSEWHERE: Final = ("adherence", "plan!", "checks")  # other things that an entry may ask
POLICY_KEYS: Final = frozenset(
    {"match", "agent", "nested", "spans", "ignore", "aliases", "principal", "severity", "sample", "capture_content"}
    | set(ELSEWHERE)
)
SCOPE_PROPERTIES: Final = ("input", "output", "elapsed", "usage", "status", "error")


def load_flow(entry: Any, problems: Problems, *, known: Collection[str] = POLICY_KEYS) -> tuple[Check, ...]:
    """`known` are keys of the entry that others load; they are never names of steps."""
    if not isinstance(entry, Mapping):
        problems.error("", "expected a mapping")
        return ()
    count = len(problems.errors)
    checks: list[Check] = []
    for key, raw in entry.items():
        if key in known:
            continue
        if key in METADATA:
            if key == "name" and not isinstance(raw, str):
                problems.error("/name", f"a name is text, got {raw!r}")
            continue
        validator = _validator(key, raw, problems)
        if validator is not None:
            checks.append(Check(key=key, validator=validator))
    if not checks and len(problems.errors) == count and not any(entry.get(key) for key in ELSEWHERE):
        problems.error("", "nothing is asked here; give it a validator, such as `seq!`")
    return tuple(checks)


def load_tree(raw: Any, problems: Problems, at: str = "") -> Holds | None:
    """A predicate on a JSON value: a tree, or validators directly. None if something is wrong."""
    tree = load_value(raw, problems, at)
    return None if tree is None else Holds(tree)


def _validator(key: Any, raw: Any, problems: Problems) -> Validator | None:
    at = pointer(key if isinstance(key, str) else str(key))
    if not isinstance(key, str):
        problems.error(at, f"the key {key!r} is no text; put it in quotes")
    elif key == "seq!":
        items = load_sequence(raw, problems, at)
        return Sequential(items) if items is not None else None
    elif key == "parallel!":
        block = load_block(raw, problems, at)
        return Parallel(block) if block is not None else None
    elif key in SCOPE_PROPERTIES:
        tree = load_property(raw, key, problems, at)
        return ScopeValues(key, tree) if tree is not None else None
    elif key.endswith("!") and ":" not in key:
        problems.error(at, f"`{key}` can't stand here" + ("; it belongs in `seq!`" if key == "any!" else ""))
    else:
        name, tree = load_name(key, problems, at), load_record(raw, problems, at)
        return StepValues(name, tree) if name is not None and tree is not None else None
    return None
