"""The check as a whole: what counts, what is unknown, what is said and found."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest

from onpath.model import NOT_CAPTURED
from onpath.report import Evaluation, Verdict
from onpath.steps.model import Scope, Step
from onpath.validators.adherence import Adherence
from onpath.validators.base import Context

SECOND = 1_000_000_000


def tool(name: str | None, at: int = 0, status: Any = "ok", given: Any = NOT_CAPTURED, length: int = 1) -> Step:
    return Step(
        kind="tool",
        name=name,
        status=status,
        input=given,
        start_ns=at * SECOND,
        end_ns=(at + length) * SECOND,
        span_ids=(f"s{at}",),
    )


def in_turn(*names: str | None) -> list[Step]:
    return [tool(name, at) for at, name in enumerate(names)]


def llm(*finish_reasons: str) -> Step:
    return Step(kind="llm", name="llm", start_ns=0, end_ns=1, finish_reasons=finish_reasons)


def judge(
    expected: Sequence[str],
    steps: Sequence[Step] = (),
    *,
    context: Context | None = None,
    scope: dict[str, Any] | None = None,
    **config: Any,
) -> dict[str, Evaluation]:
    check = Adherence(
        expected_steps=tuple(expected),
        extract_from=config.pop("extract_from", "tool_calls"),
        **{k: tuple(v) if isinstance(v, list) else v for k, v in config.items()},
    )
    seen = Scope(trace_id="1" * 32, span_id="1" * 16, steps=tuple(steps), **(scope or {}))
    return {e.name: e for e in check.evaluate(seen, context or Context())}


def adherence(*args: Any, **more: Any) -> Evaluation:
    return judge(*args, **more)["workflow_adherence"]


# ------------------------------------------------------------------ what counts


def test_only_tool_steps_count() -> None:
    others = [
        llm(),
        Step(kind="agent", name="a", start_ns=2, end_ns=3),
        Step(kind="span", name="b", start_ns=4, end_ns=5),
    ]
    assert adherence("ab", [*others, *in_turn("a", "b")]).data["extracted"] == ("a", "b")


def test_an_entry_has_the_place_and_the_spans_of_its_attempts() -> None:
    steps = [tool("pay", 0, "error", 1), tool("log", 2), tool("pay", 4, "error", 1), tool("pay", 6, "ok", 1)]
    made = adherence(["log", "pay"], steps)
    assert made.data["extracted"] == ("log", "pay")
    assert made.data["retries"] == 2
    assert [row.span_ids for row in made.alignment] == [("s2",), ("s0", "s4", "s6")]


def test_retries_compare_names_as_the_check_does() -> None:
    steps = [tool("Pay", 0, "error", 1), tool("pay_it", 2, "ok", 1)]
    aliases = {"pay": ("pay_it",)}
    assert adherence(["pay"], steps, aliases=aliases, normalise=["casefold"]).data["extracted"] == ("pay",)
    assert adherence(["pay"], steps, aliases=aliases).data["failed"] == ("Pay",)


def test_failed_calls_that_count_are_not_listed_as_failed() -> None:
    steps = [tool("a", 0, "error"), tool("wipe", 2, "error"), tool("x", 4, "error")]
    made = judge("a", steps, prohibited_steps=["wipe"])
    assert made["workflow_adherence"].data["extracted"] == ("wipe",)
    assert made["workflow_adherence"].data["failed"] == ("a", "x")
    assert made["prohibited_steps"].label is Verdict.FAIL
    assert adherence("a", steps, prohibited_steps=["wipe"], count_failed=True).data["failed"] == ()


def test_calls_that_never_ran_wait() -> None:
    steps = [tool("a", 0, "awaiting_approval"), tool("wipe", 2, "cancelled"), tool(None, 4, "cancelled")]
    made = judge("a", steps, prohibited_steps=["wipe"])
    assert made["workflow_adherence"].data["waiting"] == ("a", "wipe", None)
    assert made["workflow_adherence"].data["extracted"] == ()
    assert made["prohibited_steps"].label is Verdict.PASS
    assert "awaiting approval a, wipe, (no name)." in made["workflow_adherence"].explanation


def test_steps_found_in_messages_are_messages() -> None:
    steps = [Step(kind="tool", name=n, source="messages", span_ids=("model",)) for n in ("a", "wipe")]
    made = adherence("a", steps, prohibited_steps=["wipe"])
    assert made.data["source"] == "messages"
    assert "Prohibited: found wipe." in made.explanation
    assert not made.order_undetermined


def test_ignored_tools_are_no_reason_to_look_into_messages() -> None:
    messages = [{"role": "assistant", "tool_calls": [{"name": "get_time"}]}]
    scope = {"ignored": tuple(in_turn("get_time")), "output_messages": messages}
    made = adherence(["a"], [llm("tool_calls")], scope=scope)
    assert (made.score, made.data["extracted"], made.data["source"]) == (Fraction(1, 10), (), "spans")


# ------------------------------------------------------------------ unknown


@pytest.mark.parametrize("reasons", [("stop",), ("end_turn", "STOP"), ("length",)])
def test_finish_reasons_can_show_that_no_tool_was_called(reasons: tuple[str, ...]) -> None:
    made = adherence("a", [llm(*reasons), llm("stop")])
    assert (made.label, made.score, made.data["source"]) == (Verdict.FAIL, Fraction(1, 10), "spans")


@pytest.mark.parametrize("reason", ["tool_calls", "Tool-Calls", "tool_call", "TOOL_USE", "toolUse", "function_call"])
def test_finish_reasons_can_show_that_one_was_asked_for(reason: str) -> None:
    assert adherence("a", [llm("stop"), llm("stop", reason)]).reason == "tool_calls_not_captured"


@pytest.mark.parametrize(
    ("steps", "scope", "reason"),
    [
        ([], {}, "no_steps"),
        ([], {"output_messages": []}, "no_steps"),
        ([], {"output_messages": ["[{"]}, "tool_calls_not_captured"),
        ([llm()], {}, "tool_calls_not_captured"),
        ([llm(), llm("stop")], {"output_messages": []}, "tool_calls_not_captured"),
        ([Step(kind="agent", name="x", start_ns=0, end_ns=1)], {}, "tool_calls_not_captured"),
        (in_turn("a", " "), {}, "tool_names_not_captured"),
        (in_turn("a", "[redacted]"), {}, "tool_names_not_captured"),
        ([tool("a"), tool(None, 2, "error")], {}, "tool_names_not_captured"),
    ],
)
def test_reasons(steps: list[Step], scope: dict[str, Any], reason: str) -> None:
    made = judge("a", steps, scope=scope, required_steps=["r"], prohibited_steps=["p"])
    assert {e.label for e in made.values()} == {Verdict.UNKNOWN}
    assert {e.score for e in made.values()} == {None}
    assert {e.reason for e in made.values()} == {reason}
    assert all(e.explanation.startswith("Unknown: ") and not e.findings for e in made.values())


@pytest.mark.parametrize(
    ("output", "reason"),
    [(NOT_CAPTURED, "output_not_captured"), (" ***** ", "output_redacted"), ("", None), (None, None)],
)
def test_reasons_of_an_output(output: Any, reason: str | None) -> None:
    made = adherence("a", extract_from="output", scope={"output": output})
    assert made.reason == reason
    assert made.score == (None if reason else Fraction(1, 10))


def test_what_is_certain_is_said_although_a_name_is_missing() -> None:
    made = judge("ab", in_turn("a", None, "wipe"), required_steps=["a"], prohibited_steps=["wipe"])
    assert [(e.label, e.score) for e in made.values()] == [
        (Verdict.UNKNOWN, None),
        (Verdict.PASS, Fraction(1)),
        (Verdict.FAIL, Fraction(0)),
    ]
    assert made["workflow_adherence"].data["extracted"] == ("a", None, "wipe")
    (finding,) = made["prohibited_steps"].findings
    assert (finding.rule, finding.step, finding.span_ids) == ("prohibited_called", "wipe", ("s2",))
    assert made["prohibited_steps"].explanation == "Prohibited: found wipe (span s2)."


# ------------------------------------------------------------------ what is said


def test_sentences_in_their_order() -> None:
    steps = [
        tool("a", 0, length=5), tool("b", 1, length=5), tool("wipe", 10), tool("wipe", 12, "error", 1),
        tool("wipe", 14, "ok", 1), tool("c", 16, "error"), tool("d", 18, "awaiting_approval"),
    ]  # fmt: skip
    made = judge(
        ["a", "b", "c"], steps, required_steps=["c", "q"], prohibited_steps=["wipe"], context=Context(complete=False)
    )
    assert made["workflow_adherence"].explanation == (
        "Extracted (4, spans): a, b, wipe, wipe. Order: LCS 2/3, matched a, b. "
        "Required: 0/2, missing c (attempted, failed), q. Prohibited: found wipe (span s10, s12, s14). Extra steps: 2. "
        "Not counted: failed c; awaiting approval d. "
        "Repair: insert c after step 2; insert q anywhere; delete step 3 (wipe); delete step 4 (wipe). "
        "Order undetermined: steps that overlap would change the score. Incomplete trace."
    )
    assert made["required_steps"].explanation == ("Required: 0/2, missing c (attempted, failed), q. Incomplete trace.")


def test_lists_show_twenty_names() -> None:
    steps = in_turn(*(f"x{i}" for i in range(23)))
    explanation = adherence(["a"], steps, strict_order=True).explanation
    assert ", x18, x19 and 3 more. Order: strict, differs (LCS 0/1, matched none)." in explanation
    assert adherence(["x0"], in_turn("x0"), strict_order=True).explanation == (
        "Extracted (1, spans): x0. Order: strict, as expected. Extra steps: 0. Repair: none."
    )


def test_names_in_an_answer_are_pieces_of_it() -> None:
    answer = "- Jane Roe\n- a\n- Jane Roe"
    scope = {"output": answer}
    hidden = adherence("a", extract_from="output", scope=scope, strict_order=True)
    shown = adherence("a", extract_from="output", scope=scope, strict_order=True, context=Context(capture_content=True))
    assert "Jane" not in hidden.explanation + repr(hidden.findings) + repr(hidden.alignment)
    assert [f.step for f in hidden.findings] == ["(other)", "(other)"]
    assert [r.seen for r in hidden.alignment] == ["(other)", "a", "(other)"]
    assert [f.step for f in shown.findings] == ["Jane Roe", "Jane Roe"]
    assert hidden.data["extracted"] == shown.data["extracted"] == ("Jane Roe", "a", "Jane Roe")
    assert "Repair: delete step 1 (other); delete step 3 (other)." in hidden.explanation
    assert "Extracted (0, output): none." in adherence("a", extract_from="output", scope={"output": "no"}).explanation


# ------------------------------------------------------------------ what is found


def test_findings_name_the_spans() -> None:
    steps = [tool("b", 0), tool("a", 2), tool("x", 4), tool("c", 6, "error", 1), tool("c", 8, "error", 1)]
    made = judge("abc", steps, strict_order=True, required_steps=["c"])
    found = [(f.rule, f.step, f.span_ids) for e in made.values() for f in e.findings]
    assert found == [
        ("moved_step", "b", ("s0",)),
        ("missing_step", "c", ()),
        ("extra_step", "x", ("s4",)),
        ("required_missing", "c", ("s6", "s8")),
    ]
    rows = [(r.move, r.expected, r.seen) for r in made["workflow_adherence"].alignment]
    assert rows == [("same", "a", "a"), ("moved", "b", "b"), ("missing", "c", None), ("extra", None, "x")]
    assert [(r.move, r.expected) for r in made["required_steps"].alignment] == [("missing", "c")]


def test_severity_is_that_of_the_workflow() -> None:
    made = judge("a", in_turn("x"), prohibited_steps=["x"], context=Context(severity="critical"))
    assert {f.severity for e in made.values() for f in e.findings} == {"critical"}


def test_findings_of_evaluations_that_are_not_made_go_to_a_failed_score() -> None:
    steps = in_turn("b", "wipe")
    common = {"required_steps": ["a"], "prohibited_steps": ["wipe"], "gates": []}
    made = adherence("ab", steps, threshold=Fraction(1), **common)
    assert [f.rule for f in made.findings] == ["missing_step", "required_missing", "prohibited_called"]
    assert adherence("ab", steps, threshold=Fraction(0), **common).findings == ()


def test_long_alignments_are_cut() -> None:
    many = "\n".join(f"- x{i}" for i in range(5_000)) + "\n- a"
    made = adherence("a", extract_from="output", scope={"output": many}, strict_order=True)
    assert len(made.findings) == 5_000
    assert len(made.alignment) == 2_001
