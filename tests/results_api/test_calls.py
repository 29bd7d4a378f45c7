"""The results API on a served admin port, over HTTP and gRPC: what is answered, what is refused, and to whom."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from grpc import StatusCode, aio

from onpath_collector.admin import Admin, Health
from onpath_collector.admin_port import PROTOCOLS
from onpath_collector.reports import Reports
from onpath_collector.results_api import Calls, GrpcApi, HttpApi
from onpath_collector.security import Certificates, Tokens
from onpath_collector.security.hosts import Hosts
from onpath_collector.v1 import results_pb2
from onpath_collector.v1 import results_service_pb2 as pb
from onpath_collector.v1.results_service_pb2_grpc import ResultsServiceStub
from tests.results_api.outcomes import AT, outcome, trace_id
from tests.support.http_peers import JSON, HttpReply, http_client, raw_connection
from tests.support.tls import Authority, secret

BAD = ("lookup_user", "pay")


@dataclass
class Served:
    address: str
    reports: Reports
    ended: list[bytes]


@asynccontextmanager
async def served(certificates: Certificates | None = None, tokens: Tokens | None = None) -> AsyncIterator[Served]:
    """Trace 1 is open, others are not."""
    reports, ended = Reports(None, 100), []

    def end(wanted: bytes) -> bool:
        ended.append(wanted)
        return wanted == bytes.fromhex(trace_id(1))

    calls = Calls(reports, end)
    api = HttpApi(calls, Hosts("127.0.0.1:0", guarded=tokens is not None))
    admin = Admin("127.0.0.1:0", Health("ready"), {}, certificates, tokens, {"/v1/": api})
    server = GrpcApi(calls, tokens)
    try:
        socket = await server.start()
        assert socket is not None
        assert socket.parent.stat().st_mode & 0o077 == 0, "nobody else reaches it"
        yield Served(await admin.start(socket), reports, ended)
    finally:
        await admin.stop()
        await server.stop()
        await server.stop()
        await reports.close()
    assert not socket.parent.exists()


@asynccontextmanager
async def stub(address: str) -> AsyncIterator[Any]:
    async with aio.insecure_channel(address) as channel:
        yield ResultsServiceStub(channel)  # type: ignore[no-untyped-call]


async def ended(call: Any) -> StatusCode:
    with pytest.raises(aio.AioRpcError) as error:
        await call
    code: StatusCode = error.value.code()
    return code


async def followed(at: Served, times: int) -> None:
    """Once so many calls wait or watch."""
    async with asyncio.timeout(20):
        while True:
            if at.reports.followers == times:
                return
            await asyncio.sleep(0.01)


def told(reply: HttpReply) -> tuple[int, Any]:
    assert reply.content_type == JSON
    return reply.status, json.loads(reply.body)


async def test_both_give_the_same_report() -> None:
    async with served() as at, stub(at.address) as calls, http_client(at.address) as client:
        at.reports.export(made := outcome(1, BAD))
        status, body = told(await client.request("GET", f"/v1/reports/{trace_id(1).upper()}"))
        (result,) = body["results"]
        assert (status, result) == (200, json.loads(made.lines[0]))
        report = (await calls.GetReport(pb.GetReportRequest(trace_id=trace_id(1)))).report
        (message,) = report.results
        assert (report.trace_id, report.HasField("session"), report.revision) == (trace_id(1), False, 1)
        assert (message.workflow, message.service, message.verdict) == ("refund", "shop", results_pb2.VERDICT_FAIL)
        assert message.judged_at.ToNanoseconds() == AT
        assert [e.name for e in message.evaluations] == [e["name"] for e in result["evaluations"]]
        assert [e.score for e in message.evaluations] == [e["score"] for e in result["evaluations"]]
        adherence = message.evaluations[0]
        moves = [(results_pb2.Move.Name(row.move)[5:].lower(), row.expected, row.seen) for row in adherence.alignment]
        expected = [(r["move"], r["expected"] or "", r["seen"] or "") for r in result["evaluations"][0]["alignment"]]
        assert moves == expected
        findings = [(f.rule, f.message, list(f.span_ids)) for e in message.evaluations for f in e.findings]
        assert findings == [
            (f["rule"], f["message"], f["span_ids"]) for e in result["evaluations"] for f in e["findings"]
        ]
        assert message.coverage.steps == result["coverage"]["steps"] == 2


async def test_waiting_and_its_end() -> None:
    async with served() as at, stub(at.address) as calls, http_client(at.address) as client:
        asked = pb.WaitForReportRequest(trace_id=trace_id(1), timeout=Duration(seconds=20))
        over_grpc = asyncio.ensure_future(_answer(calls.WaitForReport(asked)))
        over_http = asyncio.ensure_future(client.request("GET", f"/v1/reports/{trace_id(1)}:wait?timeout=20s"))
        await followed(at, 2)
        at.reports.export(outcome(1))
        assert (await over_grpc).report.trace_id == trace_id(1)
        assert told(await over_http)[1]["trace_id"] == trace_id(1)
        short = pb.WaitForReportRequest(trace_id=trace_id(2), timeout=Duration(nanos=10_000_000))
        assert await ended(calls.WaitForReport(short)) == StatusCode.DEADLINE_EXCEEDED
        own = pb.WaitForReportRequest(trace_id=trace_id(2))
        assert await ended(calls.WaitForReport(own, timeout=0.1)) == StatusCode.DEADLINE_EXCEEDED
        status, body = told(await client.request("GET", f"/v1/reports/{trace_id(2)}:wait?timeout=0.01"))
        assert (status, body["code"]) == (504, "DEADLINE_EXCEEDED")


async def _answer(call: Any) -> Any:
    return await call


async def test_who_leaves_is_not_waited_for() -> None:
    async with served() as at:
        for path in (f"/v1/reports/{trace_id(1)}:wait", "/v1/reports:watch"):
            async with raw_connection(at.address) as connection:
                await connection.send(f"GET {path} HTTP/1.1\r\nHost: {at.address}\r\n\r\n".encode())
                await followed(at, 1)
            await followed(at, 0)


async def test_watching() -> None:
    async with served() as at, stub(at.address) as calls, raw_connection(at.address) as events:
        watch = calls.WatchReports(pb.WatchReportsRequest(filter=pb.Filter(verdict=results_pb2.VERDICT_FAIL)))
        await watch.initial_metadata()
        await events.send(f"GET /v1/reports:watch?verdict=fail HTTP/1.1\r\nHost: {at.address}\r\n\r\n".encode())
        head = await events.until(b": watching\n\n")
        assert b"content-type: text/event-stream" in head
        for made in (outcome(1), outcome(2, BAD)):
            at.reports.export(made)
        assert (await watch.read()).report.trace_id == trace_id(2)
        await events.until(b"event: report\n")
        data = (await events.until(b"\n\n")).removeprefix(b"data: ")
        assert json.loads(data)["trace_id"] == trace_id(2)
        watch.cancel()


async def test_listing() -> None:
    async with served() as at, stub(at.address) as calls, http_client(at.address) as client:
        for number in range(1, 6):
            at.reports.export(outcome(number, BAD if number % 2 else ("lookup_user", "check_balance", "pay")))
        asked = pb.ListReportsRequest(filter=pb.Filter(verdict=results_pb2.VERDICT_FAIL), page_size=2)
        page = await calls.ListReports(asked)
        asked.page_token = page.next_page_token
        rest = await calls.ListReports(asked)
        assert [r.trace_id for r in (*page.reports, *rest.reports)] == [trace_id(n) for n in (5, 3, 1)]
        assert rest.next_page_token == ""
        status, body = told(await client.request("GET", "/v1/reports?verdict=fail&page_size=2&workflow=refund"))
        assert (status, [r["trace_id"] for r in body["reports"]]) == (200, [trace_id(5), trace_id(3)])
        path = f"/v1/reports?verdict=fail&page_size=2&workflow=refund&page_token={body['next_page_token']}"
        assert [r["trace_id"] for r in told(await client.request("GET", path))[1]["reports"]] == [trace_id(1)]
        later = Timestamp()
        later.FromNanoseconds(AT + 1)
        nothing = await calls.ListReports(pb.ListReportsRequest(filter=pb.Filter(since=later)))
        assert not nothing.reports
        path = "/v1/reports?since=2026-01-01T02:00:00%2B02:00"
        assert len(told(await client.request("GET", path))[1]["reports"]) == 5


async def test_ending_a_trace() -> None:
    async with served() as at, stub(at.address) as calls, http_client(at.address) as client:
        await calls.Complete(pb.CompleteRequest(trace_id=trace_id(1)))
        assert await ended(calls.Complete(pb.CompleteRequest(trace_id=trace_id(2)))) == StatusCode.NOT_FOUND
        kind = {"Content-Type": "application/json; charset=utf-8"}
        for body in (b"", b"{}"):
            reply = await client.request("POST", f"/v1/traces/{trace_id(1)}:complete", body, kind)
            assert told(reply) == (200, {})
        reply = await client.request("POST", f"/v1/traces/{trace_id(2)}:complete", b"{}", kind)
        assert (reply.status, told(reply)[1]["code"]) == (404, "NOT_FOUND")
        assert len(at.ended) == 5


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "status"),
    [
        ("POST", "/v1/traces/{id}:complete", {}, b"{}", 415),
        ("POST", "/v1/traces/{id}:complete", {"Content-Type": "text/plain"}, b"{}", 415),
        ("POST", "/v1/traces/{id}:complete", {"Content-Type": JSON, "Host": "evil.example:{port}"}, b"{}", 421),
        ("POST", "/v1/traces/{id}:complete", {"Content-Type": JSON, "Host": "127.0.0.1"}, b"{}", 421),
        ("POST", "/v1/traces/{id}:complete", {"Content-Type": JSON, "Host": "127.0.0.1:1"}, b"{}", 421),
        ("POST", "/v1/traces/{id}:complete", {"Content-Type": JSON}, b'{"a":1}', 400),
        ("POST", "/v1/traces/{id}:complete", {"Content-Type": JSON}, b"{", 400),
        ("POST", "/v1/traces/{id}:complete", {"Content-Type": JSON}, b"[" * 60_000, 400),
        ("POST", "/v1/traces/{id}:complete?x=1", {"Content-Type": JSON}, b"{}", 400),
        ("POST", "/v1/traces/short:complete", {"Content-Type": JSON}, b"{}", 400),
        ("GET", "/v1/traces/{id}:complete", {}, None, 405),
        ("POST", "/v1/reports", {"Content-Type": JSON}, b"{}", 405),
        ("GET", "/v1/reports", {"Host": "evil.example:{port}"}, None, 421),
        ("GET", "/v1/reports", {"Host": "localhost:9"}, None, 200),
        ("GET", "/v1/reports/{id}", {}, None, 404),
        ("GET", "/v1/reports/xyz", {}, None, 400),
        ("GET", "/v1/reports/00000000000000000000000000000000", {}, None, 400),
        ("GET", "/v1/reports/{id}:other", {}, None, 404),
        ("GET", "/v1/reports/{id}:wait?timeout=soon", {}, None, 400),
        ("GET", "/v1/reports/{id}?x=1", {}, None, 400),
        ("GET", "/v1/reports?verdict=good", {}, None, 400),
        ("GET", "/v1/reports?since=yesterday", {}, None, 400),
        ("GET", "/v1/reports?since=2026-01-01T00:00:00", {}, None, 400),
        ("GET", "/v1/reports?page_size=-1", {}, None, 400),
        ("GET", "/v1/reports?page_token=x", {}, None, 400),
        ("GET", "/v1/reports?colour=red", {}, None, 400),
        ("GET", "/v1/nothing", {}, None, 404),
    ],
)
async def test_what_http_refuses(method: str, path: str, headers: dict[str, str], body: Any, status: int) -> None:
    async with served() as at, http_client(at.address) as client:
        port = at.address.rpartition(":")[2]
        sent = {name: value.replace("{port}", port) for name, value in headers.items()}
        reply = await client.request(method, path.replace("{id}", trace_id(9)), body, sent)
        assert told(reply)[0] == status
        assert at.ended == []


async def test_the_head_of_a_stream_is_no_stream() -> None:
    async with served() as at, http_client(at.address) as client:
        for query, status in (("", 200), ("?since=soon", 400)):
            async with asyncio.timeout(10):
                reply = await client.request("HEAD", f"/v1/reports:watch{query}", None, {})
            assert (reply.status, reply.body) == (status, b"")
        assert at.reports.followers == 0


async def test_what_grpc_refuses() -> None:
    async with served() as at, stub(at.address) as calls:
        invalid = StatusCode.INVALID_ARGUMENT
        assert await ended(calls.GetReport(pb.GetReportRequest(trace_id="x"))) == invalid
        assert await ended(calls.GetReport(pb.GetReportRequest(trace_id=trace_id(9)))) == StatusCode.NOT_FOUND
        assert await ended(calls.ListReports(pb.ListReportsRequest(page_token="x"))) == invalid
        assert await ended(calls.ListReports(pb.ListReportsRequest(page_token="W1tb" * 50_000))) == invalid
        assert await ended(calls.ListReports(pb.ListReportsRequest(page_size=-1))) == invalid
        strange = pb.Filter(verdict=77)  # type: ignore[arg-type]
        assert await ended(calls.ListReports(pb.ListReportsRequest(filter=strange))) == invalid
        assert await ended(calls.WatchReports(pb.WatchReportsRequest(filter=strange)).read()) == invalid
        backwards = pb.WaitForReportRequest(trace_id=trace_id(1), timeout=Duration(seconds=-1))
        assert await ended(calls.WaitForReport(backwards)) == invalid


async def test_tokens_guard_both(tmp_path: Path) -> None:
    tokens = Tokens([secret(tmp_path / "token", "letmein")])
    async with served(tokens=tokens) as at, stub(at.address) as calls, http_client(at.address) as client:
        asked = pb.ListReportsRequest()
        assert await ended(calls.ListReports(asked)) == StatusCode.UNAUTHENTICATED
        assert await ended(calls.WatchReports(pb.WatchReportsRequest()).read()) == StatusCode.UNAUTHENTICATED
        assert not (await calls.ListReports(asked, metadata=[("authorization", "Bearer letmein")])).reports
        assert (await client.request("GET", "/v1/reports")).status == 401
        assert (await client.request("GET", "/v1/reports", headers={"Authorization": "Bearer no"})).status == 401
        allowed = {"Authorization": "Bearer letmein", "Host": "collector.example"}
        assert (await client.request("GET", "/v1/reports", headers=allowed)).status == 200


async def test_one_tls_port_for_both(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue()
    async with served(Certificates(cert, key, protocols=PROTOCOLS)) as at:
        at.reports.export(outcome(1))
        credentials = grpc.ssl_channel_credentials(authority.path.read_bytes())
        async with aio.secure_channel(at.address, credentials) as channel:
            calls: Any = ResultsServiceStub(channel)  # type: ignore[no-untyped-call]
            assert len((await calls.ListReports(pb.ListReportsRequest())).reports) == 1
        async with http_client(at.address, authority.client_context()) as client:
            assert (await client.request("GET", f"/v1/reports/{trace_id(1)}")).status == 200


async def test_reflection_names_the_service() -> None:
    from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest, ServerReflectionResponse

    async with served() as at, aio.insecure_channel(at.address) as channel:
        method = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
        call: Any = channel.stream_stream(
            method,
            request_serializer=ServerReflectionRequest.SerializeToString,
            response_deserializer=ServerReflectionResponse.FromString,
        )
        stream = call(iter([ServerReflectionRequest(list_services="")]))
        names = [s.name for s in (await stream.read()).list_services_response.service]
        assert "onpath.v1.ResultsService" in names


async def test_the_first_bytes_may_come_one_by_one() -> None:
    async with served() as at:
        async with raw_connection(at.address) as connection:
            for byte in f"PUT /v1/reports HTTP/1.1\r\nHost: {at.address}\r\n\r\n".encode():
                await connection.send(bytes([byte]))
                await asyncio.sleep(0)
            assert b"405" in await connection.until(b"\r\n")
        async with raw_connection(at.address) as connection:
            for byte in b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0":
                await connection.send(bytes([byte]))
                await asyncio.sleep(0)
            assert (await connection.until(b"\x04"))[-1:] == b"\x04", "a SETTINGS frame answers"


async def test_without_a_socket_only_http_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    reports = Reports(None, 1)
    server = GrpcApi(Calls(reports, lambda _: False), None)
    assert await server.start() is None
    await server.stop()
    await reports.close()
