"""RE2 patterns as values that travel between processes: linear time, whatever a policy says."""

from __future__ import annotations

import re2


class Pattern:
    """Whether a pattern matches the whole of a text. Compiled anew where it is unpickled."""

    __slots__ = ("_compiled", "text")

    def __init__(self, text: str) -> None:
        """Raises ValueError, with what RE2 says, for a pattern that it refuses."""
        options = re2.Options()
        options.log_errors = False
        try:
            self._compiled = re2.compile(text, options)
        except (re2.error, UnicodeError) as error:
            raise ValueError(str(error)) from None
        self.text = text

    def __call__(self, text: str) -> bool:
        return self._compiled.fullmatch(text.encode("utf-8", "replace").decode()) is not None

    def __reduce__(self) -> tuple[type[Pattern], tuple[str]]:
        return Pattern, (self.text,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pattern) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Pattern({self.text!r})"


full_match = Pattern
