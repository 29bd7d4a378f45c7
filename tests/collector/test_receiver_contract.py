"""Every receiver through the contract checker."""

from __future__ import annotations

import pytest
from grpc import StatusCode
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from onpath_collector.receivers.otlp_grpc import GrpcReceiver, GrpcSettings
from tests.support import contract
from tests.support.contract import Answer
from tests.support.grpc_peers import RawClient, raw_client


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
