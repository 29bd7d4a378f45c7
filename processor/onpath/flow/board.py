"""What is known of each step of a scope while a pattern is laid over it: names, values, times, each looked at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onpath.flow.names import StepName, signatures
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
        self.order = range(len(self.steps))
        self.signatures, self.numbers = signatures(self.steps)  # what names look at, and which each step has
        self.groups = self.grouped(self.numbers)
        self.unnamed = frozenset(
            index
            for seen, steps in zip(self.signatures, self.groups, strict=True)
            if seen.name is None
            for index in steps
        )
        self._names: dict[str, list[Truth]] = {}
        self._values: dict[tuple[int, int], Truth] = {}
        self._periods: list[Period | None] = [None] * len(self.steps)

    def grouped(self, numbers: Iterable[int]) -> list[list[int]]:
        """For each signature the places that have it."""
        found: list[list[int]] = [[] for _ in self.signatures]
        for place, number in enumerate(numbers):
            found[number].append(place)
        return found

    def period(self, index: int) -> Period:
        found = self._periods[index]
        if found is None:
            found = self._periods[index] = period(self.steps[index])
        return found

    def named(self, name: StepName) -> list[int]:
        """The steps that a name fits or could fit, in order."""
        fits = self.name_fits(name)
        fitting = [steps for steps, fit in zip(self.groups, fits, strict=True) if fit is not Truth.FALSE]
        return fitting[0] if len(fitting) == 1 else sorted(index for found in fitting for index in found)

    def name_fit(self, name: StepName, index: int) -> Truth:
        return self.name_fits(name)[self.numbers[index]]

    def name_fits(self, name: StepName) -> list[Truth]:
        """For each signature whether the name fits it."""
        found = self._names.get(name.written)
        if found is None:
            found = self._names[name.written] = [name.fits(seen) for seen in self.signatures]
            if Truth.UNKNOWN in found:
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

    def span_ids(self, indexes: Sequence[int]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(span for index in indexes for span in self.steps[index].span_ids))
