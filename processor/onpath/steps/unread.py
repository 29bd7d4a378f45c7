"""Values that stand in an attribute and are decoded when somebody looks, then once.

The messages of a model call repeat the whole talk at every call, and the state of a graph is its agent's output: most
checks never look at them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onpath.steps.model import Scope, Step


class Unread:
    """Stands for a value until it is asked for."""

    __slots__ = ("_read",)

    def __init__(self, read: Callable[[], Any]) -> None:
        self._read = read

    def read(self) -> Any:
        return self._read()


def _late(name: str) -> Any:
    """A property that reads an `Unread` value at the first look and keeps what it read."""

    def look(self: Any) -> Any:
        value = getattr(self, name)
        if isinstance(value, Unread):
            value = value.read()
            object.__setattr__(self, name, value)
        return value

    def keep(self: Any, value: Any) -> None:
        object.__setattr__(self, name, value)

    return property(look, keep)


class ModelCall(Step):
    """A model call whose input and output may be `Unread`."""

    __slots__ = ("_input", "_output")
    input = _late("_input")
    output = _late("_output")


class RecordedScope(Scope):
    """A scope whose input, output and prompt may be `Unread`."""

    __slots__ = ("_input", "_output", "_prompt")
    input = _late("_input")
    output = _late("_output")
    prompt = _late("_prompt")
