"""Problems of a policy: gathered, never raised one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

ProblemKind: TypeAlias = Literal["policy", "plan-compile", "plan-schema"]


def pointer(*parts: str | int) -> str:
    """A JSON Pointer (RFC 6901) to the place that `parts` lead to."""
    return "".join("/" + str(p).replace("~", "~0").replace("/", "~1") for p in parts)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong at one place. `kind` decides the exit code (policy.md)."""

    pointer: str
    message: str
    kind: ProblemKind = "policy"
    file: str | None = None
    line: int | None = None  # from 1
    column: int | None = None  # from 1

    def __str__(self) -> str:
        """One line; for a fault of a plan a second one says where, since plan.md fixes the first."""
        place = ":".join(str(p) for p in (self.file, self.line, self.column) if p)
        if self.kind == "policy":
            return ": ".join(p for p in (place, self.pointer, self.message) if p)
        at = " ".join(p for p in (place, self.pointer) if p)
        return self.message + (f"\n  at {at}" if at else "")


class Problems:
    """Errors and warnings found while loading, each with its pointer relative to what is being loaded."""

    def __init__(self) -> None:
        self.errors: list[Problem] = []
        self.warnings: list[Problem] = []

    def error(self, at: str, message: str, kind: ProblemKind = "policy") -> None:
        self.errors.append(Problem(at, message, kind))

    def warn(self, at: str, message: str) -> None:
        self.warnings.append(Problem(at, message))

    def absorb(self, other: Problems, prefix: str) -> None:
        """Takes over what was found below `prefix`."""
        self.errors.extend(_below(other.errors, prefix))
        self.warnings.extend(_below(other.warnings, prefix))


def _below(problems: Iterable[Problem], prefix: str) -> Iterator[Problem]:
    """Problems that name their file lie in a file of their own, and their pointers lead from its root."""
    return (p if p.file is not None else replace(p, pointer=prefix + p.pointer) for p in problems)


class PolicyError(ValueError):
    """A policy that is not used: everything that is wrong with it, in order of file and line."""

    def __init__(self, problems: Iterable[Problem], warnings: Iterable[Problem] = ()) -> None:
        self.problems = tuple(problems)
        self.warnings = tuple(warnings)
        super().__init__("\n".join(str(p) for p in self.problems))

    @property
    def exit_code(self) -> int:
        """4 when every problem is a plan compile fault, 5 when every one is a schema fault of a plan, else 2."""
        kinds = {p.kind for p in self.problems}
        return {frozenset({"plan-compile"}): 4, frozenset({"plan-schema"}): 5}.get(frozenset(kinds), 2)
