"""Plans that are refused: with the words that plan.md fixes, at their place, and never by a crash."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onpath.policy.plan import PlanFault, compiled, load_plan
from onpath.policy.problems import Problems
from onpath.preflight.documents import observation
from onpath.validators.plan.calls import in_sequence
from onpath.validators.plan.describe import describe
from onpath.validators.plan.model import Plan
from onpath.validators.plan.verdict import judge
from tests.conftest import FIXTURES
from tests.plan.documents import JSON, changed, plans, records

CASES = json.loads((FIXTURES / "vectors" / "plan.json").read_text(encoding="utf-8"))
CALLS = in_sequence(
    observation({"span_id": f"c{i}", "name": name, "input": {"x": 1}, "output": {"x": 1}, "start_ns": i, "end_ns": i})
    for i, name in enumerate(["save", "load", "create-thing", "pack"])
)
ANY = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def read_back() -> dict[str, Any]:
    return {
        "id": "ticket-read-back",
        "tools": {
            "open_ticket": {"mutates": True, "input": {"title": "string"}, "output": {"id": "string", "ok": "boolean"}},
            "read_ticket": {"input": {"id": "string"}, "output": {"title": "string", "state": "string"}},
        },
        "steps": [
            {"step": "open", "tool": "open_ticket", "input": {"title": {"matcher": "any"}}},
            {"step": "check", "tool": "read_ticket", "input": {"id": {"captured": "/open/output/id"}}, "after": "open"},
        ],
        "checks": [{"id": "O-001", "severity": "critical", "equality": ["/check/output/title", "/open/input/title"]}],
    }


def refused(raw: object) -> str:
    with pytest.raises(PlanFault) as caught:
        compiled(raw)
    return str(caught.value)


def with_check(check: dict[str, Any]) -> dict[str, Any]:
    return {**read_back(), "checks": [{"id": "O-1", **check}]}


def with_id(binding: object) -> dict[str, Any]:
    plan = read_back()
    plan["steps"][1]["input"]["id"] = binding
    return plan


# The three messages that the specification quotes, in the short form; the vectors have them in the native one.


def test_a_capture_off_another_channel() -> None:
    assert refused(with_id({"captured": "/open/status"})) == (
        'captured-channel-undeclared: plan!.steps[step=check].input["id"]: captured pointer "/open/status" names the '
        "response-status channel, which the referenced operation's response descriptor does not declare (AD-26)"
    )


def test_a_capture_of_another_type() -> None:
    assert refused(with_id({"captured": "/open/output/ok"})) == (
        'unreachable-check-evidence: plan!.steps[step=check].input["id"]: captured pointer "/open/output/ok" resolves '
        'to a declared "boolean", which is not the "string" the bound arguments parameter "id" is declared as'
    )


def test_a_capture_that_closes_a_circle() -> None:
    plan = read_back()
    plan["steps"][0]["input"]["title"] = {"captured": "/check/output/title"}
    assert refused(plan) == (
        'binding-cycle: plan!.steps[step=open].input["title"]: captured pointer "/check/output/title" closes a cycle '
        "over the capture and temporal-clause edges; a captured value has no earlier step to resolve from (AD-39)"
    )


@pytest.mark.parametrize(
    ("check", "said"),
    [
        ({"existence": "/check/output/colour"}, "unreachable-check-evidence: plan!.checks[id=O-1]"),
        ({"existence": "/check/output/title/x"}, "unreachable-check-evidence: plan!.checks[id=O-1]"),
        ({"existence": "/check/exit-code/x"}, "schema-parse-failure: plan!.checks[0]"),
        ({"existence": "title"}, "malformed-operator-expression: plan!.checks[id=O-1]"),
        ({"existence": "/interactions/check/response-headers/x"}, "unreachable-check-evidence"),
        ({"existence": "/interactions/check/stdout"}, "unreachable-check-evidence"),
        ({"existence": "/interactions/check/call-inputs/body/id"}, "unreachable-check-evidence"),
        ({"existence": "/interactions/check/call-inputs/nowhere"}, "schema-parse-failure: plan!.checks[0]"),
        ({"equality": ["/check/output/title"]}, "malformed-operator-expression"),
        ({"equality": ["/check/output/title", []]}, "malformed-operator-expression"),
        ({"equality": "/check/output/title"}, "schema-parse-failure: plan!.checks[0]"),
        ({"all": [{"existence": "/check/output"}]}, "malformed-operator-expression"),
        ({"not": [{"existence": "/check/output"}]}, "schema-parse-failure: plan!.checks[0]"),
        ({"regex": ["/check/output/title"]}, "malformed-operator-expression"),
        ({"regex": ["/check/output/title", "("]}, "malformed-operator-expression"),
        ({"regex": ["/check/output/title", 5]}, "schema-parse-failure: plan!.checks[0]"),
        ({"ordering": {"of": "/open/input", "key": "n"}}, "malformed-operator-expression"),
        ({"ordering": {"of": "/open/output"}}, "schema-parse-failure: plan!.checks[0].ordering.key"),
        ({"count-tolerance": {"of": "/open/output", "expected": -1}}, "malformed-operator-expression"),
        ({"count-tolerance": {"of": "/open/output", "expected": True}}, "schema-parse-failure: plan!.checks[0]"),
        ({"for-all": {"in": "/open/output/ok", "check": {"existence": "@/"}}}, "quantifier-over-non-collection"),
        (
            {"for-all": {"in": "/open/output", "check": {"for-any": {"in": "@/", "check": {"existence": "@/"}}}}},
            "quantifier-nesting-exceeded",
        ),
        ({"covers-by-key": [{"reference_set": "ids"}, "/open/output"]}, "unresolved-reference-set"),
        ({"equals": ["/check/output", 1]}, "schema-parse-failure: plan!.checks[0]: expected exactly one of the words"),
        ({"existence": "/check/output", "note": "x"}, "schema-parse-failure: plan!.checks[0].note"),
        ({}, "schema-parse-failure: plan!.checks[0]"),
    ],
)
def test_checks_that_say_nothing(check: dict[str, Any], said: str) -> None:
    assert refused(with_check(check)).startswith(said)


def test_an_operand_that_looks_like_a_pointer_but_is_none() -> None:
    compiled(with_check({"equality": ["/check/output/title", {"literal": "/open/output/x"}]}))
    compiled(with_check({"equality": ["/check/output/title", "/some/path"]}))
    assert "does not declare" in refused(with_check({"equality": ["/check/output/title", "/open/output/x"]}))


def test_a_list_is_read_up_to_its_declared_size() -> None:
    plan = read_back()
    plan["tools"]["open_ticket"] |= {"output": {"id": "string", "rows": "array"}, "collections": {"/rows": 2}}
    compiled({**plan, "checks": [{"id": "a", "existence": "/open/output/rows/1/x"}]})
    assert "at most 2" in refused({**plan, "checks": [{"id": "a", "existence": "/open/output/rows/2"}]})


def test_the_first_row_that_fails_is_told() -> None:
    """Rows run in their order over the whole plan, not step by step."""
    plan = with_id({"captured": "/open/status"})
    plan["steps"][0]["input"]["colour"] = {"matcher": "any"}
    assert refused(plan).startswith("undeclared-mandatory-input")
    assert refused({**plan, "strict": False}).startswith("captured-channel-undeclared")


def test_problems_have_the_place_and_the_kind() -> None:
    problems = Problems()
    assert load_plan(with_id({"captured": "/open/output/ok"}), problems) is None
    assert [(p.kind, p.pointer) for p in problems.errors] == [("plan-compile", "/steps/1/input/id")]
    problems = Problems()
    assert load_plan({**read_back(), "retries": 3}, problems) is None
    assert [(p.kind, p.pointer) for p in problems.errors] == [("plan-schema", "/retries")]
    problems = Problems()
    contract = {"permittedInterfaces": [], "interactionPlan": [{"stepId": "A"}]}
    assert load_plan({"contract": contract}, problems) is None
    assert [(p.kind, p.pointer) for p in problems.errors] == [("plan-schema", "/contract/interactionPlan/0/stepId")]


def test_an_anchor_that_is_not_declared_is_warned_of() -> None:
    for name, told in [("open", []), ("opne", ["; did you mean `open`?"]), ("zzz", [""])]:
        plan = read_back()
        plan["steps"][1]["after"] = name
        problems = Problems()
        assert load_plan(plan, problems) is not None
        said = f"no step is named `{name}`, so this sets no order"
        assert [(p.pointer, p.message) for p in problems.warnings] == [("/steps/1/after", said + end) for end in told]


def test_strict_inputs_can_be_left_out() -> None:
    plan = read_back()
    plan["steps"][0]["input"]["colour"] = {"matcher": "any"}
    assert load_plan(plan, Problems()) is None
    assert load_plan(plan, Problems(), strict_inputs=False) is not None


def contracts() -> list[dict[str, Any]]:
    found = list(CASES["contracts"].values())
    for case in CASES["cases"]:
        given_input = case.get("input", {})
        if given_input.get("form") == "native" and "base" in given_input:
            found.append({**CASES["contracts"][given_input["base"]], **given_input.get("overlay", {})})
        found += [given_input[key] for key in ("plan", "contract") if key in given_input]
    return found


def compiled_or_none(raw: object) -> Plan | None:
    try:
        return compiled(raw)
    except PlanFault:
        return None


def judged_without_crash(raw: object) -> None:
    plan = compiled_or_none(raw)
    if plan is None:
        return
    assert describe(plan)
    judge(plan, CALLS, complete=False)
    judge(plan, ())


@ANY
@given(JSON)
def test_any_json_is_refused_or_compiles(raw: object) -> None:
    judged_without_crash(raw)
    judged_without_crash({"contract": raw})


@ANY
@given(st.sampled_from(contracts()).flatmap(changed))
def test_changed_documents_are_refused_or_compile(raw: object) -> None:
    judged_without_crash(raw)


@ANY
@given(plans().flatmap(changed), records())
def test_changed_plans_are_refused_or_judge_any_record(raw: object, record: list[dict[str, Any]]) -> None:
    judged_without_crash(raw)


@pytest.mark.parametrize("raw", [math.nan, float("inf"), "x" * 10_000, [[]] * 100])
def test_odd_values(raw: object) -> None:
    judged_without_crash(raw)
    judged_without_crash(with_id({"literal": raw}))


def test_expressions_nest_within_bounds() -> None:
    check: dict[str, Any] = {"existence": "/check/output"}
    for _ in range(50):
        check = {"not": check}
    assert refused(with_check(check)).startswith("schema-parse-failure: plan!.checks[0]: expressions nest")
    for _ in range(5000):
        check = {"not": check}
    assert refused(with_check(check)).startswith("schema-parse-failure: plan!: nested too deep")


def test_a_contract_file_is_found_beside_the_policy(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(json.dumps({"permittedInterfaces": [], "interactionPlan": []}), encoding="utf-8")
    loaded = load_plan({"contract": "c.json", "id": "named", "order": "after_end"}, Problems(), folder=tmp_path)
    assert loaded is not None
    assert (loaded.plan.id, loaded.plan.order, loaded.plan.steps) == ("named", "after_end", ())
    for name, folder in (("../c.json", tmp_path), ("/c.json", tmp_path), ("none.json", tmp_path), ("c.json", None)):
        problems = Problems()
        assert load_plan({"contract": name}, problems, folder=folder) is None
        assert problems.errors
