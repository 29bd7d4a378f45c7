"""Value trees: what each validator says of each JSON type, of what is missing and of what was not captured."""

from __future__ import annotations

import json
import pickle
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onpath.report import Evaluation
from onpath.steps.model import NOT_CAPTURED, Attempt, Scope, Step, StepError
from onpath.validators.base import Context
from onpath.values.dates import instant
from onpath.values.equality import equal
from onpath.values.outcome import Truth
from onpath.values.text import is_email, is_json
from tests.flow import cases

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
TYPICAL = {
    "null": None,
    "boolean": True,
    "integer": 7,
    "float": 7.5,
    "text": "abc",
    "array": ["abc", 7],
    "object": {"abc": 7},
}


def judged(tree: dict[str, Any], output: Any, **context: Any) -> Evaluation:
    scope = Scope(trace_id="t", span_id="s", run=True, start_ns=0, end_ns=9, output=output)
    (found,) = cases.loaded({"output": tree}).evaluate(scope, Context(**context))
    result: Evaluation = found
    return result


def holds(tree: dict[str, Any], output: Any) -> str:
    return str(judged(tree, output).label)


# Where a validator applies, whether it holds for the value above; where it does not, it fails both ways.
APPLIES: list[tuple[str, Any, dict[str, bool]]] = [
    ("eq", "abc", {"null": False, "boolean": False, "integer": False, "float": False, "text": True, "array": False,
                    "object": False}),
    ("contains", "abc", {"text": True, "array": True, "object": True}),
    ("contains", 7, {"array": True}),
    ("contains_all", ["a", "c"], {"text": True, "array": False, "object": False}),
    ("contains_any", ["z", "abc"], {"text": True, "array": True, "object": True}),
    ("starts_with", "ab", {"text": True}),
    ("ends_with", "ab", {"text": False}),
    ("pattern", "b", {"text": True}),
    ("type", "number", {"null": False, "boolean": False, "integer": True, "float": True, "text": False,
                         "array": False, "object": False}),
    ("length", 2, {"text": False, "array": True, "object": False}),
    ("min_length", 2, {"text": True, "array": True, "object": False}),
    ("max_length", 2, {"text": False, "array": True, "object": True}),
    ("gt", 7, {"integer": False, "float": True}),
    ("gte", 7, {"integer": True, "float": True}),
    ("lt", 7.5, {"integer": True, "float": False}),
    ("lte", 7.5, {"integer": True, "float": True}),
    ("email", True, {"text": False}),
    ("json", True, {"null": True, "boolean": True, "integer": True, "float": True, "text": False, "array": True,
                     "object": True}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "argument", "applies"), APPLIES)
@pytest.mark.parametrize("kind", TYPICAL)
def test_every_validator_on_every_type(name: str, argument: Any, applies: dict[str, bool], kind: str) -> None:
    value = TYPICAL[kind]
    plain = holds({f"{name}!": argument}, value)
    negated = holds({f"not_{name}!": argument}, value)
    assert holds({f"{name}!": {"value": argument, "negate": True}}, value) == negated
    if kind in applies:
        assert (plain, negated) == (("pass", "fail") if applies[kind] else ("fail", "pass"))
    else:
        assert (plain, negated) == ("fail", "fail")


@pytest.mark.parametrize("name", [*dict.fromkeys(name for name, _, _ in APPLIES), "null", "prompt"])
def test_missing_fails_and_not_captured_is_unknown(name: str) -> None:
    argument: Any = next(
        (argument for known, argument, _ in APPLIES if known == name), "x" if name == "prompt" else False
    )
    for key in (f"{name}!", f"not_{name}!"):
        tree = {"absent": {key: argument}}
        wants_null = (key, argument) in (("not_null!", False), ("null!", True))
        assert holds(tree, {}) == ("pass" if wants_null else "fail")
        assert holds(tree, NOT_CAPTURED) == "unknown"
        assert holds({"k": {key: argument}}, {"k": "[redacted]"}) == "unknown"


@pytest.mark.parametrize(
    "tree",
    [{"eq!": None}, {"eq!": {"value": None}}, {"null!": True}, {"null!": None}, {"not_null!": False},
     {"null!": {"value": False, "negate": True}}, {"not_null!": {"value": True, "negate": True}}],
)  # fmt: skip
def test_what_missing_satisfies(tree: dict[str, Any]) -> None:
    assert holds({"k": tree}, {}) == "pass"
    assert holds({"k": tree}, {"k": None}) == "pass"
    assert holds({"k": tree}, {"k": 0}) == "fail"


@given(JSON, JSON)
def test_equality_is_that_of_json(a: Any, b: Any) -> None:
    def sign(value: Any) -> Any:
        """Equal signs for equal values: Python holds true for 1."""
        if isinstance(value, bool) or value is None:
            return repr(value)
        if isinstance(value, list):
            return [sign(item) for item in value]
        return {key: sign(item) for key, item in value.items()} if isinstance(value, dict) else value

    assert equal(a, a) is Truth.TRUE
    assert equal(a, b) is (Truth.TRUE if sign(a) == sign(b) else Truth.FALSE)
    assert equal(a, b) is equal(b, a)


def test_a_redacted_part_leaves_equality_open_unless_another_part_differs() -> None:
    assert holds({"eq!": {"a": 1, "k": "x"}}, {"a": 1, "k": "***"}) == "unknown"
    assert holds({"not_eq!": {"a": 1, "k": "x"}}, {"a": 1, "k": "***"}) == "unknown"
    assert holds({"eq!": {"a": 2, "k": "x"}}, {"a": 1, "k": "***"}) == "fail"
    assert holds({"contains!": "x"}, ["***", "x"]) == "pass"
    assert holds({"contains!": "x"}, ["***", "y"]) == "unknown"


def test_deep_values_are_no_trouble() -> None:
    deep: Any = 1
    for _ in range(50_000):
        deep = [deep]
    assert equal(deep, deep) is Truth.TRUE


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", True), (" 5 ", True), ('"x"', True), ("null", True), ("```json\n{\"a\": 1}\n```", True),
        ("~~~\n[1]\n~~~", True), ("````\n[1]\n````", True), ("```\n[1]\n~~~", False), ("", False), ("NaN", False),
        ("[1,]", False), ("{} {}", False), ("-Infinity", False), ("'x'", False), ("9" * 6000, True),
        ("[" * 50_000, False), ("text ```\n{}\n```", False), ("\ufeff{}", False),
    ],
)  # fmt: skip
def test_json_texts(text: str, expected: bool) -> None:
    assert is_json(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a@b.co", True), ("\u00a0a.b+c@x-y.example.com\n", True), (f"{'a' * 64}@b.co", True),
        (f"{'a' * 65}@b.co", False), ("a@b", False), ("a@b.1", False), ("a@b.c1", True), ("é@b.co", False),
        ("a@b_c.co", False), (".a@b.co", False), ("a@b.co.", False), ('"a"@b.co', False), ("A <a@b.co>", False),
        ("a@[1.2.3.4]", False), (f"a@{'b.' * 125}co", True), (f"a@{'b.' * 126}co", False),
    ],
)  # fmt: skip
def test_addresses(text: str, expected: bool) -> None:
    assert is_email(text) is expected


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01", 0), ("1970-01-01T00:01", 60), ("1970-01-01 00:00:01Z", 1), ("1970-01-01t00:00:00,5z", 0.5),
        ("1970-01-01T01:00:00+01", 0), ("1970-01-01T01:30+0130", 0), ("1969-12-31T23:00:00-01:00", 0),
        ("2000-02-29", 951782400), ("1900-02-29", None), ("1970-01-01T24:00", None), ("1970-01-01T00:00:60", None),
        ("1970-01-01T00", None), ("1970-01-01T00:00:00.1234567891", None), ("1970-01-01Z", None), ("70-01-01", None),
        ("1970-01-01T00:00+24", None), ("1970-1-1", None), ("١٩٧٠-01-01", None), ("1970-01-01\n", None),
    ],
)  # fmt: skip
def test_dates(text: str, seconds: float | None) -> None:
    assert instant(text) == (None if seconds is None else int(seconds * 10**9))


@given(st.datetimes(), st.integers(-1439, 1439))
@settings(max_examples=60)
def test_dates_agree_with_the_standard_library(moment: datetime, offset: int) -> None:
    aware = moment.replace(tzinfo=timezone(timedelta(minutes=offset)))
    since = (moment - datetime(1970, 1, 1)) - timedelta(minutes=offset)
    assert instant(aware.isoformat()) == since // timedelta(microseconds=1) * 1000


def test_what_is_shown_of_a_value() -> None:
    def said(tree: dict[str, Any], output: Any, **context: Any) -> str:
        return judged(tree, output, **context).explanation

    assert said({"k": {"eq!": "Rome"}}, {"k": "Oslo"}) == 'output.k eq! expected "Rome", got string(4)'
    assert said({"eq!": 1, "lt!": 0, "type!": "float"}, 5).endswith("expected 1, got integer (and 2 more)")
    assert said({"k": {"gt!": 1}}, {}) == "output.k gt! expected 1, got missing"
    assert said({"gt!": 1}, None) == "output gt! expected 1, got null"
    assert said({"eq!": [1]}, {"a": 1}) == "output eq! expected [1], got object(1)"
    assert said({"eq!": [1]}, {"a": 1}, capture_content=True) == 'output eq! expected [1], got object(1) {"a": 1}'
    assert len(said({"eq!": 1}, "x" * 500, capture_content=True)) == len("output eq! expected 1, got string(500) ") + 80


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ({"elapsed": {"lt!": 5}}, "elapsed lt! expected 5, got float 7.0"),
        ({"usage": {"prompt_tokens": {"lt!": 5}}}, "usage.prompt_tokens lt! expected 5, got integer 9"),
        ({"attempt": {"eq!": 1}}, "attempt eq! expected 1, got integer 2"),
        ({"status": {"eq!": "ok"}}, 'status eq! expected "ok", got string(5) "error"'),
        ({"error": {"type": {"eq!": "T"}}}, 'error.type eq! expected "T", got string(1)'),
    ],
)
def test_numbers_and_words_are_always_shown(tree: dict[str, Any], said: str) -> None:
    step = Step(
        kind="tool", name="pay", status="error", error=StepError("E"), usage={"m:input_tokens": 9}, start_ns=0,
        end_ns=7_000_000, span_ids=("x",), attempt=Attempt(0, 2),
    )  # fmt: skip
    found = cases.judged({"pay": tree}, [step])
    assert found.explanation == f"pay, step 1 (tool pay): {said}"
    assert [(finding.rule, finding.step, finding.span_ids) for finding in found.findings] == [("value", "pay", ("x",))]


def test_every_step_of_a_name_that_fails_is_a_finding() -> None:
    run = [Step(kind="tool", name="pay", output=at, start_ns=at, end_ns=at + 1, span_ids=(str(at),)) for at in range(3)]
    found = cases.judged({"pay": {"output": {"eq!": 1}}}, run)
    assert [finding.span_ids for finding in found.findings] == [("0",), ("2",)]
    absent = cases.judged({"send": {"output": {"eq!": 1}}}, run)
    assert (absent.explanation, absent.findings[0].rule) == ("send: no step of that name", "missing_step")


def test_what_was_loaded_travels_between_processes() -> None:
    entry = {
        "seq!": [{"a": {"output": {"pattern!": "^x", "prompt!": "p"}}}, {"parallel!": ["b", {"seq!": ["c", "d"]}]}],
        "output": {"contains!": {"value": "x", "transform": "trim"}, "k": {"gt!": "2026-01-01"}},
    }
    for validator in cases.all_loaded(entry):
        again = pickle.loads(pickle.dumps(validator))
        assert again == validator
        scope = Scope(trace_id="t", span_id="s", run=True, output=json.loads("{}"))
        assert again.evaluate(scope, Context()) == validator.evaluate(scope, Context())
