"""Durations and sizes: what is written is read as the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onpath.units import byte_count, duration_text, seconds, size_text


@given(st.floats(0, 1e9))
def test_a_duration_is_read_as_it_was_written(value: float) -> None:
    assert seconds(duration_text(value)) == pytest.approx(value, abs=1e-9)


@given(st.integers(0, 10**15 - 1))
def test_a_size_is_read_as_it_was_written(value: int) -> None:
    assert byte_count(size_text(value)) == value


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0s"), (0.1, "0.1s"), (2, "2s"), (90, "90s"), (600, "10m"), (7200, "2h"), (7260, "121m")]
)
def test_the_largest_unit(value: float, text: str) -> None:
    assert duration_text(value) == text
