"""What onpath sees in every recording against what really ran; run with `-s` for the table.

A fact that a recording holds must be right; one that it does not hold must not be claimed. What can't be had is listed
here, one by one, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import SHARED
from tests.traces.corpus import FACTS, Run, judge, runs, table

RECORDINGS = SHARED / "traces"
RUNS = list(runs(RECORDINGS)) if RECORDINGS.is_dir() else []

# Runs of which something stays wrong: what, and why it can't be right.
EXCEPTIONS: dict[str, tuple[set[str], str]] = {
    "js/traceloop-langgraph/retry": (
        {"names", "failures", "arguments", "parallel"},
        "the failed call's span names only a class that stands for any tool; its name stands in results alone, and it "
        "gave none; the model's messages hold empty texts in place of the calls",
    ),
    "js/oaiagents-openinference-openai/retry": (
        {"failures"},
        "no tool spans, and every model call is a trace of its own without a session: that the call failed stands in "
        "what the next call was given, in another trace",
    ),
    "py/openai-v2-only/retry": (
        {"failures"},
        "no tool spans, and every model call is a trace of its own without a session; the failure is in the words of a "
        "result that the next trace was given",
    ),
}
# Facts that all runs of a recording, or the runs named, do not hold: nothing is claimed about them.
NOT_RECORDED: dict[str, dict[str, str]] = {
    "js/oaiagents-openinference-openai": {"parallel": "calls only in messages, which have no times"},
    "js/otel-instr-openai": dict.fromkeys(FACTS[:4], "no tool spans, and content goes to logs, which were not sent"),
    "js/traceloop-openai/retry": {"parallel": "the failed call has no span, hence no times"},
    "py/autogen": {
        "arguments": "not on the tool's span; a run of several agents has them in messages of other traces",
        "model calls": "no spans of model calls",
    },
    "py/crewai": {"model calls": "no spans of model calls"},
    "py/google-adk": {"arguments": "content is off"},
    "py/haystack2-native/parallel": {"parallel": "one span for all calls of a turn"},
    "py/haystack2-native/parallel_same": {"parallel": "one span for all calls of a turn"},
    "py/mcp-fastmcp": {"arguments": "not recorded"},
    "py/openai-agents-genai": {"model calls": "no spans of model calls"},
    "py/openai-v2-handmade/happy_responses": {"model calls": "the Responses API is not instrumented"},
    "py/openai-v2-handmade/parallel_responses": {"model calls": "the Responses API is not instrumented"},
    "py/openai-v2-only": {"parallel": "calls only in messages, which have no times"},
}


def expected(run: Run) -> dict[str, str]:
    verdict = dict.fromkeys(FACTS, "right")
    for key in (run.recording, run.id):
        verdict |= dict.fromkeys(NOT_RECORDED.get(key, ()), "unknown")
    if run.id in EXCEPTIONS:
        verdict |= dict.fromkeys(EXCEPTIONS[run.id][0], "wrong")
    return verdict


@pytest.fixture(scope="module")
def verdicts() -> Iterator[dict[str, dict[str, str]]]:
    found: dict[str, dict[str, str]] = {}
    yield found
    if found:
        print("\n" + table(found))
        for run, (facts, reason) in EXCEPTIONS.items():
            print(f"exception {run}: {', '.join(sorted(facts))}: {reason}")


@pytest.mark.skipif(not RUNS, reason="no recordings beside the checkout")
def test_exceptions_are_few_and_recorded() -> None:
    assert len(EXCEPTIONS) < 12
    assert set(EXCEPTIONS) <= {run.id for run in RUNS}
    known = {run.id for run in RUNS} | {run.recording for run in RUNS}
    assert set(NOT_RECORDED) <= known


@pytest.mark.skipif(not RUNS, reason="no recordings beside the checkout")
@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.id)
def test_recorded_run(run: Run, verdicts: dict[str, dict[str, str]]) -> None:
    verdicts[run.id] = judge(run)
    assert verdicts[run.id] == expected(run)


def test_comparison_tells_wrong_from_right(tmp_path: Path) -> None:
    """A recording whose truth is another one's is wrong, so the comparison does compare."""
    if not RUNS:
        pytest.skip("no recordings beside the checkout")
    run = next(r for r in RUNS if r.id == "py/pydantic-ai-v5/happy")
    other = next(r for r in RUNS if r.id == "py/pydantic-ai-v5/skipped")
    mixed = Run(run.recording, run.scenario, run.files, other.truth)
    assert judge(mixed)["names"] == "wrong"
