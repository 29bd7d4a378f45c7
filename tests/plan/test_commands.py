"""`onpath preflight` and `onpath score` over files: exit codes, messages, what is written, and `run_preflight`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from onpath.cli import main
from onpath.cli.score import MEANING
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


def test_where_there_is_nothing_to_send_it_is_said(write: Write, tmp_path: Path) -> None:
    contract_file, probes = write("c.json", {"plan!": read_back()}), write("p.json", [])
    legs = run("preflight", "--contract", contract_file, "--probes", probes, "--legs")
    assert (legs.exit_code, legs.stdout) == (0, "")
    assert legs.stderr.startswith("warning: there is nothing to send: the contract has no sensitivity witness")
    observed = write("o.json", {"observations": []})
    out = str(tmp_path / "V.json")
    judged = run("preflight", "--contract", contract_file, "--probes", probes, "--observations", observed, "--out", out)
    assert judged.exit_code == 5
    first, hint = judged.stderr.splitlines()
    assert first == "onpath: port-contract-violation: legs: no leg was answered"
    assert hint.startswith("  there is nothing to send")


def test_answers_that_do_not_fit_are_told_beside_the_requests(write: Write, tmp_path: Path) -> None:
    files = write("c.json", contract(PASSES)), write("p.json", [])
    calls = [{"span_id": str(i), "name": name} for i, name in enumerate(["other", "third", "other"])]
    observed = write("o.json", {"observations": calls})
    out = tmp_path / "V.json"
    result = run(
        "preflight", "--contract", files[0], "--probes", files[1], "--observations", observed, "--out", str(out)
    )
    assert result.stderr.splitlines() == [
        "onpath: port-contract-violation: legs: no leg was answered",
        "  asked for: 8 requests to create-thing, get-thing, reset-things; --legs prints them",
        "  recorded: 3 calls of other, third",
    ]
    assert not out.exists()


def test_one_trace_is_observed_once(write: Write, tmp_path: Path) -> None:
    files = write("c.json", contract(PASSES)), write("p.json", [])
    observed = write("o.json", {"observations": case(PASSES)["observations"]})
    out = str(tmp_path / "V.json")
    args = ("preflight", "--contract", files[0], "--probes", files[1], "--observations", observed, observed)
    result = run(*args, "--out", out)
    assert result.exit_code == 5
    assert "observations.trace_id" in result.stderr
    assert "given twice" in result.stderr


def test_a_verdict_may_go_to_standard_output(write: Write) -> None:
    files = write("c.json", contract(PASSES)), write("p.json", case(PASSES)["probes"])
    observed = write("o.json", {"observations": case(PASSES)["observations"]})
    args = ("preflight", "--contract", files[0], "--probes", files[1], "--observations", observed)
    result = run(*args, "--out", "-")
    assert (result.exit_code, json.loads(result.stdout)["passed"]) == (0, True)
    assert result.stderr.startswith("pre-flight passed: ")
    assert not Path("-").exists()


def test_a_device_is_written_to_and_not_replaced(write: Write, tmp_path: Path) -> None:
    files = write("c.json", contract(PASSES)), write("p.json", case(PASSES)["probes"])
    observed = write("o.json", {"observations": case(PASSES)["observations"]})
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    args = ("preflight", "--contract", files[0], "--probes", files[1], "--observations", observed)
    try:
        assert run(*args, "--out", str(pipe)).exit_code == 0
        assert json.loads(os.read(reader, 1 << 16))["passed"] is True
        assert pipe.is_fifo()
    finally:
        os.close(reader)
    folder = run(*args, "--out", str(tmp_path))
    assert (folder.exit_code, folder.stderr) == (5, f"onpath: {tmp_path}: Is a directory\n")


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
    file = {"probe": "p.json", "preflightVerdict": "v.json"}.get(next(iter(changed)))
    assert result.stderr.splitlines()[1:] == ([f"  at {tmp_path / file}"] if file else [])


def test_a_fault_in_one_of_several_files_names_the_file(write: Write, tmp_path: Path) -> None:
    held = case(SCORED)
    good = write("good.json", {"traces": held["trials"]})
    for name, text, said in (
        ("wrong.json", {"traces": [{"trace_id": "t9"}]}, "schema-parse-failure: trials[0].observations: "),
        ("other.json", {"spans": []}, "{path}: expected a JSON object with observations or traces"),
        ("cut.json", '{"traces": [', "{path}: not JSON: "),
    ):
        path = write(name, text)
        result = run(*score_args(write, tmp_path, held), "--record", good, path)
        assert result.exit_code == 5
        assert result.stderr.startswith(f"onpath: {said.format(path=path)}")
        assert path in result.stderr


def test_what_the_result_rests_on_is_told_in_words(write: Write, tmp_path: Path) -> None:
    held = case(SCORED)
    args = (*score_args(write, tmp_path, held), "--record", write("r.json", {"traces": held["trials"]}))
    result = run(*args)
    lines = result.stdout.splitlines()
    assert lines[0].startswith("trials: 3 ")
    assert lines[-1] == f"score of {held['probe']['probeId']}: {held['expect']['verdict']} ({tmp_path / 'A.json'})"
    assert [line.partition(": ")[0] for line in lines[1:-1]] == held["expect"]["basis"]
    scored = [c for c in CASES["cases"] if c["kind"] == "score"]
    assert {code for c in scored for code in c["expect"].get("basis", [])} <= MEANING.keys()


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
