"""Every receiver through the contract checker."""

from __future__ import annotations

import pytest
from google.protobuf.json_format import Parse
from grpc import StatusCode
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from onpath_collector.receivers.otlp_grpc import GrpcReceiver, GrpcSettings
from onpath_collector.receivers.otlp_http import HttpReceiver, HttpSettings
from tests.support import contract
from tests.support.contract import Answer
from tests.support.grpc_peers import RawClient, raw_client
from tests.support.http_peers import JSON, PROTOBUF, HttpClient, http_client
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


@pytest.mark.parametrize("mode", contract.MODES)
async def test_the_grpc_receiver_keeps_to_the_contract(mode: contract.Mode) -> None:
    consumer = contract.consumer(mode)
    receiver = GrpcReceiver(GrpcSettings(endpoint="127.0.0.1:0"), consumer)
    async with raw_client(await receiver.start()) as client:
        await contract.check(grpc_sender(client), consumer, mode)
    await receiver.stop()


def http_sender(client: HttpClient, content_type: str) -> contract.Send:
    async def send(request: bytes) -> Answer:
        body = as_json(request) if content_type == JSON else request
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


@pytest.mark.parametrize("content_type", [PROTOBUF, JSON])
@pytest.mark.parametrize("mode", contract.MODES)
async def test_the_http_receiver_keeps_to_the_contract(mode: contract.Mode, content_type: str) -> None:
    consumer = contract.consumer(mode)
    receiver = HttpReceiver(HttpSettings(endpoint="127.0.0.1:0"), consumer)
    async with http_client(await receiver.start()) as client:
        await contract.check(http_sender(client, content_type), consumer, mode)
    await receiver.stop()
