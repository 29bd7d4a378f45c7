"""Flattened keys, `llm.output_messages.0.message.role` and their like, as nested values."""

from __future__ import annotations

from typing import Any, Final

from onpath.model import Attributes

_DEPTH: Final = 12  # parts of a key that nest; the rest of a longer one is one name


def unflatten(attributes: Attributes, prefix: str) -> Any:
    """`prefix.0.message.role` and its like as nested values; lists by number, whatever number they begin with."""
    root: dict[str, Any] = {}
    start = len(prefix) + 1
    for key, value in attributes.items():
        if not key.startswith(prefix) or len(key) <= start or key[start - 1] != ".":
            continue
        path = key[start:].split(".", _DEPTH)
        at = root
        for part in path[:-1]:
            inner = at.get(part)
            if not isinstance(inner, dict):
                inner = at[part] = {}
            at = inner
        at.setdefault(path[-1], value)
    return _lists(root) if root else None


def _lists(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    held = {k: _lists(v) for k, v in node.items()}
    if held and all(k.isdecimal() and k.isascii() and len(k) < 8 for k in held):
        return [held[k] for k in sorted(held, key=int)]
    return held
