"""Value trees: validators at the ends of paths, all of which must hold (flow.md section 7)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from onpath.report import Answer, Question
from onpath.values.checks import Check, JudgeCheck, JudgeKind
from onpath.values.outcome import MISSING, Truth, Unseen
from onpath.values.record import Path, part

Look: TypeAlias = Callable[[Path], Any]

NO_JUDGE: Final = "no judge configured"


class Doubts:
    """What one evaluation could not answer: the questions for a judge, and the reasons in the order they came up."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.answers = answers
        self.questions: dict[str, Question] = {}
        self.reasons: dict[str, None] = {}

    def unseen(self, why: Unseen) -> Truth:
        self.reasons.setdefault(why.value)
        return Truth.UNKNOWN

    def ask(self, kind: JudgeKind, value: Any, criterion: Any, options: Mapping[str, Any]) -> Truth:
        """The judge's answer; without one, unknown, and the question is left."""
        content = [kind, value, criterion, dict(options)]
        text = json.dumps(content, sort_keys=True, ensure_ascii=True, default=repr)
        question = Question(
            id=hashlib.sha256(text.encode()).hexdigest()[:32],
            kind=kind,
            value=value,
            criterion=criterion,
            options=options,
        )
        answer = self.answers.get(question.id)
        if answer is not None and answer.holds is not None:
            return Truth.TRUE if answer.holds else Truth.FALSE
        if answer is None:
            self.questions[question.id] = question
        self.reasons.setdefault(answer.reason if answer is not None and answer.reason else NO_JUDGE)
        return Truth.UNKNOWN

    @property
    def reason(self) -> str | None:
        """The one a result gives: an open question before all else, since someone can answer it."""
        if self.questions:
            return NO_JUDGE
        return next(iter(self.reasons), None)


@dataclass(frozen=True, slots=True)
class Leaf:
    path: Path
    check: Check

    def outcome(self, look: Look, doubts: Doubts) -> Truth:
        value = look(self.path)
        if value is MISSING:
            return Truth.TRUE if self.check.holds_for_missing else Truth.FALSE
        if isinstance(value, Unseen):
            return doubts.unseen(value)
        return self.check.outcome(value, doubts.ask)


@dataclass(frozen=True, slots=True)
class Failure:
    """One validator that failed, with the value it met or MISSING."""

    leaf: Leaf
    value: Any


@dataclass(frozen=True, slots=True)
class Tree:
    """`leaves` are in the order of the file. A judge is asked only where everything else holds or is unknown."""

    leaves: tuple[Leaf, ...]
    _ordered: tuple[Leaf, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ordered = sorted(self.leaves, key=lambda leaf: isinstance(leaf.check, JudgeCheck))
        object.__setattr__(self, "_ordered", tuple(ordered))

    def outcome(self, look: Look, doubts: Doubts) -> Truth:
        found = Truth.TRUE
        for leaf in self._ordered:
            truth = leaf.outcome(look, doubts)
            if truth is Truth.FALSE:
                return truth
            found = min(found, truth)
        return found

    def failures(self, look: Look, doubts: Doubts) -> list[Failure]:
        """In the order of the file."""
        return [Failure(leaf, look(leaf.path)) for leaf in self.leaves if leaf.outcome(look, doubts) is Truth.FALSE]

    @property
    def asks_a_judge(self) -> bool:
        return any(isinstance(leaf.check, JudgeCheck) for leaf in self.leaves)


def joined(trees: Iterable[Tree]) -> Tree:
    return Tree(tuple(leaf for tree in trees for leaf in tree.leaves))


@dataclass(frozen=True, slots=True)
class Holds:
    """Whether a tree surely holds for a JSON value: what `match` asks of attributes and inputs."""

    tree: Tree

    def __call__(self, value: Any) -> bool:
        return self.tree.outcome(lambda path: part(value, path), Doubts({})) is Truth.TRUE
