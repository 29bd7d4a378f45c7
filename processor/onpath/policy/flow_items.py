"""`seq!` and `parallel!` as a policy writes them -> items and blocks (flow.md sections 3 to 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from onpath.flow.names import StepName, could_fit_one, parse_name, ruled_out
from onpath.flow.pattern import AnyOf, Block, Chain, Entry, Item, Named, parse_gap
from onpath.flow.timing import NS_PER_MS
from onpath.policy.flow_trees import load_record
from onpath.policy.problems import Problems, pointer

_ANY_KEYS: Final = ("min", "max", "contains", "not_contains", "contains_all")
_BLOCK_KEYS: Final = ("tolerance", "spans")


def load_sequence(raw: Any, problems: Problems, at: str) -> tuple[Item, ...] | None:
    """None if something is wrong, which `problems` then hold."""
    if not isinstance(raw, list) or not raw:
        problems.error(at, "expected a list of items that is not empty")
        return None
    items = [_item(item, problems, at + pointer(index)) for index, item in enumerate(raw)]
    found = tuple(item for item in items if item is not None)
    return found if len(found) == len(items) else None


def load_block(raw: Any, problems: Problems, at: str) -> Block | None:
    """A list of entries, or a mapping of a tolerance and `spans`, the entries."""
    tolerance = 0
    if isinstance(raw, dict):
        count = len(problems.errors)
        for key in raw:
            if key not in _BLOCK_KEYS:
                problems.error(at + pointer(_text(key)), "expected `tolerance` and `spans`")
        tolerance = raw.get("tolerance", 0)
        if not _is_whole(tolerance):
            problems.error(at + "/tolerance", "expected whole milliseconds, 0 or more")
        if "spans" not in raw:
            problems.error(at, "`spans`, the list of entries, is missing")
        if len(problems.errors) > count:
            return None
        raw, at = raw["spans"], at + "/spans"
    if not isinstance(raw, list) or not raw:
        problems.error(at, "expected a list of entries that is not empty")
        return None
    loaded = [_entry(entry, problems, at + pointer(index)) for index, entry in enumerate(raw)]
    entries = tuple(entry for entry in loaded if entry is not None)
    if len(entries) < len(loaded):
        return None
    return None if _branches_clash(entries, problems, at) else Block(entries, tolerance * NS_PER_MS)


def load_name(written: Any, problems: Problems, at: str) -> StepName | None:
    """A name where nothing else may stand."""
    if not isinstance(written, str):
        problems.error(at, f"expected a name, got {written!r}; put it in quotes")
        return None
    try:
        if parse_gap(written) is not None:
            raise ValueError(f"expected a name, and {written!r} is a wildcard")
        return parse_name(written)
    except ValueError as error:
        problems.error(at, str(error))
        return None


def load_named(written: Any, raw: Any, problems: Problems, at: str) -> Named | None:
    """A name and the values of its step; null and an empty mapping ask for none. `at` is the pointer of the name."""
    name = load_name(written, problems, at)
    if name is None:
        return None
    if raw is None or raw == {}:
        return Named(name)
    tree = load_record(raw, problems, at)
    return None if tree is None else Named(name, tree)


def _item(raw: Any, problems: Problems, at: str) -> Item | None:
    if isinstance(raw, str):
        try:
            gap = parse_gap(raw)
        except ValueError as error:
            problems.error(at, str(error))
            return None
        return gap if gap is not None else load_named(raw, None, problems, at)
    key = _only_key(raw, problems, at)
    if key is None:
        return None
    below = at + pointer(key)
    if key == "parallel!":
        return load_block(raw[key], problems, below)
    if key == "any!":
        return _any_of(raw[key], problems, below)
    if key == "seq!":
        problems.error(below, "no `seq!` in a `seq!`: the flow of a sub-agent is a workflow of its own with `agent`")
        return None
    return _keyed(key, raw[key], problems, below)


def _entry(raw: Any, problems: Problems, at: str) -> Entry | None:
    if isinstance(raw, str):
        return load_named(raw, None, problems, at)
    key = _only_key(raw, problems, at)
    if key is None:
        return None
    below = at + pointer(key)
    if key == "seq!":
        return _chain(raw[key], problems, below)
    if key in ("parallel!", "any!"):
        problems.error(below, f"no `{key}` in a `parallel!`: expected names, or branches with `seq!`")
        return None
    return _keyed(key, raw[key], problems, below)


def _chain(raw: Any, problems: Problems, at: str) -> Chain | None:
    if not isinstance(raw, list) or not raw:
        problems.error(at, "expected a list of names that is not empty")
        return None
    items = [_link(item, problems, at + pointer(index)) for index, item in enumerate(raw)]
    found = tuple(item for item in items if item is not None)
    return Chain(found) if len(found) == len(items) else None


def _link(raw: Any, problems: Problems, at: str) -> Named | None:
    if isinstance(raw, str):
        return load_named(raw, None, problems, at)
    key = _only_key(raw, problems, at)
    return None if key is None else _keyed(key, raw[key], problems, at + pointer(key))


def _keyed(key: str, raw: Any, problems: Problems, at: str) -> Named | None:
    """A name that is the key of a mapping, with its values below."""
    if key.endswith("!") and ":" not in key:
        problems.error(at, f"`{key}` can't stand here")
        return None
    return load_named(key, raw, problems, at)


def _only_key(raw: Any, problems: Problems, at: str) -> str | None:
    if not isinstance(raw, dict):
        problems.error(at, f"expected text or a mapping, got {raw!r}")
    elif len(raw) != 1:
        problems.error(at, f"expected a mapping with exactly one key, got {len(raw)}; is something indented wrong?")
    elif not isinstance(key := next(iter(raw)), str):
        problems.error(at, f"the name {key!r} is no text; put it in quotes")
    else:
        return key
    return None


def _any_of(raw: Any, problems: Problems, at: str) -> AnyOf | None:
    count = len(problems.errors)
    if raw is None:
        raw = {}
    if not isinstance(raw, dict):
        problems.error(at, f"expected null or a mapping with {', '.join(_ANY_KEYS)}")
        return None
    for key in raw:
        if key not in _ANY_KEYS:
            problems.error(at + pointer(_text(key)), f"expected one of {', '.join(_ANY_KEYS)}")
    minimum, maximum = raw.get("min", 1), raw.get("max")
    if not _is_whole(minimum):
        problems.error(at + "/min", "expected a whole number, 0 or more")
    if maximum is not None and not _is_whole(maximum):
        problems.error(at + "/max", "expected a whole number, 0 or more, or null")
    lists = {
        key: _names(raw[key], problems, at + pointer(key)) if key in raw else ()
        for key in ("contains", "not_contains", "contains_all")
    }
    if len(problems.errors) > count:
        return None
    item = AnyOf(minimum=minimum, maximum=maximum, **lists)
    if maximum is not None and maximum < minimum:
        for key in ("min", "max"):
            if key in raw:
                problems.error(at + pointer(key), f"no block has at least {minimum} and at most {maximum} steps")
    _check_any_of(item, problems, at)
    return item if len(problems.errors) == count else None


def _names(raw: Any, problems: Problems, at: str) -> tuple[StepName, ...]:
    if not isinstance(raw, list) or not raw:
        problems.error(at, "expected a list of names that is not empty")
        return ()
    names: list[StepName] = []
    for index, written in enumerate(raw):
        name = load_name(written, problems, at + pointer(index))
        if name is not None and name in names:
            problems.error(at + pointer(index), f"{written!r} stands here twice")
        elif name is not None:
            names.append(name)
    return tuple(names)


def _check_any_of(item: AnyOf, problems: Problems, at: str) -> None:
    """Whether an `any!` could ever be satisfied, name by name."""
    for key, names in (("contains", item.contains), ("contains_all", item.contains_all)):
        for index, name in enumerate(names):
            if item.not_contains and ruled_out(name, item.not_contains):
                problems.error(at + pointer(key, index), f"{name.written!r} is ruled out by not_contains")
    for index, name in enumerate(item.contains_all):
        here = at + pointer("contains_all", index)
        if item.contains and not any(could_fit_one(name, allowed) for allowed in item.contains):
            problems.error(here, f"no name of contains allows {name.written!r}")
        if any(could_fit_one(name, before) for before in item.contains_all[:index]):
            problems.error(here, f"one step could be {name.written!r} and a name before it")
    if item.maximum is not None and len(item.contains_all) > item.maximum:
        problems.error(at + "/contains_all", f"more names than the most steps, {item.maximum}")


def _branches_clash(entries: Sequence[Entry], problems: Problems, at: str) -> bool:
    """A step that could fit a branch of two or more items may fit no other entry."""
    clash = False
    for later, entry in enumerate(entries):
        for earlier in range(later):
            long = [place for place in (earlier, later) if _is_long(entries[place])]
            if long and _share(entries[earlier], entry):
                problems.error(at + pointer(long[-1]), "a step of this branch could also be one of another entry")
                clash = True
    return clash


def _share(a: Entry, b: Entry) -> bool:
    return any(could_fit_one(one.name, other.name) for one in _links(a) for other in _links(b))


def _links(entry: Entry) -> tuple[Named, ...]:
    return entry.items if isinstance(entry, Chain) else (entry,)


def _is_long(entry: Entry) -> bool:
    return isinstance(entry, Chain) and len(entry.items) > 1


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _text(key: Any) -> str:
    return key if isinstance(key, str) else str(key)
