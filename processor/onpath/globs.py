"""Shell-style patterns (`*`, `?`, `[...]`) on names, as the policy uses them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Glob:
    """Holds for a text that the pattern covers whole. Case counts, on every platform; anything but text never fits."""

    pattern: str

    def __call__(self, value: object) -> bool:
        return isinstance(value, str) and _compiled(self.pattern).match(value) is not None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(pattern))
