"""What the collector says in JSON lines: verdicts and log lines in the order in which they were told."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from onpath_collector.exporters.console import Console, set_up_logging
from onpath_collector.judging import Outcome, VerdictLine

LOG = logging.getLogger("onpath")


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def outcome(number: int, verdict: str = "pass") -> Outcome:
    line = VerdictLine("refund", verdict, 0.5, "agent", f"{number:032x}", "step pay is missing")
    return Outcome(line.trace_id, 2, "", verdicts=(line,))


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_a_verdict_is_one_line_with_its_fields(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("json", "info")
    Console().export(outcome(1, "fail"))
    (line,) = lines(capsys)
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "warning", "message": "verdict", "workflow": "refund", "verdict": "fail", "score": 0.5,
        "service": "agent", "trace_id": f"{1:032x}", "finding": "step pay is missing", "revision": 2,
    }  # fmt: skip


async def test_verdicts_of_one_turn_are_written_together_and_before_what_is_told_after_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_up_logging("json", "info")
    console = Console()
    console.export(outcome(1))
    console.export(outcome(2))
    assert lines(capsys) == []
    await asyncio.sleep(0)
    assert [line["trace_id"] for line in lines(capsys)] == [f"{1:032x}", f"{2:032x}"]
    console.export(outcome(3))
    LOG.info("a word between")
    console.export(outcome(4))
    await asyncio.sleep(0)
    assert [line["message"] for line in lines(capsys)] == ["verdict", "a word between", "verdict"]


def test_passes_are_not_told_above_their_level(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("json", "warning")
    for verdict in ("pass", "fail"):
        Console().export(outcome(1, verdict))
    assert [line["verdict"] for line in lines(capsys)] == ["fail"]
