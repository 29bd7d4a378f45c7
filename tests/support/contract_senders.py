"""Senders of each protocol for the contract checker: what the receiver answered, as an `Answer`."""

from __future__ import annotations

from google.protobuf.json_format import Parse
from google.protobuf.message import DecodeError
from grpc import StatusCode
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from tests.support import contract
from tests.support.contract import Answer
from tests.support.grpc_peers import RawClient
from tests.support.http_peers import JSON, HttpClient
from tests.support.requests import as_json


def grpc_sender(client: RawClient) -> contract.Send:
    async def send(request: bytes) -> Answer:
        reply = await client.send("traces", request)
        if reply.code is StatusCode.OK:
            return Answer("accepted", ExportTraceServiceResponse.FromString(reply.body).partial_success.rejected_spans)
        if reply.code is StatusCode.UNAVAILABLE:
            return Answer("retryable", wait=reply.hints[0])
        assert reply.code in (StatusCode.INVALID_ARGUMENT, StatusCode.INTERNAL)
        return Answer("permanent")

    return send


def http_sender(client: HttpClient, content_type: str) -> contract.Send:
    async def send(request: bytes) -> Answer:
        body = json_of(request) if content_type == JSON else request
        reply = await client.send("traces", body, content_type)
        assert reply.content_type == content_type
        if reply.status == 200:
            return Answer("accepted", rejected_spans(reply.body, content_type))
        if reply.status == 503:
            assert reply.hint is not None
            assert reply.hint <= float(reply.headers["Retry-After"])
            return Answer("retryable", wait=reply.hint)
        assert reply.status in (400, 500)
        return Answer("permanent")

    return send


def rejected_spans(body: bytes, content_type: str) -> int:
    answer = ExportTraceServiceResponse()
    if content_type == JSON:
        Parse(body, answer)
    else:
        answer.ParseFromString(body)
    return answer.partial_success.rejected_spans


def json_of(request: bytes) -> bytes:
    """Of what is no request, something that is none either."""
    try:
        return as_json(request)
    except DecodeError:
        return b"{" + request.hex().encode()
