"""The status page in headless Chromium: nothing is blocked or cut off, all can be read, on desks and on phones.

`pytest -m browser tests/status_page`; with ONPATH_PICTURES=DIR the pictures stay there to be looked at.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path

import pytest

from tests.results_api.outcomes import outcome, trace_id
from tests.status_page.chromium import Page, browser, program
from tests.status_page.test_page import HOSTILE, Shown, shown

NEEDED = "needs Chromium: apt-get install chromium"
pytestmark = [pytest.mark.browser, pytest.mark.skipif(program() is None, reason=NEEDED)]

SIZES = {"desktop": (1280, 900), "phone": (390, 844)}

CONTRAST = Path(__file__).with_name("contrast.js").read_text(encoding="utf-8")


@pytest.fixture
async def at() -> AsyncIterator[Shown]:
    async with shown() as found:
        found.reports.export(outcome(1))
        found.reports.export(outcome(2, ("lookup_user", "pay")))
        found.reports.export(
            outcome(3, (HOSTILE, "x" * 200, "delete_user"), agent="y" * 200, service="shop" + "z" * 200)
        )
        found.parts.buffer.counts.lateness[:] = [40, 12, 9, 4, 2, 1, 0, 0, 0, 0, 1]
        yield found


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    async with browser() as found:
        yield found


@pytest.mark.parametrize(("size", "dark", "scripts"), [*product(SIZES, [False, True], [True, False])])
async def test_it_can_be_read(at: Shown, page: Page, size: str, dark: bool, scripts: bool, tmp_path: Path) -> None:
    width, height = SIZES[size]
    folder = Path(os.environ.get("ONPATH_PICTURES", tmp_path))
    for name, path in {"status": "/", "report": f"/reports/{trace_id(3)}"}.items():
        await page.open(f"http://{at.address}{path}", width=width, height=height, dark=dark, scripts=scripts)
        assert page.problems == []
        picture = folder / f"{name}-{size}-{'dark' if dark else 'light'}.png"
        picture.write_bytes(taken := await page.picture())
        assert taken.startswith(b"\x89PNG")
        if scripts:
            assert await page.find("document.documentElement.scrollWidth") <= width, "nothing stands out"
            ratio, where = await page.find(CONTRAST)
            assert ratio >= 4.5, where
            background = await page.find("getComputedStyle(document.body).backgroundColor")
            assert (int(background.removeprefix("rgb(").partition(",")[0]) < 64) == dark
            bars = "[...document.querySelectorAll('[open] .timeline .bar')].map(e => e.getBoundingClientRect().width)"
            assert all(bar > 0 for bar in await page.find(bars))


async def test_it_can_be_used_by_keys(at: Shown, page: Page) -> None:
    await page.open(f"http://{at.address}/", width=1280, height=900, dark=False)
    await page.press("Tab", 9)
    assert await page.find("document.activeElement.className") == "skip"
    assert await page.find("document.activeElement.getBoundingClientRect().left") >= 0, "it is seen when it has focus"
    seen: list[str] = []
    for _ in range(60):
        await page.press("Tab", 9)
        seen.append(await page.find("document.activeElement.tagName"))
        closed = "document.activeElement.tagName === 'SUMMARY' && !document.activeElement.parentElement.open"
        if await page.find(closed):
            await page.press("Enter", 13)
            assert await page.find("document.activeElement.parentElement.open")
    assert {"A", "SUMMARY", "DIV"} <= set(seen), "links, runs, and what scrolls"
