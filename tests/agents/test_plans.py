"""Real agents file a refund and read it back; the collector judges by a plan which value went from call to call.

Every run but the first is wrong in one thing that no order of names shows: the field that was lost, the record that was
read, the moment of the read. The ledger, kept by the tools themselves, says what really happened.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.agents.conftest import ResultOf, StepsOf
from tests.agents.programs import refund
from tests.agents.support.programs import Run, run_all
from tests.agents.support.venvs import Unavailable
from tests.support.collector import Collector

pytestmark = pytest.mark.agents

Runs = Callable[[str], dict[str, Run]]

FRAMEWORKS = ("pydantic_ai", "langgraph")  # GenAI spans of the framework's own; OpenInference


@dataclass(frozen=True)
class Deserved:
    basis: tuple[str, ...] = ()  # what decides against it
    said: str = ""  # in the finding that decides
    named: tuple[str, ...] = ()  # tools whose spans that finding names, in its order


DESERVED = {
    "filed": Deserved(),
    "field_dropped": Deserved(
        ("check-violated:reason-kept",),
        "/read/output/reason equals /file/input/reason",
        ("read_refund", "file_refund"),
    ),
    "another_read": Deserved(
        ("step-missing:read",), 'input["refund_id"] equals /file/output/refund_id', ("read_refund",)
    ),
    "read_too_early": Deserved(
        ("step-missing:read",), "no call of the tool came after the call of the step it follows", ("read_refund",)
    ),
}

everywhere = pytest.mark.parametrize("framework", FRAMEWORKS)
always = pytest.mark.parametrize("scenario", refund.FILING_SCENARIOS)


@pytest.fixture(scope="module")
def filings(collector: Collector, openai: str) -> Runs:
    """The runs of a framework by scenario, made when first asked for."""
    made: dict[str, dict[str, Run]] = {}

    def runs(framework: str) -> dict[str, Run]:
        if framework not in made:
            scenarios = refund.FILING_SCENARIOS
            try:
                made[framework] = run_all(framework, collector.endpoint, openai, scenarios, task="filing")
            except Unavailable as reason:
                pytest.skip(f"{framework}: {reason}")
        return made[framework]

    return runs


@always
@everywhere
def test_it_gets_the_verdict_it_deserves(
    filings: Runs, result_of: ResultOf, steps_of: StepsOf, framework: str, scenario: str
) -> None:
    run, deserved = filings(framework)[scenario], DESERVED[scenario]
    assert (run.code, run.stderr) == (0, ""), str(run)
    result = result_of(run)
    assert (result["workflow"], result["complete"]) == ("filing", True)
    assert result["verdict"] == ("fail" if deserved.basis else "pass"), result
    [plan] = result["evaluations"]
    decided = [finding for finding in plan["findings"] if finding["severity"] != "low"]
    codes = tuple(f"{finding['rule'].replace('_', '-')}:{finding['step']}" for finding in decided)
    assert (plan["name"], codes) == ("plan", deserved.basis), result
    span_ids = {step["name"]: step["span_ids"][0] for step in steps_of(run)["steps"] if step["kind"] == "tool"}
    for finding in decided:
        assert deserved.said in finding["message"]
        assert finding["span_ids"] == [span_ids[tool] for tool in deserved.named]
    assert refund.FILE[1]["reason"] not in json.dumps(result), "a value left without capture_content"


@everywhere
def test_the_tools_did_what_the_runs_are_judged_for(filings: Runs, framework: str) -> None:
    asked = refund.FILE[1]
    for scenario, run in filings(framework).items():
        ledger = {call["tool"]: call for call in run.ledger}
        filed, read = ledger["file_refund"], ledger["read_refund"]
        lost = [key for key, value in asked.items() if read["result"].get(key) != value]
        assert lost == {"field_dropped": ["reason"], "another_read": [*asked]}.get(scenario, [])
        assert (read["args"] == {"refund_id": filed["result"]["refund_id"]}) == (scenario != "another_read")
        assert (read["start_ns"] < filed["end_ns"]) == (scenario == "read_too_early")
