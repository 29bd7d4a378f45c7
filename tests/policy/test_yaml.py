"""The reader of policy text: PyYAML's values, a place for each of them, and clear words for what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from onpath.policy.document import MAX_DEPTH, Document
from onpath.policy.problems import pointer
from onpath.policy.yaml import read_text


def said(text: str, name: str = "p.yaml") -> list[str]:
    return [str(problem) for problem in read_text(text, name).problems]


def places(document: Document) -> dict[str, tuple[int, int]]:
    return {at: (place.line, place.column) for at, place in document.places.items()}


def test_every_pointer_has_its_place() -> None:
    text = "name: refund\nseq!:\n  - llm\n  - a/b: {input: {x~y: 1}}\n"
    assert places(read_text(text, "p.yaml")) == {
        "": (1, 1),
        "/name": (1, 1),
        "/seq!": (2, 1),
        "/seq!/0": (3, 5),
        "/seq!/1": (4, 5),
        "/seq!/1/a~1b": (4, 5),
        "/seq!/1/a~1b/input": (4, 11),
        "/seq!/1/a~1b/input/x~0y": (4, 19),
    }


def test_json_has_the_same_places_under_comment_lines() -> None:
    text = '// first\n{"a": [1,\n  // between\n\t{"b": "// text"}]}\n// last\n'
    document = read_text(text, "p.json")
    assert document.data == {"a": [1, {"b": "// text"}]}
    assert places(document) == {"": (2, 1), "/a": (2, 2), "/a/0": (2, 8), "/a/1": (4, 2), "/a/1/b": (4, 3)}


def test_a_place_that_is_not_there_is_that_around_it() -> None:
    document = read_text("a:\n  b: 1\n", "p.yaml")
    assert document.place("/a/b/c/d") == document.places["/a/b"]
    assert document.place("/z") == document.places[""]
    assert read_text("", "p.yaml").place("/a") is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2025-12-15", "2025-12-15"),
        ("2025-12-15 10:00:00", "2025-12-15 10:00:00"),
        ("!!timestamp 2025-12-15", "2025-12-15"),
        ("yes", True),
        ("off", False),
        ("~", None),
        ("0x1F", 31),
        ("010", 8),
        ("12:30", 750),
        ("1e3", "1e3"),
        ("1.0e+3", 1000.0),
        ("!!str 5", "5"),
        ("=", "="),
        ("[<<]", ["<<"]),
    ],
)
def test_scalars_are_what_pyyaml_reads_but_for_timestamps(text: str, value: object) -> None:
    document = read_text(text, "p.yaml")
    assert document.problems == ()
    assert document.data == value
    assert type(document.data) is type(value)


def test_merge_keys_give_way_to_own_keys_and_to_earlier_sources() -> None:
    text = "a: &a {x: 1, y: 1}\nb: &b {<<: *a, y: 2, z: 2}\nc: {<<: [*a, *b], z: 3}\n"
    document = read_text(text, "p.yaml")
    assert document.problems == ()
    assert document.data == yaml.safe_load(text)
    assert document.places["/c/x"].line == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\na: 2", "p.yaml:2:1: /a: this key is given twice in one mapping (first on line 1)"),
        ("- {x: 1, x: 2}", "p.yaml:1:10: /0/x: this key is given twice in one mapping (first on line 1)"),
        ("on: 1", "p.yaml:1:1: /on: a key must be text; YAML reads this as true or false: put it in quotes"),
        ("42: 1", "p.yaml:1:1: /42: a key must be text; YAML reads this as a number: put it in quotes"),
        ("~: 1", "p.yaml:1:1: /~0: a key must be text; YAML reads this as null: put it in quotes"),
        ("? [a]\n: 1", "p.yaml:1:3: a key must be text, not a list or a mapping"),
        ("a: !!binary aGk=", "p.yaml:1:4: /a: the tag tag:yaml.org,2002:binary has no meaning here"),
        ("a: !!set {b}", "p.yaml:1:4: /a: the tag tag:yaml.org,2002:set has no meaning here"),
        ("a: !!python/name:os.system x", "p.yaml:1:4: /a: the tag tag:yaml.org,2002:python/name:os.system has no "
         "meaning here"),
        ("a: !mine x", "p.yaml:1:4: /a: the tag !mine has no meaning here"),
        ("a: !!int x", "p.yaml:1:4: /a: not a value of type int"),
        ("a: 0x" + "f" * 9000, "p.yaml:1:4: /a: not a value of type int"),
        ("a: {<<: 5}", "p.yaml:1:5: /a/<<: a merge key takes a mapping or a list of mappings"),
        ('a: "\\ud800"', "p.yaml:1:4: /a: half of a surrogate pair is no text"),
    ],
)  # fmt: skip
def test_what_json_has_no_value_for_is_refused_in_its_place(text: str, problem: str) -> None:
    assert said(text) == [problem]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [1", "p.yaml:1:6: not YAML: while parsing a flow sequence, expected ',' or ']', but got '<stream end>'"),
        ("a\n---\nb", "p.yaml:2:1: not YAML: expected a single document in the stream, but found another document"),
        ("a: *x", "p.yaml:1:4: not YAML: found undefined alias 'x'"),
        ("a: 1\nb: \x07", "p.yaml:2:1: not YAML: special characters are not allowed"),
        ("[" * 101, f"p.yaml:1:101: nested more than {MAX_DEPTH} deep"),
        ("&a [*a]", "p.yaml:1:1: /0: this alias stands inside what it names"),
        ("&a {<<: *a}", "p.yaml:1:5: /<<: this alias stands inside what it names"),
    ],
)
def test_what_is_no_yaml_is_unusable(text: str, problem: str) -> None:
    document = read_text(text, "p.yaml")
    assert not document.usable
    assert said(text) == [problem]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": 1,\n "a": 2}', "p.json:2:2: /a: this key is given twice in one mapping (first on line 1)"),
        ('{"a" 1}', "p.json:1:6: not JSON: Expecting ':' delimiter"),
        ('{"a": NaN}', "p.json: not JSON: NaN is no JSON value"),
        ("seq!: [llm]", "p.json:1:1: not JSON: Expecting value"),
        ("[" * 5000 + "]" * 5000, "nested more than 100 deep"),
        ("[" * 101 + "]" * 101, "nested more than 100 deep"),
        ("9" * 5000, "p.json: not JSON: "),
        ('["\\ud800"]', "p.json:1:2: /0: half of a surrogate pair is no text"),
        ('{"\\udfff": 1}', "half of a surrogate pair is no text"),
    ],
)
def test_json_is_told_as_exactly(text: str, problem: str) -> None:
    (found,) = said(text, "p.json")
    assert problem in found


def test_aliases_expand_only_so_far() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    (found,) = said("\n".join(lines))
    assert "aliases expand to more than 100,000 values" in found
    merged = ["a0: &a0 {k: 1}"]
    merged += [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}]}}" for i in range(1, 10)]
    (found,) = said("\n".join(merged))
    assert "aliases expand to more than 100,000 values" in found


def test_without_an_ending_the_text_tells() -> None:
    assert read_text('// words\n{"a": 1e3}', "policy").data == {"a": 1000.0}
    assert read_text("{a: 1}", "policy").data == {"a": 1}
    assert read_text("a: 1", "policy").data == {"a": 1}


def test_a_byte_order_mark_and_an_empty_text_do_no_harm() -> None:
    assert read_text("\ufeffa: 1", "p.yaml").data == {"a": 1}
    for name in ("p.yaml", "p.json"):
        assert read_text("", name) == Document(name)
    assert read_text("# nothing", "p.yaml").data is None


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(values)
def test_json_comes_back_with_a_place_for_every_value(value: Any) -> None:
    document = read_text(json.dumps(value, indent=1), "p.json")
    assert document.problems == ()
    assert document.data == value
    assert set(document.places) == set(pointers(value))


@given(values)
def test_yaml_comes_back_with_a_place_for_every_value(value: Any) -> None:
    document = read_text(yaml.safe_dump(value, allow_unicode=False), "p.yaml")
    assert document.problems == ()
    assert document.data == value
    assert set(document.places) == set(pointers(value))


@given(st.text(alphabet="ab:-[]{}&*!<|>\"'#%\n \t,?0x~", max_size=60), st.sampled_from(["p.yaml", "p.json", "p"]))
def test_any_text_is_read_or_refused(text: str, name: str) -> None:
    document = read_text(text, name)
    assert document.usable or document.problems
    assert all(problem.file == name for problem in document.problems)


def pointers(value: Any, at: str = "") -> list[str]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(below for key, held in inside for below in pointers(held, at + pointer(key)))]
