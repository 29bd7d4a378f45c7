"""A loaded policy: frozen, checked, ready to judge with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from onpath.policy.problems import Problem
from onpath.report import Severity
from onpath.steps.model import Nested
from onpath.validators.base import Validator


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One validator of a workflow, with the name its evaluations bear (None: the validator's own names)."""

    key: str  # adherence, seq!, parallel!, plan!, or the key of a value tree
    validator: Validator
    name: str | None = None
    agent: str | None = None  # scope of this check alone; None: the workflow's
    nested: Nested | None = None
    makes: tuple[str, ...] = ()  # what the validator calls its evaluations; empty: one, called by `key`

    @property
    def evaluation_names(self) -> tuple[str, ...]:
        return tuple(self.evaluation_name(own) for own in self.makes or (self.key,))

    def evaluation_name(self, own: str) -> str:
        """The name that an evaluation bears which the validator calls `own` (results.md section 1)."""
        if self.key != "adherence":
            return self.name if self.name is not None else self.key.removesuffix("!")
        if self.name is None:
            return own
        return self.name if own == "workflow_adherence" else f"{self.name}.{own}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who acted: attributes to read, in order, and a label for the raw values that mean one person."""

    attribute: tuple[str, ...]
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Which traces a workflow is about; all that are given must hold. Predicates are compiled by the loader."""

    service: Callable[[str], bool] | None = None
    root: Callable[[str], bool] | None = None
    agent: str | None = None
    attributes: Mapping[str, Callable[[Any], bool]] = field(default_factory=dict)
    input: Callable[[Any], bool] | None = None
    given: bool = True  # whether the file says `match`, also an empty one
    prompt: str | None = None  # eval entry that belongs to one run (policy.md)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    name: str
    description: str = ""
    match: Match = field(default_factory=Match)
    agent: str | None = None
    nested: Nested = "agents_as_steps"
    spans: tuple[str, ...] = ()
    ignore: frozenset[str] = frozenset()
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    principal: Principal | None = None
    severity: Severity = "material"
    sample: float = 1.0
    capture_content: bool = False
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """`fingerprint` is a digest of what was loaded, not of the file's bytes."""

    workflows: tuple[Workflow, ...]
    fingerprint: str
    warnings: tuple[Problem, ...] = ()
    files: tuple[str, ...] = ()  # what it was loaded from, contracts too; another content of one is another policy
