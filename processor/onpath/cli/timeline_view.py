"""Steps that should have run at the same time, drawn as bars on one time line.

Data flow: the steps a check names and how far apart they were -> a bar of fixed width for each, from the first start to
the last end -> a rich table: name, bar, start and end in ms after the first start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from onpath.cli.text import printable
from onpath.report import Evaluation, Verdict
from onpath.steps.model import Step

WIDTH: Final = 48  # cells of the time line
_NS_PER_MS: Final = 1_000_000
_NAME_CUT: Final = 32


class _Marks(NamedTuple):
    """What a bar is made of."""

    bar: str
    empty: str
    open: str  # the edge of a step that has not ended


_BLOCKS: Final = _Marks("█", "·", "▶")
_ASCII: Final = _Marks("#", ".", ">")  # for terminals that have no other characters


@dataclass(frozen=True, slots=True)
class TimeLine:
    """Steps with times, in the order of the pattern; `apart_ns` from the earliest end to the latest start."""

    steps: tuple[Step, ...]
    apart_ns: int | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _table(self.steps, _ASCII if options.ascii_only else _BLOCKS)
        if self.apart_ns is not None:
            yield Text(f" {_gap(self.apart_ns)}", style="yellow")


def time_line(evaluation: Evaluation, steps: Sequence[Step]) -> TimeLine | None:
    """Of a failed check that wants steps at the same time; None where fewer than two of them have times."""
    if evaluation.label is not Verdict.FAIL or "together" not in evaluation.data:
        return None
    drawn = tuple(steps[at] for at in evaluation.data["together"] if steps[at].start_ns is not None)
    return TimeLine(drawn, evaluation.data.get("apart_ns")) if len(drawn) > 1 else None


def _table(steps: Sequence[Step], marks: _Marks) -> Table:
    first = min(step.start_ns or 0 for step in steps)
    last = max(max(step.start_ns or 0, step.end_ns or 0) for step in steps)
    table = Table(box=None, padding=(0, 1), show_edge=False, show_header=False)
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=_NAME_CUT)
    table.add_column(no_wrap=True, width=WIDTH)
    table.add_column(no_wrap=True, justify="right")
    for step in steps:
        begin = (step.start_ns or 0) - first
        end = None if step.end_ns is None else max(begin, step.end_ns - first)
        until = "not ended" if end is None else f"{_ms(end)} ms"
        name = Text(printable(step.name if step.name is not None else step.kind))
        table.add_row(name, _bar(begin, end, last - first, marks), f"{_ms(begin)} to {until}")
    return table


def _bar(begin: int, end: int | None, whole: int, marks: _Marks) -> Text:
    """At least one cell; what has not ended goes on to the edge and says so."""
    left = min(WIDTH - 1, begin * WIDTH // whole) if whole else 0
    right = WIDTH if end is None or not whole else max(left + 1, -(-end * WIDTH // whole))
    cells = marks.bar * (right - left) if end is not None else marks.bar * (right - left - 1) + marks.open
    return Text.assemble((marks.empty * left, "dim"), (cells, "cyan"), (marks.empty * (WIDTH - right), "dim"))


def _gap(apart_ns: int) -> str:
    return f"apart by {_ms(apart_ns)} ms" if apart_ns > 0 else "not apart: the last begins when the first one ends"


def _ms(ns: int) -> str:
    return f"{ns / _NS_PER_MS:.3f}".rstrip("0").rstrip(".")
