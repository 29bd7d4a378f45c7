"""RE2 patterns as values that travel between processes: linear time, whatever a policy says."""

from __future__ import annotations

from typing import Any

import re2


class _Compiled:
    """Compiled anew where it is unpickled; equal to every other of its kind with the same text."""

    __slots__ = ("_compiled", "text")

    def __init__(self, text: str) -> None:
        """Raises ValueError, with what RE2 says, for a pattern that it refuses."""
        options = re2.Options()
        options.log_errors = False
        try:
            self._compiled: Any = re2.compile(text, options)
        except re2.error as error:
            said = error.args[0] if error.args else ""
            raise ValueError(said.decode(errors="replace") if isinstance(said, bytes) else str(said)) from None
        except UnicodeError as error:
            raise ValueError(str(error)) from None
        self.text = text

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return type(self), (self.text,)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, _Compiled) and other.text == self.text

    def __hash__(self) -> int:
        return hash((type(self), self.text))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"


class Pattern(_Compiled):
    """Whether a pattern matches the whole of a text."""

    __slots__ = ()

    def __call__(self, text: str) -> bool:
        return self._compiled.fullmatch(_encodable(text)) is not None


class Search(_Compiled):
    """Whether a pattern is found anywhere in a text."""

    __slots__ = ()

    def __call__(self, text: str) -> bool:
        return self._compiled.search(_encodable(text)) is not None


def _encodable(text: str) -> str:
    """RE2 reads UTF-8, which has no single surrogates."""
    return text.encode("utf-8", "replace").decode()


full_match = Pattern
search = Search
