"""Reports that are kept: newest first, revisions in place, filters, pages; who waits or watches is told at once."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from onpath_collector.reports import BadToken, Filter, Reports, Store, StoreError, TooSlow
from onpath_collector.reports.values import Made
from tests.results_api.outcomes import AT, outcome, trace_id

GOOD = ("lookup_user", "check_balance", "pay")
BAD = ("lookup_user", "pay")


@asynccontextmanager
async def reports(limit: int = 100, path: Path | None = None, *, parts: bool = False) -> AsyncIterator[Reports]:
    found = Reports(path, limit, parts)
    try:
        yield found
    finally:
        await found.close()
        await found.close()


async def test_a_report_is_what_was_exported() -> None:
    async with reports() as found:
        found.export(made := outcome(7))
        report = await found.get(trace_id(7))
        assert report is not None
        assert report.json() == {
            "trace_id": trace_id(7),
            "session": None,
            "revision": 1,
            "results": [json.loads(line) for line in made.lines],
        }
        assert (report.verdict, len(report.timelines)) == ("pass", 1)
        assert await found.get(trace_id(8)) is None
        assert found.verdicts == {("refund", "pass"): 1}


async def test_a_revision_takes_the_place_of_the_one_before() -> None:
    async with reports() as found:
        found.export(outcome(1, BAD))
        found.export(outcome(2))
        found.export(outcome(1, GOOD, revision=2))
        page = await found.page(Filter(), 10)
        assert [(r.trace_id, r.revision, r.verdict) for r in page.reports] == [
            (trace_id(1), 2, "pass"),
            (trace_id(2), 1, "pass"),
        ]
        assert (await found.page(Filter(verdict="fail"), 10)).reports == []


async def test_declared_roots_are_parts_of_one_report() -> None:
    async with reports(parts=True) as found:
        found.export(replace(outcome(1), root="a" * 16))
        found.export(replace(outcome(1, BAD), root="b" * 16))
        found.export(replace(outcome(1, revision=2), root="b" * 16))
        report = await found.get(trace_id(1))
        assert report is not None
        assert ([r["verdict"] for r in report.results], report.revision) == (["pass", "pass"], 2)


@pytest.mark.parametrize("path", [None, "reports.db"])
async def test_the_newest_are_kept(path: str | None, tmp_path: Path) -> None:
    async with reports(3, tmp_path / path if path else None) as found:
        for number in range(1, 6):
            found.export(outcome(number))
            found.export(outcome(number + 100, service="elsewhere"))  # no workflow is meant for it
            assert await found.get(trace_id(number)) is not None
        everything = (await found.page(Filter(), 10)).reports
        assert [r.trace_id for r in everything if r.results] == [trace_id(n) for n in (5, 4, 3)]
        assert len(everything) == 6, "as many of those without results"
        absent = await found.get(trace_id(105))
        assert absent is not None
        assert (absent.results, absent.verdict, absent.unmatched) == ([], None, {"service": 1})


def large(number: int, size: int, revision: int = 1) -> Made:
    made = Made.of(outcome(number, revision=revision), number)
    found = json.loads(made.lines[0])
    found["evaluations"][0]["explanation"] = "x" * size
    return made._replace(lines=(json.dumps(found),))


@pytest.mark.parametrize("path", [None, "reports.db"])
def test_large_reports_take_no_more_than_their_room_and_the_newest_always_fits(
    path: str | None, tmp_path: Path
) -> None:
    store = Store(tmp_path / path if path else None, 100, most=40_000)
    store.write([large(number, 10_000) for number in range(1, 8)])
    store.write([large(7, 10_000, revision=2)])
    assert [r.trace_id for r in store.page(Filter(), 10).reports] == [trace_id(n) for n in (7, 6, 5)]
    assert store._bytes == store._size() <= 40_000
    store.write([large(9, 100_000)])
    assert [r.trace_id for r in store.page(Filter(), 10).reports] == [trace_id(9)]
    store.close()
    if path:
        store = Store(tmp_path / path, 100, most=40_000)
        store.write([large(10, 1_000)])
        assert [r.trace_id for r in store.page(Filter(), 10).reports] == [trace_id(10)], "what was there counts too"
        store.close()


def test_a_page_of_large_reports_is_short() -> None:
    store = Store(None, 100)
    store.write([large(number, 700_000) for number in range(1, 6)])
    store.write([large(6, 5_000_000)])
    seen, token = [], ""
    while True:
        page = store.page(Filter(), 50, token)
        seen.append([int(report.trace_id, 16) for report in page.reports])
        token = page.next_token
        if not token:
            break
    assert seen == [[6], [5, 4], [3, 2], [1]]
    store.close()


async def test_a_watch_that_is_not_read_keeps_no_more_than_its_room() -> None:
    async with reports() as found:
        watch = found.watch(Filter())
        made = large(1, 9 << 20)
        for _ in range(10):
            watch.offer(made)
        assert watch._queue.qsize() == 2
        with pytest.raises(TooSlow, match="16 MiB"):
            async for _ in watch.reports():
                pass


async def test_a_watch_that_is_read_may_see_as_much_as_there_is() -> None:
    async with reports() as found:
        watch = found.watch(Filter())
        seen = watch.reports()
        for _ in range(5):
            watch.offer(large(1, 9 << 20))
            assert (await anext(seen)).trace_id == trace_id(1)
        await seen.aclose()
        watch.close()


async def test_large_reports_do_not_wait_in_memory_beside_the_store() -> None:
    async with reports() as found:
        line = "x" * (9 << 20)
        for number in range(1, 5):
            found.export(replace(outcome(number), timelines=(json.dumps(line),)))
        assert sum(made.size for made in found._pending[0]) < 16 << 20
        assert await found.get(trace_id(1)) is not None


async def test_filters_hold_for_one_result() -> None:
    async with reports() as found:
        found.export(outcome(1, GOOD, service="shop-a"))
        found.export(outcome(2, BAD, service="shop-b", judged_at_ns=AT + 10**9))

        async def ids(wanted: Filter) -> list[str]:
            page = (await found.page(wanted, 10)).reports
            everything = (await found.page(Filter(), 10)).reports
            assert page == [r for r in everything if wanted.takes(r)], "a watch takes what a list does"
            return [r.trace_id for r in page]

        assert await ids(Filter(verdict="fail")) == [trace_id(2)]
        assert await ids(Filter(service="shop-a")) == [trace_id(1)]
        assert await ids(Filter(workflow="refund")) == [trace_id(2), trace_id(1)]
        assert await ids(Filter(workflow="other")) == []
        assert await ids(Filter(verdict="pass", service="shop-b")) == []
        assert await ids(Filter(since_ms=AT // 10**6 + 1000)) == [trace_id(2)]
        assert await ids(Filter(since_ms=AT // 10**6 + 1001)) == []


async def test_pages_hold_each_report_once_also_when_more_come() -> None:
    async with reports() as found:
        for number in range(1, 8):
            found.export(outcome(number))
        seen: list[str] = []
        token = ""
        while True:
            page = await found.page(Filter(workflow="refund"), 3, token)
            seen += [r.trace_id for r in page.reports]
            found.export(outcome(50 + len(seen)))
            token = page.next_token
            if not token:
                break
        assert seen == [trace_id(n) for n in range(7, 0, -1)]


_DEEP = pytest.param("W1tb" * 50_000, id="deep")


@pytest.mark.parametrize("token", ["x", "bm90", "W10", "eyJhIjoxfQ", "é", _DEEP, Filter(verdict="fail").token(3)])
async def test_tokens_that_were_not_given_out(token: str) -> None:
    async with reports() as found:
        with pytest.raises(BadToken):
            await found.page(Filter(), 3, token)


async def test_who_waits_is_told() -> None:
    async with reports() as found:
        waiting = [asyncio.ensure_future(found.wait(trace_id(1), 30)) for _ in range(3)]
        await asyncio.sleep(0)
        found.export(outcome(2))
        found.export(outcome(1))
        assert [(await each).trace_id for each in waiting] == [trace_id(1)] * 3
        assert (await found.wait(trace_id(1), 30)).trace_id == trace_id(1), "it is there already"
        with pytest.raises(TimeoutError):
            await found.wait(trace_id(3), 0.01)
        assert found.followers == 0


async def test_watches_see_what_they_ask_for() -> None:
    async with reports() as found:
        watch = found.watch(Filter(verdict="fail"))
        for made in (outcome(1), outcome(2, BAD), outcome(3, BAD)):
            found.export(made)
        seen = watch.reports()
        assert [(await anext(seen)).trace_id for _ in range(2)] == [trace_id(2), trace_id(3)]
        await seen.aclose()
        watch.close()
        assert found.followers == 0


async def test_a_watch_that_is_not_read_ends() -> None:
    async with reports() as found:
        watch = found.watch(Filter())
        made = outcome(1)
        for _ in range(1001):
            watch.offer(Made.of(made))
        with pytest.raises(TooSlow):
            async for _ in watch.reports():
                pass


async def test_a_file_outlives_the_collector(tmp_path: Path) -> None:
    path = tmp_path / "reports.db"
    async with reports(10, path) as found:
        found.export(outcome(1, BAD))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    async with reports(10, path) as found:
        report = await found.get(trace_id(1))
        assert report is not None
        assert report.verdict == "fail"


def test_stores_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="No such file"):
        Store(tmp_path / "none" / "reports.db", 1)
    other = tmp_path / "other.db"
    other.write_bytes(b"this is no database, and long enough to be sure" * 100)
    with pytest.raises(StoreError, match="not a database"):
        Store(other, 1)
    newer = tmp_path / "newer.db"
    connection = sqlite3.connect(newer)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreError, match="another version"):
        Store(newer, 1)


async def test_texts_that_are_no_unicode_are_kept() -> None:
    made = outcome(1)
    line = json.dumps({**json.loads(made.lines[0]), "service": "\ud800"}, ensure_ascii=False)
    async with reports() as found:
        found.export(replace(made, lines=(line,)))
        report = await found.get(trace_id(1))
        assert report is not None
        assert report.results[0]["service"] == "\ud800"
        assert len((await found.page(Filter(service="\ud800"), 5)).reports) == 1


async def test_a_flood_of_what_nobody_asks_about_pushes_nothing_out() -> None:
    async with reports(2) as found:
        found.export(outcome(1))
        stranger = outcome(100, service="elsewhere")
        for number in range(100, 110):
            found.export(replace(stranger, trace_id=trace_id(number)))
        found.export(outcome(2))
        page = await found.page(Filter(), 10)
        assert [r.trace_id for r in page.reports] == [trace_id(n) for n in (2, 109, 108, 1)], "newest first"


async def test_a_session_is_found_by_any_of_its_traces(tmp_path: Path) -> None:
    async with reports(path=tmp_path / "reports.db") as found:
        waiting = asyncio.ensure_future(found.wait(trace_id(3), 30))
        await asyncio.sleep(0)
        found.export(outcome(2))  # by itself, until its session is known
        found.export(replace(outcome(1), others=(trace_id(2), trace_id(3))))
        assert (await waiting).trace_id == trace_id(1)
        for _ in range(2):  # before it is in the file, and after
            for number in (1, 2, 3):
                report = await found.get(trace_id(number))
                assert report is not None
                assert report.trace_id == trace_id(1)
            assert [r.trace_id for r in (await found.page(Filter(), 10)).reports] == [trace_id(1)]
        found.export(replace(outcome(4), revision=2, others=(trace_id(1), trace_id(2), trace_id(3))))  # an earlier span
        assert [r.trace_id for r in (await found.page(Filter(), 10)).reports] == [trace_id(4)]
        report = await found.get(trace_id(2))
        assert report is not None
        assert report.revision == 2


async def test_who_asks_for_one_does_not_wait_for_the_others() -> None:
    async with reports(1000) as found:
        made = outcome(1)
        for number in range(1, 1000):
            found.export(replace(made, trace_id=trace_id(number)))
        page = asyncio.ensure_future(found.page(Filter(), 10))
        await asyncio.sleep(0)
        found.export(replace(made, trace_id=trace_id(1000)))
        for number in (1, 999, 1000):
            assert await found.get(trace_id(number)) is not None
            assert not page.done(), "it is still being written"
        assert len((await page).reports) == 10


async def test_a_file_of_the_version_before_is_read(tmp_path: Path) -> None:
    path = tmp_path / "reports.db"
    async with reports(10, path) as found:
        found.export(outcome(1, BAD))
    before = sqlite3.connect(path)
    before.executescript("DROP TABLE traces; PRAGMA user_version = 1;")
    before.close()
    async with reports(10, path) as found:
        assert await found.get(trace_id(1)) is not None
