"""The status page as HTML: valid, understandable without sight or scripts, and inert whatever agents call things."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import html5lib
import pytest

from onpath_collector.admin import Admin, Health
from onpath_collector.buffer import BufferSettings, TraceBuffer
from onpath_collector.buffer.values import LATENESS
from onpath_collector.intake import Intake
from onpath_collector.otlp import Wanted
from onpath_collector.own_metrics import Parts
from onpath_collector.release import Release
from onpath_collector.reports import Reports
from onpath_collector.security import Tokens
from onpath_collector.security.hosts import Hosts
from onpath_collector.status_page import REPORTS, StatusPage
from onpath_collector.status_page.view import lateness
from tests.results_api.outcomes import outcome, trace_id
from tests.support.http_peers import HttpReply, http_client
from tests.support.tls import secret

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;\u202egnp\x07{{ 7 * 7 }}"


@dataclass
class Shown:
    address: str
    reports: Reports
    parts: Parts

    async def get(self, path: str = "/", **headers: str) -> HttpReply:
        async with http_client(self.address) as client:
            return await client.request("GET", path, headers=headers)

    async def page(self, path: str = "/", status: int = 200) -> Element:
        reply = await self.get(path)
        assert (reply.status, reply.content_type) == (status, "text/html; charset=utf-8")
        return html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(reply.body.decode())


@asynccontextmanager
async def shown(tokens: Tokens | None = None) -> AsyncIterator[Shown]:
    buffer, reports = TraceBuffer(BufferSettings(memory_limit=1 << 30)), Reports(None, 100)
    release = Release(buffer, None, clock=lambda: 0.0, wall_clock=lambda: 0, parallel=1, queue=7)
    intake = Intake(buffer, {}, Wanted(), release.schedule, clock=lambda: 0.0)
    parts = Parts((), intake, buffer, release, {}, None, 7)
    page = StatusPage(parts, reports, Health("ready"), Hosts("127.0.0.1:0", guarded=tokens is not None))
    admin = Admin("127.0.0.1:0", Health("ready"), {"/": page}, None, tokens, {REPORTS: page})
    try:
        yield Shown(await admin.start(), reports, parts)
    finally:
        await admin.stop()
        await reports.close()


def text(element: Element) -> str:
    return re.sub(r"\s+", " ", "".join(element.itertext())).strip()


def found(page: Element, tag: str, **attributes: str) -> list[Element]:
    return [e for e in page.iter(tag) if all(v in (e.get(k) or "").split() for k, v in attributes.items())]


async def test_a_page_without_anything() -> None:
    async with shown() as at:
        page = await at.page()
        assert "No run has been judged yet" in text(page)
        assert "both sums add up" in text(page)
        assert found(page, "details") == found(page, "details", **{"class": "legend"})


async def test_runs_are_drawn() -> None:
    async with shown() as at:
        at.reports.export(outcome(1))
        at.reports.export(outcome(2, ("lookup_user", "pay")))
        page = await at.page()
        runs = found(page, "details", **{"class": "run"})
        assert [text(found(run, "summary")[0]).partition(" refund")[0] for run in runs] == ["✗ failed", "✓ passed"]
        assert "check_balance is missing" in text(runs[0])
        rows = [[text(cell) for cell in row] for row in found(runs[0], "tbody")[0]]
        assert [row[:2] for row in rows] == [
            ["lookup_user tool", "✓ as expected"],
            ["check_balance not there", "✗ missing"],
            ["pay tool", "✓ as expected"],
        ]
        assert [row[3:] for row in rows] == [["100 ms", "100 ms"], ["–", "–"], ["200 ms", "100 ms"]]
        table = next(t for t in found(page, "table") if "Pass rate" in text(t))
        assert [text(cell) for cell in found(table, "tbody")[0][0]] == ["refund", "1", "1", "0", "50 %"]


async def test_what_was_not_seen_whole_says_not_seen() -> None:
    async with shown() as at:
        at.reports.export(outcome(2, ("lookup_user", "pay"), release_reason="idle"))
        (run,) = found(await at.page(), "details", **{"class": "run"})
        assert [text(row[1]) for row in found(run, "tbody")[0]] == ["✓ as expected", "? not seen", "✓ as expected"]
        assert "not seen whole" in text(found(run, "summary")[0])


async def test_runs_that_no_workflow_is_about_hide_no_others() -> None:
    async with shown() as at:
        at.reports.export(made := outcome(1))
        for number in range(2, 40):
            at.reports.export(replace(made, trace_id=trace_id(number), lines=(), verdicts=(), timelines=()))
        assert len(found(await at.page(), "details", **{"class": "run"})) == 1


async def test_one_report_with_all_its_checks() -> None:
    async with shown() as at:
        at.reports.export(made := outcome(2, ("lookup_user", "pay")))
        page = await at.page(f"/reports/{trace_id(2)}")
        (table,) = found(page, "table", **{"class": "checks"})
        assert len(found(table, "tr")) == 1 + made.evaluations
        assert "No report" in text(await at.page(f"/reports/{trace_id(3)}", 404))
        at.reports.export(outcome(4, service="elsewhere"))
        assert "No workflow was meant for this run" in text(await at.page(f"/reports/{trace_id(4)}"))


async def test_which_runs_are_shown() -> None:
    async with shown() as at:
        for number in range(1, 26):
            at.reports.export(outcome(number, ("lookup_user", "pay") if number % 2 else ("check_balance",)))
        page = await at.page("/?verdict=fail")
        seen = []
        while True:
            seen += [text(found(run, "summary")[0])[:8] for run in found(page, "details", **{"class": "run"})]
            earlier = [a for a in found(page, "a") if text(a) == "Earlier runs"]
            if not earlier:
                break
            page = await at.page((earlier[0].get("href") or "").partition("#")[0])
        assert seen == ["✗ failed"] * 13
        assert "There is none" in text(await at.page("/?verdict=unknown"))
        assert "There is none" in text(await at.page("/?page=nonsense"))
        assert len(found(await at.page("/?verdict=strange"), "details", **{"class": "run"})) == 10
        (refresh,) = [m for m in found(await at.page("/?refresh=1"), "meta") if m.get("http-equiv")]
        assert refresh.get("content") == "10"


async def test_names_from_outside_are_inert() -> None:
    made = outcome(1, (HOSTILE, "lookup_user"), agent=HOSTILE, service="shop" + HOSTILE)
    async with shown() as at:
        at.reports.export(replace(made, trace_id=trace_id(1)))
        for path in ("/", f"/reports/{trace_id(1)}", "/?workflow=" + "%3Cscript%3E", "/reports/%3Cscript%3E"):
            reply = await at.get(path)
            page = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(reply.body.decode())
            assert not found(page, "script")
            assert not found(page, "img")
            assert all(not name.lower().startswith("on") for e in page.iter() for name in e.attrib)
            for raw in ("\u202e", "\x07"):
                assert raw not in reply.body.decode()
        shown_text = text(await at.page(f"/reports/{trace_id(1)}"))
        assert "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;\\u202egnp\\x07{{ 7 * 7 }}" in shown_text


async def test_the_policy_allows_the_style_sheet_and_nothing_else() -> None:
    async with shown() as at:
        for path in ("/", "/reports/x"):
            reply = await at.get(path)
            policy = reply.headers["Content-Security-Policy"]
            (style,) = re.findall("<style>(.*?)</style>", reply.body.decode(), re.DOTALL)
            digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
            assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}';")
            assert "unsafe" not in policy
            assert " style=" not in reply.body.decode(), "it would not be applied"
            assert (reply.headers["X-Content-Type-Options"], reply.headers["Cache-Control"]) == ("nosniff", "no-store")


async def test_it_is_made_for_keyboards_and_screen_readers() -> None:
    async with shown() as at:
        at.reports.export(outcome(1, ("lookup_user", "pay")))
        at.parts.buffer.counts.lateness[2] = 5
        for path in ("/", f"/reports/{trace_id(1)}"):
            page = await at.page(path)
            (html,) = page.iter("html")
            assert html.get("lang") == "en"
            assert [m.get("content") for m in found(page, "meta", name="viewport")] == [
                "width=device-width, initial-scale=1"
            ]
            assert len(found(page, "main")) == len(found(page, "h1")) == len(found(page, "title")) == 1
            levels = [int(e.tag[1]) for e in page.iter() if re.fullmatch("h[1-6]", str(e.tag))]
            assert all(after - before <= 1 for before, after in pairwise(levels)), levels
            ids = [e.get("id") for e in page.iter() if e.get("id")]
            assert len(ids) == len(set(ids))
            for link in found(page, "a"):
                href = link.get("href") or ""
                assert text(link)
                assert not href.startswith("#") or href[1:] in ids
            for name in (e.get("aria-labelledby") for e in page.iter()):
                assert name is None or name in ids
            for cell in found(page, "th"):
                assert cell.get("scope") in ("col", "row")
            for drawing in (e for e in page.iter() if str(e.tag).endswith("svg")):
                assert drawing.get("aria-hidden") == "true", "what it shows stands beside it in words"
            for region in found(page, "div", **{"class": "scroll"}):
                assert region.get("tabindex") == "0", "it can be scrolled by keys"
                assert region.get("aria-label") or region.get("aria-labelledby")


async def test_who_may_see_it(tmp_path: Path) -> None:
    async with shown() as at:
        assert (await at.get(Host="evil.example")).status == 421
        assert (await at.get(Host="localhost:8080")).status == 200
        async with http_client(at.address) as client:
            assert (await client.request("POST", "/", b"x")).status == 405
    async with shown(Tokens([secret(tmp_path / "token", "letmein")])) as at:
        asked = await at.get(Accept="text/html,*/*")
        assert (asked.status, "Basic" in asked.headers["WWW-Authenticate"]) == (401, True)
        assert "Basic" not in (await at.get(Accept="application/json")).headers["WWW-Authenticate"]
        for given, status in (("any:letmein", 200), ("any:other", 401), ("letmein", 401)):
            basic = "Basic " + base64.b64encode(given.encode()).decode()
            assert (await at.get(Authorization=basic, Host="collector.example")).status == status
        assert (await at.get(Authorization="Basic ???")).status == 401


@pytest.mark.parametrize(
    ("counts", "suggested", "covered"),
    [
        ({}, None, 1.0),
        ({0.1: 98, 5.0: 2}, "5 s", 0.98),
        ({0.1: 99, 300.0: 1}, "100 ms", 0.99),
        ({2.0: 1}, "2 s", 1.0),
        ({"longer": 3}, None, 0.0),
    ],
)
def test_a_delay_is_suggested_by_what_came_late(counts: dict[Any, int], suggested: str | None, covered: float) -> None:
    seen = lateness([counts.get(bound, 0) for bound in (*LATENESS, "longer")], 2.0)
    assert (seen.suggested, seen.covered, seen.total) == (suggested, covered, sum(counts.values()))
