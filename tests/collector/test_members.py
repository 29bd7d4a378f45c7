"""The name that several collectors share: a change of its addresses is told, once; no answer is no change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from onpath_collector.config import ConfigError, load_settings
from onpath_collector.members import Addresses, Members, addresses_of


def answering(answers: Sequence[Addresses | OSError]) -> Callable[[str], Awaitable[Addresses]]:
    """One after another; then for ever as the last."""
    left = list(answers)

    async def resolve(name: str) -> Addresses:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, OSError):
            raise answer
        return answer

    return resolve


async def told(*answers: Addresses | OSError) -> list[tuple[Addresses, Addresses]]:
    found: list[tuple[Addresses, Addresses]] = []
    members = Members("gateways", 0.0, lambda before, now: found.append((before, now)), answering(answers))
    for _ in answers:
        await members.look()
    return found


ONE, TWO = frozenset({"127.0.0.1"}), frozenset({"127.0.0.1", "127.0.0.2"})


async def test_the_first_answer_and_every_change_is_told() -> None:
    assert await told(ONE, ONE, TWO, TWO, ONE) == [(frozenset(), ONE), (ONE, TWO), (TWO, ONE)]


async def test_no_answer_is_no_change_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    gone = OSError("nobody answers")
    assert await told(ONE, gone, gone, ONE, TWO) == [(frozenset(), ONE), (ONE, TWO)]
    assert len(caplog.records) == 1


async def test_it_looks_again_and_again() -> None:
    found: asyncio.Queue[Addresses] = asyncio.Queue()
    members = Members("gateways", 0.001, lambda before, now: found.put_nowait(now), answering([ONE, TWO]))
    watching = asyncio.create_task(members.watch())
    async with asyncio.timeout(10):
        assert [await found.get(), await found.get()] == [ONE, TWO]
    watching.cancel()


async def test_a_real_name() -> None:
    assert "127.0.0.1" in await addresses_of("localhost")
    with pytest.raises(OSError):
        await addresses_of("no-such-name.invalid")


def test_a_change_is_looked_for_before_a_trace_can_be_judged() -> None:
    with pytest.raises(ConfigError, match=r"gateway\.interval must be below buffer\.settle_delay"):
        load_settings(None, {"gateway": {"members": "gateways", "interval": "2s"}})
