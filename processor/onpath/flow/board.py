"""What is known of each step of a scope while a pattern is laid over it: names, values, times, each looked at once."""

from __future__ import annotations

from collections.abc import Sequence

from onpath.flow.names import Signature, StepName, signature
from onpath.flow.pattern import Named
from onpath.flow.timing import Period, period
from onpath.steps.model import Scope, Step
from onpath.validators.base import Context
from onpath.values.outcome import Truth, Unseen
from onpath.values.record import Record
from onpath.values.tree import Doubts, Tree


class Board:
    """Steps are named by their index in `steps`: those of the scope that ran, in order."""

    def __init__(self, scope: Scope, context: Context) -> None:
        self.steps: Sequence[Step] = [step for step in scope.steps if step.ran]
        self.doubts = Doubts(context.answers)
        self.open_ended = not context.complete
        self.signatures: list[Signature] = [signature(step) for step in self.steps]
        self.periods: list[Period] = [period(step) for step in self.steps]
        self._names: dict[str, dict[Signature, Truth]] = {}
        self._values: dict[tuple[int, int], Truth] = {}

    def name_fit(self, name: StepName, index: int) -> Truth:
        return self.signature_fit(name, self.signatures[index])

    def signature_fit(self, name: StepName, seen: Signature) -> Truth:
        known = self._names.setdefault(name.written, {})
        found = known.get(seen)
        if found is None:
            found = known[seen] = name.fits(seen)
            if found is Truth.UNKNOWN:
                self.doubts.unseen(Unseen.NAME_NOT_CAPTURED)
        return found

    def fit(self, item: Named, index: int) -> Truth:
        """Whether a step is one of the name whose values hold. The values are read only where the name fits."""
        found = self.name_fit(item.name, index)
        if item.tree is None or found is Truth.FALSE:
            return found
        return min(found, self.values(item.tree, index))

    def values(self, tree: Tree, index: int) -> Truth:
        key = (id(tree), index)
        found = self._values.get(key)
        if found is None:
            found = self._values[key] = tree.outcome(self.record(index), self.doubts)
        return found

    def record(self, index: int) -> Record:
        return Record(self.steps[index], open_ended=self.open_ended)

    def is_unnamed(self, index: int) -> bool:
        return self.signatures[index].name is None

    def span_ids(self, indexes: Sequence[int]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(span for index in indexes for span in self.steps[index].span_ids))
