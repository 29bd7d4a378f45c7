"""The time line of a run: marks, bars on one scale, and what is missing where it belongs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onpath_collector.status_page.timeline import WIDTH, Drawing, draw, duration
from tests.results_api.outcomes import outcome

SECOND = 10**9


def drawn(*tools: str) -> Drawing:
    made = outcome(1, tools)
    return draw(json.loads(made.lines[0]), json.loads(made.timelines[0]))


def rows(*tools: str) -> list[tuple[str, str | None]]:
    return [(row.mark, row.name) for row in drawn(*tools).rows]


def test_what_is_missing_stands_in_its_place() -> None:
    assert rows("lookup_user", "pay") == [("same", "lookup_user"), ("missing", "check_balance"), ("same", "pay")]
    assert rows("check_balance") == [("missing", "lookup_user"), ("same", "check_balance"), ("missing", "pay")]


def test_what_must_not_be_is_marked() -> None:
    found = rows("lookup_user", "check_balance", "delete_user", "pay")
    assert found == [("same", "lookup_user"), ("same", "check_balance"), ("extra", "delete_user"), ("same", "pay")]


def test_bars_share_one_scale() -> None:
    drawing = drawn("lookup_user", "pay", "other")  # of 100 ms each, in a run of 400 ms
    assert drawing.ticks == ["0 s", "100 ms", "200 ms", "300 ms", "400 ms"]
    bars = {row.name: (row.x, row.width, row.begins, row.lasts) for row in drawing.rows}
    assert bars["lookup_user"] == (250, 250, "100 ms", "100 ms")
    assert bars["pay"] == (500, 250, "200 ms", "100 ms")
    assert bars["check_balance"] == (500, 6, "", ""), "between the end of one and the beginning of the other"


def aligned(*alignment: tuple[str, str | None, str | None, list[str]]) -> dict[str, Any]:
    lines = [{"move": m, "expected": e, "seen": s, "span_ids": ids} for m, e, s, ids in alignment]
    return {"verdict": "fail", "evaluations": [{"name": "seq", "label": "fail", "alignment": lines}]}


def times(*steps: tuple[str, int | None, int | None]) -> dict[str, Any]:
    listed = [["tool", name, start, end, "ok", [name]] for name, start, end in steps]
    return {"start": 0, "end": 10 * SECOND, "steps": listed, "more": 0}


def test_overlaps_are_told() -> None:
    drawing = draw(aligned(), times(("a", 0, 4 * SECOND), ("b", SECOND, 2 * SECOND), ("c", 4 * SECOND, 5 * SECOND)))
    assert [(row.name, row.overlaps) for row in drawing.rows] == [("a", False), ("b", True), ("c", False)]


def test_steps_that_only_a_wildcard_takes_are_not_asked_for() -> None:
    alignment = [("same", "...", "a", ["a"]), ("same", "b", "b", ["b"]), ("moved", "c", "c", ["c"])]
    drawing = draw(aligned(*alignment), times(("a", 0, 1), ("b", 1, 2), ("c", 2, 3), ("d", 3, 4)))
    assert [row.mark for row in drawing.rows] == ["other", "same", "moved", "other"]


def test_one_check_that_finds_it_wrong_is_enough() -> None:
    result = aligned(("same", "a", "a", ["a"]))
    result["evaluations"].append(aligned(("extra", None, "a", ["a"]))["evaluations"][0])
    result["evaluations"].append(aligned(("same", "a", "a", ["a"]))["evaluations"][0])
    assert [row.mark for row in draw(result, times(("a", 0, 1))).rows] == ["extra"]


def test_two_checks_that_miss_the_same_show_it_once_and_one_that_misses_it_twice_twice() -> None:
    result = aligned(("missing", "a", None, []), ("missing", "a", None, []))
    result["evaluations"].append(aligned(("missing", "a", None, []), ("missing", "b", None, []))["evaluations"][0])
    assert [row.name for row in draw(result, times()).rows] == ["a", "a", "b"]


def test_without_times_there_are_rows_and_no_bars() -> None:
    drawing = draw(aligned(("same", "a", "a", ["a"]), ("missing", "b", None, [])), None)
    assert [(row.mark, row.name, row.x) for row in drawing.rows] == [("same", "a", None), ("missing", "b", None)]
    assert drawing.ticks == ()
    steps = {"start": None, "end": None, "steps": [["tool", "a", None, None, "unset", []]], "more": 4}
    drawing = draw(aligned(), steps)
    assert ([row.x for row in drawing.rows], drawing.more) == ([None], 4)


maybe = st.none() | st.integers(0, 2 * SECOND)
moves = st.sampled_from(["same", "missing", "extra", "moved"])
names = st.sampled_from("abc")


@settings(max_examples=200)
@given(
    st.lists(st.tuples(names, maybe, maybe), max_size=6),
    st.lists(st.tuples(moves, names, names, st.lists(names, max_size=2)), max_size=6),
    maybe,
    maybe,
)
def test_every_run_can_be_drawn(steps: Any, alignment: Any, start: int | None, end: int | None) -> None:
    drawing = draw(aligned(*alignment), {**times(*steps), "start": start, "end": end})
    assert [row.name for row in drawing.rows if row.kind == "tool"] == [name for name, _, _ in steps]
    for row in drawing.rows:
        assert row.x is None or (row.x >= 0 and row.width > 0 and row.x + row.width <= WIDTH + 0.1)


@pytest.mark.parametrize(
    ("nanoseconds", "told"),
    [
        (0, "0 s"),
        (-5, "0 s"),
        (400_000, "0.4 ms"),
        (12_340_000, "12.3 ms"),
        (999_900_000, "1 s"),
        (1.5e9, "1.5 s"),
        (119e9, "119 s"),
        (120e9, "2 min"),
        (7200e9, "2 h"),
        (3 * 86400e9, "3 days"),
    ],
)
def test_durations_are_short(nanoseconds: float, told: str) -> None:
    assert duration(nanoseconds) == told
