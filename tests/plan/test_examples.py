"""The plans that come with the shared cases give the verdicts beside them, by the policy and by the plan itself."""

from __future__ import annotations

import json
from pathlib import Path

from onpath.cli.plan_files import read_contract
from onpath.evaluate import evaluate
from onpath.policy.load import load_policy
from onpath.recordings import read_files, traces_of
from onpath.validators.plan.describe import describe
from onpath.validators.plan.verdict import judge


def test_examples_give_the_verdicts_beside_them(shared: Path) -> None:
    folder = shared / "examples" / "plan"
    seen = 0
    for path in sorted(folder.glob("*.plan.yaml")):
        name = path.name.removesuffix(".plan.yaml")
        lines = (folder / f"{name}.expected.jsonl").read_text(encoding="utf-8").splitlines()
        expected = {entry["trace_id"]: entry for entry in map(json.loads, lines)}
        contract = read_contract(str(path), strict_inputs=True)
        policy = load_policy([path])
        assert len(describe(contract.plan)) == 1 + len(contract.plan.steps) + len(contract.plan.checks)
        for trace in traces_of(read_files([folder / f"{name}.traces.jsonl"])):
            seen += 1
            trial, wanted = contract.trial(trace), expected[trace.trace_id]
            result = judge(contract.plan, trial.calls, complete=trial.complete).as_json()
            got = {
                **{key: result[key] for key in ("verdict", "score", "basis")},
                "steps": {
                    step: {key: said[key] for key in ("state", "span", "reason")}
                    for step, said in result["steps"].items()
                },
                "checks": {check: said["resolution"] for check, said in result["checks"].items()},
            }
            assert got == {key: wanted[key] for key in got}, wanted["title"]
            (judged,) = evaluate(trace, policy).results
            assert judged.evaluations[0].label == wanted["label"], wanted["title"]
    assert seen == 14
