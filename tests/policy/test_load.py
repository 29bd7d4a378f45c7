"""Every form of policy file, what is made of it, and when two policies are one."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from onpath.globs import Glob
from onpath.policy.load import PolicyError, load_data, load_policy
from onpath.policy.model import Match, Policy, Principal
from tests.conftest import ROOT
from tests.support.policy_text import load_text

REFUND: dict[str, Any] = {
    "name": "refund",
    "description": "KYC before money moves",
    "match": {
        "service": "refund-*",
        "root": "POST /refunds*",
        "agent": "refund",
        "attributes": {"deployment.environment.name": "prod", "tenant": {"pattern!": "^eu-"}},
        "input": {"contains!": "refund"},
    },
    "agent": "refund",
    "nested": "flatten",
    "spans": ["db.*"],
    "ignore": ["get_time"],
    "aliases": {"verify_identity": ["kyc_check", "mcp__id__verify"]},
    "principal": {"attribute": "user.id", "labels": {"alice": ["u_1001"]}},
    "severity": "critical",
    "sample": 0.5,
    "capture_content": True,
    "adherence": {
        "expected_steps": ["verify_identity", "generate_report"],
        "required_steps": ["verify_identity"],
        "prohibited_steps": ["delete_records"],
        "extract_from": "tool_calls",
    },
    "seq!": ["llm", "...", {"verify_identity": {"status": {"eq!": "ok"}}}, "..."],
    "parallel!": {"tolerance": 100, "spans": ["fetch_user", "fetch_orders"]},
    "plan!": {"id": "read-back", "steps": [{"step": "open", "tool": "open_ticket"}]},
    "elapsed": {"lt!": 60000},
    "fetch_user": {"status": {"eq!": "ok"}},
    "checks": [
        {"name": "no_double_charge", "seq!": ["...", "process_payment", "..."]},
        {"name": "late", "seq!": ["..."], "output": {"contains!": "done"}, "adherence": {"expected_steps": ["A"]}},
    ],
}
POLICY = {"version": 1, "workflows": [REFUND]}


def names(policy: Policy) -> list[str]:
    return [workflow.name for workflow in policy.workflows]


def test_a_workflow_is_all_that_its_entry_says() -> None:
    (workflow,) = load_data(POLICY).workflows
    assert workflow.description == "KYC before money moves"
    assert (workflow.agent, workflow.nested, workflow.spans) == ("refund", "flatten", ("db.*",))
    assert workflow.ignore == frozenset({"get_time"})
    assert workflow.aliases == {"verify_identity": ("kyc_check", "mcp__id__verify")}
    assert workflow.principal == Principal(attribute=("user.id",), labels={"alice": ("u_1001",)})
    assert (workflow.severity, workflow.sample, workflow.capture_content) == ("critical", 0.5, True)
    match = workflow.match
    assert (match.service, match.root, match.agent) == (Glob("refund-*"), Glob("POST /refunds*"), "refund")
    assert match.attributes["deployment.environment.name"] == Glob("prod")
    assert match.attributes["tenant"]("eu-1")
    assert not match.attributes["tenant"]("us-1")
    assert match.input is not None
    assert match.input("a refund, please")
    assert match.given


def test_evaluations_have_the_names_of_their_keys_or_of_their_checks() -> None:
    (workflow,) = load_data(POLICY).workflows
    assert [check.evaluation_names for check in workflow.checks] == [
        ("workflow_adherence", "required_steps", "prohibited_steps"),
        ("seq",),
        ("parallel",),
        ("plan",),
        ("elapsed",),
        ("fetch_user",),
        ("no_double_charge",),
        ("late.seq",),
        ("late.output",),
        ("late",),
    ]


def test_defaults_hold_where_a_workflow_says_nothing() -> None:
    defaults = {"nested": "flatten", "capture_content": True, "severity": "low", "sample": 0.25, "ignore": ["log"]}
    own = {"seq!": ["a"], "nested": "agents_as_steps", "capture_content": False, "severity": "critical", "sample": 1}
    policy = load_data({"defaults": defaults, "workflows": [{"seq!": ["a"]}, {**own, "ignore": []}]}, "p")
    first, second = policy.workflows
    assert (first.nested, first.capture_content, first.severity, first.sample) == ("flatten", True, "low", 0.25)
    assert first.ignore == frozenset({"log"})
    assert (second.nested, second.capture_content, second.severity) == ("agents_as_steps", False, "critical")
    assert (second.sample, second.ignore) == (1.0, frozenset())


@pytest.mark.parametrize(
    ("text", "name", "workflows"),
    [
        ("seq!: [a]", "order.yaml", ["order"]),
        ("get_x: {status: {eq!: ok}}", "my.calls.yml", ["my.calls"]),
        ("name: own\nadherence: {expected_steps: [a]}", "file.yaml", ["own"]),
        ("- seq!: [a]\n- {name: mine, seq!: [a]}\n- seq!: [a]", "evals.yaml", ["evals-1", "mine", "evals-3"]),
        ("version: 1\nworkflows: [{seq!: [a]}]", "p.yaml", ["p-1"]),
        ('{"expected_steps": ["a"]}\n// the end\n', "payment.json", ["payment"]),
        ("expected_steps: [a]\nname: mine\nmatch: {}\nseq!: [a]\nnested: flatten", "payment.yaml", ["mine"]),
        ("plan!: {id: x, steps: []}", "read-back.plan.yaml", ["read-back.plan"]),
    ],
)
def test_other_files_load_as_they_are(text: str, name: str, workflows: list[str]) -> None:
    assert names(load_text(text, name)) == workflows


def test_a_steps_file_is_one_workflow_with_that_check() -> None:
    (workflow,) = load_text("expected_steps: [a]\nagent: x\nignore: [b]\nelapsed: {lt!: 5}", "payment.yaml").workflows
    assert [(check.key, check.agent) for check in workflow.checks] == [("adherence", "x"), ("elapsed", None)]
    assert workflow.ignore == frozenset({"b"})
    with pytest.raises(PolicyError) as caught:
        load_text("expected_steps: [a]\nthreshold: 2\nseq!: []", "payment.yaml")
    assert [p.pointer for p in caught.value.problems] == ["/threshold", "/seq!"]


CONTRACT: dict[str, Any] = {
    "interactionPlan": [
        {"stepId": "create", "operationId": "create", "inputBinding": {"arguments": None}, "after": None,
         "cardinality": "exactly-one"}
    ],
    "permittedInterfaces": [{"logicalId": "things", "kind": "mcp", "operations": [{"operationId": "create"}]}],
}  # fmt: skip


def test_a_contract_is_one_workflow_and_its_faults_are_where_it_says() -> None:
    policy = load_text(json.dumps(CONTRACT), "things.json")
    assert names(policy) == ["things"]
    assert [check.key for check in policy.workflows[0].checks] == ["plan!"]
    step = {**CONTRACT["interactionPlan"][0], "after": 5}
    with pytest.raises(PolicyError) as caught:
        load_text(json.dumps({**CONTRACT, "interactionPlan": [step]}, indent=1), "things.json")
    (problem,) = caught.value.problems
    assert problem.message.startswith("schema-parse-failure: EvalContract.interactionPlan[0].after: ")
    assert (problem.pointer, problem.line) == ("/interactionPlan/0/after", 9)
    assert caught.value.exit_code == 5


def test_an_entry_with_a_prompt_is_for_the_runs_of_that_prompt_unless_match_is_given() -> None:
    entry: dict[str, Any] = {"seq!": ["a"], "params": {"prompt": "what time is it"}}
    policy = load_data([entry, {**entry, "match": {}}, {"seq!": ["a"], "params": {"model": "m"}}])
    assert [w.match for w in policy.workflows] == [
        Match(given=False, prompt="what time is it"),
        Match(given=True),
        Match(given=False),
    ]


# --- files and folders


def write(folder: Path, **files: Any) -> Path:
    for name, content in files.items():
        stem, _, ending = name.rpartition("_")
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / f"{stem}.{ending}").write_text(text, encoding="utf-8")
    return folder


def test_a_folder_is_one_policy(tmp_path: Path) -> None:
    write(tmp_path, a_yaml="seq!: [a]", b_json={"expected_steps": ["a"]}, c_yml="- seq!: [a]", notes_txt="seq!: [")
    (tmp_path / ".hidden.yaml").write_text("seq!: [")
    (tmp_path / "sub").mkdir()
    assert names(load_policy([tmp_path])) == ["a", "b", "c-1"]
    assert names(load_policy([tmp_path / "b.json", tmp_path / "a.yaml"])) == ["b", "a"]
    files = [str(tmp_path / name) for name in ("a.yaml", "b.json", "c.yml")]
    assert load_policy([tmp_path]).files == load_policy(str(tmp_path)).files == tuple(files)
    write(tmp_path, d_yaml="name: a\nseq!: [x]")
    with pytest.raises(PolicyError, match=r"d\.yaml:1:1: /name: a second workflow named `a` \(the first is in .*a\.y"):
        load_policy([tmp_path])


def test_a_contract_lies_beside_the_policy_and_counts_with_its_content(tmp_path: Path) -> None:
    write(tmp_path, p_yaml="name: p\nplan!: {contract: things.json}", things_json=CONTRACT)
    alone = load_policy([tmp_path / "p.yaml"])
    assert alone.files == (str(tmp_path / "p.yaml"), str((tmp_path / "things.json").resolve()))
    assert names(load_policy([tmp_path])) == ["p"]  # the contract is part of the policy, no workflow beside it
    assert alone.fingerprint == load_data({"name": "p", "plan!": {"contract": CONTRACT}}).fingerprint
    other = {**CONTRACT, "contractId": "other"}
    write(tmp_path, things_json=other)
    assert load_policy([tmp_path / "p.yaml"]).fingerprint != alone.fingerprint


def test_a_fault_in_a_contract_has_its_place_in_the_contract(tmp_path: Path) -> None:
    step = {**CONTRACT["interactionPlan"][0], "cardinality": "two"}
    contract = json.dumps({**CONTRACT, "interactionPlan": [step]}, indent=1)
    write(tmp_path, p_yaml="name: p\nchecks: [{name: c, plan!: {contract: things.json}}]", things_json=contract)
    with pytest.raises(PolicyError) as caught:
        load_policy([tmp_path / "p.yaml"])
    (problem,) = caught.value.problems
    assert problem.file == str(tmp_path / "things.json")
    assert (problem.pointer, problem.line) == ("/interactionPlan/0/cardinality", 10)
    assert caught.value.exit_code == 5


@pytest.mark.parametrize(
    ("contract", "told"),
    [
        ("../outside.json", "lies outside the folder of the policy file"),
        ("sub/../../outside.json", "lies outside the folder of the policy file"),
        ("link.json", "lies outside the folder of the policy file"),
        ("linked/outside.json", "lies outside the folder of the policy file"),
        ("/etc/passwd", "not by an absolute path"),
        ("none.json", "can't be read: No such file or directory"),
        ("loop.json", "can't be read"),
        ("a\0b", "can't be read"),
        ("sub", "is no regular file"),
    ],
)
def test_a_contract_never_comes_from_outside(tmp_path: Path, contract: str, told: str) -> None:
    home = tmp_path / "home"
    (home / "sub").mkdir(parents=True)
    write(tmp_path, outside_json=CONTRACT)
    (home / "link.json").symlink_to(tmp_path / "outside.json")
    (home / "linked").symlink_to(tmp_path)
    (home / "loop.json").symlink_to(home / "loop.json")
    with pytest.raises(PolicyError) as caught:
        load_text(json.dumps({"plan!": {"contract": contract}}), "p.json", home)
    (problem,) = caught.value.problems
    assert told in problem.message
    assert (problem.pointer, problem.file) == ("/plan!/contract", "p.json")


def test_links_inside_the_folder_lead_to_a_contract(tmp_path: Path) -> None:
    data = tmp_path / "..2026"  # a mounted ConfigMap: the files are links through a link
    data.mkdir()
    write(data, things_json=CONTRACT, p_yaml="plan!: {contract: things.json}")
    (tmp_path / "..data").symlink_to("..2026")
    for name in ("things.json", "p.yaml"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    assert names(load_policy([tmp_path])) == ["p"]
    assert names(load_policy([tmp_path / "p.yaml"])) == ["p"]


def test_a_contract_that_is_no_json_is_a_schema_fault_of_the_plan(tmp_path: Path) -> None:
    write(tmp_path, p_yaml="plan!: {contract: things.json}", things_json="{")
    with pytest.raises(PolicyError) as caught:
        load_policy([tmp_path / "p.yaml"])
    assert caught.value.exit_code == 5
    assert str(caught.value).startswith("schema-parse-failure: EvalContract: not JSON: ")


def test_a_policy_in_no_file_names_no_contract() -> None:
    with pytest.raises(PolicyError, match="this policy is in none"):
        load_data({"plan!": {"contract": "things.json"}})


# --- one policy, written in different ways


def shuffled(draw: st.DrawFn, value: Any) -> Any:
    if isinstance(value, dict):
        keys = draw(st.permutations(list(value)))
        return {key: shuffled(draw, value[key]) for key in keys}
    return [shuffled(draw, inner) for inner in value] if isinstance(value, list) else value


@st.composite
def rewritten(draw: st.DrawFn) -> tuple[str, str]:
    """The policy with its keys in another order, in one of the spellings of one text."""
    data = shuffled(draw, POLICY)
    if draw(st.booleans()):
        return "// a comment\n" + json.dumps(data, indent=draw(st.sampled_from([None, 1, 4]))), "p.json"
    flow = draw(st.sampled_from([None, True, False]))
    return "# a comment\n" + yaml.safe_dump(data, sort_keys=False, default_flow_style=flow), "other.yaml"


@settings(max_examples=40, deadline=None)
@given(rewritten())
def test_the_fingerprint_is_of_what_is_meant(spelling: tuple[str, str]) -> None:
    text, name = spelling
    assert load_text(text, name).fingerprint == load_data(POLICY).fingerprint


@pytest.mark.parametrize(
    "same",
    [
        {**REFUND, "description": "other words", "tags": ["x"], "timeout": 5},
        {**REFUND, "sample": 0.50, "spans": ["db.*", "db.*"]},
        {**REFUND, "elapsed": {"lt!": 60000.0}},
        {**REFUND, "principal": {"attribute": ["user.id"], "labels": {"alice": ["u_1001"]}}},
    ],
)
def test_what_changes_no_verdict_changes_no_fingerprint(same: dict[str, Any]) -> None:
    assert load_data([same]).fingerprint == load_data([REFUND]).fingerprint


@pytest.mark.parametrize(
    "key", ["name", "match", "agent", "nested", "spans", "ignore", "aliases", "principal", "severity", "sample",
            "capture_content", "adherence", "seq!", "parallel!", "plan!", "elapsed", "fetch_user", "checks"]
)  # fmt: skip
def test_every_key_counts(key: str) -> None:
    other = {k: v for k, v in REFUND.items() if k != key}
    assert load_data([other]).fingerprint != load_data([REFUND]).fingerprint


def test_defaults_and_files_are_ways_of_writing_it(tmp_path: Path) -> None:
    one = load_data({"defaults": {"sample": 0.5}, "workflows": [{"name": "a", "seq!": ["x"]}, {"name": "b", "x": {
        "status": {"eq!": "ok"}}}]})  # fmt: skip
    write(tmp_path, b_yaml="x: {status: {eq!: ok}}\nsample: 0.5", a_yaml="seq!: [x]\nsample: 0.5")
    assert load_policy([tmp_path]).fingerprint == one.fingerprint


def test_a_policy_travels_to_other_processes() -> None:
    policy = load_data(POLICY)
    received = pickle.loads(pickle.dumps(policy))
    assert received.fingerprint == policy.fingerprint
    assert received.workflows[0].match.attributes["tenant"]("eu-2")
    assert [check.evaluation_names for check in received.workflows[0].checks] == [
        check.evaluation_names for check in policy.workflows[0].checks
    ]


@pytest.mark.parametrize("path", sorted((ROOT / "deploy" / "policies").glob("*.yaml")), ids=lambda p: p.name)
def test_the_example_policies_load_without_a_warning(path: Path) -> None:
    assert load_policy([path]).warnings == ()


# --- whatever is in a file


keys = st.sampled_from([*REFUND, *POLICY, "defaults", "any!", "expected_steps", "interactionPlan", "params", "prompt",
                        "spans", "contract", "tool:x", "eq!", "a", ""])  # fmt: skip
REFUND_LINES = [*yaml.safe_dump([REFUND]).splitlines(), "- seq!: [a]", "{", "&a [*a]", "? x", "// y", "\t"]

words = st.sampled_from(["llm", "...", "1..2", "a", "", "("])
scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.floats() | words
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4), max_leaves=20
)


@settings(max_examples=300, deadline=None)
@given(anything)
def test_any_data_is_a_policy_or_is_refused_with_reasons(data: Any) -> None:
    error: PolicyError | None = None
    try:
        policy = load_data(data)
    except PolicyError as refusal:
        error = refusal
    if error is not None:
        assert error.problems
        assert error.exit_code in (2, 4, 5)
        return
    assert policy.workflows
    assert all(workflow.checks for workflow in policy.workflows)
    pickle.loads(pickle.dumps(policy))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(REFUND_LINES), max_size=12), st.sampled_from(["p.yaml", "p.json", "p"]))
def test_any_text_is_a_policy_or_is_refused_with_places(lines: list[str], name: str) -> None:
    text = "\n".join(lines)
    try:
        load_text(text, name)
    except PolicyError as error:
        told = error.problems
    else:
        told = ()
    assert all(p.file == name and (p.line is None or 1 <= p.line <= len(lines) + 1) for p in told)
