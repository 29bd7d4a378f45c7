"""The steps an output lists: one format wins, and what counts as the name in an item."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onpath.validators.adherence.formats import Format, extract
from onpath.validators.adherence.items import Reader
from onpath.validators.adherence.names import LONGEST, Names, default_normalise

CAPS = ("PARSE_INPUT", "VALIDATE", "RESPOND")
WORDS = ("Parse input", "Validate", "Respond")


def names(*configured: str) -> Names:
    return Names.of(configured, {}, default_normalise(loose=True), nfc=True)


def steps(output: Any, *configured: str, only: Format | None = None) -> tuple[Format | None, list[str]]:
    found = extract(output, names(*(configured or CAPS)), only)
    return found.format, list(found.names)


# ------------------------------------------------------------------ json


@pytest.mark.parametrize(
    ("output", "found"),
    [
        ({"log": {"tags": ["x"], "run": [{"tool": "validate"}, "respond"]}}, ["VALIDATE", "RESPOND"]),
        ([["x"], ["y", "VALIDATE"], ["RESPOND"]], ["y", "VALIDATE"]),
        ({"a": [{"b": ["RESPOND"]}], "c": ["VALIDATE"]}, ["RESPOND"]),
        ({"steps": ["x", "y"], "tags": ["z"]}, ["x", "y"]),
        ([{"step": "  ", "name": "VALIDATE"}, {"tool": 3, "action": "RESPOND"}], ["VALIDATE", "RESPOND"]),
        (["1. Validate the form", "...", "**RESPOND**: done"], ["Validate the form", "RESPOND"]),
        (["Step 1: validate - ok", "[x] respond"], ["VALIDATE", "RESPOND"]),
        ('"[\\"VALIDATE\\"]"', ["VALIDATE"]),
        ('\ufeff["VALIDATE"]', ["VALIDATE"]),
        ("Done.\n```\n{\"log\": [\"VALIDATE\"]}\n```", ["VALIDATE"]),
        ('first ["a"], then ["RESPOND"], then ["VALIDATE"]', ["RESPOND"]),
        ('one [["VALIDATE"]] two', ["VALIDATE"]),
        ('see [1] and [{"step": "VALIDATE", "args": ["}", "]"]}].', ["VALIDATE"]),
        ('a [ "x", ["VALIDATE"] here', ["VALIDATE"]),
        ('a ["x" ["y"] ["VALIDATE"]', ["VALIDATE"]),
        ('quote " and ["VALIDATE"]', ["VALIDATE"]),
    ],
)  # fmt: skip
def test_lists_in_json(output: Any, found: list[str]) -> None:
    assert steps(output) == ("json", found)


@pytest.mark.parametrize(
    "output",
    [
        {"tags": ["x"]},
        [],
        [1, None, [], {}],
        {"steps": "VALIDATE it"},
        "Data: ['VALIDATE']",
        'cut off ["VALIDATE", "RESPOND"',
        "```json\n[\"x\"]\n```",
        "deep " + "[" * 301 + '"VALIDATE"' + "]" * 301,
        '["a"] ' * 200 + '["VALIDATE"]',
        '[NaN, "VALIDATE"]',
    ],
)  # fmt: skip
def test_no_list_of_steps_in_json(output: Any) -> None:
    assert steps(output, only="json") == (None, [])


def test_nesting_of_a_hundred_is_read() -> None:
    assert steps("x " + "[" * 100 + '"VALIDATE"' + "]" * 100) == ("json", ["VALIDATE"])
    assert steps('{"a":' * 99 + '["VALIDATE"]' + "}" * 99) == ("json", ["VALIDATE"])
    assert steps("[" * 300 + '"VALIDATE"' + "]" * 300) == ("caps", ["VALIDATE"])


def test_the_two_hundredth_bracket_is_the_last_one_looked_at() -> None:
    assert steps("[a] " * 199 + '["VALIDATE"]') == ("json", ["VALIDATE"])
    assert steps("[a] " * 200 + '["VALIDATE"]') == ("caps", ["VALIDATE"])


def test_texts_in_a_json_value_are_read_by_the_other_formats() -> None:
    output = {"id": 7, "answer": "## Validate\r\n", "more": [{"note": "## Respond"}]}
    assert steps(output) == ("headers", ["VALIDATE", "RESPOND"])
    assert steps(json.dumps(output)) == ("headers", ["VALIDATE", "RESPOND"])


@pytest.mark.parametrize("output", ["", "   \n", 42, True, None, {}, [[]], "\ufeff"])
def test_nothing_in_it(output: Any) -> None:
    assert steps(output) == (None, [])


# Arrays in prose are found by one pass over brackets; the plain way is to try each of them.
PIECES = st.sampled_from(
    ["[", "]", '"', "\\", ",", " ", "1", "{", "}", ":", '"VALIDATE"', '"x"', "null", "a", "[]", '["VALIDATE"]', '"k":']
)


@given(st.lists(PIECES, max_size=25).map("".join))
@settings(max_examples=300)
def test_arrays_in_prose_as_if_each_bracket_were_tried(text: str) -> None:
    text = "see " + text
    found = extract(text, names(*CAPS), "json")
    wanted: list[str] = []
    for at, char in enumerate(text):
        if char == "[" and not wanted:
            try:
                value, _ = json.JSONDecoder().raw_decode(text, at)
            except ValueError:
                continue
            read = [name for v in value if isinstance(v, str) and (name := Reader(names(*CAPS)).name(v)) is not None]
            wanted = read if "VALIDATE" in read else []
    assert list(found.names) == wanted


# ------------------------------------------------------------------ headers


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("# 1. Load\n# 2) Save\n# (3) Validate\n# Notes", ["Load", "Save", "Validate"]),
        ("# ✅ Step 1: Load\n## **Step 2** - Save\n### Validate", ["Load", "Save"]),
        ("## Title\n### Validate\n### Other\n## Validate", ["Title", "Validate", "Other", "Validate"]),
        ("## Validate: all fields\n## Load #", ["Validate", "Load"]),
        ("   ## Validate\n    ## Respond\n##\tC#", ["Validate", "C#"]),
        ("~~~md\n## Validate\n~~~", ["Validate"]),
        ("````Markdown\n```\n# Respond\n```\n## Validate\n````", ["Validate"]),
    ],
)
def test_headers(text: str, found: list[str]) -> None:
    assert steps(text, *WORDS) == ("headers", found)


def test_headers_in_code_blocks_are_none() -> None:
    assert steps("```\n## Validate\n```", *WORDS) == (None, [])
    assert steps("##Validate\n#", *WORDS) == (None, [])


# ------------------------------------------------------------------ labelled


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("step 1: VALIDATE", ["VALIDATE"]),
        ("Step #1: VALIDATE\nSTEP 2 : RESPOND", ["VALIDATE", "RESPOND"]),
        ("Step 1. VALIDATE\nStep 2) RESPOND\nStep 3 – A\nStep 4 — B\nStep 5- C", [*CAPS[1:], "A", "B", "C"]),
        ("Step Twenty: VALIDATE\nstep one of three: RESPOND", ["VALIDATE", "RESPOND"]),
        ("Step 1 / 3: VALIDATE", ["VALIDATE"]),
        ("Step 1:VALIDATE", ["VALIDATE"]),
        ("**Step 1:** VALIDATE\n**Step 2**: RESPOND\n*Step 3.* A\n__Step 4__ - Go", [*CAPS[1:], "A", "Go"]),
        ("**Step 1: Load: all** - done", ["Load: all"]),
        ("**✅ Step 1: VALIDATE** ok", ["VALIDATE"]),
        (">> ## ✅ Step 1: VALIDATE\n> - ❌ Step 2) RESPOND", ["VALIDATE", "RESPOND"]),
        ("First Step 1: VALIDATE, then Step 2: RESPOND.", ["VALIDATE", "RESPOND"]),
        ("Step 1 - VALIDATE Step 2: RESPOND", ["VALIDATE", "RESPOND"]),
        ("we did **Step 1:** VALIDATE and **Step 2: RESPOND** then", ["VALIDATE and", "RESPOND"]),
        ("Step 1:\nStep 2: VALIDATE", ["VALIDATE"]),
        ("Step 1: [x] VALIDATE", ["VALIDATE"]),
        ("Step 1: Step 2: VALIDATE", ["VALIDATE"]),
        ("1) Load\n(2) Validate\n> - 3) Go", ["Load", "VALIDATE", "Go"]),
        ("**1)** Load", ["Load"]),
    ],
)  # fmt: skip
def test_labels(text: str, found: list[str]) -> None:
    assert steps(text, only="labelled") == ("labelled", found)


@pytest.mark.parametrize(
    "text",
    [
        "Substep 1: VALIDATE", "(Step 1: VALIDATE)", "Step: VALIDATE", "Steps 1: VALIDATE", "Step 1 VALIDATE",
        "Step twenty-one: VALIDATE", "Step1: VALIDATE", "Step 1.VALIDATE", "see 1) VALIDATE", "1)VALIDATE",
        "Step\n1: A",
    ],
)  # fmt: skip
def test_no_labels(text: str) -> None:
    assert steps(text, only="labelled") == (None, [])


# ------------------------------------------------------------------ caps


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("_LOAD_ALL_ and VALIDATE's RESPOND-", ["LOAD_ALL", "VALIDATE", "RESPOND"]),
        ("2FA_CHECK, A_1 and X_y, VALIDATE-based", ["A_1"]),
        ("parse-input PARSE-INPUT", ["PARSE_INPUT"]),
        ("ПРОВЕРИТЬ_ВСЁ, ÄRGER_ß", ["ПРОВЕРИТЬ_ВСЁ"]),
        ("VALIDATE VALIDATE", ["VALIDATE", "VALIDATE"]),
        ("X_" * 150 + "Y VALIDATE", ["VALIDATE"]),
    ],
)
def test_words_in_capitals(text: str, found: list[str]) -> None:
    assert steps(text, only="caps") == ("caps", found)


# ------------------------------------------------------------------ lines


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("+ Load\n• Save\n- Go", ["Load", "Save", "Go"]),
        ("  - Load\n  - Save\n      - deep\n\t- deeper", ["Load", "Save"]),
        ("\t- Load\n    - Save\n     - deep", ["Load", "Save"]),
        ("**1.** Load\n**2. Save** – ok\n_3._ Go", ["Load", "Save", "Go"]),
        ("1234. Load\n- Save", ["Save"]),
        ("- a\n1. Load", ["Load"]),
        ("  1. nested\n- Load", ["Load"]),
        ("- - -\n***\n- Load", ["Load"]),
        ("- [ ] Load\n- [x] ✅ Save\n- [X] **Go**!", ["Load", "Save", "Go"]),
        ("Load it.\n\nValidate!\n  Respond ✅", ["Load it", "VALIDATE", "RESPOND"]),
    ],
)
def test_list_items(text: str, found: list[str]) -> None:
    assert steps(text, only="lines") == ("lines", found)


@pytest.mark.parametrize("text", ["-Load\n1.Save", "Load\nSave", "- \n- *", "> - Load"])
def test_no_list_items(text: str) -> None:
    assert steps(text, only="lines") == (None, [])


# ------------------------------------------------------------------ the order of formats


def test_what_stands_outside_blocks_comes_first() -> None:
    assert steps("```\nStep 1: VALIDATE\n```\n- Load") == ("lines", ["Load"])
    assert steps("```\nStep 1: VALIDATE\n```\nDone.") == ("labelled", ["VALIDATE"])
    assert steps("~~~\nVALIDATE\n```\nRESPOND\n~~~\n") == ("caps", ["VALIDATE", "RESPOND"])
    assert steps("  ```sh\n  - VALIDATE") == ("caps", ["VALIDATE"])
    assert steps("```x``` inline\n- Load\n") == ("lines", ["Load"])


@pytest.mark.parametrize("only", get_args(Format))
def test_a_pinned_format_is_the_only_one(only: Format) -> None:
    text = '["VALIDATE"]\n# VALIDATE\nStep 1: RESPOND\nLOAD_ALL\n- Save'
    assert steps(text, only=only)[0] == only


# ------------------------------------------------------------------ the name in an item


@pytest.mark.parametrize(
    ("item", "name"),
    [
        (" ✅ Load ✅ ", "Load"), ("Load: all", "Load"), ("Load：all", "Load"), ("Load - all", "Load"),
        ("Load – x", "Load"),
        ("Load — x", "Load"), ("Load (x)", "Load"), ("Load -> x", "Load"), ("Load → x", "Load"), ("Load, x", "Load"),
        ("Load; x", "Load"), ("Load. x", "Load"), ("Load\tx", "Load"), ("Load-it", "Load-it"), ("Load...", "Load"),
        ("Load!?", "Load"), ("Load。", "Load"), ("Load！", "Load"), ("Load、", "Load"), ("Load**", "Load"),
        ("**Load** all", "Load"), ("*Load* all", "Load"), ("__Load__ all", "Load"), ("_Load_ all", "Load"),
        ("***Load*** all", "Load"), ("`Load` all", "Load"), ("``a`b`` all", "a`b"), ("**`Load`** all", "Load"),
        ("**Load:** all", "Load"), ("**Load - all** x", "Load - all"), ("_load_all", "_load_all"), ("**Load", "**Load"),
        ("* Load*", "* Load"), ("1. Load", "Load"), ("1) Load", "Load"), ("(1) Load", "Load"), ("[x] 1. Load", "Load"),
        ("1. [ ] Load", "Load"), ("Step 1: Load", "Load"), ("**1. Load** x", "Load"), ("3 apples", "3 apples"),
        ("1. 2. Load", "2"), ("check: balance", "Check: balance"), ("Step 1: 2. pay", "2. Pay"),
        ("[x] 2. pay", "2. Pay"),
        ("a" * LONGEST, "a" * LONGEST), ("a" * (LONGEST + 1), None), ("", None), (" ✅ ", None), ("**", None),
        ("...", None),
        (": x", None), ("1.", None), ("Step 1:", None), ("\ud800", "?"), ("a\u200d", "a"),
    ],
)  # fmt: skip
def test_the_name_in_an_item(item: str, name: str | None) -> None:
    reader = Reader(names("Check: balance", "2. Pay"))
    assert reader.name(item) == name


TEXT = st.lists(
    st.sampled_from(
        ["- ", "1. ", "# ", "```", "~~~md", "\n", "\n\n", " ", "\t", "**", "_", "`", "[", "]", '"', "Step 1: ", "1) ",
         "> ", "VALIDATE", "Respond", "A_B", "x", "✅", ": ", "。", "\\", "{", "}", ",", "\r", "\u2028", "\ufeff", "é"]
    ),
    max_size=40,
).map("".join)  # fmt: skip


@given(TEXT | st.text(max_size=60))
@settings(max_examples=300)
def test_any_text_is_read(text: str) -> None:
    found = extract(text, names(*CAPS))
    assert (found.format is None) == (not found.names)
    for name in found.names:
        assert 0 < len(name) <= LONGEST
        name.encode()
    for only in get_args(Format):
        pinned = extract(text, names(*CAPS), only)
        assert pinned.format in (None, only)
        if only == found.format:
            assert pinned == found


@given(TEXT)
@settings(max_examples=100)
def test_line_ends_are_one_thing(text: str) -> None:
    text = text.replace("\r", "")
    assert extract(text.replace("\n", "\r\n"), names(*CAPS)) == extract(text, names(*CAPS))
