"""Results as JSON lines: what `json` writes, whatever they hold."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from onpath_collector.judging import json_line

TEXTS = st.one_of(st.text(), st.text(st.characters(categories=["Cs", "Cc", "Lu"])), st.text("e-:,[]0123456789."))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 1 << 62) | st.floats(0, 1) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300)
@given(st.dictionaries(TEXTS, VALUES, max_size=5))
def test_a_line_is_what_json_writes_in_ascii(found: dict[str, Any]) -> None:
    assert json_line(found) == json.dumps(found, separators=(",", ":"))
