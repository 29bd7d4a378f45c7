"""A run as rows of a time line: each step with its bar and what the workflow says of it, missing steps in their place.

Result JSON (its alignment) + the times of the scope's steps -> rows, top to bottom. Values only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

Mark = Literal["same", "missing", "extra", "moved", "other"]

WIDTH: Final = 1000.0  # of the whole run, in the units of bars
_NARROWEST: Final = 6.0
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
    """`of` names the evaluation whose alignment is drawn; None where none has one. `ticks`: times at the quarters."""

    rows: Sequence[Row]
    of: str | None
    ticks: Sequence[str]
    more: int = 0


@dataclass(frozen=True, slots=True)
class _Step:
    kind: str
    name: str | None
    start: int | None
    end: int | None
    status: str
    span_ids: tuple[str, ...]


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
    """The drawing of a result. Without times its alignment alone gives the rows."""
    chosen = _chosen(result)
    alignment: Sequence[Mapping[str, Any]] = chosen["alignment"] if chosen else ()
    timeline = timeline or {"start": None, "end": None, "steps": [], "more": 0}
    steps = [_Step(*fields, tuple(span_ids)) for *fields, span_ids in timeline["steps"]]
    scale = _Scale(steps, timeline["start"], timeline["end"])
    return Drawing(
        rows=_rows(steps, alignment, scale),
        of=chosen["name"] if chosen else None,
        ticks=_ticks(scale) if scale.known and steps else (),
        more=timeline["more"],
    )


def _chosen(result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The evaluation to draw: of those with an alignment, the first that decided the verdict, else the first."""
    drawn = [e for e in result["evaluations"] if e["alignment"]]
    return next((e for e in drawn if e["label"] == result["verdict"]), drawn[0] if drawn else None)


def _rows(steps: Sequence[_Step], alignment: Sequence[Mapping[str, Any]], scale: _Scale) -> list[Row]:
    places = {span_id: i for i, step in enumerate(steps) for span_id in step.span_ids}
    marks: dict[int, Mark] = {}
    absent: dict[int, list[Row]] = {}  # by the place of the step that they stand before
    at = [next((places[i] for i in row["span_ids"] if i in places), None) for row in alignment]
    for number, (row, place) in enumerate(zip(alignment, at, strict=True)):
        if place is not None and row["move"] != "missing":
            if marks.get(place) != "extra":  # what is forbidden stays so, whatever else it was good for
                marks[place] = row["move"]
            continue
        before = max((p for p in at[:number] if p is not None), default=None)
        after = next((p for p in at[number + 1 :] if p is not None), None)
        stands = after if after is not None else len(steps)
        absent.setdefault(stands, []).append(_absent(row, steps, before, after, scale))
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
    name = row["expected"] if row["expected"] is not None else row["seen"]
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
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
