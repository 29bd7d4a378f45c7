"""TLS, client certificates and tokens, on both receivers: who gets in, and what happens when the files change."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from grpc import StatusCode, aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from onpath_collector.receivers.otlp_grpc import SERVICES, GrpcReceiver, GrpcSettings
from onpath_collector.receivers.otlp_http import HttpReceiver, HttpSettings
from onpath_collector.security import Certificates, SecretError, Tokens, read_secret, refresh_for_ever
from tests.support.consumers import KeepingConsumer
from tests.support.grpc_peers import METHODS, RawClient
from tests.support.http_peers import http_client
from tests.support.requests import traces
from tests.support.tls import Authority, secret

REQUEST = traces(1)


@asynccontextmanager
async def receiving(kind: str, **security: Any) -> AsyncIterator[tuple[str, KeepingConsumer]]:
    consumer = KeepingConsumer()
    receiver: GrpcReceiver | HttpReceiver
    if kind == "grpc":
        receiver = GrpcReceiver(GrpcSettings(endpoint="127.0.0.1:0"), consumer, **security)
    else:
        receiver = HttpReceiver(HttpSettings(endpoint="127.0.0.1:0"), consumer, **security)
    try:
        yield await receiver.start(), consumer
    finally:
        await receiver.stop(1)


async def taken(
    kind: str,
    address: str,
    authority: Authority | None = None,
    pair: tuple[Path, Path] | None = None,
    authorization: str | None = None,
) -> bool:
    """Whether a sender gets its request in. It trusts an authority, shows a certificate and a token, if given."""
    if kind == "grpc":
        return await _taken_by_grpc(address, authority, pair, authorization)
    headers = {} if authorization is None else {"Authorization": authorization}
    try:
        async with http_client(address, authority.client_context(pair) if authority else None) as client:
            reply = await client.send("traces", REQUEST, **headers)
    except (aiohttp.ClientError, OSError):
        return False
    assert reply.status in (200, 401)
    return reply.status == 200


async def _taken_by_grpc(
    address: str, authority: Authority | None, pair: tuple[Path, Path] | None, authorization: str | None
) -> bool:
    metadata = () if authorization is None else (("authorization", authorization),)
    if authority is None:
        channel = aio.insecure_channel(address)
    else:
        channel = aio.secure_channel(address, authority.channel_credentials(pair))
    async with channel:
        try:
            await channel.unary_unary(METHODS["traces"])(REQUEST, metadata=metadata, timeout=10)
        except aio.AioRpcError as error:
            if error.code() not in (StatusCode.UNAVAILABLE, StatusCode.UNAUTHENTICATED):
                raise
            return False
    return True


both = pytest.mark.parametrize("kind", ["grpc", "http"])


# TLS


@both
async def test_with_a_certificate_a_port_speaks_tls_alone(kind: str, tmp_path: Path) -> None:
    ours, other = Authority(tmp_path), Authority(tmp_path, "other")
    async with receiving(kind, certificates=Certificates(*ours.issue())) as (address, consumer):
        assert await taken(kind, address, ours)
        assert not await taken(kind, address, other)
        assert not await taken(kind, address)
        assert consumer.requests() == [REQUEST]


@both
async def test_with_a_client_authority_senders_must_show_a_certificate_of_it(kind: str, tmp_path: Path) -> None:
    ours, clients, other = (Authority(tmp_path, name) for name in ("ours", "clients", "other"))
    certificates = Certificates(*ours.issue(), client_ca=clients.path)
    async with receiving(kind, certificates=certificates) as (address, consumer):
        assert await taken(kind, address, ours, clients.issue("known"))
        assert not await taken(kind, address, ours)
        assert not await taken(kind, address, ours, other.issue("stranger"))
        assert consumer.requests() == [REQUEST]


@both
async def test_new_certificates_count_for_new_connections(kind: str, tmp_path: Path) -> None:
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    certificates = Certificates(*old.issue(), client_ca=old.path)
    first = old.issue("first")
    async with receiving(kind, certificates=certificates) as (address, _):
        assert await taken(kind, address, old, first)
        new.issue()
        old.path.write_bytes(new.path.read_bytes())  # the authority that clients are known by
        certificates.refresh()
        second = new.issue("second")
        assert await taken(kind, address, new, second)
        assert not await taken(kind, address, new, first)
        new.issue()  # and again
        certificates.refresh()
        assert await taken(kind, address, new, second)


async def test_a_broken_renewal_leaves_the_former_in_force(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ours = Authority(tmp_path)
    cert, key = ours.issue()
    certificates = Certificates(cert, key)
    sound = cert.read_bytes()
    async with receiving("http", certificates=certificates) as (address, _):
        watching = asyncio.create_task(refresh_for_ever([certificates], 0.01))
        for damaged in (b"no certificate", ours.issue("another")[0].read_bytes()):
            cert.write_bytes(damaged)
            await asyncio.sleep(0.1)
            assert await taken("http", address, ours)
        cert.write_bytes(sound)
        key.chmod(0o604)
        await asyncio.sleep(0.1)
        assert await taken("http", address, ours)
        watching.cancel()
    assert "stays in force" in caplog.text
    assert caplog.text.count("no certificate and its key") == 2


async def test_a_sender_that_does_not_shake_hands_is_cut_off_and_harms_nobody(tmp_path: Path) -> None:
    ours = Authority(tmp_path)
    async with receiving("http", certificates=Certificates(*ours.issue())) as (address, _):
        host, _, port = address.rpartition(":")
        with (
            socket.create_connection((host, int(port))) as silent,
            socket.create_connection((host, int(port))) as plain,
        ):
            plain.sendall(b"POST /v1/traces HTTP/1.1\r\n\r\n")
            assert await taken("http", address, ours)
            silent.sendall(b"\x16\x03\x01")
            assert await taken("http", address, ours)


async def test_old_versions_of_tls_are_not_spoken(tmp_path: Path) -> None:
    context = Certificates(*Authority(tmp_path).issue()).server_context()
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


# Tokens


@both
async def test_a_token_opens_the_port_and_nothing_else_does(kind: str, tmp_path: Path) -> None:
    tokens = Tokens([secret(tmp_path / "a", "first\n"), secret(tmp_path / "b", "\n second \nthird")])
    async with receiving(kind, tokens=tokens) as (address, consumer):
        for right in ("Bearer first", "bearer second", "BEARER  third"):
            assert await taken(kind, address, authorization=right)
        for wrong in (
            None,
            "",
            "Bearer",
            "Bearer fourth",
            "Bearer first second",
            "Basic first",
            "first",
            "Bearer FIRST",
        ):
            assert not await taken(kind, address, authorization=wrong)
        assert len(consumer.requests()) == 3


@both
async def test_tokens_and_certificates_go_together(kind: str, tmp_path: Path) -> None:
    ours = Authority(tmp_path)
    security = {"certificates": Certificates(*ours.issue()), "tokens": Tokens([secret(tmp_path / "t", "token")])}
    async with receiving(kind, **security) as (address, _):
        assert await taken(kind, address, ours, authorization="Bearer token")
        assert not await taken(kind, address, ours)


async def test_a_new_token_counts_at_once_and_an_empty_file_does_not_open_the_port(tmp_path: Path) -> None:
    path = secret(tmp_path / "token", "old")
    tokens = Tokens([path])
    secret(path, "new token with a longer text")
    tokens.refresh()
    assert tokens.allow("Bearer new token with a longer text")
    assert not tokens.allow("Bearer old")
    secret(path, "\n")
    tokens.refresh()
    assert tokens.allow(b"Bearer new token with a longer text")
    assert not tokens.allow("Bearer ")


async def test_without_a_token_nothing_of_a_request_is_read(tmp_path: Path) -> None:
    tokens = Tokens([secret(tmp_path / "token", "token")])
    async with receiving("http", tokens=tokens) as (address, _), http_client(address) as client:
        reply = await client.send("traces", bytes(1 << 21))
        assert (reply.status, reply.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert reply.told.code == StatusCode.UNAUTHENTICATED.value[0]
    receiver = GrpcReceiver(GrpcSettings(endpoint="127.0.0.1:0"), KeepingConsumer(), tokens=tokens)
    async with aio.insecure_channel(await receiver.start()) as channel:
        reply_ = await RawClient(channel).send("traces", bytes(1 << 21))
        assert (reply_.code, reply_.hints) == (StatusCode.UNAUTHENTICATED, [])
        assert receiver.counts["traces"].failed == {"unauthenticated": 1}
    await receiver.stop()


# Health and reflection


async def test_health_is_open_and_reflection_is_not(tmp_path: Path) -> None:
    tokens = Tokens([secret(tmp_path / "token", "token")])
    async with receiving("grpc", tokens=tokens) as (address, _), aio.insecure_channel(address) as channel:
        answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(aio.AioRpcError) as refused:
            await services(channel)
        assert refused.value.code() is StatusCode.UNAUTHENTICATED
        assert set(SERVICES.values()) < await services(channel, ("authorization", "Bearer token"))


async def services(channel: aio.Channel, *metadata: tuple[str, str]) -> set[str]:
    """As grpcurl lists them."""
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
    call = stub.ServerReflectionInfo(metadata=metadata)
    await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
    await call.done_writing()
    answer = await call.read()
    return {service.name for service in answer.list_services_response.service}


async def test_reflection_describes_what_is_served() -> None:
    async with receiving("grpc") as (address, _), aio.insecure_channel(address) as channel:
        listed = await services(channel)
        assert listed == {*SERVICES.values(), "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"}
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
        for service in listed:
            call = stub.ServerReflectionInfo()
            await call.write(reflection_pb2.ServerReflectionRequest(file_containing_symbol=service))
            await call.done_writing()
            assert (await call.read()).file_descriptor_response.file_descriptor_proto


# Files


@pytest.mark.parametrize("mode", [0o604, 0o644, 0o666, 0o606])
def test_a_secret_that_everyone_may_read_is_refused(mode: int, tmp_path: Path) -> None:
    ours = Authority(tmp_path)
    with pytest.raises(SecretError, match=rf"server\.key: everyone may read this secret \(mode {mode:04o}\); chmod"):
        Certificates(*ours.issue(mode=mode))
    with pytest.raises(SecretError, match="everyone may read this secret"):
        Tokens([secret(tmp_path / "token", "t", mode)])
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "token")
    with pytest.raises(SecretError, match="everyone may read this secret"):
        read_secret(link)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o400, 0o660])
def test_a_group_may_share_a_secret(mode: int, tmp_path: Path) -> None:
    Certificates(*Authority(tmp_path).issue(mode=mode))
    assert Tokens([secret(tmp_path / "token", "t", mode)]).allow("Bearer t")


def test_what_cannot_be_used_is_told(tmp_path: Path) -> None:
    ours = Authority(tmp_path)
    cert, key = ours.issue()
    with pytest.raises(SecretError, match=r"absent: No such file"):
        Tokens([tmp_path / "absent"])
    with pytest.raises(SecretError, match="no token in it"):
        Tokens([secret(tmp_path / "empty", " \n\n")])
    with pytest.raises(SecretError, match="no certificate and its key"):
        Certificates(tmp_path / "absent", key)
    with pytest.raises(SecretError, match="no certificate and its key"):
        Certificates(cert, ours.issue("other")[1])
    with pytest.raises(SecretError, match="holds no certificates"):
        Certificates(cert, key, client_ca=key)


def test_an_encrypted_key_is_refused_rather_than_asked_for(tmp_path: Path) -> None:
    cert, key = Authority(tmp_path).issue()
    lines = key.read_text().splitlines()
    lines[1:1] = ["Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-256-CBC,00112233445566778899AABBCCDDEEFF", ""]
    secret(key, "\n".join(lines) + "\n")
    with pytest.raises(SecretError, match="no certificate and its key"):
        Certificates(cert, key)
