"""A run as rows of a time line: each step with its bar and what the workflow says of it, missing steps in their place.

Result JSON (its alignment) + the times of the scope's steps -> rows, top to bottom. Values only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

Mark = Literal["same", "missing", "extra", "moved", "other"]

WIDTH: Final = 1000.0  # of the whole run, in the units of bars
_NARROWEST: Final = 6.0
_ANYTHING: Final = re.compile(r"[0-9]*\.\.\.?[0-9]*")  # of a pattern: such a step was not asked for
_MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A step, or one that is missing. `x` and `width` are None without times; then only its place is known."""

    mark: Mark
    name: str | None
    kind: str  # llm, tool, agent, span; missing for what was not there
    x: float | None = None
    width: float = 0.0
    begins: str = ""
    lasts: str = ""
    failed: bool = False
    overlaps: bool = False  # with a step above it


@dataclass(frozen=True, slots=True)
class Drawing:
    """`ticks` are the times at the quarters of the run; none where times are not known."""

    rows: Sequence[Row]
    ticks: Sequence[str]
    more: int = 0


@dataclass(frozen=True, slots=True)
class _Step:
    kind: str
    name: str | None
    start: int | None
    end: int | None
    status: str
    span_ids: Sequence[str]


class _Scale:
    """Nanoseconds to the units of bars."""

    def __init__(self, steps: Sequence[_Step], start: int | None, end: int | None) -> None:
        times = [t for t in (start, end, *(s.start for s in steps), *(s.end for s in steps)) if t is not None]
        self.start = min(times, default=0)
        self.end = max(times, default=0)
        self.known = self.end > self.start

    def x(self, time: int) -> float:
        return round(WIDTH * (time - self.start) / (self.end - self.start), 2)

    def bar(self, start: int, end: int) -> tuple[float, float]:
        x = self.x(start)
        width = max(_NARROWEST, self.x(max(start, end)) - x)
        return min(x, WIDTH - width), round(width, 2)


def draw(result: Mapping[str, Any], timeline: Mapping[str, Any] | None) -> Drawing:
    """The drawing of a result. Without times its alignments alone give the rows."""
    timeline = timeline or {"start": None, "end": None, "steps": [], "more": 0}
    steps = [_Step(*each) for each in timeline["steps"]]
    scale = _Scale(steps, timeline["start"], timeline["end"])
    return Drawing(
        rows=_rows(steps, [e["alignment"] for e in result["evaluations"]], scale),
        ticks=_ticks(scale) if scale.known and steps else (),
        more=timeline["more"],
    )


class _Laid:
    """Alignments laid over the steps, in the order of the checks: a mark for each, and what is absent before which."""

    def __init__(self, steps: Sequence[_Step], scale: _Scale) -> None:
        self.marks: dict[int, Mark] = {}
        self.absent: dict[int, list[Row]] = {}
        self._steps = steps
        self._scale = scale
        self._places = {span_id: i for i, step in enumerate(steps) for span_id in step.span_ids}
        self._told: set[tuple[Mark, str | None]] = set()  # absent, by alignments before this one

    def lay(self, alignment: Sequence[Mapping[str, Any]]) -> None:
        at = [next((self._places[i] for i in row["span_ids"] if i in self._places), None) for row in alignment]
        told = set()
        for number, (row, place) in enumerate(zip(alignment, at, strict=True)):
            if place is not None and row["move"] != "missing":
                if not _ANYTHING.fullmatch(row["expected"] or ""):
                    self._mark(place, row["move"])
                continue
            key = (row["move"], _name(row))
            told.add(key)
            if key in self._told or (row["move"] == "same" and self._steps):
                continue
            before = max((p for p in at[:number] if p is not None), default=None)
            after = next((p for p in at[number + 1 :] if p is not None), None)
            stands = after if after is not None else len(self._steps)
            self.absent.setdefault(stands, []).append(_absent(row, self._steps, before, after, self._scale))
        self._told |= told

    def _mark(self, place: int, mark: Mark) -> None:
        """What one check finds wrong stays so, whatever else the step was good for."""
        if self.marks.get(place, "same") == "same":
            self.marks[place] = mark


def _name(row: Mapping[str, Any]) -> str | None:
    found: str | None = row["expected"] if row["expected"] is not None else row["seen"]
    return found


def _rows(steps: Sequence[_Step], alignments: Iterable[Sequence[Mapping[str, Any]]], scale: _Scale) -> list[Row]:
    laid = _Laid(steps, scale)
    for alignment in alignments:
        laid.lay(alignment)
    marks, absent = laid.marks, laid.absent
    rows: list[Row] = []
    latest: int | None = None
    for place, step in enumerate(steps):
        rows += absent.get(place, ())
        rows.append(_present(step, marks.get(place, "other"), scale, latest))
        if step.end is not None and step.kind != "agent":
            latest = step.end if latest is None else max(latest, step.end)
    return rows + absent.get(len(steps), [])


def _present(step: _Step, mark: Mark, scale: _Scale, latest: int | None) -> Row:
    x, width, begins, lasts = None, 0.0, "", ""
    if step.start is not None and scale.known:
        end = scale.end if step.end is None else step.end
        x, width = scale.bar(step.start, end)
        begins = duration(step.start - scale.start)
        lasts = "not ended" if step.end is None else duration(step.end - step.start)
    return Row(
        mark=mark,
        name=step.name,
        kind=step.kind,
        x=x,
        width=width,
        begins=begins,
        lasts=lasts,
        failed=step.status == "error",
        overlaps=latest is not None and step.start is not None and step.start < latest,
    )


def _absent(
    row: Mapping[str, Any], steps: Sequence[_Step], before: int | None, after: int | None, scale: _Scale
) -> Row:
    """A row of the alignment that no drawn step stands for: between the steps that it lies between."""
    mark: Mark = row["move"]
    name = _name(row)
    kind = "missing" if mark == "missing" else "span"
    if not scale.known or not steps:
        return Row(mark=mark, name=name, kind=kind)
    start = steps[before].end if before is not None else scale.start
    end = steps[after].start if after is not None else scale.end
    if start is None or end is None:
        return Row(mark=mark, name=name, kind=kind)
    x, width = scale.bar(min(start, end), end)
    return Row(mark=mark, name=name, kind=kind, x=x, width=width)


def _ticks(scale: _Scale) -> list[str]:
    whole = scale.end - scale.start
    return [duration(whole * quarter // 4) for quarter in range(5)]


def duration(nanoseconds: float) -> str:
    """In two or three digits and a unit."""
    milliseconds = nanoseconds / _MILLION
    if milliseconds <= 0:
        return "0 s"
    if milliseconds < 1000:
        return f"{milliseconds:.3g} ms" if milliseconds < 999.5 else "1 s"
    seconds = milliseconds / 1000
    if seconds < 120:
        return f"{seconds:.3g} s"
    minutes = seconds / 60
    if minutes < 120:
        return f"{minutes:.0f} min"
    return f"{minutes / 60:.3g} h" if minutes < 48 * 60 else f"{minutes / 1440:.0f} days"
