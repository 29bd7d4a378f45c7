from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onpath.cli.text import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("execute_tool búsqueda 検索", "execute_tool búsqueda 検索"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("abc\u202ecba", "abc\\u202ecba"),
        ("a\u2066b\u200bc\ufeff", "a\\u2066b\\u200bc\\ufeff"),
        ("half \ud800", "half \\ud800"),
        ("\U000e0041tag", "\\U000e0041tag"),
    ],
)
def test_what_could_deceive_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_nothing_printed_controls_a_terminal(text: str) -> None:
    assert not any(unicodedata.category(c) in ("Cc", "Cs") for c in printable(text))
    printable(text).encode()
