"""`onpath health` as a probe: readiness and liveness of a collector that has yet to start, by its real admin port."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from onpath_collector.admin import Admin, Health, State
from tests.support.onpath import COMMAND


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
