"""Some of the recordings stand in the repository, so that a clone by itself tests what onpath sees."""

from __future__ import annotations

import pytest

from tests.conftest import FIXTURES
from tests.traces.corpus import Run, judge, runs

RUNS = list(runs(FIXTURES / "traces"))
# A failed call of which only messages tell has no times.
UNKNOWN = {"js/traceloop-openai/retry": {"parallel"}}


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.id)
def test_recorded_run(run: Run) -> None:
    verdict = judge(run)
    assert {fact for fact, word in verdict.items() if word == "wrong"} == set()
    assert {fact for fact, word in verdict.items() if word == "unknown"} == UNKNOWN.get(run.id, set()) | (
        {"arguments"} if run.recording == "py/mcp-fastmcp" else set()
    )
