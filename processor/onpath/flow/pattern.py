"""What `seq!` and `parallel!` ask for, as frozen values (flow.md sections 4 to 6)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from onpath.flow.names import StepName
from onpath.values.tree import Tree

_GAP: Final = re.compile(r"([0-9]*)\.\.([0-9]*)")
_MANY: Final = 10**18  # more steps than any trace has; longer numbers mean the same


@dataclass(frozen=True, slots=True)
class Named:
    """One step of a name, whose values hold."""

    name: StepName
    tree: Tree | None = None

    @property
    def written(self) -> str:
        return self.name.written


@dataclass(frozen=True, slots=True)
class Gap:
    """A wildcard: `minimum` to `maximum` steps of any kind; None: without end."""

    written: str
    minimum: int
    maximum: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOf:
    """`any!`. Empty `contains` and `not_contains` restrict nothing."""

    minimum: int = 1
    maximum: int | None = None
    contains: tuple[StepName, ...] = ()
    not_contains: tuple[StepName, ...] = ()
    contains_all: tuple[StepName, ...] = ()

    @property
    def written(self) -> str:
        def listed(word: str, names: tuple[StepName, ...]) -> str:
            return f" {word} " + ", ".join(name.written for name in names) if names else ""

        parts = listed("of", self.contains) + listed("all", self.contains_all) + listed("not", self.not_contains)
        return f"any!({self.minimum}..{'' if self.maximum is None else self.maximum}{parts})"


@dataclass(frozen=True, slots=True)
class Chain:
    """A branch of `parallel!`: steps one after another that run beside the other entries."""

    items: tuple[Named, ...]

    @property
    def written(self) -> str:
        return f"seq!({', '.join(item.written for item in self.items)})"


Entry: TypeAlias = Named | Chain


@dataclass(frozen=True, slots=True)
class Block:
    """`parallel!`. The tolerance is in nanoseconds."""

    entries: tuple[Entry, ...]
    tolerance_ns: int = 0

    @property
    def written(self) -> str:
        return f"parallel!({', '.join(entry.written for entry in self.entries)})"

    @property
    def size(self) -> int:
        """Steps that all entries name."""
        return sum(len(entry.items) if isinstance(entry, Chain) else 1 for entry in self.entries)

    @property
    def singles(self) -> tuple[tuple[int, Named], ...]:
        """Entries that are one step, also as a branch, with their places."""
        return tuple(
            (at, entry if isinstance(entry, Named) else entry.items[0])
            for at, entry in enumerate(self.entries)
            if isinstance(entry, Named) or len(entry.items) == 1
        )

    @property
    def chains(self) -> tuple[tuple[int, Chain], ...]:
        """Branches of two or more steps, with their places."""
        return tuple(
            (at, entry) for at, entry in enumerate(self.entries) if isinstance(entry, Chain) and len(entry.items) > 1
        )


Item: TypeAlias = Named | Gap | AnyOf | Block


def parse_gap(written: str) -> Gap | None:
    """The wildcard that a text is; None for any other text. Raises ValueError for a range that is upside down."""
    if written == "...":
        return Gap(written, 0, None)
    found = _GAP.fullmatch(written)
    if found is None:
        return None
    if written == "..":
        return Gap(written, 1, 1)
    minimum = _number(found[1]) if found[1] else 0
    maximum = _number(found[2]) if found[2] else None
    if maximum is not None and minimum > maximum:
        raise ValueError(f"{written!r}: the least number is greater than the most")
    return Gap(written, minimum, maximum)


def _number(digits: str) -> int:
    digits = digits.lstrip("0")
    return int(digits or "0") if len(digits) < 18 else _MANY
