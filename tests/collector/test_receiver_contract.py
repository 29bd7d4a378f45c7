"""Every receiver through the contract checker."""

from __future__ import annotations

import pytest

from onpath_collector.receivers.otlp_grpc import GrpcReceiver, GrpcSettings
from onpath_collector.receivers.otlp_http import HttpReceiver, HttpSettings
from tests.support import contract
from tests.support.contract_senders import grpc_sender, http_sender
from tests.support.grpc_peers import raw_client
from tests.support.http_peers import JSON, PROTOBUF, http_client


@pytest.mark.parametrize("mode", contract.MODES)
async def test_the_grpc_receiver_keeps_to_the_contract(mode: contract.Mode) -> None:
    consumer = contract.consumer(mode)
    receiver = GrpcReceiver(GrpcSettings(endpoint="127.0.0.1:0"), consumer)
    async with raw_client(await receiver.start()) as client:
        await contract.check(grpc_sender(client), consumer, mode)
    await receiver.stop()


@pytest.mark.parametrize("content_type", [PROTOBUF, JSON])
@pytest.mark.parametrize("mode", contract.MODES)
async def test_the_http_receiver_keeps_to_the_contract(mode: contract.Mode, content_type: str) -> None:
    consumer = contract.consumer(mode)
    receiver = HttpReceiver(HttpSettings(endpoint="127.0.0.1:0"), consumer)
    async with http_client(await receiver.start()) as client:
        await contract.check(http_sender(client, content_type), consumer, mode)
    await receiver.stop()
