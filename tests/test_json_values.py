"""JSON as values: strict reading, and one key for equal values."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onpath.json_values import MAX_DEPTH, canonical, decoded, equal, parse
from onpath.redaction import is_redacted

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda v: st.lists(v, max_size=4) | st.dictionaries(st.text(), v, max_size=4), max_leaves=12
)


@given(VALUES)
@settings(max_examples=100)
def test_a_value_equals_what_its_json_text_holds(value: Any) -> None:
    assert equal(value, parse(json.dumps(value)))
    holder = {"value": value}
    assert canonical(json.dumps(holder), decode_texts=True) == canonical(holder, decode_texts=True)


@given(VALUES, VALUES)
@settings(max_examples=100)
def test_equal_values_and_no_others_share_a_key(a: Any, b: Any) -> None:
    assert (canonical(a) == canonical(b)) == _equal(a, b)
    assert equal(a, a)


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[k], b[k]) for k in a)
    return bool(a == b)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ({"a": 1, "b": [1, 2]}, {"b": [1.0, 2], "a": 1.0}, True),
        ([1, 2], [2, 1], False),
        (True, 1, False),
        ("1", 1, False),
        (2**53 + 1, float(2**53), False),
        ([], {}, False),
        (["a", []], [["a"]], False),
        (float("nan"), float("nan"), True),
        ({"a": {}}, {"a": None}, False),
    ],
)
def test_equality(a: Any, b: Any, same: bool) -> None:
    assert equal(a, b) is same


def test_texts_are_opened_wherever_they_stand() -> None:
    nested = {"q": '{"a": [1, "{\\"b\\": 2}"]}'}
    assert canonical(nested, decode_texts=True) == canonical({"q": {"a": [1.0, {"b": 2}]}}, decode_texts=True)
    assert canonical(nested) != canonical({"q": {"a": [1, {"b": 2}]}})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (' {"a": 1} ', {"a": 1}),
        ("[1]", [1]),
        ('"[1]"', [1]),
        ('"x"', '"x"'),
        ("42", "42"),
        ("[1", "[1"),
        ("[NaN]", "[NaN]"),
        ("", ""),
        (7, 7),
        (None, None),
    ],
)
def test_decoded_opens_objects_and_lists_only(text: Any, value: Any) -> None:
    assert decoded(text) == value


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "[1,]", "{'a': 1}", "", '["\t"]', "[" * 101 + "]" * 101])
def test_parse_refuses_what_is_not_json(text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)


def test_depth_and_long_numbers() -> None:
    deepest = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert parse(deepest) is not None
    assert parse(json.dumps("[" * 500)) == "[" * 500
    assert parse(f"[{deepest[1:-1]}, []]") is not None
    with pytest.raises(ValueError):
        parse("[" * 1_000_000)
    assert equal(parse("1" * 5000), parse("1" * 5000))
    deep: list[Any] = []
    for _ in range(50_000):
        deep = [deep]
    assert hash(canonical(deep)) == hash(canonical(deep))


@pytest.mark.parametrize(
    "text", ["[REDACTED]", "<redacted>", "(Redacted)", " REDACTED\n", "__REDACTED__", "***", "*****"]
)
def test_redaction_marks(text: str) -> None:
    assert is_redacted(text)


@pytest.mark.parametrize("text", ["**", "REDACTED text", "[REDACTED", "", None, 3, ["[REDACTED]"]])
def test_what_is_content(text: Any) -> None:
    assert not is_redacted(text)
