"""Value trees as a policy writes them -> leaves: a path, and the validator at its end (flow.md section 7)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from onpath.policy.flow_checks import Domain, load_check
from onpath.policy.problems import Problems, pointer
from onpath.values.checks import JudgeCheck
from onpath.values.record import PROPERTIES, Path
from onpath.values.tree import Leaf, Tree


@dataclass(frozen=True, slots=True)
class Level:
    """What may stand at one level of a tree. `below` None: no parts; `domain` None: no validators."""

    said: str  # what is wanted, for messages
    domain: Domain | None = "any"
    below: str | None = "value"


_LEVELS: Final = {
    "value": Level("a mapping of validators and parts"),
    "number": Level("a mapping of validators on a number", "number", None),
    "status": Level("a mapping of validators on a status", "status", None),
    "usage": Level("a mapping of metrics", None, "number"),
    "record": Level(f"a mapping with {', '.join(PROPERTIES)}", None, None),
}
_FLOWS: Final = ("seq!", "parallel!", "any!")
_OF_PROPERTY: Final = {
    "input": "value",
    "output": "value",
    "error": "value",
    "elapsed": "number",
    "attempt": "number",
    "usage": "usage",
    "status": "status",
}


def load_record(raw: Any, problems: Problems, at: str) -> Tree | None:
    """The tree under a name: properties first."""
    return _loaded(raw, problems, at, "record", ())


def load_property(raw: Any, name: str, problems: Problems, at: str) -> Tree | None:
    """The tree on one property of the scope's record."""
    return _loaded(raw, problems, at, _OF_PROPERTY[name], (name,))


def load_value(raw: Any, problems: Problems, at: str) -> Tree | None:
    """A tree on a JSON value by itself; no judge can be asked about it."""
    tree = _loaded(raw, problems, at, "value", ())
    if tree is not None:
        for leaf in tree.leaves:
            if isinstance(leaf.check, JudgeCheck):
                problems.error(at + pointer(*leaf.path, leaf.check.key), "no judge is asked which traces are meant")
    return tree


def _loaded(raw: Any, problems: Problems, at: str, level: str, path: Path) -> Tree | None:
    count = len(problems.errors)
    leaves = tuple(_leaves(raw, problems, at, level, path))
    return Tree(leaves) if len(problems.errors) == count else None


def _leaves(raw: Any, problems: Problems, at: str, level: str, path: Path) -> Iterator[Leaf]:
    if isinstance(raw, list) and raw:
        for index, item in enumerate(raw):
            below = at + pointer(index)
            if isinstance(item, dict):
                yield from _mapping(item, problems, below, level, path)
            else:
                problems.error(below, f"expected {_LEVELS[level].said}")
    elif isinstance(raw, dict):
        yield from _mapping(raw, problems, at, level, path)
    else:
        problems.error(at, f"expected {_LEVELS[level].said}" + ("; this list is empty" if raw == [] else ""))


def _mapping(raw: dict[Any, Any], problems: Problems, at: str, level: str, path: Path) -> Iterator[Leaf]:
    if not raw:
        problems.error(at, f"expected {_LEVELS[level].said}; this one is empty")
    for key, value in raw.items():
        below = at + pointer(key if isinstance(key, str) else str(key))
        if not isinstance(key, str):
            problems.error(below, "a key must be text; put it in quotes")
        elif key.endswith("!"):
            yield from _check(key, value, problems, below, level, path)
        else:
            yield from _part(key, value, problems, below, level, path)


def _check(key: str, raw: Any, problems: Problems, at: str, level: str, path: Path) -> Iterator[Leaf]:
    domain = _LEVELS[level].domain
    if level == "record" and key in _FLOWS:
        said = f"no `{key}` under a name: a sub-agent is one step, its own flow is a workflow of its own with `agent`"
        problems.error(at, said)
    elif domain is None:
        problems.error(at, f"`{key}` can't stand here: expected {_LEVELS[level].said}")
    elif (check := load_check(key, raw, problems, at, domain=domain)) is not None:
        yield Leaf(path, check)


def _part(key: str, raw: Any, problems: Problems, at: str, level: str, path: Path) -> Iterator[Leaf]:
    below = _OF_PROPERTY.get(key) if level == "record" else _LEVELS[level].below
    if below is None:
        problems.error(at, f"`{key}` can't stand here: expected {_LEVELS[level].said}")
    elif level == "usage" and not key.rpartition(":")[2]:
        problems.error(at, "no metric is named")
    else:
        yield from _leaves(raw, problems, at, below, (*path, key))
