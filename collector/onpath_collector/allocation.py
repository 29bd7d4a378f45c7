"""How the C library gives memory back: large requests come and go, and their room must not stay with the process.

glibc has an arena for each of several threads, and raises by itself the size from which a block is mapped apart: after
some requests of 10 MB, which gRPC's threads, the loop and the downstream hold in turn, half of what it has is holes.
Other C libraries have no such settings, and need none.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from typing import Final

_ARENA_MAX: Final = -8  # of mallopt, as malloc.h has it
_MMAP_THRESHOLD: Final = -3
_MAPPED: Final = 2 << 20  # bytes; smaller, it would cost time that small requests can't spare


def keep_little(environment: Mapping[str, str] = os.environ) -> bool:
    """Called before there are threads; whether it was done. Whoever has set MALLOC_* decides by himself."""
    if any(name.startswith("MALLOC_") for name in environment):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_ARENA_MAX, 1) and mallopt(_MMAP_THRESHOLD, _MAPPED))
