"""The collector's parts put together, in this process: what keeps it from starting."""

from __future__ import annotations

import logging
import socket
from pathlib import Path
from typing import Any

import pytest

from onpath_collector.config import load_settings
from onpath_collector.policy_source import PolicySource
from onpath_collector.security import SecretError
from onpath_collector.service import Service, StartError
from tests.support.tls import Authority, secret

ANY = {"receivers": {"grpc": {"endpoint": "127.0.0.1:0"}, "http": {"endpoint": "127.0.0.1:0"}}}
ANY_ADMIN = {"admin": {"endpoint": "127.0.0.1:0"}}
PORTS = ("grpc", "http", "admin")


def with_port(port: str, address: str, **more: Any) -> dict[str, Any]:
    """Settings with one port told, the others any."""
    receivers: dict[str, Any] = {**ANY["receivers"]}
    admin: dict[str, Any] = {**ANY_ADMIN["admin"]}
    if port == "admin":
        admin = {"endpoint": address}
    else:
        receivers[port] = {"endpoint": address}
    return {"receivers": receivers, "admin": admin, **more}


def a_free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number: int = free.getsockname()[1]
        return number


async def test_it_starts_stops_and_names_its_ports() -> None:
    service = Service(load_settings(None, {**ANY, **ANY_ADMIN}), None)
    assert service.health.state == "starting"
    addresses = await service.start()
    assert list(addresses) == ["grpc", "http", "admin"]
    assert service.health.ready
    await service.stop()
    await service.stop()
    assert service.health.state == "stopping"


@pytest.mark.parametrize("port", PORTS)
async def test_a_downstream_that_is_one_of_its_own_ports_is_refused(port: str) -> None:
    number = a_free_port()
    forward = {"endpoint": f"http://localhost:{number}"}
    service = Service(load_settings(None, with_port(port, f"127.0.0.1:{number}", forward=forward)), None)
    with pytest.raises(StartError, match="is this collector itself") as refused:
        await service.start()
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(("port", "what"), [("grpc", "OTLP/gRPC"), ("http", "OTLP/HTTP"), ("admin", "admin requests")])
async def test_a_port_in_use_is_said(port: str, what: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        service = Service(load_settings(None, with_port(port, address)), None)
        with pytest.raises(StartError, match=f"cannot receive {what} on {address}: Address already in use") as refused:
            await service.start()
    assert refused.value.exit_code == 1


def test_a_secret_that_everyone_may_read_is_refused_wherever_it_is_named(tmp_path: Path) -> None:
    cert, key = map(str, Authority(tmp_path).issue(mode=0o644))
    token = str(secret(tmp_path / "token", "letmein", 0o604))
    pair = {"tls": {"cert": cert, "key": key}}
    for options in (
        {"receivers": {"grpc": pair}},
        {"receivers": {"http": {"bearer_token_files": [token]}}},
        {"admin": pair},
        {"forward": {"endpoint": "grpcs://127.0.0.1:9", **pair}},
    ):
        with pytest.raises(SecretError, match="everyone may read this secret"):
            Service(load_settings(None, options), None)


async def test_what_a_policy_warns_of_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    policy = {"seq!": ["..."], "matches": {"input": {"contains!": "x"}}}
    source = PolicySource(policy)
    service = Service(load_settings(None, {**ANY, **ANY_ADMIN, "policy": policy}), source)
    await service.start()
    try:
        with caplog.at_level(logging.WARNING, "onpath"):
            assert await service.reload()
    finally:
        await service.stop()
    assert "/matches: this key is taken for the name of a step" in caplog.text
