"""The status page as an ASGI application: / for everything, /reports/TRACE_ID for one report.

Nothing on it runs: the policy that it is sent with allows its own style sheet, by digest, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from onpath.cli.text import printable
from onpath_collector.admin import Health
from onpath_collector.http_server import Answer, Receive, Scope, Send
from onpath_collector.own_metrics import Parts
from onpath_collector.reports import BadToken, Page, Reports
from onpath_collector.security.hosts import Hosts
from onpath_collector.status_page.view import asked, shown, status

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

REPORTS: Final = "/reports/"
_TEMPLATES: Final = Path(__file__).parent / "templates"
_PAGE: Final = 10  # reports
_REFRESH: Final = 10  # seconds
_HTML: Final = "text/html; charset=utf-8"


class StatusPage:
    """Owned by one event loop."""

    def __init__(self, parts: Parts, reports: Reports, health: Health, hosts: Hosts) -> None:
        self._parts = parts
        self._reports = reports
        self._health = health
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (await self._answer(scope)).send(send)

    async def _answer(self, scope: Scope) -> Answer:
        if scope["method"] not in ("GET", "HEAD"):
            return Answer(405, b"this is only read\n", headers={"allow": "GET, HEAD"})
        if not self._hosts.may_read(dict(scope["headers"]).get(b"host")):
            return Answer(421, b"the Host is not the address of this port\n")
        path: str = scope["path"]
        if path.startswith(REPORTS):
            return await self._report(path.removeprefix(REPORTS))
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), max_num_fields=20))
        wanted = asked(query)
        try:
            page = await self._reports.page(wanted, _PAGE, query.get("page", ""))
        except BadToken:
            page = Page(())
        found = status(self._parts, self._health, page, self._reports.verdicts, time.time())
        first = not query.get("page")
        refresh = _REFRESH if "refresh" in query and first else None
        return _answer(200, "status.html", **found, wanted=wanted, first=first, refresh=refresh)

    async def _report(self, trace_id: str) -> Answer:
        report = await self._reports.get(trace_id.lower())
        if report is None:
            return _answer(404, "absent.html", trace_id=trace_id[:64])
        return _answer(200, "report.html", report=report, shown=list(shown(report, time.time())))


def _answer(code: int, template: str, **values: Any) -> Answer:
    environment, style, policy = _loaded()
    text = environment.get_template(template).render(style=style, **values)
    headers = {
        "content-security-policy": policy,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cache-control": "no-store",
    }
    return Answer(code, text.encode("utf-8", "replace"), _HTML, headers)


@cache
def _loaded() -> tuple[Environment, Markup, str]:
    """Templates, style sheet and content security policy; for whoever looks, and only then: they take 4 MiB."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = (_TEMPLATES / "style.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return environment, Markup(style), policy  # a file of ours


def _visible(value: Any) -> Any:
    """What would turn, join or hide what stands beside it is written out: names come from outside."""
    return printable(value) if type(value) is str else value
