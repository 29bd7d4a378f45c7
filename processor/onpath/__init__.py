"""onpath keeps AI agents on path: checks recorded or live agent traces against declared workflows.

`OnPathSpanProcessor` is loaded when it is first asked for, so that importing a part of onpath costs that part alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onpath.span_processor import OnPathSpanProcessor as OnPathSpanProcessor

__all__ = ["OnPathSpanProcessor"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from onpath import span_processor

    return getattr(span_processor, name)
