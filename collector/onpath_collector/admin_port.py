"""What stands on the admin port, put together: probes and metrics, the results API over HTTP and gRPC, the status page.

HTTP/1.1 -> Admin -> /metrics, /v1/... (HttpApi), / (status page)
HTTP/2   -> relay -> GrpcApi
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from onpath_collector.admin import Admin, Health
from onpath_collector.config import AdminConfig
from onpath_collector.http_server import App
from onpath_collector.own_metrics import Parts
from onpath_collector.reports import Reports
from onpath_collector.results_api import Calls, GrpcApi, HttpApi
from onpath_collector.results_api.http_app import PREFIX
from onpath_collector.security import Certificates, Tokens
from onpath_collector.security.hosts import Hosts
from onpath_collector.status_page import REPORTS, StatusPage

PROTOCOLS = ("http/1.1", "h2")  # of TLS: who can do both gets pages


class AdminPort:
    """`start` may be called once, `stop` at any time and again. Owned by one event loop."""

    def __init__(
        self,
        config: AdminConfig,
        health: Health,
        pages: Mapping[str, App],
        parts: Parts,
        reports: Reports,
        end: Callable[[bytes], bool],
        certificates: Certificates | None,
        tokens: Tokens | None,
    ) -> None:
        """`end` lets go of an open trace as complete, at once; whether there was one."""
        calls = Calls(reports, end)
        hosts = Hosts(config.endpoint, guarded=tokens is not None)
        page = StatusPage(parts, reports, health, hosts)
        trees: dict[str, App] = {PREFIX: HttpApi(calls, hosts), REPORTS: page}
        self._admin = Admin(config.endpoint, health, {"/": page, **pages}, certificates, tokens, trees)
        self._grpc = GrpcApi(calls, tokens)

    async def start(self) -> str:
        """Listens; the address it got, as HOST:PORT. Raises ListenError."""
        return await self._admin.start(await self._grpc.start())

    async def stop(self) -> None:
        await self._admin.stop()
        await self._grpc.stop()
