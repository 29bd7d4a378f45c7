"""The results API over gRPC, on a socket that only this collector reaches: the admin port hands its HTTP/2 on to it.

A folder of mode 0700 holds the socket. Where none can be made, calls over gRPC are not served, and a line says so.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

from grpc import StatusCode, aio

from onpath_collector.receivers.reflection import Reflection
from onpath_collector.results_api.calls import LONGEST_WAIT, CallError, Calls
from onpath_collector.results_api.messages import filter_of, report_message
from onpath_collector.security import Tokens
from onpath_collector.v1 import results_service_pb2 as pb
from onpath_collector.v1.results_service_pb2_grpc import ResultsServiceServicer, add_ResultsServiceServicer_to_server

T = TypeVar("T")
Context = aio.ServicerContext[Any, Any]

log: Final = logging.getLogger("onpath")
_SERVICE: Final = pb.DESCRIPTOR.services_by_name["ResultsService"].full_name
_LARGEST: Final = 1 << 20  # bytes of a request
_OPTIONS: Final = (("grpc.max_receive_message_length", _LARGEST), ("grpc.max_concurrent_streams", 128))  # a connection
_LONGEST_PATH: Final = 100  # bytes, of what a socket's address may have


class GrpcApi:
    """`start` may be called once, `stop` at any time and again."""

    def __init__(self, calls: Calls, tokens: Tokens | None) -> None:
        self._calls = calls
        self._tokens = tokens
        self._folder: Path | None = None
        self._server: aio.Server | None = None

    async def start(self) -> Path | None:
        """The socket that it serves; None where there can be none."""
        try:
            self._folder = Path(tempfile.mkdtemp(prefix="onpath-"))
            path = self._folder / "grpc"
            if len(bytes(path)) > _LONGEST_PATH:
                raise OSError(f"{path} is too long for a socket")
            server = aio.server(options=_OPTIONS)
            add_ResultsServiceServicer_to_server(_Servicer(self._calls, self._allows), server)
            server.add_generic_rpc_handlers((Reflection((_SERVICE,), self._allows),))
            server.add_insecure_port(f"unix:{path}")
        except (OSError, RuntimeError) as error:  # gRPC's is a RuntimeError
            log.warning("the results API is served over HTTP alone; gRPC has no socket: %s", error)
            self._clear()
            return None
        await server.start()
        self._server = server
        return path

    async def stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.stop(0.1)
        self._clear()

    def _clear(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _allows(self, authorization: str | bytes | None) -> bool:
        return self._tokens is None or self._tokens.allow(authorization)


class _Servicer(ResultsServiceServicer):
    def __init__(self, calls: Calls, allows: Callable[[str | bytes | None], bool]) -> None:
        self._calls = calls
        self._allows = allows

    async def GetReport(self, request: pb.GetReportRequest, context: Context) -> pb.GetReportResponse:
        report = await self._answered(context, lambda: self._calls.get(request.trace_id))
        return pb.GetReportResponse(report=report_message(report))

    async def WaitForReport(self, request: pb.WaitForReportRequest, context: Context) -> pb.WaitForReportResponse:
        asked = request.timeout.ToNanoseconds() / 1e9 if request.HasField("timeout") else LONGEST_WAIT
        left = context.time_remaining()
        seconds = asked if left is None else min(asked, left)
        report = await self._answered(context, lambda: self._calls.wait(request.trace_id, seconds))
        return pb.WaitForReportResponse(report=report_message(report))

    async def WatchReports(
        self, request: pb.WatchReportsRequest, context: Context
    ) -> AsyncIterator[pb.WatchReportsResponse]:
        await self._admit(context)
        try:
            async with aclosing(self._calls.watch(filter_of(request.filter))) as reports:
                await context.send_initial_metadata(())  # it watches from now on
                async for report in reports:
                    yield pb.WatchReportsResponse(report=report_message(report))
        except (CallError, ValueError) as error:
            await _abort(context, error)

    async def ListReports(self, request: pb.ListReportsRequest, context: Context) -> pb.ListReportsResponse:
        async def listed() -> pb.ListReportsResponse:
            page = await self._calls.page(filter_of(request.filter), request.page_size, request.page_token)
            reports = [report_message(report) for report in page.reports]
            return pb.ListReportsResponse(reports=reports, next_page_token=page.next_token)

        return await self._answered(context, listed)

    async def Complete(self, request: pb.CompleteRequest, context: Context) -> pb.CompleteResponse:
        async def completed() -> pb.CompleteResponse:
            self._calls.complete(request.trace_id)
            return pb.CompleteResponse()

        return await self._answered(context, completed)

    async def _answered(self, context: Context, call: Callable[[], Awaitable[T]]) -> T:
        await self._admit(context)
        try:
            return await call()
        except (CallError, ValueError) as error:
            await _abort(context, error)

    async def _admit(self, context: Context) -> None:
        authorization = dict(context.invocation_metadata() or ()).get("authorization")
        if not self._allows(authorization):
            await context.abort(StatusCode.UNAUTHENTICATED, "a bearer token is needed")


async def _abort(context: Context, error: CallError | ValueError) -> NoReturn:
    code = error.code if isinstance(error, CallError) else "INVALID_ARGUMENT"
    await context.abort(StatusCode[code], str(error))
    raise asyncio.CancelledError  # abort has raised already
