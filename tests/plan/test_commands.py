"""`onpath preflight` and `onpath score` over files: exit codes, messages, what is written, and `run_preflight`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from onpath.cli import main
from onpath.policy.plan import PlanFault
from onpath.preflight import run_preflight
from tests.conftest import FIXTURES
from tests.plan.test_compile import read_back

CASES = json.loads((FIXTURES / "vectors" / "plan.json").read_text(encoding="utf-8"))
Write = Callable[[str, Any], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def put(name: str, value: Any) -> str:
        path = tmp_path / name
        path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
        return str(path)

    return put


def run(*args: str, stdin: str = "") -> Result:
    return CliRunner().invoke(main, args, input=stdin)


def case(case_id: str) -> dict[str, Any]:
    (found,) = (case for case in CASES["cases"] if case["id"] == case_id)
    return dict(found)


def contract(case_id: str) -> dict[str, Any]:
    given = case(case_id)["input"]
    return {**CASES["contracts"][given["base"]], **given.get("overlay", {})}


# --- preflight

PASSES = "pre-api-03"
LEGS = (
    "create-witness-a", "create-witness-b", "get-witness-a", "get-witness-b", "preflight-control-observe",
    "preflight-control-mutate", "reset-the-store", "preflight-control-observe-2",
)  # fmt: skip


def test_preflight_writes_the_verdict(write: Write, tmp_path: Path) -> None:
    held, out = case(PASSES), tmp_path / "V.json"
    contract_file, probes = write("c.json", contract(PASSES)), write("p.json", held["probes"])
    observed = write("o.json", {"observations": held["observations"]})
    args = ("--contract", contract_file, "--probes", probes, "--observations", observed, "--out", str(out))
    first = run("preflight", *args, "--run-id", "run-1")
    assert (first.exit_code, first.stderr) == (0, "")
    written = out.read_bytes()
    verdict = json.loads(written)
    assert verdict["passed"] is True
    assert verdict["fixtureDigest"] == held["expect"]["fixtureDigest"]
    assert verdict["checks"] == held["expect"]["checks"]
    assert list(verdict) == sorted(verdict)
    run("preflight", *args, "--run-id", "run-1")
    assert out.read_bytes() == written


def test_preflight_that_does_not_pass_ends_with_3(write: Write, tmp_path: Path) -> None:
    held, out = case("pre-11"), tmp_path / "V.json"
    files = write("c.json", contract("pre-11")), write("p.json", {"probes": held["probes"]})
    observed = [write(f"{i}.json", {"observations": [o]}) for i, o in enumerate(held["observations"])]
    result = run(
        "preflight", "--contract", files[0], "--probes", files[1], "--out", str(out), "--observations", *observed
    )
    assert result.exit_code == 3
    assert "failed: clean-control: anomalous: preflight-control-observe" in result.stdout
    assert json.loads(out.read_text())["runId"] is None


def test_legs_are_printed_in_order(write: Write) -> None:
    files = write("c.json", contract(PASSES)), write("p.json", [])
    result = run("preflight", "--contract", files[0], "--probes", files[1], "--legs")
    legs = [json.loads(line) for line in result.stdout.splitlines()]
    assert (result.exit_code, len(legs)) == (0, 8)
    assert legs[0] == {
        "legId": "create-witness-a",
        "purpose": "sensitivity",
        "interfaceId": "store",
        "operationId": "create-thing",
        "name": "create-thing",
        "inputs": {"body": {"name": "alpha"}},
    }


async def test_a_harness_is_asked_leg_by_leg() -> None:
    held = case(PASSES)
    answers = dict(zip(LEGS, held["observations"], strict=True))
    asked: list[str] = []

    async def port(leg: Mapping[str, Any]) -> Mapping[str, Any] | None:
        asked.append(leg["legId"])
        answer = answers[leg["legId"]]
        return {key: answer[key] for key in ("output", "status", "http_status")}

    result = await run_preflight(contract(PASSES), held["probes"], port, run_id="run-1")
    assert asked == list(answers)
    assert result["fixtureDigest"] == held["expect"]["fixtureDigest"]
    assert result["passed"] is True


async def test_a_harness_that_answers_nothing() -> None:
    async def port(leg: Mapping[str, Any]) -> None:
        return None

    with pytest.raises(PlanFault, match="port-contract-violation: legs: no leg was answered"):
        await run_preflight(contract(PASSES), [], port)


# --- score

SCORED = "score-09"


def score_args(write: Write, tmp_path: Path, held: dict[str, Any]) -> tuple[str, ...]:
    return (
        "score", "--contract", write("c.json", contract(SCORED)), "--probe", write("p.json", held["probe"]),
        "--preflight-verdict", write("v.json", held["preflightVerdict"]), "--policy", write("s.json", {}),
        "--out", str(tmp_path / "A.json"),
    )  # fmt: skip


def test_score_writes_the_artifact(write: Write, tmp_path: Path) -> None:
    held = case(SCORED)
    record = write("r.json", {"traces": held["trials"]})
    manifest = write("m.json", "anything")
    args = (*score_args(write, tmp_path, held), "--isolation-manifest", manifest, "--corpus-digest", "sha256:1")
    result = run(*args, "--record", record)
    assert (result.exit_code, result.stderr) == (0, "")
    artifact = json.loads((tmp_path / "A.json").read_text())
    assert {key: artifact[key] for key in ("outcome", "strength", "verdict", "basis")} == {
        key: held["expect"][key] if key != "strength" else artifact[key]
        for key in ("outcome", "strength", "verdict", "basis")
    }
    assert artifact["isolationManifestDigest"].startswith("sha256:")
    assert (artifact["evaluatorConfigurationDigest"], artifact["corpusDigest"]) == (None, "sha256:1")
    assert [trial["trace_id"] for trial in artifact["trials"]] == ["t0", "t1", "t2"]
    assert run(*args, "--record", record, "--strict").exit_code == 0, "an outcome that was not applicable is mild"


def test_score_reads_traces(write: Write, tmp_path: Path, shared: Path) -> None:
    """The trace whose stored title was lost, under a policy file: the planted fault is caught."""
    held, folder = case(SCORED), shared / "examples" / "plan"
    verdict = {**held["preflightVerdict"]}
    del verdict["contractDigest"]
    policy = (folder / "ticket-read-back.plan.yaml").read_text(encoding="utf-8")
    lost = (folder / "ticket-read-back.traces.jsonl").read_text(encoding="utf-8").splitlines()[1]
    args = (
        "score", "--contract", write("read-back.yaml", policy), "--probe", write("p.json", held["probe"]),
        "--preflight-verdict", write("v.json", verdict), "--policy", write("s.json", {"minimumTrialCount": 1}),
        "--out", str(tmp_path / "A.json"), "--traces", write("t.jsonl", lost),
    )  # fmt: skip
    assert run(*args).exit_code == 0
    artifact = json.loads((tmp_path / "A.json").read_text())
    assert (artifact["contractId"], artifact["verdict"], artifact["outcome"]) == ("ticket-read-back", "pass", "caught")
    (trial,) = artifact["trials"]
    assert (trial["state"], trial["cited"]) == ("caught", ["0000000000000004", "0000000000000002"])
    twice = run(*args[:-1], args[-1], args[-1])
    assert twice.exit_code == 5
    assert twice.stderr.startswith("onpath: schema-parse-failure: trials.trace_id:")


@pytest.mark.parametrize(
    ("changed", "code", "said"),
    [
        ({"probe": {"oracleId": "O-9"}}, 4, "unreachable-check-evidence: probe.oracleId"),
        ({"probe": {"defects": []}}, 5, "schema-parse-failure: probe.defects"),
        ({"probe": {"class": "other"}}, 5, "schema-parse-failure: probe.class"),
        ({"preflightVerdict": {"passed": None}}, 5, "schema-parse-failure: preflightVerdict.passed"),
        ({"trials": []}, 5, "schema-parse-failure: trials"),
    ],
)
def test_faults_beside_the_plan(write: Write, tmp_path: Path, changed: dict[str, Any], code: int, said: str) -> None:
    held = case(SCORED)
    for key, value in changed.items():
        held[key] = {**held[key], **value} if isinstance(value, dict) else value
    result = run(*score_args(write, tmp_path, held), "--record", write("r.json", {"traces": held["trials"]}))
    assert result.exit_code == code
    assert result.stderr.startswith(f"onpath: {said}")
    assert not (tmp_path / "A.json").exists()


def test_a_refused_preflight_gives_an_invalid_verdict(write: Write, tmp_path: Path) -> None:
    held = case(SCORED)
    held["preflightVerdict"]["runId"] = "another"
    args = (*score_args(write, tmp_path, held), "--record", write("r.json", {"traces": held["trials"]}))
    assert run(*args, "--run-id", "run-1").exit_code == 3
    artifact = json.loads((tmp_path / "A.json").read_text())
    assert (artifact["verdict"], artifact["basis"], artifact["trials"]) == ("invalid", ["preflight-run-mismatch"], [])


# --- both


@pytest.mark.parametrize(
    "args",
    [
        ("preflight",),
        ("preflight", "--contract", "c", "--probes", "p"),
        ("preflight", "--contract", "c", "--probes", "p", "--legs", "--out", "v"),
        ("preflight", "--contract", "c", "--probes", "p", "--observations", "o"),
        ("preflight", "--contract", "c", "--probes", "p", "--legs", "stray"),
        ("score", "--contract", "c", "--probe", "p", "--preflight-verdict", "v", "--policy", "s", "--out", "a"),
        ("score", "--nothing"),
    ],
)
def test_wrong_use_ends_with_64(args: tuple[str, ...]) -> None:
    assert run(*args).exit_code == 64


def test_contracts_that_are_refused(write: Write) -> None:
    nested = read_back()
    nested["steps"].append({"step": "third", "tool": "read_ticket", "after": "check"})
    probes = write("p.json", [])
    for document, code, said in (
        ({"plan!": nested}, 4, "onpath: nested-temporal-clause: plan!.steps[step=third].after: "),
        ({"plan!": {**read_back(), "x": 1}}, 5, "onpath: schema-parse-failure: plan!.x: this field is not known"),
        ({"interactionPlan": []}, 5, "onpath: schema-parse-failure: EvalContract.permittedInterfaces: "),
        ({"workflows": []}, 5, "onpath: "),
        ("{", 5, "onpath: "),
    ):
        result = run("preflight", "--contract", write("c.json", document), "--probes", probes, "--legs")
        assert (result.exit_code, result.stderr.startswith(said)) == (code, True), result.stderr
    assert run("preflight", "--contract", "nowhere.json", "--probes", probes, "--legs").exit_code == 5


def test_a_policy_with_more_than_one_plan(write: Write) -> None:
    two = {"workflows": [{"name": name, "plan!": read_back()} for name in ("a", "b")]}
    result = run("preflight", "--contract", write("c.json", two), "--probes", write("p.json", []), "--legs")
    assert result.exit_code == 5
    assert "found 2 plans" in result.stderr


def test_undeclared_inputs_can_be_admitted(write: Write) -> None:
    plan = read_back()
    plan["steps"][0]["input"]["colour"] = {"matcher": "any"}
    args = ("preflight", "--contract", write("c.json", {"plan!": plan}), "--probes", write("p.json", []), "--legs")
    assert run(*args).exit_code == 4
    assert run(*args, "--no-strict-inputs").exit_code == 0


def test_nothing_is_left_where_nothing_can_be_written(write: Write, tmp_path: Path) -> None:
    held = case(PASSES)
    files = write("c.json", contract(PASSES)), write("p.json", [])
    observed = write("o.json", {"observations": held["observations"]})
    out = tmp_path / "missing" / "V.json"
    result = run(
        "preflight", "--contract", files[0], "--probes", files[1], "--observations", observed, "--out", str(out)
    )
    assert result.exit_code == 5
    assert not out.parent.exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_contract_file_stays_in_its_folder(write: Write, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    write("contract.json", contract(SCORED))
    write("inner/contract.json", contract(SCORED))
    probes = write("p.json", [])
    inside = write("inner/ok.yaml", "plan!: {contract: contract.json, id: named}\n")
    outside = write("inner/bad.yaml", "plan!: {contract: ../contract.json}\n")
    assert run("preflight", "--contract", inside, "--probes", probes, "--legs").exit_code == 0
    result = run("preflight", "--contract", outside, "--probes", probes, "--legs")
    assert result.exit_code == 5
    assert "outside the folder" in result.stderr
