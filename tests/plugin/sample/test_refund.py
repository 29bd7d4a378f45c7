"""What a user writes. The name of a test says how it must end: `passes` or `fails`."""

from __future__ import annotations

import asyncio
from typing import Any

import agent
import pytest

GOOD = ("look_up", "check", "pay")
VALUES = {"version": 1, "workflows": [{"name": "any", "match": {}, "seq!": ["..."]}]}


def test_by_name_passes(onpath: Any) -> None:
    agent.refund(*GOOD)
    assert onpath.check("policy.yaml").passed


def test_by_the_settings_passes(onpath: Any) -> None:
    agent.refund(*GOOD)
    checked = onpath.check()
    assert checked
    assert not checked.failed
    assert not checked.unknown
    assert [r.workflow for r in checked.results] == ["refund", "order"]
    assert [s.name for s in onpath.spans][:2] == ["invoke_agent refund", "execute_tool look_up"]


def test_by_values_passes(onpath: Any) -> None:
    agent.refund(*GOOD)
    assert onpath.check(VALUES)


def test_by_itself_passes(onpath: Any) -> None:
    assert onpath.spans == []


def test_with_a_provider_of_its_own_passes(onpath: Any) -> None:
    agent.refund_with_own_provider(*GOOD)
    assert onpath.check().passed


def test_of_one_workflow_passes(onpath: Any) -> None:
    agent.refund("look_up", "override", "pay")
    assert onpath.check(workflow="order").passed
    assert onpath.check(workflow="refund").failed
    onpath.clear()
    assert onpath.check().unknown


def test_of_a_workflow_that_is_not_there_fails(onpath: Any) -> None:
    agent.refund(*GOOD)
    assert onpath.check(workflow="refunds").passed


def test_off_path_fails(onpath: Any) -> None:
    agent.refund("look_up", "override")
    assert onpath.check("policy.yaml").passed


def test_for_another_reason_fails(onpath: Any) -> None:
    agent.refund("override")
    assert onpath.check().failed
    assert len(onpath.spans) == 1


def test_without_spans_fails(onpath: Any) -> None:
    assert onpath.check().passed


def test_without_an_agent_fails(onpath: Any) -> None:
    agent.call("look_up")
    assert onpath.check().passed


def test_still_open_fails(onpath: Any) -> None:
    with agent.running():
        agent.call("look_up")
        assert onpath.check().passed


@pytest.mark.onpath("policy.yaml")
def test_marked_passes() -> None:
    agent.refund(*GOOD)


@pytest.mark.onpath
def test_marked_fails() -> None:
    agent.refund("look_up", "override")


@pytest.mark.onpath(workflow="order")
def test_marked_with_one_workflow_passes() -> None:
    agent.refund("look_up", "override", "pay")


@pytest.mark.onpath("policy.yaml")
def test_marked_with_the_fixture_too_passes(onpath: Any) -> None:
    agent.refund(*GOOD)
    assert len(onpath.traces) == 1


@pytest.mark.onpath("policy.yaml")
def test_marked_and_wrong_by_itself_fails() -> None:
    raise ValueError("by itself")


@pytest.mark.onpath("no such file.yaml")
def test_marked_with_a_bad_policy_fails() -> None:
    agent.refund(*GOOD)


@pytest.mark.onpath("policy.yaml")
@pytest.mark.parametrize("tools", [GOOD, ("look_up", "pay")])
def test_parametrised_passes(tools: tuple[str, ...]) -> None:
    agent.refund(*tools)


@pytest.mark.parametrize("tools", [("override",), ("look_up",)])
def test_parametrised_fails(tools: tuple[str, ...], onpath: Any) -> None:
    agent.refund(*tools)
    assert onpath.check().passed


@pytest.mark.asyncio
async def test_of_three_at_once_passes(onpath: Any) -> None:
    await asyncio.gather(*(agent.refund_async(*GOOD) for _ in range(3)))
    assert onpath.check().passed
    assert len(onpath.check().reports) == 3


@pytest.mark.asyncio
@pytest.mark.onpath("policy.yaml")
async def test_async_and_marked_fails() -> None:
    await agent.refund_async("override")
