"""`plan!` over scopes: what a finding names, who acted, what leaves, and what travels between processes."""

from __future__ import annotations

import pickle
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from onpath.model import Resource
from onpath.policy.model import Principal
from onpath.policy.plan import load_plan
from onpath.policy.problems import Problems
from onpath.report import Evaluation, Verdict
from onpath.steps.model import NOT_CAPTURED, Scope, Step
from onpath.validators.base import Context
from onpath.validators.plan.calls import calls_of
from onpath.validators.plan.validator import PlanValidator
from tests.plan.test_compile import read_back


def validator(raw: dict[str, Any], **fields: Any) -> PlanValidator:
    problems = Problems()
    loaded = load_plan(raw, problems)
    assert loaded is not None, problems.errors
    return replace(loaded, **fields)


def tool(name: str, span: str, start: int | None, end: int | None, **fields: Any) -> Step:
    return Step(kind="tool", name=name, span_ids=(span,), start_ns=start, end_ns=end, **fields)


def scope(*steps: Step, **fields: Any) -> Scope:
    return Scope(trace_id="0" * 31 + "1", span_id="f" * 16, steps=steps, **fields)


def wrote(start: int = 50, end: int = 90, **fields: Any) -> Step:
    given = {"input": {"title": "printer on fire"}, "output": {"id": "T-9", "ok": True}, **fields}
    return tool("open_ticket", "w", start, end, **given)


def read(start: int = 130, end: int = 150, title: str = "printer on fire", **fields: Any) -> Step:
    given = {"input": {"id": "T-9"}, "output": {"title": title, "state": "open"}, **fields}
    return tool("read_ticket", "r", start, end, **given)


def judged(raw: dict[str, Any], judged_scope: Scope, context: Context | None = None, **fields: Any) -> Evaluation:
    (made,) = validator(raw, **fields).evaluate(judged_scope, context or Context())
    return made


def test_a_clean_run_passes() -> None:
    made = judged(read_back(), scope(wrote(), read()))
    assert (made.name, made.label, made.score, made.findings) == ("plan", Verdict.PASS, Fraction(1), ())
    assert [(row.move, row.expected, row.seen, row.span_ids) for row in made.alignment] == [
        ("same", "open", "open_ticket", ("w",)),
        ("same", "check", "read_ticket", ("r",)),
    ]


def test_a_lost_field_fails_with_the_spans_named() -> None:
    made = judged(read_back(), scope(wrote(), read(title="")))
    (finding,) = made.findings
    assert (made.label, made.score) == (Verdict.FAIL, Fraction(2, 3))
    assert (finding.rule, finding.severity, finding.step) == ("check_violated", "critical", "O-001")
    assert set(finding.span_ids) == {"w", "r"}


def test_the_read_of_another_record_names_the_binding() -> None:
    made = judged(read_back(), scope(wrote(), read(input={"id": "T-1"})))
    missing = made.findings[0]
    assert (missing.rule, missing.step, missing.span_ids) == ("step_missing", "check", ("r",))
    assert 'input["id"] equals /open/output/id' in missing.message


def test_a_read_before_the_write_has_ended() -> None:
    made = judged(read_back(), scope(wrote(end=190), read(start=60, end=80)))
    assert made.label is Verdict.FAIL
    assert made.findings[0].span_ids == ("r",)
    assert made.explanation.startswith('plan "ticket-read-back": fail: step-missing:check;')


def test_an_ambiguity_offers_both_ways_out() -> None:
    made = judged(read_back(), scope(wrote(), read(), replace(read(160, 170), span_ids=("r2",))))
    assert (made.label, made.score, made.reason) == (Verdict.UNKNOWN, None, "step-ambiguous")
    (ambiguous, _) = made.findings
    assert ambiguous.span_ids == ("r", "r2")
    for part in ('step "check"', "r, r2", "cardinality: any", "binding"):
        assert part in ambiguous.message


def test_no_value_leaves_without_leave() -> None:
    raw = read_back()
    raw["checks"].append({"id": "O-2", "existence": "/open/output/ok", "expects": "violation"})
    held = scope(wrote(), read(title="secret-title"))
    for context in (Context(), Context(complete=False)):
        made = judged(raw, held, context)
        assert made.findings
        assert not any(value in repr(made) for value in ("secret-title", "printer on fire", "T-9"))
    shown = judged(raw, held, Context(capture_content=True))
    assert '"secret-title"' in shown.findings[0].message


def test_what_was_not_recorded_is_unknown() -> None:
    made = judged(read_back(), scope(wrote(output=NOT_CAPTURED), read()))
    assert (made.label, made.reason) == (Verdict.UNKNOWN, "step-unknown")
    assert judged(read_back(), scope(wrote()), Context(complete=False)).label is Verdict.UNKNOWN
    assert judged(read_back(), scope(wrote())).label is Verdict.FAIL


def test_what_was_redacted_is_unknown() -> None:
    for step in ({"output": "[REDACTED]"}, {"output": {"id": "***", "ok": True}}):
        assert judged(read_back(), scope(wrote(**step), read())).reason == "step-unknown"
    hidden = scope(wrote(input={"title": "[REDACTED]"}), read())
    assert judged(read_back(), hidden).reason == "check-blocked", "the title was sent, whatever it was"
    sent_as = scope(wrote(input={"title": "<redacted>"}, attributes={"enduser.id": "alice"}))
    assert judged(acting(), sent_as).label is Verdict.PASS
    assert judged(read_back(), scope(wrote(input="REDACTED"), read())).reason == "step-unknown"


def test_calls_in_messages_are_ordered_by_turn() -> None:
    def asked(step: Step, turn: int) -> Step:
        return replace(step, start_ns=None, end_ns=None, turn=turn, source="messages", span_ids=())

    assert judged(read_back(), scope(asked(wrote(), 1), asked(read(), 2))).label is Verdict.PASS
    assert judged(read_back(), scope(asked(wrote(), 1), asked(read(), 1))).label is Verdict.UNKNOWN
    assert judged(read_back(), scope(asked(read(), 1), asked(wrote(), 2))).label is Verdict.FAIL


def test_only_calls_that_ran_count() -> None:
    waiting = replace(read(160, 170), span_ids=("r2",), status="awaiting_approval")
    model = Step(kind="llm", name="read_ticket", start_ns=160, end_ns=170, span_ids=("m",))
    assert judged(read_back(), scope(wrote(), read(), waiting, model)).label is Verdict.PASS


def acting() -> dict[str, Any]:
    return {
        "id": "own",
        "principals": ["alice", "bob"],
        "steps": [{"step": "save", "tool": "open_ticket", "input": {"title": {"principal": "alice"}}}],
    }


LABELS = Principal(attribute=("who",), labels={"alice": ("u_1001", "a@b"), "bob": ("u_1002",), "eve": ("u_9",)})


@pytest.mark.parametrize(
    ("principal", "step", "around", "resource", "expected"),
    [
        (None, {"enduser.id": "alice"}, {}, {}, "alice"),
        (None, {"user.id": "alice"}, {}, {}, "alice"),
        (None, {"enduser.id": "u_1001", "user.id": "alice"}, {}, {}, None),
        (None, {}, {"enduser.id": "bob"}, {"user.id": "alice"}, "bob"),
        (None, {}, {}, {"user.id": "alice"}, "alice"),
        (None, {"enduser.id": ["alice"]}, {}, {}, None),
        (LABELS, {"who": "u_1001"}, {}, {}, "alice"),
        (LABELS, {"who": "alice"}, {}, {}, None),
        (LABELS, {"who": "u_9"}, {}, {}, None),
        (LABELS, {"enduser.id": "u_1001"}, {}, {"who": "a@b"}, "alice"),
    ],
)
def test_who_acted(
    principal: Principal | None,
    step: dict[str, Any],
    around: dict[str, Any],
    resource: dict[str, Any],
    expected: str | None,
) -> None:
    held = scope(wrote(attributes=step), attributes=around, resource=Resource(resource))
    (call,) = calls_of(held, frozenset({"alice", "bob"}), principal)
    assert call.principal == expected
    made = judged(acting(), held, principal=principal)
    assert made.label is (Verdict.PASS if expected == "alice" else Verdict.FAIL)
    assert "u_1001" not in repr(made)


def test_what_the_spans_say_of_a_call() -> None:
    attributes = {"http.response.status_code": 404, "process.exit.code": "2", "fastmcp.server.name": "desk"}
    status, code = (wrote(attributes=attributes, status=word) for word in ("error", "ok"))
    first, second = (calls_of(scope(step), frozenset())[0] for step in (status, code))
    assert (first.http_status, first.exit_code, first.interface, first.failed) == (404, 2, "desk", True)
    assert (second.status, second.failed) == ("ok", False)
    assert calls_of(scope(wrote(input="text", output=b"\x00")), frozenset())[0].input is None


def test_a_plan_travels() -> None:
    raw = read_back()
    raw["checks"].append({"id": "O-2", "regex": ["/check/output/title", "printer.*"]})
    loaded = validator(raw, principal=LABELS)
    sent = pickle.loads(pickle.dumps(loaded))
    held = scope(wrote(), read())
    assert sent.evaluate(held, Context()) == loaded.evaluate(held, Context())
