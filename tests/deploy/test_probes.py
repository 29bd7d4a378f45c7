"""`onpath health` as a probe: readiness and liveness of a collector that has yet to start, by its real admin port."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from onpath_collector.admin import Admin, Health, State
from onpath_collector.cli import health
from onpath_collector.config import AdminConfig
from tests.support.onpath import COMMAND, onpath


async def probed(address: str, *options: str) -> int:
    child = await asyncio.create_subprocess_exec(
        *COMMAND, "health", "--admin", address, *options, stdout=asyncio.subprocess.DEVNULL
    )
    return await child.wait()


@pytest.mark.parametrize(("state", "ready"), [("starting", 1), ("ready", 0), ("stopping", 1)])
async def test_one_that_starts_or_stops_is_live_and_not_ready(state: State, ready: int) -> None:
    admin = Admin("127.0.0.1:0", Health(state), {})
    address = await admin.start()
    try:
        assert await probed(address) == ready
        assert await probed(address, "--live") == 0
    finally:
        await admin.stop()


async def test_one_that_does_not_answer_is_not_live(tmp_path: Path) -> None:
    assert await probed("127.0.0.1:1", "--live") == 1


def test_it_asks_where_the_collector_is_by_default() -> None:
    assert AdminConfig().endpoint == health._DEFAULT


@pytest.mark.parametrize(
    ("variables", "options", "told"),
    [
        ({"ONPATH_ADMIN__ENDPOINT": "127.0.0.1:1"}, [], "Connection refused"),
        ({"ONPATH_ADMIN__ENDPOINT": "nonsense"}, [], "expected HOST:PORT"),
        ({"onpath_admin__endpoint": "nonsense"}, [], "expected HOST:PORT"),
        ({"ONPATH_ADMIN__TLS__CERT": "cert.pem"}, [], "cert and key go together"),
        ({"ONPATH_ADMIN": '{"endpoint": "127.0.0.1:1"}'}, [], "Connection refused"),
        ({"ONPATH_ADMIN_PORT": "tcp://10.0.0.1:13133"}, ["--admin", "127.0.0.1:1"], "Connection refused"),
        ({}, ["--config", "/no/such/file"], "No such file"),
    ],
)
def test_settings_are_heeded_wherever_they_stand(
    variables: dict[str, str], options: list[str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    done = onpath("health", *options)
    assert done.returncode == 1
    assert told in done.stderr


def test_a_probe_loads_no_settings_unless_it_has_to() -> None:
    program = "import sys; import onpath_collector.cli.health; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
